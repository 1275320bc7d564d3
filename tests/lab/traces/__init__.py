"""Tests of traces: the CSV format, the converters, the generator."""
