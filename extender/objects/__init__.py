"""The objects of the cluster, one file for each kind: the struct that mirrors the API, the value, and the reader.

Structs come in, values go out; a value is either good or carries its problems with the object and field that cause
them. No I/O, no numpy, no clock. Nothing here knows about other objects of the same kind: that is `extender.cluster`.
"""
