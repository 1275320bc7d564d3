"""Tests of what people see of a whole cluster."""
