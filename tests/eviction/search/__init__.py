"""Tests of whom to evict."""
