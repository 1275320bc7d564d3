"""Nodes that fail under gangs: when these run again, what they have lost, and what spares are worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.ledger.effects import EvictionReason
from extender.objects.reason import Reason
from muster_lab.simulation.node_failures import UNREACHABLE_SECONDS
from muster_lab.study.failures import SILENCE_SECONDS, FailureModel, Outage
from muster_lab.study.figures import evaluate
from muster_lab.study.fleet import Fleet
from muster_lab.study.fluid import fluid
from muster_lab.study.history import StudyHistory
from muster_lab.study.player import StudyPlayer
from muster_lab.study.policy import POLICIES
from muster_lab.traces.trace import Trace, TraceJob

#: Until Muster has members replaced: the control plane notices, and then the node counts as lost.
LOST = SILENCE_SECONDS + 40


@dataclass(frozen=True, slots=True)
class Known(FailureModel):
    """Outages that are known."""

    known: tuple[Outage, ...] = ()

    def outages(self, nodes: int, until: float) -> Iterator[Outage]:
        """Iterate over them."""
        del nodes, until
        return iter(self.known)


def play(policy: str, nodes: int, outages: list[tuple[int, float, float]], *jobs: TraceJob) -> StudyHistory:
    """Play jobs on nodes that fail."""
    known = Known(known=tuple(Outage(*outage) for outage in outages))
    return StudyPlayer(Trace.of(jobs), Fleet(nodes, 8), POLICIES[policy], known).play()


def job(name: str = "a", nodes: int = 2, runtime: float = 10_000, submitted: float = 0) -> TraceJob:
    """Return a job on whole nodes that saves its progress every 1,000 s."""
    return TraceJob(name, submitted, runtime, nodes, 8, checkpoint=1_000)


@pytest.mark.parametrize(("policy", "after"), [("easy", LOST), ("unrepaired", SILENCE_SECONDS + UNREACHABLE_SECONDS)])
def test_a_gang_runs_again_when_its_lost_members_are_replaced(policy: str, after: float) -> None:
    """It does again what it had not saved; the GPUs of the members that stay are held meanwhile."""
    history = play(policy, 3, [(0, 2_500, 90_000)], job())
    assert [(run.start, run.end, run.kept) for run in history.runs] == [
        (0, 2_500, 2_000),
        (2_500, 2_500 + after, 0),
        (2_500 + after, 10_500 + after, 8_000),
    ]
    (interruption,) = history.interruptions
    assert (interruption.at, interruption.resumed) == (2_500, 2_500 + after)
    assert not history.evictions
    figures = evaluate("p", history, fluid(history.trace, 24), 24)
    assert (figures.interruptions, figures.recovery.mean) == (1, after)
    assert figures.effective == pytest.approx(10_000 / (10_500 + after))


def test_a_node_that_no_gang_uses_fails_alone() -> None:
    """It has no free GPUs until it is back."""
    history = play("easy", 2, [(1, 100, 500), (1, 700, 800)], job(nodes=1, runtime=1_000), job("b", 1, 100, 200))
    assert history.interruptions == ()
    free = [step.free for step in history.steps]
    assert (free[0], min(free), free[-1]) == (8, 0, 16)
    # A node is well again when it has been for as long as it takes to be lost.
    assert [run.start for run in history.runs if run.job == 1] == [540]


def test_without_another_node_a_gang_waits_for_its_own() -> None:
    """Muster evicts none for that; when Kubernetes has deleted the pod, the rest goes as below its minimum."""
    history = play("easy", 2, [(0, 2_500, 4_000)], job())
    (interruption,) = history.interruptions
    assert (interruption.at, interruption.resumed) == (2_500, 4_040)  # it is well again when it has been for so long
    assert [each.reason for each in history.evictions] == [EvictionReason.BELOW_MINIMUM]


def test_spares_are_there_for_members_of_lost_nodes() -> None:
    """Where all others are in use, a gang runs again at once only with a spare, which keeps another one waiting."""
    jobs = [job(), job("long", 1, 20_000, 1), job("late", 1, 50, 2)]
    full = play("easy", 4, [(0, 2_500, 90_000)], *jobs, job("more", 1, 9_000, 3))
    assert min(each.resumed or 0 for each in full.interruptions) > 9_000
    spared = play("spares", 4, [(1, 2_500, 90_000)], *jobs)  # the first one is kept
    assert [each.resumed for each in spared.interruptions] == [2_500 + LOST]
    assert next(run.start for run in spared.runs if run.job == 2) == 10_500 + LOST
    never = play("spares", 2, [], job())
    assert [*never.waiting.values()] == [Reason.KEPT_FOR_REPAIRS]


def test_a_gang_that_is_evicted_while_it_is_not_whole_comes_back_later() -> None:
    """Its interruption ends when it runs again, in another attempt."""
    urgent = replace(job("urgent", 2, 100, 3_000), priority=9)
    history = play("preemptive", 2, [(0, 2_500, 2_900)], job(), replace(urgent, pods=1))
    assert next((each.job, each.at) for each in history.interruptions) == (0, 2_500)
    assert {run.job for run in history.runs} == {0, 1}
    assert sum(run.kept for run in history.runs if run.job == 0) == pytest.approx(10_000)


def test_how_often_nodes_fail_is_what_was_asked_for() -> None:
    """Meta's 6.5 in 1,000 node-days are some 3,300 in a thousand days of 512 nodes; equal seeds fail equally."""
    model = FailureModel(6.5, repair=3_600.0)
    outages = list(model.outages(512, 1_000 * 86_400.0))
    assert len(outages) == pytest.approx(6.5 * 512, rel=0.06)
    assert outages == list(model.outages(512, 1_000 * 86_400.0))
    assert all(outage.back == outage.at + 3_600 for outage in outages)
    assert list(FailureModel().outages(512, 1e9)) == []


_OUTAGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 600), st.integers(10, 900)), max_size=6)
_JOBS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 900), st.sampled_from([(1, 3), (1, 8), (2, 8), (3, 8)])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(jobs=_JOBS, drawn=_OUTAGES, policy=st.sampled_from(["easy", "unrepaired", "spares", "preemptive"]))
def test_every_job_ends_whatever_nodes_fail(
    jobs: list[tuple[int, int, tuple[int, int]]], drawn: list[tuple[int, int, int]], policy: str
) -> None:
    """The work that counted is all that there was, and free GPUs are those that there are."""
    outages, away = [], dict[int, float]()
    for node, at, lasts in sorted(drawn, key=lambda each: each[1]):
        if away.get(node, -1.0) < at:
            away[node] = at + lasts
            outages.append((node, float(at), float(at + lasts)))
    history = play(policy, 4, outages, *(TraceJob(f"j{n}", at, runs, *size) for n, (at, runs, size) in enumerate(jobs)))
    assert not history.waiting
    for index, each in enumerate(history.trace.jobs):
        assert sum(run.kept for run in history.runs if run.job == index) == pytest.approx(each.runtime)
    assert all(0 <= step.free <= 32 for step in history.steps)
    assert history.steps[-1].free == 32 - 8 * sum(back > history.steps[-1].at for back in away.values())
