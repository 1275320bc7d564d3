"""The cluster as columns and rows: nodes as dense numpy rows, pods as claims on them, gangs as sets of pods.

One writer mutates it, on the event loop; nothing here waits or decides. Every change of a node or of a claim bumps
`NodeTable.generation`.
"""
