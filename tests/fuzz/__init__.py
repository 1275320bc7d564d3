"""Fuzzing of the verbs and the codecs: requests that went wrong, a Muster to send them to, and a judge of its answers.

`tests/fuzz/test_*.py` are short runs for the gate; `make fuzz REQUESTS=1000000` is a long one.
"""
