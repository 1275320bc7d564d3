"""Tests of the repository itself: what is tracked, how dependencies are locked, which lint rules are waived and why.

They read files; they do not import `extender` and say nothing about how Muster behaves.
"""
