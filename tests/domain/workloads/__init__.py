"""Tests of what other operators' objects mean for gangs."""
