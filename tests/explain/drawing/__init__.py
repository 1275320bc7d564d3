"""Tests of pictures: what they show, that they are well-formed, and that nothing in them overlaps."""
