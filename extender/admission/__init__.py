"""Who starts, when, where: the ledger of reservations, the order of the queue, and the pass that decides.

Synchronous and free of I/O; the clock is injected. `Admission` is the one place where the parts meet: it takes in what
happened, judges, answers the scheduler's questions, and hands out what is to be written as effects.
"""
