"""Tests of `muster_lab.tools`."""
