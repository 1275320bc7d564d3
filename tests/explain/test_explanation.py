"""How one gang stands, as JSON and in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.cluster.membership import Census
from extender.cluster.occupancy import Held
from extender.explain.account import WaitAccount
from extender.explain.documents import ExpectedStart, GangPhase, QueuePosition, WaitReason
from extender.explain.explanation import (
    GangFacts,
    Inspection,
    explanation,
    gbps,
    headline,
    predicted_placement,
    remarks,
    whereabouts,
)
from extender.explain.foresight import Prospect
from extender.explain.runtimes import RuntimeSource
from extender.explain.views import GangView
from extender.objects.keys import ADMISSION_GATE
from extender.objects.levels import Level, Levels
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.placement.placement import Better, Placement
from tests.builders import as_sent
from tests.worlds import World

REF = GroupRef(COSCHEDULING, "default", "train")
LEVELS = Levels((Level("block", "b"), Level("rack", "r")), "preset gke")
PLACED = Placement(329.00049, "rack", "r1", 0.0, {"n0": 8, "n1": 4})


def view(phase: GangPhase, wait: Wait | None = None) -> GangView:
    """Return how a gang of four stands."""
    return GangView(REF, "uid", phase, 4, Census(), 0, wait, managed=True)


def pod(name: str, node: str = "", phase: Phase = Phase.PENDING, role: str = "") -> Pod:
    """Return a member."""
    return Pod(f"{name}-uid", "default", name, Shape(()), node_name=node, phase=phase, role=role)


ACCOUNT = WaitAccount(QueuePosition(None, None, 0, None, 0, ()))
WAITS = GangFacts(
    view(GangPhase.PENDING, Wait(Reason.INSUFFICIENT_CAPACITY, {"minMember": 4, "fits": 1})),
    Levels(),
    (pod("train-0"),),
    ACCOUNT,
)
RUNS = GangFacts(view(GangPhase.RUNNING), LEVELS, (), replace(ACCOUNT, placement=PLACED))


def test_the_document_has_exactly_the_documented_keys() -> None:
    """Members are in member order; what a member holds is there where it is known."""
    explained = replace(
        RUNS,
        members=(pod("train-10", "n1", role="worker"), pod("train-2")),
        promised={"train-2-uid": "n0"},
        held={"train-10-uid": Held((0, 1), (0,), observed=True)},
        account=replace(ACCOUNT, placement=PLACED, better=Better(475.0, "rack", "r7", 3, 4)),
    )
    assert as_sent(explanation(explained)) == {
        "namespace": "default",
        "name": "train",
        "api": "scheduling.x-k8s.io",
        "managed": True,
        "hypothetical": False,
        "phase": "Running",
        "minMember": 4,
        "reason": None,
        "placement": {
            "busBandwidthGBps": 329.0,
            "level": "rack",
            "domain": "r1",
            "fragmentationCost": 0.0,
            "gpusPerNode": {"n0": 8, "n1": 4},
        },
        "headline": "Running, 329 GB/s predicted, within rack r1",
        "nextBetter": {"busBandwidthGBps": 475.0, "level": "rack", "domain": "r7", "fits": 3, "needed": 4},
        "expectedStart": None,
        "startUnknown": None,
        "startsAfter": None,
        "queue": {"name": None, "position": None, "of": 0, "positionInQueue": None, "ofQueue": 0, "ahead": []},
        "waterfall": [],
        "nearestMiss": None,
        "holders": [],
        "quota": None,
        "choice": None,
        "suggestions": None,
        "remarks": [
            "12 GPUs on 2 nodes; future requests lose 0 GB/s",
            "475 GB/s would take one rack: r7 has room for 3 of 4",
            "levels: block > rack (preset gke)",
        ],
        "levels": {"source": "preset gke", "names": ["block", "rack"]},
        "parts": None,
        "pods": [
            {
                "name": "train-2",
                "role": None,
                "state": "reserved",
                "node": "n0",
                "gpus": None,
                "zones": None,
                "observed": False,
            },
            {
                "name": "train-10",
                "role": "worker",
                "state": "bound",
                "node": "n1",
                "gpus": [0, 1],
                "zones": [0],
                "observed": True,
            },
        ],
    }


def test_a_gang_that_waits_says_why() -> None:
    """Code, message and numbers for programs; one line for people."""
    document = explanation(WAITS)
    assert document.placement is None
    wait = WaitReason("InsufficientCapacity", "1 of 4 members fit now", {"fits": 1, "minMember": 4})
    assert document.reason == wait
    assert headline(WAITS) == "Pending"
    assert remarks(WAITS) == ("waits: InsufficientCapacity: 1 of 4 members fit now", "levels: none")


@pytest.mark.parametrize(
    ("member", "promised", "state"),
    [
        (pod("m"), False, "waiting"),
        (pod("m"), True, "reserved"),
        (replace(pod("m"), gated=True), False, "gated"),
        (pod("m", "n", Phase.RUNNING), False, "bound"),
        (replace(pod("m", "n", Phase.RUNNING), deleting=True), False, "leaving"),
        (pod("m", "n", Phase.SUCCEEDED), False, "succeeded"),
        (pod("m", "n", Phase.FAILED), False, "failed"),
    ],
)
def test_each_member_is_in_one_state(member: Pod, promised: bool, state: str) -> None:
    """How far it has come, in a word."""
    explained = replace(WAITS, members=(member,), promised={"m-uid": "n"} if promised else {})
    assert explanation(explained).pods[0].state == state


def test_a_bandwidth_that_nobody_can_predict_is_null() -> None:
    """One GPU has no bus to share; infinity is no JSON."""
    assert predicted_placement(replace(PLACED, bus_bandwidth=None)).bus_bandwidth is None
    assert predicted_placement(replace(PLACED, bus_bandwidth=float("inf"))).bus_bandwidth is None
    explained = replace(
        RUNS, account=replace(ACCOUNT, placement=replace(PLACED, bus_bandwidth=None, gpus_per_node={"n": 1}))
    )
    assert headline(explained) == "Running, no bandwidth predicted, within rack r1"
    assert remarks(explained)[0] == "1 GPU on 1 node; future requests lose 0 GB/s"


def test_what_is_not_known_or_not_believed_is_said() -> None:
    """Why there is no prediction, and what of a report was left out; of five nodes, not of hundreds."""
    unknown = replace(PLACED, bus_bandwidth=None)
    explained = replace(
        RUNS, account=replace(ACCOUNT, placement=unknown), doubts={f"n{i}": "zones have 4 of 8 GPUs" for i in range(9)}
    )
    _, product, *doubts, _ = remarks(explained)
    assert product == "some of these GPUs are of a product that is not known (node label nvidia.com/gpu.product)"
    assert doubts == [f"n{i}: zones have 4 of 8 GPUs" for i in range(5)]


@pytest.mark.parametrize(
    ("level", "domain", "words"),
    [
        ("cluster", "", "across the cluster"),
        ("node", "gpu-7", "on gpu-7"),
        ("rack", "r7", "within rack r7"),
        ("rack", "rack-7", "within rack-7"),
    ],
)
def test_where_a_gang_is_reads_like_a_sentence(level: str, domain: str, words: str) -> None:
    """The level is named unless the domain's name begins with it."""
    assert whereabouts(replace(PLACED, level=level, domain=domain)) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 GB/s"), (12.53, "12.5 GB/s"), (329.4, "329 GB/s"), (10660.0, "10,660 GB/s")],
)
def test_bandwidths_have_no_more_digits_than_they_mean(value: float, text: str) -> None:
    """Three, and whole ones from a hundred on."""
    assert gbps(value) == text


@pytest.mark.parametrize(
    ("because", "overdue", "text"),
    [
        ("default/old", False, "starts at 2026-01-01T01:00:00Z if default/old ends as declared"),
        (
            "default/old",
            True,
            "starts at 2026-01-01T01:00:00Z if default/old, which should have ended already, ends by then",
        ),
        ("", False, "starts at 2026-01-01T01:00:00Z if all goes as expected"),
    ],
)
def test_an_expected_start_is_told_with_what_it_waits_for(because: str, text: str, *, overdue: bool) -> None:
    """Work that has run longer than it declared is named as overdue."""
    start = Prospect(1767229200.0, because, overdue, RuntimeSource.PROMISED)
    explained = replace(WAITS, start=start)
    assert text in remarks(explained)
    expected = ExpectedStart("2026-01-01T01:00:00Z", because or None, overdue)
    assert explanation(explained).expected_start == expected


def test_a_start_that_rests_on_learned_runtimes_or_is_not_known_says_so() -> None:
    """Why it is not known is a field of its own."""
    learned = replace(WAITS, start=Prospect(1767229200.0, "default/old", source=RuntimeSource.LEARNED))
    like = "if none comes before it and gangs run as long as those like them did, default/old last"
    assert f"starts about 2026-01-01T01:00:00Z {like}" in remarks(learned)
    unknown = explanation(replace(WAITS, start=Prospect(None, unknown="no end of another makes room")))
    assert unknown.expected_start is None
    assert unknown.start_unknown == "no end of another makes room"
    assert "start not known: no end of another makes room" in unknown.remarks


def test_a_gate_that_stays_is_told_of() -> None:
    """There is quota for the gang; a webhook denies that its gate is taken off, and a line says so, until it is."""
    world, stay = World(), dict[str, str]()
    world.nodes(1)
    job = world.gang("gated", 2, gated=True, gates=(ADMISSION_GATE,))
    inspection = Inspection(world.admission, world.clock, stay)
    assert job.reason is Reason.MEMBERS_GATED
    why = f"{job.pods[1].key}: scheduling gate {ADMISSION_GATE} stays for now: 403 Forbidden: not before the audit"
    stay[job.pods[1].uid] = why
    assert why in explanation(inspection.explain(job.ref)).remarks
    stay.clear()
    assert why not in explanation(inspection.explain(job.ref)).remarks
