"""Tests of `extender.eviction`."""
