"""The filters, and the words for why no node was found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.meta import Selector
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Pod
from extender.objects.podspec import Taint, Toleration, first_untolerated
from muster_lab.simulation.scheduler.events import SchedulerPlugin
from muster_lab.simulation.scheduler.filters import Code, Filters, NodeStatuses, Screening, fit_error
from muster_lab.simulation.scheduler.nodes import NodeCache
from muster_lab.simulation.scheduler.nominator import Nominator
from tests.builders import GPU, node, pod, shape

TAINT = Taint("k", "v", "NoSchedule")


class Setting:
    """Nodes, pods on them and nominations, and the filters over them."""

    def __init__(self, *nodes: Node) -> None:
        """Start with some nodes."""
        self.cache = NodeCache()
        self.known: dict[str, Pod] = {}
        self.nominator = Nominator(lambda pod: self.known.get(pod.uid))
        self.filters = Filters(self.nominator)
        for value in nodes:
            self.cache.put_node(value)

    def nominate(self, value: Pod, to: str) -> None:
        """Nominate a pod."""
        self.known[value.uid] = value
        self.nominator.nominate(value, to)

    def screen(self, value: Pod) -> Screening:
        """Run the filters on all nodes."""
        return self.filters.screen(value, self.cache.columns())

    def passed(self, value: Pod) -> list[str]:
        """Return the names of the nodes that pass."""
        return [self.cache.columns().names[row] for row in self.screen(value).passed.tolist()]

    def why(self, value: Pod) -> dict[str, int]:
        """Return the reasons of the others."""
        return dict(self.screen(value).statuses.histogram())


def test_pod_anti_affinity_rules_out_what_the_caller_says() -> None:
    """A rule may tell pods of one shape apart, and comes after all other filters."""
    setting = Setting(node("full", gpus=0), node("n"), node("m"))
    setting.filters = Filters(setting.nominator, ruled_out=lambda pod, node: pod.name == "p" and node != "m")
    assert setting.passed(pod("p", gpus=8)) == ["m"]
    assert setting.passed(pod("q", gpus=8)) == ["n", "m"]
    assert setting.why(pod("p", gpus=8)) == {
        f"Insufficient {GPU}": 1,
        "node(s) didn't match pod anti-affinity rules": 1,
    }
    assert setting.screen(pod("p", gpus=8)).statuses.rejectors >= {SchedulerPlugin.INTER_POD_AFFINITY}


def test_each_filter_has_its_words_and_the_first_to_refuse_counts() -> None:
    """NodeUnschedulable, TaintToleration, NodeAffinity and NodeResourcesFit speak as in kube-scheduler."""
    setting = Setting(
        node("cordoned", gpus=0, taints=(UNSCHEDULABLE_TAINT,)),
        node("tainted", gpus=0, taints=(TAINT,)),
        node("elsewhere", gpus=0),
        node("small", gpus=4, zone="a"),
        node("good", zone="a"),
    )
    asks = pod("p", shape=shape(8, selector=Selector((("zone", "a"),))))
    assert setting.passed(asks) == ["good"]
    assert setting.why(asks) == {
        "node(s) were unschedulable": 1,
        "node(s) had untolerated taint(s)": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
        f"Insufficient {GPU}": 1,
    }
    assert setting.screen(asks).statuses.rejectors == {
        SchedulerPlugin.NODE_UNSCHEDULABLE,
        SchedulerPlugin.TAINT_TOLERATION,
        SchedulerPlugin.NODE_AFFINITY,
        SchedulerPlugin.NODE_RESOURCES_FIT,
    }


def test_tolerations_open_nodes() -> None:
    """A tolerated taint or cordon does not count."""
    setting = Setting(node("cordoned", taints=(UNSCHEDULABLE_TAINT,)), node("tainted", taints=(TAINT,)))
    tolerant = pod("p", shape=shape(tolerations=(Toleration("", "Exists", "", ""),)))
    assert setting.passed(tolerant) == ["cordoned", "tainted"]
    partly = pod("p", shape=shape(tolerations=(Toleration("k", "Equal", "v", ""),)))
    assert setting.passed(partly) == ["tainted"]


def test_all_that_a_node_lacks_is_said() -> None:
    """Several resources may be short on one node; too many pods has words of its own."""
    full = Node("full", allocatable={"cpu": 4000, "pods": 1, GPU: 8})
    setting = Setting(full)
    setting.cache.put_pod(pod("a", gpus=8, node="full"))
    assert setting.why(pod("p", gpus=8)) == {"Too many pods": 1, f"Insufficient {GPU}": 1}


def test_what_a_node_could_never_hold_is_unresolvable() -> None:
    """Evicting helps where the node is full, not where it is too small; a full pod count can always be resolved."""
    setting = Setting(
        node("full"), node("small", gpus=4), Node("crowded", allocatable={"cpu": 64_000, "pods": 0, GPU: 8})
    )
    setting.cache.put_pod(pod("a", gpus=8, node="full"))
    statuses = setting.screen(pod("p", gpus=8)).statuses
    codes = [statuses.code(setting.cache.columns().row[name]) for name in ("full", "small", "crowded")]
    assert codes == [Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.UNSCHEDULABLE]


def test_nominated_pods_hold_their_room_against_equals_and_lower() -> None:
    """A pod nominated to a node counts as running there for pods of no higher priority, except for itself."""
    setting = Setting(node("n"), node("m"))
    first = pod("first", gpus=8, priority=5)
    setting.nominate(first, "n")
    assert setting.passed(pod("equal", gpus=1, priority=5)) == ["m"]
    assert setting.passed(pod("higher", gpus=1, priority=6)) == ["n", "m"]
    assert setting.passed(first) == ["n", "m"]
    setting.nominate(pod("lost", gpus=8), "gone")
    assert setting.passed(pod("other", gpus=8)) == ["m"]


def test_one_node_can_be_tried_by_itself() -> None:
    """The nominated node is tried first, alone."""
    setting = Setting(node("n"), node("small", gpus=1))
    columns = setting.cache.columns()
    assert setting.filters.passes(pod("p", gpus=8), columns, columns.row["n"])
    assert not setting.filters.passes(pod("p", gpus=8), columns, columns.row["small"])


def test_answers_are_kept_only_as_long_as_nothing_changes() -> None:
    """The same answer for the same state, whoever writes on it; a pod, node or nomination more gives another one."""
    setting = Setting(node("n"))
    asks = pod("p", gpus=8)
    screening = setting.screen(asks)
    screening.statuses.refuse(screening.passed, Code.UNSCHEDULABLE, ("no",), SchedulerPlugin.EXTENDER)
    assert setting.screen(asks).statuses.histogram() == {}
    setting.nominate(pod("x", gpus=8), "n")
    assert setting.passed(asks) == []
    setting.nominator.forget("uid-x")
    assert setting.passed(asks) == ["n"]
    setting.cache.put_pod(pod("y", gpus=1, node="n"))
    assert setting.passed(asks) == []
    setting.cache.put_node(node("m"))
    assert setting.passed(asks) == ["m"]


def test_many_kinds_of_constraints_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered per set of constraints is bounded, and still right."""
    monkeypatch.setattr(Filters, "_MOST_CONSTRAINTS", 2)
    setting = Setting(node("n", zone="1"))
    for zone in ("0", "1", "2", "1"):
        passed = setting.passed(pod("p", shape=shape(selector=Selector((("zone", zone),)))))
        assert passed == (["n"] if zone == "1" else [])


def test_the_last_word_on_a_node_counts() -> None:
    """A node refused twice is counted once, with the later reason."""
    setting = Setting(node("n"))
    statuses = NodeStatuses(1)
    rows = setting.screen(pod("p")).passed
    statuses.refuse(rows, Code.UNSCHEDULABLE, ("first",), SchedulerPlugin.NODE_AFFINITY)
    statuses.refuse(rows, Code.UNRESOLVABLE, ("second",), SchedulerPlugin.EXTENDER)
    assert statuses.histogram() == {"second": 1}
    assert (statuses.count(Code.UNSCHEDULABLE), statuses.count(Code.UNRESOLVABLE)) == (0, 1)
    assert statuses.among(rows, Code.UNRESOLVABLE).tolist() == rows.tolist()
    statuses.refuse(rows[:0], Code.UNSCHEDULABLE, ("nobody",), SchedulerPlugin.NODE_AFFINITY)
    assert statuses.histogram() == {"second": 1}


@pytest.mark.parametrize(
    ("nodes", "reasons", "after", "message"),
    [
        (0, {}, "", "0/0 nodes are available:"),
        (4, {"Insufficient cpu": 4}, "", "0/4 nodes are available: 4 Insufficient cpu."),
        (
            12,
            {"node(s) were unschedulable": 10, "Insufficient cpu": 2},
            "preemption: none",
            "0/12 nodes are available: 10 node(s) were unschedulable, 2 Insufficient cpu. preemption: none",
        ),
    ],
)
def test_the_message_is_kube_schedulers(nodes: int, reasons: dict[str, int], after: str, message: str) -> None:
    """Reasons are counted, sorted as text, and followed by what preemption came to."""
    assert fit_error(nodes, reasons, after) == message


@given(
    allocatable=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    used=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    asked=st.integers(0, 8),
    tainted=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_a_node_passes_exactly_if_one_by_one_it_would(
    allocatable: list[int], used: list[int], asked: int, tainted: list[bool]
) -> None:
    """The columns give the same answer as asking each node by itself."""
    nodes = [node(f"n{i}", gpus=gpus, taints=(TAINT,) if tainted[i] else ()) for i, gpus in enumerate(allocatable)]
    setting = Setting(*nodes)
    for i, value in enumerate(nodes):
        setting.cache.put_pod(pod(f"u{i}", gpus=used[i], node=value.name))
    asks = pod("p", gpus=asked)
    expected = []
    for value in nodes:
        info = setting.cache.find(value.name)
        assert info is not None
        if info.fits(asks) and first_untolerated(value.taints, ()) is None:
            expected.append(value.name)
    assert setting.passed(asks) == expected
