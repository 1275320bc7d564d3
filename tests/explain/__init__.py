"""Tests of what is worked out about one gang, known or thought of."""
