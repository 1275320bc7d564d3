"""Tests of a simulation's report."""
