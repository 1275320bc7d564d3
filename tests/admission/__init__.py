"""Tests of the admission: stories told to it directly, on a clock that the test moves."""
