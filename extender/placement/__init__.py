"""Where pods go: eligibility, plans for whole gangs, what is predicted of them, scores for single pods.

Pure functions of a snapshot: nothing here changes the model, waits or writes. A plan (`plan`) places pods that belong
together (`block`) in domains that come into question (`scopes`); `search` chooses among those by what they consist of
(`bags`, of `units`), `assign` among their nodes; `mixed` is for pods of several sizes, `packing` for pods without GPUs.
"""
