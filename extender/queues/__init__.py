"""How much each queue may use: the tree of queues, what is charged to them, and their shares.

Plain numbers, no nodes: which node a pod is on matters only for its flavor, and the caller says that.
"""
