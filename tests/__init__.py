"""The tests of Muster: one folder per package of `extender`, and folders for what spans packages.

Tests reach Muster through its public names. Helpers that several folders share are in `builders.py` or a `conftest.py`.
"""
