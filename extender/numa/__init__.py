"""NUMA zones of a node, and what the kubelet's Topology Manager will make of a pod there.

Pure values and functions. Which pods hold which zones is kept in `cluster`.
"""
