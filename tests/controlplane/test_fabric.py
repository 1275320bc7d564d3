"""Placement by bandwidth on the real control plane: levels kept, figures that add up, kubelets that do not refuse."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random

import httpx
import pytest

from localcluster.client import NODES as NODE_RESOURCE
from localcluster.client import JsonObject
from localcluster.cluster import LocalCluster
from localcluster.manifests import apply_all
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.conftest import StartMuster
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.placed import (
    gpus_per_node,
    h100_bandwidth,
    lowest_common,
    predicted_gpus,
    slices_kept,
)
from tests.controlplane.test_facts import remove

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

ZONE, BLOCK, RACK = LEVELS = ("net.example/zone", "net.example/block", "net.example/rack")
CONFIG = {"topology_levels": [{"name": key.split("/")[1], "nodeLabel": key} for key in LEVELS]}
#: What is left of the network's bandwidth by the innermost level that a gang shares: what Muster assumes unless told.
FACTORS = {RACK: 1.0, BLOCK: 0.95, ZONE: 0.83, "": 0.83}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}

#: A label of the nodes in the first rack and in the last.
FAR = "net.example/far"

REQUIRED, PREFERRED, SLICE = (f"muster.dev/topology-{word}" for word in ("required", "preferred", "slice"))

#: Nodes of a rack, racks of a block, blocks of a zone, zones.
NODES, RACKS, BLOCKS, ZONES = 10, 5, 5, 2

Labels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Job:
    """A gang and what it asks for: GPUs of a pod, a level (label key) that it needs, and slices of a rack or node."""

    gang: Gang
    gpus: int
    required: str = ""
    slices: tuple[int, str] | None = None


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write the settings that name the three tiers."""
    path = tmp_path / "muster.yaml"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return path


def racks(cluster: Sandbox, count: int, nodes: int) -> Labels:
    """Create racks of H100 nodes and return the labels of each node."""
    found: dict[str, Mapping[str, str]] = {}
    for rack in range(count):
        block = rack // RACKS
        tiers = {ZONE: f"zone-{block // BLOCKS}", BLOCK: f"block-{block}", RACK: f"rack-{rack}"}
        end = {FAR: "yes"} if rack in {0, count - 1} else {}
        for name in cluster.nodes(nodes, gpus=8, labels={**H100, **tiers, **end}):
            found[name] = tiers
    return found


def jobs(cluster: Sandbox, count: int, seed: int) -> Iterator[Job]:
    """Describe gangs of mixed sizes, none created yet.

    A fifth of them each asks for nothing; for one rack; for one rack, or else for one block; for slices of a node; for
    slices of a rack in one zone.
    """
    random = Random(seed)
    wishes = cycle(
        [
            ("", None, {}),
            (RACK, None, {REQUIRED: "rack"}),
            (BLOCK, None, {REQUIRED: BLOCK, PREFERRED: "rack"}),
            ("", (2, "kubernetes.io/hostname"), {SLICE: "node=2"}),
            (ZONE, (4, RACK), {REQUIRED: "zone", SLICE: "rack=4"}),
        ]
    )
    for number, (required, slices, asked) in enumerate(islice(wishes, count)):
        size = slices[0] if slices else 1
        members = size * random.choice([1, 2, 3])
        gpus = random.choice([1, 2, 4] if slices else [1, 2, 4, 8, 8])
        gang = cluster.gang(f"job-{number}", members=members, gpus=gpus, create=0, group_annotations=asked, cpu="2")
        yield Job(gang, gpus, required, slices)


@pytest.fixture
def api(local_cluster: LocalCluster) -> Iterator[httpx.Client]:
    """Connect to Muster."""
    with httpx.Client(base_url=f"http://127.0.0.1:{local_cluster.muster_port}", timeout=10, trust_env=False) as client:
        yield client


def wide_jobs(cluster: Sandbox) -> Iterator[Job]:
    """Describe two gangs that no rack holds, not created yet: one for racks far apart, one for two racks of a block."""
    for name, selector in (("far", {FAR: "yes"}), ("near", {})):
        gang = cluster.gang(name, members=NODES + 1, gpus=8, create=0, cpu="2", node_selector=selector)
        yield Job(gang, gpus=8)


def explained(api: httpx.Client, gang: Gang) -> JsonObject:
    """Return what Muster says of a gang."""
    answer = api.get(f"/api/v1/gangs/{gang.namespace}/{gang.name}/explain")
    assert answer.status_code == 200, answer.text
    found: JsonObject = answer.json()
    return found


def check_constraints(job: Job, labels: Labels) -> None:
    """Assert that a bound gang has what it needs, by the labels of its nodes."""
    nodes = job.gang.nodes
    hosts = {node: {**tiers, "kubernetes.io/hostname": node} for node, tiers in labels.items()}
    if job.required:
        within = lowest_common(nodes, LEVELS, labels)
        assert within in LEVELS[LEVELS.index(job.required) :], f"{job.gang.name} needs one {job.required}: {nodes}"
    if job.slices is not None:
        size, key = job.slices
        assert slices_kept(nodes, size, key, hosts), f"{job.gang.name} needs {size} per {key}: {nodes}"


def check_figures(api: httpx.Client, job: Job, labels: Labels) -> None:
    """Assert that what Muster says of a bound gang is what follows from where its pods are."""
    placement, counts = explained(api, job.gang)["placement"], gpus_per_node(job.gang, job.gpus)
    common = lowest_common(list(counts), LEVELS, labels)
    expected = h100_bandwidth(list(counts.values()), FACTORS[common])
    assert placement["gpusPerNode"] == counts
    assert placement["level"] == ("node" if len(counts) == 1 else common.removeprefix("net.example/") or "cluster")
    assert placement["busBandwidthGBps"] == (None if expected is None else pytest.approx(expected, abs=0.001))


def check_devices(found: list[Job]) -> None:
    """Assert that each pod was told as many devices as it asked for, and that no two pods of a node have one."""
    taken: defaultdict[str, set[int]] = defaultdict(set)
    for job in found:
        for pod in job.gang.members:
            devices = predicted_gpus(pod)
            assert len(devices) == job.gpus, f"{pod} asks for {job.gpus} GPUs"
            assert devices <= set(range(8))
            assert not taken[pod.node or ""] & devices, f"{pod} has devices of another pod"
            taken[pod.node or ""] |= devices


@pytest.mark.nightly
def test_many_gangs_are_where_they_asked_to_be(
    api: httpx.Client,
    cluster: Sandbox,
    start_muster: StartMuster,
    config: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """200 gangs on 500 nodes in three tiers: levels and slices are kept, and GB/s follow from where the pods are.

    One more needs a rack and is larger than any: it is told so.
    """
    labels = racks(cluster, RACKS * BLOCKS * ZONES, NODES)
    assert len(labels) == 500
    muster = start_muster("--config", str(config))
    wide = list(wide_jobs(cluster))
    wanted = [*wide, *jobs(cluster, 200 - len(wide), seed=7)]
    record_property("GPUs asked for", sum(len(job.gang.members) * job.gpus for job in wanted))
    for job in wide:
        job.gang.create()
        job.gang.wait_bound()
    cluster.create_at_once([job.gang for job in wanted[len(wide) :]])
    for job in wanted:
        job.gang.wait_bound(timeout=120)
    for job in wanted:
        check_constraints(job, labels)
        check_figures(api, job, labels)
    check_devices(wanted)
    # One node, two, and more are three formulas, and each level has its factor: all of them have been put to the test.
    assert {min(len(set(job.gang.nodes)), 3) for job in wanted} == {1, 2, 3}
    assert {lowest_common(job.gang.nodes, LEVELS, labels) for job in wanted} == {RACK, BLOCK, ""}
    too_wide = cluster.gang("too-wide", members=NODES + 1, gpus=8, group_annotations={REQUIRED: "rack"})
    too_wide.wait_condition("False", "ExceedsTopologyDomain")
    assert explained(api, too_wide)["reason"]["numbers"]["fits"] == NODES
    assert max(cluster.peak_gpus().values()) <= 8
    muster.check()


def test_a_replacement_joins_its_rack(cluster: Sandbox, start_muster: StartMuster, config: Path) -> None:
    """A gang that loses a node gets the next one in its rack, though a node of another rack would fit as tightly."""
    labels = racks(cluster, 3, nodes=4)
    muster = start_muster("--config", str(config))
    gang = cluster.gang("job", members=3, gpus=8)
    gang.wait_bound()
    home = {labels[node][RACK] for node in gang.nodes}
    assert len(home) == 1
    elsewhere = next(rack for rack in ("rack-0", "rack-1", "rack-2") if rack not in home)
    cluster.gang("neighbours", members=3, gpus=8, node_selector={RACK: elsewhere}).wait_bound()
    lost = gang.members[1]
    assert lost.node is not None
    cluster.delete_node(lost.node)
    lost.delete()
    gang.members[1].create()
    gang.wait_bound()
    assert {labels[node][RACK] for node in gang.nodes} == home
    muster.check()


@pytest.fixture
def node_topologies(cluster: Sandbox) -> Iterator[None]:
    """Serve NodeResourceTopologies for one test."""
    definitions = [each for each in foreign_definitions() if each["spec"]["names"]["kind"] == "NodeResourceTopology"]
    apply_all(cluster.api, definitions)
    yield
    remove(cluster.api, definitions)


def node_topology(node: str, policy: str) -> JsonObject:
    """Return a NodeResourceTopology of two zones with four GPUs each."""
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "costs": [{"name": f"node-{other}", "value": 10 if other == zone else 21} for other in range(2)],
            "resources": [{"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "4", "available": "4"}],
        }
        for zone in range(2)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
        "zones": zones,
    }


@pytest.mark.usefixtures("node_topologies")
def test_no_pod_goes_where_the_kubelet_would_refuse_it(
    cluster: Sandbox, start_muster: StartMuster, config: Path
) -> None:
    """A 4-GPU pod does not go to a restricted node with two GPUs free in each zone; it goes to one with four in one."""
    split, whole = cluster.nodes(2, gpus=8, labels=H100)
    for node, taken in ((split, ("node-0", "node-1")), (whole, ("node-0", "node-0"))):
        cluster.api.create(node_topology(node, "restricted"))
        for number, zone in enumerate(taken):
            seen = json.dumps([{"zone": zone, "amount": {"nvidia.com/gpu": "2"}}])
            holds = {"kai.scheduler/numa-placement-observed": seen}
            cluster.pod(f"{node}-{number}", gpus=2, scheduler="none", node_name=node, annotations=holds)
    cluster.cordon(whole)
    muster = start_muster("--config", str(config))
    single = cluster.pod("single", gpus=4)
    single.wait_message("NUMA zones")
    gang = cluster.gang("gang", members=1, gpus=4)
    gang.wait_condition("False", "NumaZonesFull")
    assert cluster.stays_true(lambda: not single.bound and not gang.bound, 2.0)
    cluster.api.patch(NODE_RESOURCE, whole, {"spec": {"unschedulable": None}})
    cluster.wait_until(lambda: single.bound or gang.whole, "one of them bound", 20)
    assert {single.node, *gang.nodes} - {None} == {whole}
    muster.check()
