"""Tests of what is recorded and played."""
