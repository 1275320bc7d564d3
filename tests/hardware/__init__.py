"""Specification of `extender.hardware`."""
