"""Specification of `extender.numa`."""
