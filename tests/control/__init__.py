"""Tests of the control layer: in virtual time, against a scripted API server."""
