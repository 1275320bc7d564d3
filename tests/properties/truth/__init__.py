"""Every number that people are shown, recomputed from the objects: one module for each concept.

`world` has the objects, `story` changes them at random, `playing` compares everything after each step. Nothing is asked
of Muster's own books, and nothing is computed by `extender.explain`: what agrees with itself proves nothing.
"""
