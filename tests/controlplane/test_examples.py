"""examples/workloads and topology on the real control plane: the pods that controllers would make start whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.client import PODS, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.manifests import apply_all
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import muster_starter
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.operators import children
from tests.controlplane.test_facts import remove
from tests.docs.conftest import ROOT

pytestmark = pytest.mark.controlplane

EXAMPLES = ROOT / "examples" / "workloads"
TOPOLOGY = ROOT / "examples" / "topology"

#: Node labels by which levels are called `block` and `rack`: those of Oracle's cloud.
BLOCK_LABEL, RACK_LABEL = "oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"

#: Seconds. Time enough for whatever should not happen to happen.
WATCHFUL = 0.3

#: Kinds whose controllers make objects that Muster reads, while Muster does not read them: no CRD of theirs is here.
UNREAD = frozenset({"TrainJob", "TrainingRuntime"})
GROUPS = frozenset(
    {"jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "disaggregatedset.x-k8s.io", "kubeflow.org", "ray.io"}
)

#: For each example, how many pods each of its gangs has, and how many of them start together.
GANGS = {
    "deployment": [(4, 2)],
    "disaggregatedset": [(3, 3)],
    "job": [(4, 4)],
    "jobset": [(5, 5)],
    "leaderworkerset": [(2, 2), (2, 2)],
    "mpijob": [(5, 5)],
    "pods": [(2, 2)],
    "pytorchjob": [(4, 4)],
    "queue": [(2, 2)],
    "rayjob": [(5, 5)],
    "trainjob": [(4, 4)],
}

#: Applies a file and returns the pods that controllers would make of what is in it, none of which exists yet.
Apply = Callable[[Path], list[JsonObject]]


@pytest.fixture(scope="module")
def operators_definitions(local_cluster: LocalCluster) -> Iterator[None]:
    """Have the operators' CRDs installed while these tests run."""
    definitions = [each for each in foreign_definitions() if each["spec"]["group"] in GROUPS]
    apply_all(local_cluster.admin, definitions)
    yield
    remove(local_cluster.admin, definitions)


@pytest.fixture(scope="module")
def shared_muster(
    local_cluster: LocalCluster, muster_scheduler: Server, operators_definitions: None
) -> Iterator[Server]:
    """Run one Muster for all examples, one after the other, as in a cluster that people use."""
    assert operators_definitions is None
    muster_scheduler.check()
    with muster_starter(local_cluster) as start:
        yield start()


@pytest.fixture
def apply(cluster: Sandbox, operators_definitions: None) -> Iterator[Apply]:
    """Return how to apply an example, with what its controllers make of it; all of it goes away with the test."""
    assert operators_definitions is None
    made: list[JsonObject] = []

    def apply_file(path: Path) -> list[JsonObject]:
        """Apply objects, refusing fields that their schemas do not know, and what follows from them."""
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        waiting, pods = [_placed(document) for document in documents], []
        while waiting:
            item = waiting.pop(0)
            if item["kind"] == "Pod":
                pods.append(item)
                continue
            if item["kind"] not in UNREAD:
                item = cluster.api.apply(item)
                made.append(item)
            waiting += children(item, documents)
        return pods

    yield apply_file
    for item in reversed(made):
        resource = cluster.api.resource_of(item)
        path = resource.path(item["metadata"].get("namespace"), item["metadata"]["name"])
        # By default a Job's deletion waits for a garbage collector, and none runs here.
        cluster.api.request("DELETE", path, body={"kind": "DeleteOptions", "propagationPolicy": "Background"})


def _placed(document: JsonObject) -> JsonObject:
    """Return an object as `kubectl apply` sends it: in a namespace, where its kind has one."""
    if document["kind"] != "Queue":
        document["metadata"].setdefault("namespace", "default")
    return document


def _gang_of(pod: JsonObject) -> str:
    """Return which of its example's gangs a pod is in: only groups of LeaderWorkerSets are several."""
    group: str = pod["metadata"]["labels"].get("leaderworkerset.sigs.k8s.io/group-index", "")
    return group


def test_every_example_is_tried() -> None:
    """No file is left out."""
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(GANGS)


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("path", sorted(TOPOLOGY.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_of_topology_is_placed_as_it_says(
    cluster: Sandbox, shared_muster: Server, apply: Apply, path: Path
) -> None:
    """On two racks of four nodes: all that has GPUs shares a rack, or each eight pods, with two on each node."""
    names = [cluster.nodes(4, prefix=rack, gpus=8, labels={BLOCK_LABEL: "b", RACK_LABEL: rack}) for rack in ("r", "s")]
    racks = {name: rack for rack, nodes in zip(("r", "s"), names, strict=True) for name in nodes}
    pods = apply(path)
    for pod in pods:
        cluster.api.apply(pod)
    cluster.wait_until(lambda: len(cluster.bindings()) == len(pods), f"{len(pods)} pods bound")

    nodes = {binding.pod: binding.node for binding in cluster.bindings()}
    placed = [nodes[pod["metadata"]["name"]] for pod in pods if "loader" not in pod["metadata"]["name"]]
    eights = [placed[first : first + 8] for first in range(0, len(placed), 8)]
    assert [len({racks[node] for node in eight}) for eight in eights] == [1] * len(eights)
    if path.stem == "slices":
        assert placed[::2] == placed[1::2]
    shared_muster.check()


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("name", sorted(GANGS))
def test_an_example_starts_whole(cluster: Sandbox, shared_muster: Server, apply: Apply, name: str) -> None:
    """While one pod of the minimum is missing none is bound; then all are, on four nodes of eight GPUs."""
    cluster.nodes(4, gpus=8)
    pods = apply(EXAMPLES / f"{name}.yaml")
    gangs: dict[str, list[JsonObject]] = {}
    for pod in pods:
        gangs.setdefault(_gang_of(pod), []).append(pod)
    assert [len(gang) for gang in gangs.values()] == [size for size, _ in GANGS[name]]

    minimums = [minimum for _, minimum in GANGS[name]]
    early = [pod for gang, minimum in zip(gangs.values(), minimums, strict=True) for pod in gang[: minimum - 1]]
    for pod in early:
        cluster.api.apply(pod)
    assert cluster.stays_true(lambda: not cluster.bindings(), WATCHFUL)
    for pod in pods:
        if pod not in early:
            cluster.api.apply(pod)
    cluster.wait_until(lambda: len(cluster.bindings()) == len(pods), f"{len(pods)} pods bound")

    wanted = {pod["metadata"]["name"] for pod in pods}
    assert {binding.pod for binding in cluster.bindings()} == wanted
    assert all(used <= 8 for used in cluster.peak_gpus().values())
    assert {item["spec"]["schedulerName"] for item in cluster.api.list_items(PODS)} == {"muster"}
    shared_muster.check()
