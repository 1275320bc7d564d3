"""What `muster import` writes, and the examples, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from localcluster.client import Resource
from localcluster.cluster import LocalCluster
from tests.docs.conftest import ROOT
from tests.lab.tools.importing.examples import KUEUE, VOLCANO, kueue, volcano

pytestmark = pytest.mark.controlplane

RESOURCES = {
    "Queue": Resource("muster.dev/v1alpha1", "Queue", "queues", namespaced=False),
    "PriorityClass": Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False),
}
PRIORITY = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: high}, value: 100}"
LAST = (
    "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: last}, "
    "spec: {namespaceSelector: {}, fairSharing: {weight: 0}}}"
)


def manifests() -> Iterator[Mapping[str, Any]]:
    """Yield everything that is imported in the tests, and what the page about queues has people apply."""
    yield from kueue(KUEUE, PRIORITY, LAST).manifests
    yield from volcano(VOLCANO, capacity={"cpu": 512_000, "nvidia.com/gpu": 64}).manifests
    yield from yaml.safe_load_all((ROOT / "examples" / "queues" / "two-teams.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "manifest", list(manifests()), ids=lambda manifest: f"{manifest['kind']}-{manifest['metadata']['name']}"
)
def test_the_api_server_takes_what_is_imported(local_cluster: LocalCluster, manifest: Mapping[str, Any]) -> None:
    """Every field is known, and every rule of the CRD holds."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    path = RESOURCES[manifest["kind"]].path()
    taken = local_cluster.admin.request("POST", path, body=dict(manifest), query=query)
    assert taken["metadata"]["name"] == manifest["metadata"]["name"]
