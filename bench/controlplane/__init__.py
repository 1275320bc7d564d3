"""Muster against other ways to place gangs, on a real etcd, kube-apiserver and kube-scheduler.

Here live the contenders, the load that they are given and what is read off each run: times from one watch of the pods,
processor time from the kernel, work from Muster's own counters. Muster runs as users run it, as a process of its own;
nothing of `extender` is imported here.
"""

from bench.controlplane.measure import CASES, measure

__all__ = ["CASES", "measure"]
