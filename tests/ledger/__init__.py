"""Tests of `extender.ledger`."""
