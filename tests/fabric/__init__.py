"""Specification of `extender.fabric`."""
