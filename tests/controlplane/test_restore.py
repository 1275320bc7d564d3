"""etcd is restored to an older state: gangs start again within seconds, and it is told."""

from __future__ import annotations

import pytest

from localcluster.build import built_binaries
from localcluster.client import PODS, ApiClient
from localcluster.cluster import LocalCluster
from localcluster.metrics import read_metric
from localcluster.sandbox import Sandbox

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]


def advance(api: ApiClient) -> None:
    """Let the version of the cluster grow."""
    for number in range(100):
        api.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"n{number}", "namespace": "default"}}
        )


def test_gangs_start_after_etcd_was_restored(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What was created after the snapshot is forgotten, what is created after the restore starts."""
    with LocalCluster(tmp_path_factory.mktemp("restored"), built_binaries()) as running:
        running.muster_scheduler.start()
        muster = running.muster()
        muster.start()
        with Sandbox(running.admin) as before:
            before.nodes(4, gpus=8)
            before.gang("kept", members=2, gpus=8).wait_bound()
            saved = running.control_plane.save()
            running.restart_clients()
            advance(running.admin)
            before.gang("lost", members=2, gpus=8).wait_bound(timeout=30)
        running.control_plane.restore(saved)
        running.restart_clients()
        assert {pod["metadata"]["name"] for pod in running.admin.list_items(PODS)} == {"kept-0", "kept-1"}
        with Sandbox(running.admin) as after:
            after.gang("next", members=2, gpus=8).wait_bound(timeout=30)
        metrics = f"http://127.0.0.1:{running.muster_port}/metrics"
        assert read_metric(metrics, 'muster_watch_restarts_total{cause="rewound",kind="pods"}') == 1
        assert "the API server went back to an older state" in muster.command.log_path.read_text(encoding="utf-8")
        muster.check()
