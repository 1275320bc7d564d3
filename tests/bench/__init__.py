"""Tests of the measurements' form; never of how fast this machine is."""
