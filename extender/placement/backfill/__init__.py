"""When the blocked head of the queue will start, and which work may use what is kept for it until then.

Values and snapshots; the runtimes come from the gangs, the time from the caller.
"""
