"""The flame graph of one gang: what `make flame` runs.

py-spy samples Muster's stacks while the real control plane creates, places and binds one gang. Here live the recording,
the folded stacks that it yields, and the drawing of them. What Muster does to be sampled is nothing: it runs as it does
in the benchmark of the same case.
"""
