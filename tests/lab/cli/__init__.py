"""Tests of the laboratory's commands."""
