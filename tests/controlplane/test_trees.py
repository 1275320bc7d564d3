"""Gangs of gangs on the real control plane, with the shapes that their controllers write."""

from __future__ import annotations

import pytest

from localcluster.client import COMPOSITE_POD_GROUPS, NATIVE_POD_GROUPS, JsonObject
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Pod

pytestmark = pytest.mark.controlplane

#: Seconds. Time enough for whatever should not happen to happen.
WATCHFUL = 1.0
RACK = "topology.kubernetes.io/zone"


def native(kind: str, name: str, policy: JsonObject, parent: str, key: str = "") -> JsonObject:
    """Return a native group, part of a CompositePodGroup if one is named, with all its pods in one domain of a key."""
    reference = {"workloadName": "serve", "templateName": name}
    spec: JsonObject = {"schedulingPolicy": {"gang": policy}, "workloadRef": reference}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    version = "v1beta1" if kind == "PodGroup" else "v1alpha3"
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def composite(name: str, least: int, parent: str = "", key: str = "") -> JsonObject:
    """Return a CompositePodGroup."""
    return native("CompositePodGroup", name, {"minGroupCount": least}, parent, key)


def members(cluster: Sandbox, name: str, count: int) -> list[Pod]:
    """Create pods of eight GPUs each that name a PodGroup."""
    group = {"schedulingGroup": {"podGroupName": name}}
    return [cluster.pod(f"{name}-{index}", gpus=8, cpu="1", spec=group) for index in range(count)]


def bound(pods: list[Pod]) -> int:
    """Count the pods that are bound."""
    return sum(pod.bound for pod in pods)


def test_composite_pod_groups_start_whole(native_cluster: Sandbox, native_muster: Server) -> None:
    """Two of three replicas start together, each within one rack; the third follows whole when there is room for it."""
    for rack in ("a", "b"):
        native_cluster.nodes(3, prefix=f"rack-{rack}", gpus=8, labels={RACK: rack})
    try:
        native_cluster.create(composite("serve", 2))
        replicas: list[list[Pod]] = []
        for name in ("r0", "r1", "r2"):
            native_cluster.create(composite(name, 2, "serve", RACK))
            for role, least in (("prefill", 2), ("decode", 1)):
                native_cluster.create(native("PodGroup", f"{name}-{role}", {"minCount": least}, name))
            replicas.append(members(native_cluster, f"{name}-prefill", 2))
            if name != "r2":
                assert native_cluster.stays_true(lambda: not any(map(bound, replicas)), 0.2)
            replicas[-1] += members(native_cluster, f"{name}-decode", 1)
        first, second, third = replicas
        native_cluster.wait_until(lambda: bound(first) == bound(second) == 3, "two replicas bound")
        for replica in (first, second):
            assert len({str(pod.node)[:6] for pod in replica}) == 1
        native_cluster.nodes(2, prefix="rack-c", gpus=8, labels={RACK: "c"})
        assert native_cluster.stays_true(lambda: not bound(third), WATCHFUL)
        native_cluster.nodes(1, prefix="rack-c-more", gpus=8, labels={RACK: "c"})
        native_cluster.wait_until(lambda: bound(third) == 3, "the third replica bound")
        native_muster.check()
    finally:
        for resource in (NATIVE_POD_GROUPS, COMPOSITE_POD_GROUPS):
            for item in native_cluster.api.list_items(resource):
                name = item["metadata"]["name"]
                native_cluster.api.patch(resource, name, {"metadata": {"finalizers": None}}, namespace="default")
