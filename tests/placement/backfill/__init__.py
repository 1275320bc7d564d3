"""Tests of backfill: starts, gaps, and what is promised, also played event by event with truthful runtimes."""
