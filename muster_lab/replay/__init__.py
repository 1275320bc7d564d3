"""Decide again what a recording says was decided, and compare."""
