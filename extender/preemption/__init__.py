"""Whom to evict so that a gang fits: tried on a snapshot, decided by nobody here.

Who may be evicted by rank and quota is for the admission to say; how pods go is for the control layer.
"""
