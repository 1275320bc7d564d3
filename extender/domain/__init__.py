"""What the objects of the cluster mean: pure values, no I/O, no numpy, no clock.

Wire structs come in, values go out; a value is either good or carries its problems with the object and field that cause
them. Nothing here knows about other objects of the same kind: that is `extender.cluster`.
"""
