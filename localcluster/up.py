"""`make cluster`: a local cluster with GPU nodes and Muster in front, until Ctrl-C."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localcluster.build import ensure_binaries
from localcluster.cluster import LocalCluster
from localcluster.components import REPOSITORY
from localcluster.nodes import NodeShape, numbered_nodes
from localcluster.processes import Server
from localcluster.programs import Binary, Release

#: How often the servers are looked at while the cluster is up, in seconds.
WATCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Size:
    """How many nodes the cluster has, and GPUs each node."""

    nodes: int
    gpus: int


def run(size: Size, release: Release, say: Callable[[str], None]) -> None:
    """Start everything, say how to use it, and hold it up until interrupted; then remove every trace.

    Raises LocalClusterError with the end of a log if a server does not start or ends by itself.
    """
    binaries = ensure_binaries(release=release)
    say("starting etcd, kube-apiserver, kube-scheduler, kwok and Muster; this takes about ten seconds")
    with LocalCluster(Path(tempfile.mkdtemp(prefix="muster-cluster-")), binaries) as cluster:
        cluster.admin.create_all(numbered_nodes(size.nodes, NodeShape(gpus=size.gpus)))
        muster = cluster.muster()
        servers = [muster, cluster.muster_scheduler, cluster.stock_scheduler]
        for server in servers:
            server.start()
        say(_instructions(cluster, size))
        try:
            _hold(cluster, servers)
        except KeyboardInterrupt:
            say("stopping")


def _hold(cluster: LocalCluster, servers: list[Server]) -> None:
    """Return never; raise when a server has ended."""
    while True:
        cluster.check()
        for server in servers:
            server.check()
        time.sleep(WATCH_SECONDS)


def _instructions(cluster: LocalCluster, size: Size) -> str:
    example = (REPOSITORY / "examples" / "gang.yaml").relative_to(REPOSITORY)
    return f"""
A Kubernetes {cluster.admin.request("GET", "/version")["gitVersion"]} with {size.nodes} nodes of {size.gpus} GPUs.
Pods with `schedulerName: muster` are scheduled by a kube-scheduler that asks Muster, all others by a stock one.
In a second terminal, in the same folder:

  export KUBECONFIG={cluster.admin_kubeconfig}
  export PATH={cluster.binaries[Binary.KUBECTL].parent}:$PATH   # kubectl

  kubectl apply -f {example}
  kubectl get podgroups,pods -o wide

Muster answers on http://127.0.0.1:{cluster.muster_port}, logs are in {cluster.folder}. Ctrl-C ends it all.
"""
