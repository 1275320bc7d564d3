"""Which event wakes which refused pod."""

from __future__ import annotations

import pytest

from extender.objects.meta import Selector
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.podspec import Taint
from muster_lab.simulation.scheduler.events import EventKind, SchedulerEvent, SchedulerPlugin, node_events, wakes
from tests.builders import node, pod, shape

TAINT = Taint("k", "v", "NoSchedule")
SMALL, LARGE = node("n", gpus=4), node("n", gpus=8)


def test_an_error_is_woken_by_anything() -> None:
    """A pod without rejectors failed by accident: any event is reason enough."""
    assert wakes(SchedulerEvent(EventKind.NODE_DELETED), pod("p"), [])


@pytest.mark.parametrize("kind", [kind for kind in EventKind if "TARGET" not in kind.name])
def test_what_an_extender_refused_is_woken_by_anything(kind: EventKind) -> None:
    """kube-scheduler cannot know what an extender waits for."""
    assert wakes(SchedulerEvent(kind), pod("p"), [SchedulerPlugin.EXTENDER])


@pytest.mark.parametrize("kind", [EventKind.TARGET_POD_UPDATED, EventKind.TARGET_POD_TOLERATIONS_CHANGED])
def test_an_update_of_a_waiting_pod_wakes_that_pod_alone(kind: EventKind) -> None:
    """Of the unscheduled pods only the one that changed is woken."""
    changed, other = pod("p"), pod("q")
    assert wakes(SchedulerEvent(kind, pod=changed), changed, [SchedulerPlugin.EXTENDER])
    assert not wakes(SchedulerEvent(kind, pod=changed), other, [SchedulerPlugin.EXTENDER])


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        (SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod("x", node="n")), True),
        (SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod("x", nominated_node="n")), True),
        (SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod("x")), False),
        (SchedulerEvent(EventKind.ASSIGNED_POD_ADDED, pod=pod("x", node="n")), False),
        (SchedulerEvent(EventKind.TARGET_POD_UPDATED, pod=pod("p")), False),
        (SchedulerEvent(EventKind.NODE_DELETED, before=LARGE), False),
        (SchedulerEvent(EventKind.NODE_ADDED, after=LARGE), True),
        (SchedulerEvent(EventKind.NODE_ADDED, after=SMALL), False),
        (SchedulerEvent(EventKind.NODE_ALLOCATABLE_CHANGED, SMALL, LARGE), True),
        (SchedulerEvent(EventKind.NODE_ALLOCATABLE_CHANGED, LARGE, SMALL), False),
        (SchedulerEvent(EventKind.NODE_ALLOCATABLE_CHANGED, LARGE, LARGE), False),
        (SchedulerEvent(EventKind.NODE_LABELS_CHANGED, LARGE, LARGE), False),
    ],
)
def test_a_pod_without_room_waits_for_room(event: SchedulerEvent, woken: bool) -> None:
    """Room comes from pods that leave, and from nodes that come or grow and are large enough."""
    assert wakes(event, pod("p", gpus=8), [SchedulerPlugin.NODE_RESOURCES_FIT]) is woken


@pytest.mark.parametrize(
    ("plugin", "before", "after", "woken"),
    [
        (SchedulerPlugin.TAINT_TOLERATION, node("n", taints=(TAINT,)), node("n"), True),
        (SchedulerPlugin.TAINT_TOLERATION, node("n"), node("n", taints=(TAINT,)), False),
        (SchedulerPlugin.TAINT_TOLERATION, node("n", taints=(TAINT,)), node("n", taints=(UNSCHEDULABLE_TAINT,)), True),
        (SchedulerPlugin.NODE_UNSCHEDULABLE, node("n", taints=(UNSCHEDULABLE_TAINT,)), node("n"), True),
        (SchedulerPlugin.NODE_UNSCHEDULABLE, node("n"), node("n", taints=(UNSCHEDULABLE_TAINT,)), False),
    ],
)
def test_a_pod_kept_away_by_taints_waits_for_them_to_go(
    plugin: SchedulerPlugin, before: Node, after: Node, woken: bool
) -> None:
    """A node that closes wakes nobody; one that opens wakes whom it kept away."""
    assert wakes(SchedulerEvent(EventKind.NODE_TAINTS_CHANGED, before, after), pod("p"), [plugin]) is woken
    assert wakes(SchedulerEvent(EventKind.NODE_ADDED, after=after), pod("p"), [plugin]) is woken
    assert not wakes(SchedulerEvent(EventKind.NODE_ALLOCATABLE_CHANGED, before, after), pod("p"), [plugin])


@pytest.mark.parametrize("plugin", [SchedulerPlugin.TAINT_TOLERATION, SchedulerPlugin.NODE_UNSCHEDULABLE])
def test_a_new_toleration_wakes_its_pod(plugin: SchedulerPlugin) -> None:
    """A pod that got a toleration is tried again, other pods are not."""
    event = SchedulerEvent(EventKind.TARGET_POD_TOLERATIONS_CHANGED, pod=pod("p"))
    assert wakes(event, pod("p"), [plugin])
    assert not wakes(event, pod("q"), [plugin])


def test_a_pod_that_asks_for_labels_waits_for_them() -> None:
    """A node with the labels wakes it, another does not, and only when it comes or its labels change."""
    asks = pod("p", shape=shape(selector=Selector((("zone", "a"),))))
    there, elsewhere = node("n", zone="a"), node("n", zone="b")
    assert wakes(SchedulerEvent(EventKind.NODE_LABELS_CHANGED, elsewhere, there), asks, [SchedulerPlugin.NODE_AFFINITY])
    assert wakes(SchedulerEvent(EventKind.NODE_ADDED, after=there), asks, [SchedulerPlugin.NODE_AFFINITY])
    assert not wakes(
        SchedulerEvent(EventKind.NODE_LABELS_CHANGED, there, elsewhere), asks, [SchedulerPlugin.NODE_AFFINITY]
    )
    assert not wakes(SchedulerEvent(EventKind.NODE_TAINTS_CHANGED, there, there), asks, [SchedulerPlugin.NODE_AFFINITY])


@pytest.mark.parametrize(
    ("kind", "woken"),
    [
        (EventKind.ASSIGNED_POD_ADDED, True),
        (EventKind.ASSIGNED_POD_DELETED, True),
        (EventKind.NODE_ADDED, True),
        (EventKind.NODE_LABELS_CHANGED, True),
        (EventKind.NODE_TAINTS_CHANGED, False),
        (EventKind.TARGET_POD_UPDATED, False),
    ],
)
def test_a_pod_kept_away_by_other_pods_waits_for_them(kind: EventKind, *, woken: bool) -> None:
    """A nomination of its own does not wake it, so that it cannot be nominated in circles."""
    assert wakes(SchedulerEvent(kind, pod=pod("p")), pod("p"), [SchedulerPlugin.INTER_POD_AFFINITY]) is woken


def test_one_of_several_rejectors_is_enough() -> None:
    """A pod refused for several reasons is tried again when any of them may have gone."""
    event = SchedulerEvent(EventKind.ASSIGNED_POD_DELETED, pod=pod("x", node="n"))
    assert wakes(event, pod("p"), [SchedulerPlugin.NODE_AFFINITY, SchedulerPlugin.NODE_RESOURCES_FIT])


def test_an_update_of_a_node_is_as_many_events_as_it_changed_things() -> None:
    """A heartbeat is none."""
    before = node("n")
    assert node_events(before, before) == []
    after = node("n", gpus=4, taints=(TAINT,), a="b")
    assert [event.kind for event in node_events(before, after)] == [
        EventKind.NODE_ALLOCATABLE_CHANGED,
        EventKind.NODE_LABELS_CHANGED,
        EventKind.NODE_TAINTS_CHANGED,
    ]
