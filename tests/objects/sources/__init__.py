"""Tests of sources of gangs."""
