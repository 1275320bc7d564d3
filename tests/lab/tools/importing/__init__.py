"""Queues of other schedulers into Muster's own."""
