"""Muster: a kube-scheduler extender that starts gangs of GPU pods whole or not at all.

The packages below form layers, lowest last: `cli`, `service`, `kube` beside `simulation`, `control`, `admission`,
`placement`, `cluster`, `domain`, `wire`. A lower layer never imports a higher one; import-linter checks it.
"""

from importlib.metadata import version

__version__ = version("muster")
