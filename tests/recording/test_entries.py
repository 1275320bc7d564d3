"""Inputs, written and read."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from extender.domain.alignment import ContainerRequest
from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.holdings import Holding
from extender.domain.hypernodes import HyperNode
from extender.domain.keys import BelowMinimum, Options, Packing
from extender.domain.labels import NO_LABELS, share_labels
from extender.domain.labelselector import LabelSelector
from extender.domain.levelobjects import LevelList
from extender.domain.levels import Level
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Phase, Pod, Rejection, RejectionReason, Shape
from extender.domain.podgroup import PodGroup, Step
from extender.domain.queue import Flavor, Preemption, Queue, Quota, StopPolicy
from extender.domain.reason import Problem, Reason, Wait
from extender.domain.roles import Rank
from extender.domain.selectors import Requirement, Selector, Term
from extender.domain.taints import Taint, Toleration
from extender.domain.topology import SILENT, Objective, RoleGroup, Slice, TopologyTerms
from extender.numa.nodetopology import Managers, NodeTopology, Policy, Zone
from extender.recording.clocks import Readings
from extender.recording.entries import Entry, EntryError, EntryReader, EntryWriter, read_outcome
from extender.recording.inputs import INPUTS
from extender.recording.outcomes import Raised

REF = GroupRef(GroupApi.VOLCANO, "team", "train")
PROBLEM = Problem("spec.x", "is odd")
ABOUT = ObjectRef("v1", "ConfigMap", "ns", "name", "uid")
TERMS = TopologyTerms(
    "rack",
    "block",
    (Slice(2, "node", frozenset({"a"})),),
    (RoleGroup(frozenset({"a", "b"}), "rack"),),
    Objective.ALLTOALL,
    "",
)
OPTIONS = Options(
    min_member=3,
    packing=Packing.SPREAD,
    role_minimums=(("a", 1),),
    topology=TERMS,
    packings=(("cpu", Packing.BINPACK),),
    queue="q",
    peer_queue="p",
    expected_duration=1.5,
    preemptible=False,
    below_minimum=BelowMinimum.REPAIR,
    problems=(PROBLEM,),
)
SHAPE = Shape(
    (("cpu", 1000), ("nvidia.com/gpu", 8)),
    Selector((("a", "b"),), (Term((Requirement("k", "In", ("v",)),), (Requirement("metadata.name", "In", ("n",)),)),)),
    (Toleration("k", "Equal", "v", "NoSchedule"),),
    (ContainerRequest((("cpu", 1000),)),),
    guaranteed=True,
)
POD = Pod(
    "uid",
    "ns",
    "pod-1",
    SHAPE,
    created="2026-01-01T00:00:00Z",
    group=REF,
    role="worker",
    rank=Rank(follows=True, role="worker", indices=(1, 2)),
    priority=7,
    scheduler_name="muster",
    node_name="node-1",
    nominated_node="node-2",
    phase=Phase.RUNNING,
    gated=True,
    deleting=True,
    refusal="refused",
    options=OPTIONS,
    problem=PROBLEM,
    observed=Holding((0, 1), (0,), ("GPU-1",)),
    predicted=Holding((2,)),
    rejection=Rejection(RejectionReason.SMT_ALIGNMENT, "odd"),
    labels=share_labels({"a": "b"}),
    never_preempts=True,
    active_deadline=5.0,
    started_at=1e9 + 0.1,
    gates=("g",),
)
NODE = Node("n", "u", {"cpu": 1}, {"l": "v"}, (Taint("k", "v", "NoSchedule"),), PROBLEM, {"a": "b"}, deleting=True)
TOPOLOGY = NodeTopology(
    "n",
    Policy.RESTRICTED,
    zones=(Zone(0, "node-0", {"cpu": 1}, {"cpu": 1}, {0: 10, 1: 21}, {"cpu": 2}),),
    managers=Managers(cpu_static=True),
    problem=PROBLEM,
)
QUEUE = Queue(
    "q",
    "u",
    2,
    "2026",
    "root",
    (Flavor("f", {"cpu": Quota(1, 2, 3)}, (("a", "b"),)),),
    1.5,
    namespaces=LabelSelector((Requirement("k", "Exists"),)),
    preemption=Preemption(min_runtime=2.5),
    stop_policy=StopPolicy.HOLD,
    history={"cpu": 0.1},
    problems=(PROBLEM,),
)
GROUP = PodGroup(REF, "u", 4, (("a", 2),), {"cpu": 8}, 30.5, 5, "2026", 3, OPTIONS, PROBLEM, ABOUT, (Step("a", 1, 2),))
HYPER_NODE = HyperNode(
    ABOUT, 1, "rack", frozenset({"a", "b"}), ("n-.*",), ((Requirement("k", "Exists"),),), ("c",), (PROBLEM,)
)

#: One set of arguments for each input.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "pod_seen": (POD,),
    "pod_gone": ("uid",),
    "node_seen": (NODE,),
    "node_gone": ("n",),
    "group_seen": (GROUP,),
    "group_gone": (REF, "u"),
    "queue_seen": (QUEUE,),
    "queue_gone": ("q",),
    "namespace_seen": ("ns", {"a": "b"}),
    "namespace_gone": ("ns",),
    "budget_seen": (DisruptionBudget("ns", "b", LabelSelector((Requirement("k", "In", ("v",)),)), 2),),
    "budget_gone": ("ns", "b"),
    "node_topology_seen": (TOPOLOGY,),
    "node_topology_gone": ("n",),
    "hyper_node_seen": (HYPER_NODE,),
    "hyper_node_gone": ("h",),
    "levels_seen": (LevelList(ABOUT, (Level("rack", "l", 0.5, 0.25),), (PROBLEM,)),),
    "levels_gone": ("kueue.x-k8s.io", "t"),
    "device_seen": (DeviceReport(ABOUT, "[]"),),
    "device_gone": ("n",),
    "calibration_seen": (ABOUT, {"a": "b"}),
    "calibration_gone": (),
    "occupancy_asked": (),
    "charges_asked": (),
    "eviction_refused": ("uid", "why"),
    "rebuild": (),
    "stand_down": (),
    "hold_off": (Wait(Reason.WRITES_BACKLOGGED, {"n": 1}, {"a": "b"}),),
    "tick": (),
    "decide": (),
    "take_effects": (),
    "defragment": (REF, True),
    "filter": (POD, [f"n-{number}" for number in range(40)]),
    "prioritize": (POD, ["n"]),
    "preempt": (POD, {"n": ["u1", "u2"]}),
    "arrive": ("uid", "n"),
    "leave": ("uid",),
    "binding_failed": ("uid", "why", True),
}
READINGS = Readings([1.1, 1e9 + 0.123456789], [dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)])


def test_every_input_has_arguments_here() -> None:
    """What is added has to be tried."""
    assert ARGUMENTS.keys() == INPUTS.keys()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_input_comes_back_as_it_was(name: str) -> None:
    """Every field of every value, every reading of the clock, and what came of it."""
    entry = Entry(INPUTS[name], ARGUMENTS[name], None, READINGS, Raised("ValueError", "no"))
    (noted,) = EntryReader().read(EntryWriter().write([entry]))
    assert (noted.what, noted.arguments, noted.known) == (INPUTS[name], ARGUMENTS[name], "")
    assert noted.readings == READINGS
    assert read_outcome(noted.came) == {"raised": ["ValueError", "no"]}
    (again,) = EntryReader().read(EntryWriter().rewrite([noted]))
    assert (again.what, again.arguments, again.readings) == (noted.what, noted.arguments, noted.readings)
    assert again.came == noted.came


def test_who_is_known_already_is_only_named() -> None:
    """A pod that is the one that was known is a UID, a node its name: heartbeats say nothing else."""
    entries = [
        Entry(INPUTS["pod_seen"], (POD,), POD, Readings(), None),
        Entry(INPUTS["node_seen"], (NODE,), NODE, Readings(), None),
    ]
    data = EntryWriter().write(entries)
    assert [each.known for each in EntryReader().read(data)] == ["uid", "n"]
    assert len(data) < 100


def test_values_share_what_those_of_the_watch_share() -> None:
    """Terms that say nothing are told apart by identity, shapes compared by it first: both are one object again."""
    entry = Entry(INPUTS["pod_seen"], (Pod("u", "n", "p", SHAPE),), None, Readings(), None)
    one, other = EntryReader().read(EntryWriter().write([entry, entry]))
    (first,), (second,) = one.arguments, other.arguments
    assert first.shape is second.shape
    assert first.options.topology is SILENT
    assert first.labels is NO_LABELS


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (b"", "cannot be read"),
        (b"\xc1", "cannot be read"),
        (msgspec.msgpack.encode([["pod_seen", [], "", [], [], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["pod_seen", [1], "", [], [], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["launch", [], "", [], [], b""]]), "no input called 'launch'"),
        (msgspec.msgpack.encode([["tick", [], "", [], [1 << 62], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["arrive", ["u"], "", [], [], b""]]), "cannot be read"),
    ],
)
def test_bytes_that_are_no_inputs_are_refused(written: bytes, says: str) -> None:
    """Whatever they are, the error is one that says so."""
    with pytest.raises(EntryError, match=says):
        list(EntryReader().read(written))


def test_an_outcome_that_cannot_be_read_is_an_error() -> None:
    """As of a file that was changed."""
    with pytest.raises(EntryError, match="outcome"):
        read_outcome(b"\xc1")
