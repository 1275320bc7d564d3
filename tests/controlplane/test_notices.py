"""Gangs are told before they are evicted, on the real control plane, and Muster is killed while they have notice."""

from __future__ import annotations

import datetime as dt

import pytest

from extender.objects.jobsigns import EVICTION_ACKNOWLEDGED, EVICTION_PLANNED, LAST_CHECKPOINT
from extender.objects.keys import EVICTION_NOTICE, MAX_RUNTIME
from extender.objects.podspec import DRAIN
from localcluster.client import NODES, PODS
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang, Pod

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]


def planned(pod: Pod) -> str:
    """Return what a pod carries of its eviction, "" for nothing."""
    current = pod.object or {"metadata": {}}
    return str((current["metadata"].get("annotations") or {}).get(EVICTION_PLANNED, ""))


def condition(pod: Pod) -> tuple[str, str]:
    """Return status and reason of the pod's condition about its eviction."""
    current = pod.object or {"status": {}}
    found = [each for each in current["status"].get("conditions", ()) if each["type"] == "muster.dev/EvictionPlanned"]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def seconds_left(notice: str) -> float:
    """Return how long a gang has still before it is evicted."""
    until = dt.datetime.fromisoformat(notice.partition("/")[2])
    return (until - dt.datetime.now(dt.UTC)).total_seconds()


def told(cluster: Sandbox, notice: str) -> tuple[Gang, Gang, str]:
    """Return a gang that has such a notice, the one that it is to leave for, and what its pods carry."""
    urgent = cluster.priority_class("urgent", 1000)
    cluster.nodes(2, gpus=8)
    low = cluster.gang("low", members=2, gpus=8, group_annotations={EVICTION_NOTICE: notice})
    low.wait_running(2, timeout=60)
    high = cluster.gang("high", members=2, gpus=8, priority_class=urgent)
    cluster.wait_until(lambda: all(map(planned, low.members)), "the pods say that they are to be evicted", timeout=30)
    assert {condition(pod) for pod in low.members} == {("True", "Preempted")}
    (said,) = {planned(pod) for pod in low.members}
    high.wait_message("they have notice until")
    return low, high, said


def test_who_acknowledges_goes_and_the_other_starts(cluster: Sandbox, muster: Server) -> None:
    """Killed while it has notice: the next process gives no other, hears the answer, and the place is kept."""
    low, high, said = told(cluster, "5m")
    muster.kill()
    muster.start()
    assert cluster.stays_true(lambda: len(low.bound) == 2 and {planned(pod) for pod in low.members} == {said}, 3.0)
    answer = {"metadata": {"annotations": {EVICTION_ACKNOWLEDGED: said}}}
    cluster.api.patch(PODS, low.members[0].name, answer, namespace=low.members[0].namespace)
    high.wait_bound(2, timeout=60)
    assert not low.bound
    assert seconds_left(said) > 100
    muster.check()


def test_a_checkpoint_is_an_answer_though_muster_was_dead_when_it_came(cluster: Sandbox, muster: Server) -> None:
    """It is newer than the notice."""
    low, high, said = told(cluster, "5m")
    cluster.wait_until(lambda: seconds_left(said) < 298, "a second has passed")
    muster.kill()
    saved = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    body = {"metadata": {"annotations": {LAST_CHECKPOINT: saved}}}
    cluster.api.patch(PODS, low.members[1].name, body, namespace=low.members[1].namespace)
    muster.start()
    high.wait_bound(2, timeout=60)
    muster.check()


def test_who_never_answers_goes_when_the_time_is_over(cluster: Sandbox, muster: Server) -> None:
    """Killed in between, twice: neither before the time that was said, nor long after it."""
    low, high, said = told(cluster, "40s")
    for _ in range(2):
        muster.kill()
        muster.start()
    cluster.wait_until(lambda: not low.bound, "the gang is evicted", timeout=60)
    assert -15 < seconds_left(said) < 1
    high.wait_bound(2, timeout=60)
    muster.check()


def test_it_is_withdrawn_when_the_need_ends(cluster: Sandbox, muster: Server) -> None:
    """Also where the gang that it was for went while Muster was dead."""
    low, high, _ = told(cluster, "5m")
    high.delete()
    cluster.wait_until(lambda: not any(map(planned, low.members)), "the notice is withdrawn", timeout=30)
    assert {condition(pod) for pod in low.members} == {("False", "Withdrawn")}
    assert len(low.bound) == 2
    muster.check()


def test_a_node_that_is_drained_gives_notice(cluster: Sandbox, muster: Server) -> None:
    """Killed meanwhile: the notice stands, ends with the drain, and is acknowledged when the node is drained again."""
    first, second = cluster.nodes(2, gpus=8)
    gang = cluster.gang("gang", members=1, gpus=8, group_annotations={EVICTION_NOTICE: "5m"})
    gang.wait_running(1, timeout=60)
    (pod,), (node,) = gang.members, gang.nodes
    assert node in {first, second}
    cluster.taint(node, DRAIN)
    cluster.wait_until(lambda: condition(pod) == ("True", "NodeDrained"), "it is told", timeout=30)
    said = planned(pod)
    muster.kill()
    muster.start()
    assert cluster.stays_true(lambda: len(gang.bound) == 1 and planned(pod) == said, 3.0)
    cluster.api.patch(NODES, node, {"spec": {"taints": None}})
    cluster.wait_until(lambda: condition(pod) == ("False", "Withdrawn"), "the notice is withdrawn", timeout=30)
    cluster.taint(node, DRAIN)
    cluster.wait_until(lambda: bool(planned(pod)), "it is told again", timeout=30)
    answer = {"metadata": {"annotations": {EVICTION_ACKNOWLEDGED: planned(pod)}}}
    cluster.api.patch(PODS, pod.name, answer, namespace=pod.namespace)
    cluster.wait_until(lambda: not gang.bound, "it is evicted once it is ready", timeout=30)
    muster.check()


def test_a_gang_ends_that_may_run_for_so_long(cluster: Sandbox, muster: Server) -> None:
    """It is told before."""
    cluster.nodes(1, gpus=8)
    limits = {MAX_RUNTIME: "15s", EVICTION_NOTICE: "10s"}
    gang = cluster.gang("gang", members=1, gpus=8, group_annotations=limits)
    gang.wait_running(1, timeout=60)
    cluster.wait_until(lambda: condition(gang.members[0]) == ("True", "MaxRuntimeExceeded"), "it is told", timeout=30)
    cluster.wait_until(lambda: not gang.bound, "the gang has ended", timeout=30)
    assert any("may run for 15 s, by muster.dev/max-runtime" in message for message in gang.messages)
    muster.check()
