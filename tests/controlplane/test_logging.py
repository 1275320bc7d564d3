"""Standard error that takes nothing, and files that run out: gangs start all the same."""

from __future__ import annotations

import contextlib
import socket

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import MUSTER_COMMAND
from localcluster.metrics import read_metric
from localcluster.ports import free_ports
from localcluster.processes import Server
from localcluster.sandbox import Sandbox

pytestmark = pytest.mark.controlplane

#: How standard error is taken away from Muster: closed, on a full disk, and read by what stands still.
REDIRECTIONS = {
    "closed": '"$@" 2>&-',
    "full disk": '"$@" 2>/dev/full',
    "reader stands still": '"$@" 2>&1 >/dev/null | sleep 600',
    "reader is gone": '"$@" 2>&1 >/dev/null | true',
}


@pytest.mark.parametrize("place", REDIRECTIONS)
def test_gangs_start_whatever_becomes_of_the_logs(
    local_cluster: LocalCluster, cluster: Sandbox, muster_scheduler: Server, place: str
) -> None:
    """Lines that cannot be written are dropped and counted; every gang starts whole."""
    muster_scheduler.check()
    command = ("/bin/sh", "-c", REDIRECTIONS[place], "sh", *MUSTER_COMMAND)
    server = local_cluster.muster(["--log-level", "debug"], command=command)
    try:
        server.start()
        cluster.nodes(8, gpus=8)
        for number in range(3):
            gang = cluster.gang(f"gang-{number}", members=8, gpus=8)
            gang.wait_running()
            gang.complete()
        metrics = f"http://127.0.0.1:{local_cluster.muster_port}/metrics"
        failed = read_metric(metrics, 'muster_log_lines_dropped_total{cause="failed"}')
        assert (failed > 0) == (place != "reader stands still")
        server.check()
    finally:
        server.kill()


def test_gangs_start_beside_idle_connections(
    local_cluster: LocalCluster, cluster: Sandbox, muster_scheduler: Server
) -> None:
    """With 1,024 files and 1,500 connections that ask nothing, the verbs and the API server keep their share."""
    muster_scheduler.check()
    (port,) = free_ports(1)
    command = ("/bin/sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", *MUSTER_COMMAND)
    server = local_cluster.muster(["--view-port", str(port)], command=command)
    with contextlib.ExitStack() as idle:
        idle.callback(server.kill)
        server.start()
        cluster.nodes(8, gpus=8)
        for _ in range(1500):
            idle.enter_context(socket.create_connection(("127.0.0.1", port)))
        cluster.gang("gang", members=8, gpus=8).wait_bound()
        server.check()
