"""Search which pods to evict so that a gang fits. The search works on a snapshot and evicts nothing itself.

Policies (`extender.eviction.policies`) say which gangs may be victims; the control layer evicts the pods.
"""
