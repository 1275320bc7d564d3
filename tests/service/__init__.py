"""Tests of the HTTP surface: the bytes of the extender protocol."""
