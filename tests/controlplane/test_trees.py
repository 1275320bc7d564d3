"""Gangs of gangs on the real control plane, with the shapes that their controllers write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.client import COMPOSITE_POD_GROUPS, NATIVE_POD_GROUPS, JsonObject
from localcluster.manifests import apply_all
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Pod
from tests.controlplane.conftest import StartMuster
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.test_facts import remove

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


KAI_GANG = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "kai", "namespace": "default"},
    "spec": {
        "minSubGroup": 1,
        "subGroups": [
            *({"name": name, "topologyConstraint": {"requiredTopologyLevel": RACK}} for name in ("r0", "r1")),
            *({"name": f"{name}-p", "minMember": 2, "parent": name} for name in ("r0", "r1")),
            *({"name": f"{name}-d", "minMember": 1, "parent": name} for name in ("r0", "r1")),
        ],
    },
}
VOLCANO_GANG = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "volcano", "namespace": "default"},
    "spec": {
        "minMember": 3,
        "minTaskMember": {"master": 1, "worker": 2},
        "subGroupPolicy": [
            {
                "name": "worker",
                "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
                "matchLabelKeys": ["volcano.sh/partition-id"],
                "subGroupSize": 2,
                "minSubGroups": 1,
            }
        ],
    },
}
RINGS_GANG = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "rings", "namespace": "default"},
    "spec": {
        "minMember": 1,
        "subGroupPolicy": [
            {"name": "rings", "matchLabelKeys": ["example.com/ring"], "subGroupSize": 3, "minSubGroups": 1}
        ],
    },
}
DISAGGREGATED_SET = {
    "apiVersion": "disaggregatedset.x-k8s.io/v1",
    "kind": "DisaggregatedSet",
    "metadata": {"name": "llm", "namespace": "default"},
    "spec": {
        "roles": [
            {"name": "prefill", "spec": {"replicas": 4, "leaderWorkerTemplate": {"size": 2}}},
            {"name": "decode", "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 1}}},
        ]
    },
}
GROVE_GANG = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "metadata": {"name": "grove", "namespace": "default"},
    "spec": {
        "podgroups": [{"name": "grove-p", "minReplicas": 2}, {"name": "grove-d", "minReplicas": 1}],
        "topologyConstraintGroupConfigs": [
            {
                "podGroupNames": ["grove-p", "grove-d"],
                "topologyConstraint": {"packConstraint": {"required": RACK}},
            }
        ],
    },
}


def kai(name: str) -> JsonObject:
    """Return the metadata of a pod of a subgroup."""
    return {"annotations": {"pod-group-name": "kai"}, "labels": {"kai.scheduler/subgroup-name": name}}


def volcano(task: str, partition: str = "") -> JsonObject:
    """Return the metadata of a pod of a task, as Volcano's controller writes it."""
    labels = {"volcano.sh/task-spec": task} | ({"volcano.sh/partition-id": partition} if partition else {})
    return {"annotations": {"scheduling.k8s.io/group-name": "volcano"}, "labels": labels}


def grove(clique: str) -> JsonObject:
    """Return the metadata of a pod of a PodClique."""
    return {"labels": {"grove.io/podgang": "grove", "grove.io/podclique": clique}}


def lws(worker: int) -> JsonObject:
    """Return the metadata of a pod of a group that is known by a hash."""
    prefix, key = "leaderworkerset.sigs.k8s.io", "0a" * 20
    labels = {f"{prefix}/name": "llm", f"{prefix}/group-index": key, f"{prefix}/worker-index": str(worker)}
    return {"labels": labels | {f"{prefix}/group-key": key}, "annotations": {f"{prefix}/size": "3"}}


RING = {"annotations": {"scheduling.k8s.io/group-name": "rings"}, "labels": {"example.com/ring": "a"}}


def disaggregated(role: str) -> JsonObject:
    """Return the metadata of a pod of a role's group, as the LeaderWorkerSet of a DisaggregatedSet has it."""
    prefix, meta = "disaggregatedset.x-k8s.io", lws(0)
    labels = {f"{prefix}/name": "llm", f"{prefix}/slice": "0", f"{prefix}/revision": "5d8c", f"{prefix}/role": role}
    return {**meta, "labels": {**meta["labels"], **labels}}


#: The metadata of the pods of a gang that starts with three of them, those last without which nothing starts.
SHAPES = {
    "kai": (KAI_GANG, [kai("r1-p"), kai("r1-p"), kai("r1-d")]),
    "volcano": (VOLCANO_GANG, [volcano("worker", "0"), volcano("worker", "0"), volcano("master")]),
    "grove": (GROVE_GANG, [grove("grove-p"), grove("grove-p"), grove("grove-d")]),
    "rings": (RINGS_GANG, [RING, RING, RING]),
    "disaggregatedset": (
        DISAGGREGATED_SET,
        [disaggregated("prefill"), disaggregated("prefill"), disaggregated("decode")],
    ),
    "leaderworkerset": (None, [lws(0), lws(1), lws(2)]),
}


@pytest.fixture
def definitions(cluster: Sandbox) -> Iterator[None]:
    """Install the CRDs of the schedulers whose objects are trees."""
    groups = {"scheduling.run.ai", "scheduling.volcano.sh", "scheduler.grove.io", "disaggregatedset.x-k8s.io"}
    found = [each for each in foreign_definitions() if each["spec"]["group"] in groups]
    apply_all(cluster.api, found)
    yield
    remove(cluster.api, found)


@pytest.mark.usefixtures("judged", "definitions")
@pytest.mark.parametrize("shape", SHAPES)
def test_trees_of_other_controllers_start_whole(cluster: Sandbox, start_muster: StartMuster, shape: str) -> None:
    """Whatever the controller: nothing is bound before the last pod that its parts need, and then all of it."""
    item, pods = SHAPES[shape]
    if item is not None:
        cluster.api.create(item)
    server = start_muster()
    cluster.nodes(4, gpus=8, labels={RACK: "a"})
    early = [cluster.pod(f"{shape}-{at}", gpus=8, cpu="1", **pods[at]) for at in (0, 1)]
    assert cluster.stays_true(lambda: not bound(early), WATCHFUL)
    last = cluster.pod(f"{shape}-2", gpus=8, cpu="1", **pods[2])
    cluster.wait_until(lambda: bound([*early, last]) == 3, "all of it bound")
    server.check()
