"""Tests of `muster_lab.replay`."""
