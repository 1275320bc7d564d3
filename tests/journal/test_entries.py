"""Events, written and read."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from extender.admission import events
from extender.admission.events import Event
from extender.journal.entries import EVENTS, EntryError, EntryReader, EntryWriter, JournalEntry, Readings, read_outcome
from extender.journal.outcomes import Raised
from extender.ledger.effects import Effects
from extender.objects.branches import Branch
from extender.objects.budget import DisruptionBudget
from extender.objects.computedomain import ComputeDomain
from extender.objects.deviceclass import DeviceClass
from extender.objects.devices import DeviceReport
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.dradevices import Amount, DeviceKey, NodeScope, PoolKey
from extender.objects.holdings import DeviceHolding
from extender.objects.hypernodes import HyperNode
from extender.objects.jobsigns import JobSigns, NoticePeriod
from extender.objects.keys import BelowMinimum, Options, Packing
from extender.objects.levelobjects import LevelList
from extender.objects.levels import Level
from extender.objects.meta import (
    NO_LABELS,
    LabelSelector,
    ObjectRef,
    Requirement,
    Selector,
    SelectorTerm,
    key_places,
    share_labels,
)
from extender.objects.node import Node
from extender.objects.noderequest import NodeRequest, NodeRequestPhase
from extender.objects.nodetopology import Managers, NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Phase, Pod, Rejection, RejectionReason, Shape
from extender.objects.podclaims import ContainerClaim, ExtendedRequest, PodClaim, PodClaims
from extender.objects.podgroup import GroupProgress, GroupRef, PodGroup
from extender.objects.podoptions import RoleRank
from extender.objects.podspec import Taint, Toleration
from extender.objects.queue import ConsolidationPolicy, Flavor, PreemptionPolicy, Queue, Quota, StopPolicy
from extender.objects.reason import Problem, Reason, Wait
from extender.objects.requests import ContainerRequest
from extender.objects.resourceclaim import (
    ClaimAllocation,
    ClaimConsumer,
    ClaimRequest,
    ClaimSpec,
    DeviceConstraint,
    DeviceRequest,
    GivenDevice,
    ResourceClaim,
    ResourceClaimTemplate,
)
from extender.objects.resourceslice import (
    AttributeSet,
    AttributeValue,
    CapacityPolicy,
    CapacitySet,
    CounterSet,
    CounterUse,
    CounterUses,
    DeviceCapacity,
    DeviceVersion,
    PoolDevice,
    ResourceSlice,
)
from extender.objects.sources.native import COMPOSITE
from extender.objects.sources.volcano import VOLCANO
from extender.objects.topology import SILENT, Objective, RoleGroup, Slice, TopologyTerms
from extender.objects.workload import ExpectedPods, Suspendable

REF = GroupRef(VOLCANO, "team", "train")
PROBLEM = Problem("spec.x", "is odd")
ABOUT = ObjectRef("v1", "ConfigMap", "ns", "name", "uid")
TOPOLOGY_OBJECT = ObjectRef("kueue.x-k8s.io/v1beta1", "Topology", "", "t", "uid")
TERMS = TopologyTerms(
    "rack",
    "block",
    (Slice(2, "node", frozenset({"a"})),),
    (RoleGroup(frozenset({"a", "b"}), "rack"),),
    Objective.ALLTOALL,
    "",
)
SIGNS = JobSigns(1.5e9, NoticePeriod(1.6e9, 1.7e9), NoticePeriod(1.4e9, 1.5e9), (PROBLEM,))
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
    checkpoint_interval=600.0,
    eviction_notice=60.0,
    max_runtime=3600.0,
    signs=SIGNS,
    problems=(PROBLEM,),
)
SHAPE = Shape(
    (("cpu", 1000), ("nvidia.com/gpu", 8)),
    Selector(
        (("a", "b"),), (SelectorTerm((Requirement("k", "In", ("v",)),), (Requirement("metadata.name", "In", ("n",)),)),)
    ),
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
    rank=RoleRank(follows=True, role="worker", indices=(1, 2)),
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
    observed=DeviceHolding((0, 1), (0,), ("GPU-1",)),
    predicted=DeviceHolding((2,)),
    rejection=Rejection(RejectionReason.SMT_ALIGNMENT, "odd"),
    labels=share_labels({"a": "b"}),
    never_preempts=True,
    active_deadline=5.0,
    started_at=1e9 + 0.1,
    gates=("g",),
    controller="job-uid",
    owner=ObjectRef("batch/v1", "Job", "ns", "job", "job-uid"),
    claims=PodClaims(
        (PodClaim("c", "claim", "template", needless=True),),
        (ContainerClaim("main", "c", "r"),),
        "extended",
        (ExtendedRequest("main", "nvidia.com/gpu", "r"),),
    ),
    signs=SIGNS,
)
NODE = Node("n", "u", {"cpu": 1}, {"l": "v"}, (Taint("k", "v", "NoSchedule"),), PROBLEM, {"a": "b"}, deleting=True)
TOPOLOGY = NodeTopology(
    "n",
    TopologyPolicy.RESTRICTED,
    zones=(Zone(0, "node-0", {"cpu": 1}, {"cpu": 1}, {"cpu": 2}),),
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
    preemption=PreemptionPolicy(min_runtime=2.5, consolidation=ConsolidationPolicy(delay=1.5)),
    stop_policy=StopPolicy.HOLD,
    history={"cpu": 0.1},
    problems=(PROBLEM,),
)
GROUP = PodGroup(
    *(REF, "u", 4, (("a", 2),), {"cpu": 8}, 30.5, 5, "2026", 3, OPTIONS, PROBLEM, ABOUT, (GroupProgress("a", 1, 2),)),
    goes_whole=True,
    never_preempts=True,
    tree=Branch(
        "", 1, (Branch("a", 1, (Branch("p", 2), Branch("d", 1)), "rack"), Branch("b", 1)), slices=(Slice(2, "node"),)
    ),
    parent=GroupRef(COMPOSITE, "default", "parent"),
    parts_needed=2,
)
HYPER_NODE = HyperNode(
    ABOUT, 1, "rack", frozenset({"a", "b"}), ("n-.*",), ((Requirement("k", "Exists"),),), ("c",), (PROBLEM,)
)

_VALUES: tuple[AttributeValue, ...] = (
    *("text", True, 7, DeviceVersion("1.2.3")),
    *((1, 2), (True,), ("a",), (DeviceVersion("1.0.0"), DeviceVersion("2.0.0"))),
)
_NAMES = tuple(f"d/a{index}" for index in range(len(_VALUES)))
#: 80 GiB in billionths: more than 64 bits hold.
LARGE = Amount(80 * 2**30 * 10**9)
_TERM = SelectorTerm((), (Requirement("metadata.name", "In", ("n",)),))
SLICE = ResourceSlice(
    *("slice", "uid", PoolKey("d", "n"), 3, 1, NodeScope("n")),
    per_device=True,
    devices=(
        PoolDevice(
            "gpu-0",
            AttributeSet(key_places(_NAMES), _VALUES),
            CapacitySet((("m", DeviceCapacity(LARGE, CapacityPolicy(LARGE, (LARGE,), ranged=True, lowest=LARGE))),)),
            CounterUses((CounterUse("set", (("memory", LARGE),)),)),
            (Taint("k", "v", "NoExecute"),),
            NodeScope(terms=(_TERM,)),
            shared=True,
            binds_to_node=True,
            conditions=("ready",),
            failure_conditions=("failed",),
        ),
    ),
    counter_sets=(CounterSet("set", (("memory", LARGE),)),),
    problem=PROBLEM,
)
REQUEST = DeviceRequest(
    "r", "gpu", ("true",), None, admin=True, tolerations=SHAPE.tolerations, capacity=(("m", LARGE),)
)
CLAIM = ResourceClaim(
    *("ns", "claim", "uid"),
    ClaimSpec(
        (ClaimRequest("r", (REQUEST,)),),
        (DeviceConstraint("d/a", frozenset({"r"}), distinct=True),),
        PROBLEM,
    ),
    ClaimAllocation(
        (GivenDevice("r", DeviceKey("d", "n", "gpu-0"), admin=True, share="share", consumed=(("memory", LARGE),)),),
        (_TERM,),
    ),
    (ClaimConsumer("", "pods", "pod-1", "uid"),),
    "uid",
    deleting=True,
    extended=True,
    problem=PROBLEM,
)

#: One event of each kind, with something in every field.
EVENTS_OF_ALL_KINDS: tuple[Event[Any], ...] = (
    events.PodSeen(POD),
    events.PodGone("uid"),
    events.NodeSeen(NODE),
    events.NodeGone("n"),
    events.GroupSeen(GROUP),
    events.GroupGone(REF, "u"),
    events.QueueSeen(QUEUE),
    events.QueueGone("q"),
    events.NamespaceSeen("ns", {"a": "b"}),
    events.NamespaceGone("ns"),
    events.BudgetSeen(DisruptionBudget("ns", "b", LabelSelector((Requirement("k", "In", ("v",)),)), 2)),
    events.BudgetGone("ns", "b"),
    events.NodeTopologySeen(TOPOLOGY),
    events.NodeTopologyGone("n"),
    events.HyperNodeSeen(HYPER_NODE),
    events.HyperNodeGone("h"),
    events.LevelsSeen(LevelList(TOPOLOGY_OBJECT, (Level("rack", "l", 0.5, 0.25),), (PROBLEM,))),
    events.LevelsGone("kueue.x-k8s.io", "t"),
    events.DeviceSeen(DeviceReport(ABOUT, "[]")),
    events.DeviceGone("n"),
    events.DeviceClassSeen(DeviceClass("gpu", ("true",), "nvidia.com/gpu", "2026", PROBLEM)),
    events.DeviceClassGone("gpu"),
    events.SliceSeen(SLICE),
    events.SliceGone("slice"),
    events.TaintRuleSeen(DeviceTaintRule("rule", "d", "n", "gpu-0", Taint("k", "v", "NoSchedule"))),
    events.TaintRuleGone("rule"),
    events.ClaimSeen(CLAIM),
    events.ClaimGone("ns", "claim"),
    events.ClaimTemplateSeen(ResourceClaimTemplate("ns", "template", CLAIM.spec)),
    events.ClaimTemplateGone("ns", "template"),
    events.ComputeDomainSeen(ComputeDomain(ABOUT, "template", 2)),
    events.ComputeDomainGone("ns", "domain"),
    events.WorkloadSeen(
        Suspendable(
            *(ABOUT, "jobs", "1", GROUP, (ExpectedPods(POD, (0, 2), "high", indexed=True),), 2),
            suspended=True,
            ended=True,
            place="n*2",
            field=("spec", "runPolicy", "suspend"),
            described=True,
            named=True,
        )
    ),
    events.WorkloadGone("uid"),
    events.PartSeen("part", REF, "uid"),
    events.PartGone("part"),
    events.NodeRequestSeen(
        NodeRequest(REF, "n", "u", "class", (1, 2), 2, NodeRequestPhase.FAILED, 1.5, "why", deleting=True)
    ),
    events.NodeRequestGone("uid"),
    events.CalibrationSeen(ABOUT, {"a": "b"}),
    events.CalibrationGone(),
    events.EvictionSent("uid"),
    events.EvictionDelayed("uid"),
    events.EvictionRefused("uid", "why"),
    events.Rebuild(),
    events.StandDown(),
    events.HoldOff(Wait(Reason.WRITES_BACKLOGGED, {"n": 1}, {"a": "b"})),
    events.Tick(),
    events.Decide(),
    events.Defragment(REF, apply=True),
    events.Filter(POD, [f"n-{number}" for number in range(40)]),
    events.Prioritize(POD, ["n"]),
    events.Preempt(POD, {"n": ["u1", "u2"]}),
    events.Arrive("uid", "n"),
    events.Leave("uid"),
    events.BindingFailed("uid", "why", final=True),
    events.PriorityClassSeen("high", 1000, global_default=True),
    events.PriorityClassGone("high"),
)
READINGS = Readings([1.1, 1e9 + 0.123456789], [dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)])


def test_every_kind_of_event_is_here() -> None:
    """What is added has to be tried."""
    assert {type(each) for each in EVENTS_OF_ALL_KINDS} == set(EVENTS.values())


@pytest.mark.parametrize("event", EVENTS_OF_ALL_KINDS, ids=lambda event: type(event).__name__)
def test_every_event_comes_back_as_it_was(event: Event[Any]) -> None:
    """Every field of every value, every reading of the clock, and what came of it."""
    entry = JournalEntry(event, READINGS, Raised("ValueError", "no"))
    (noted,) = EntryReader().read(EntryWriter().write([entry]))
    assert (noted.event, noted.readings, noted.name) == (event, READINGS, type(event).__name__)
    assert read_outcome(noted.came) == {"raised": ["ValueError", "no"]}
    (again,) = EntryReader().read(EntryWriter().rewrite([noted]))
    assert again == noted


def test_an_object_that_has_not_changed_is_only_named() -> None:
    """A pod that equals the last one of its UID is that UID, a node its name, until it is gone: in either direction."""
    first = [events.PodSeen(POD), events.NodeSeen(NODE), events.Filter(POD, ["n"])]
    repeated = [events.PodSeen(POD), events.NodeSeen(NODE), events.Filter(POD, ["n"])]
    after = [events.PodGone(POD.uid), events.NodeGone(NODE.name), events.PodSeen(POD), events.NodeSeen(NODE)]
    writer, reader = EntryWriter(), EntryReader()
    written = [
        writer.write([JournalEntry(each, Readings(), Effects(None)) for each in part])
        for part in (first, repeated, after)
    ]
    assert [[each.event for each in reader.read(data)] for data in written] == [first, repeated, after]
    assert len(written[1]) < 100 < len(written[2])


def test_a_question_about_a_pod_that_has_gone_is_not_remembered() -> None:
    """kube-scheduler may ask late; what would end with the next deletion of the pod would never end."""
    asked = events.Filter(POD, ["n"])
    story = [asked, asked, events.PodSeen(POD), asked, events.PodGone(POD.uid), asked, asked]
    writer, reader = EntryWriter(), EntryReader()
    written = [writer.write([JournalEntry(each, Readings(), Effects(None))]) for each in story]
    assert [noted.event for data in written for noted in reader.read(data)] == story
    sizes = [len(data) for data in written]
    assert sizes[3] < 100 < sizes[0]
    assert sizes[0] == sizes[1] == sizes[5] == sizes[6]


def test_values_share_what_those_of_the_watch_share() -> None:
    """Terms that say nothing are told apart by identity, shapes compared by it first: both are one object again."""
    entries = [
        JournalEntry(events.PodSeen(Pod(uid, "n", "p", SHAPE)), Readings(), Effects(None)) for uid in ("one", "other")
    ]
    one, other = (noted.event for noted in EntryReader().read(EntryWriter().write(entries)))
    assert isinstance(one, events.PodSeen)
    assert isinstance(other, events.PodSeen)
    assert one.pod.shape is other.pod.shape
    assert one.pod.options.topology is SILENT
    assert one.pod.labels is NO_LABELS


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (b"", "cannot be read"),
        (b"\xc1", "cannot be read"),
        (msgspec.msgpack.encode([["PodSeen", [], [], [], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["PodSeen", [1], [], [], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["launch", [], [], [], b""]]), "no event called 'launch'"),
        (msgspec.msgpack.encode([["Tick", [], [], [1 << 62], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["Arrive", ["u"], [], [], b""]]), "cannot be read"),
        (msgspec.msgpack.encode([["PodSeen", ["u"], [], [], b""]]), "there is no Pod called 'u' before"),
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
