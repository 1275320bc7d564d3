"""Tests of what is written for people: README.md, CONTRIBUTING.md and docs/.

They hold the text to the code: names that it lists exist and are complete, examples can be read, links lead somewhere.
"""
