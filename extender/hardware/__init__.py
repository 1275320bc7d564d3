"""How GPUs are joined, and how fast: products, links, GPU sets of a node, the bandwidth of collectives over them.

Pure values and functions of hardware, in GB/s. Nothing here knows which pods there are or which node is free.
"""
