"""Tests of `muster_lab`."""
