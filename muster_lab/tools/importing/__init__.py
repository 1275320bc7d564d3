"""Queues of other schedulers into Muster's own: plain values in, manifests and a list of differences out.

`objects` finds the objects in YAML; `kueue` and `volcano` translate, each what its scheduler has. What has no equal is
never dropped without a word: it becomes a `Difference` that says what Muster does instead. No file is opened here, and
nothing is asked of a cluster.
"""
