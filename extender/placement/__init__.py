"""Where pods go: eligibility, packing, plans for whole gangs, scores for single pods.

Pure functions of a snapshot: nothing here changes the model, waits or writes. How good a node or a set of nodes is
for a gang is decided in `packing`; what else is to weigh in there (topology, bandwidth) joins as a key of its order.
"""
