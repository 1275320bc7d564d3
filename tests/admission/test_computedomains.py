"""ComputeDomains of NVIDIA's driver: pods that join one share a clique, and each node has one channel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    ClaimTemplateSeen,
    ComputeDomainGone,
    ComputeDomainSeen,
    DeviceClassSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    SliceSeen,
)
from extender.objects.computedomain import CHANNEL_CLASS, ComputeDomain, decode_compute_domain, read_compute_domain
from extender.objects.deviceclass import DeviceClass
from extender.objects.dradevices import NodeScope, PoolKey
from extender.objects.keys import Options
from extender.objects.meta import key_places
from extender.objects.node import CLIQUE_LABEL
from extender.objects.reason import Reason
from extender.objects.resourceslice import AttributeSet, PoolDevice, ResourceSlice
from extender.objects.topology import RoleGroup, Slice, TopologyTerms
from tests.builders import written
from tests.devicevalues import spec_of, template_of, uses
from tests.worlds import Job, World

DRIVER = "compute-domain.nvidia.com"
CHANNEL = uses(template="channel")


def domain(nodes: int = 0, name: str = "domain", template: str = "channel") -> ComputeDomain:
    """Return a ComputeDomain as it is read."""
    spec = {"numNodes": nodes, "channel": {"resourceClaimTemplate": {"name": template}, "allocationMode": "Single"}}
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    return read_compute_domain(decode_compute_domain(written({"metadata": metadata, "spec": spec})))


def channel_of(node: str) -> ResourceSlice:
    """Return what the driver publishes of a node: its only channel, and what its daemon takes."""
    names = (f"{DRIVER}/type", f"{DRIVER}/id")
    devices = tuple(
        PoolDevice(f"{kind}-0", AttributeSet(key_places(names), (kind, 0))) for kind in ("channel", "daemon")
    )
    return ResourceSlice(node, node, PoolKey(DRIVER, node), 1, 1, NodeScope(name=node), devices=devices)


@pytest.fixture
def world() -> World:
    """Return two cliques of three nodes with four GPUs and a channel each."""
    world = World()
    selector = (
        f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'channel' && "
        f"device.attributes['{DRIVER}'].id == 0"
    )
    world.tell(DeviceClassSeen(DeviceClass(CHANNEL_CLASS, (selector,))))
    for rack in ("a", "b"):
        for name in world.nodes(3, gpus=4, prefix=rack, labels={CLIQUE_LABEL: f"uuid-{rack}.1"}):
            world.tell(SliceSeen(channel_of(name)))
    world.tell(ClaimTemplateSeen(template_of("channel", spec_of(1, of=CHANNEL_CLASS))))
    return world


def racks(job: Job) -> set[str]:
    """Return the cliques that a gang is promised nodes of."""
    return {node.partition("-")[0] for node in job.reserved.values()}


def told(world: World) -> list[str]:
    """Return the warnings since last time."""
    return [note.message for note in world.effects().notes if note.warning]


def test_members_of_a_domain_share_a_clique_and_have_a_node_each(world: World) -> None:
    """Three small pods go to three nodes of one rack; a second domain goes to the other, and a third one waits."""
    first = world.gang("first", 3, gpus=1, claims=CHANNEL)
    assert (len(set(first.reserved.values())), len(racks(first))) == (3, 1)
    second = world.gang("second", 3, gpus=1, claims=CHANNEL)
    assert racks(first) | racks(second) == {"a", "b"}
    assert world.gang("third", 1, gpus=1, claims=CHANNEL).reason is Reason.INSUFFICIENT_CAPACITY
    world.check_promises()


def test_gang_that_no_clique_holds_is_told_so(world: World) -> None:
    """Four nodes are in no clique together, though the cluster has six."""
    assert world.gang("gang", 4, gpus=1, claims=CHANNEL).reason is Reason.EXCEEDS_DOMAIN


@pytest.mark.parametrize(
    "options",
    [
        Options(topology=TopologyTerms(preferred="clique")),
        Options(topology=TopologyTerms(slices=(Slice(2, "clique"),))),
        Options(peers=TopologyTerms(preferred="clique")),
    ],
)
def test_own_words_go_first(world: World, options: Options) -> None:
    """Who says something of levels gets that: a domain may be of several cliques."""
    job = world.gang("gang", 4, gpus=1, claims=CHANNEL, options=options)
    assert racks(job) == {"a", "b"}
    for index in range(4):
        job.see(index, deleting=True)
        world.tell(PodGone(job.pods[index].uid))
    assert racks(world.gang("other", 4, gpus=1, claims=CHANNEL, group={"options": options})) == {"a", "b"}


def test_only_who_joins_has_to_be_in_the_clique(world: World) -> None:
    """A launcher without a claim goes wherever there is room."""
    world.nodes(1, gpus=0, prefix="cpu")
    job = world.gang("job", 3, gpus=4, claims=CHANNEL, role="worker")
    assert len(racks(job)) == 1
    request = job.gang.topology
    assert (request.required, request.role_groups) == ("clique", ())
    launcher = world.pod("launcher", group=job.ref, role="launcher")
    world.tell(PodSeen(launcher))
    request = job.gang.topology
    assert (request.required, request.role_groups) == ("", (RoleGroup(frozenset({"worker"}), "clique"),))


def test_without_cliques_nothing_is_implied(world: World) -> None:
    """Nodes without multi-node NVLink have channels, too; the first clique that is seen counts."""
    for node in world.state.nodes():
        world.tell(NodeSeen(replace(node, labels={}, described=node.described)))
    assert len(world.gang("gang", 4, gpus=1, claims=CHANNEL).reserved) == 4


def test_other_claims_imply_nothing(world: World) -> None:
    """A claim for devices of another class says nothing of cliques."""
    world.tell(DeviceClassSeen(DeviceClass("other", ("true",))))
    world.tell(ClaimTemplateSeen(template_of("other", spec_of(0, of="other"))))
    job = world.gang("gang", 4, gpus=4, claims=uses(template="other"))
    assert job.gang.topology.required == ""


@pytest.mark.parametrize(
    ("nodes", "members", "words"),
    [
        (0, 2, ""),
        (2, 2, ""),
        (1, 2, "is 1; the gang starts on 2 nodes, as each has one channel"),
        (3, 2, "is 3, and the gang starts on 2 nodes: its pods wait for the others"),
    ],
)
def test_number_of_nodes_is_checked_against_the_gang(world: World, nodes: int, members: int, words: str) -> None:
    """`numNodes` that the gang does not reach, or exceeds, is told once its pods are there; 0 waits for nothing."""
    world.tell(ComputeDomainSeen(domain(nodes)))
    world.effects()
    world.gang("gang", members, gpus=1, claims=CHANNEL)
    messages = [message for message in told(world) if "numNodes" in message]
    assert [message.startswith(f"ComputeDomain default/domain: spec.numNodes: {words}") for message in messages] == (
        [True] if words else []
    )


def test_domain_that_comes_after_its_pods_is_checked_and_told_once(world: World) -> None:
    """The order in which objects are seen is no matter; what was told is not repeated."""
    world.gang("gang", 2, gpus=1, claims=CHANNEL)
    world.effects()
    for _ in range(2):
        world.tell(ComputeDomainSeen(domain(1)))
    assert len(told(world)) == 1
    world.tell(ComputeDomainGone("default", "domain"))
    world.gang("other", 2, gpus=1, claims=CHANNEL)
    assert told(world) == []


def test_pods_beyond_the_minimum_complete_a_domain() -> None:
    """A gang that starts with two of three pods has three nodes once all of them run."""
    assert domain(3).problem(3, 2) is None
    assert domain(3).problem(2, 2) is not None


@pytest.mark.parametrize("document", [{}, {"spec": {}}, {"spec": {"numNodes": -1, "channel": {}}}])
def test_any_domain_is_read(document: dict[str, Any]) -> None:
    """What is missing says nothing."""
    read = read_compute_domain(decode_compute_domain(written(document)))
    assert (read.template, read.nodes) == ("", 0)
