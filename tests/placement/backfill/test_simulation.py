"""Promises, with random gangs played event by event: nobody starts later than he was told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bench.backfill.line import Backfilling, Job, Line
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.node import Node
from extender.objects.pod import Shape
from extender.objects.topology import TopologyRequest
from extender.placement.candidates import PlacementTerms
from extender.placement.plan import Plan, plan
from tests.cluster.conftest import node, pod, shape, table_of
from tests.examples import share
from tests.placement.backfill.conftest import RACKS
from tests.placement.conftest import ZONE_A, ground_of

PLAYED = share(0.4)

SHAPES = (shape(1), shape(2), shape(4), shape(1, cpu=3000), shape(2, selector=ZONE_A), shape(0, cpu=2000))
MARGINS = st.sampled_from([0.0, 60.0])


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """Draw up to five nodes of 4 GPUs in two racks and two zones."""
    return [
        node(
            f"n-{index}",
            draw(st.sampled_from([2, 4, 4])),
            cpu=draw(st.sampled_from([6000, 12000])),
            labels={"zone": draw(st.sampled_from("aab")), "rack": draw(st.sampled_from("xy"))},
        )
        for index in range(draw(st.integers(1, 5)))
    ]


@st.composite
def lines(draw: st.DrawFn) -> list[Job]:
    """Draw gangs of one or two shapes that come within an hour and run for up to an hour, as they say or shorter."""
    jobs = []
    for number in range(draw(st.integers(2, 9))):
        shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
        size = draw(st.integers(1, 6))
        pods = tuple(
            pod(f"j{number}-{index}", shape=shapes[min(index * len(shapes) // size, len(shapes) - 1)])
            for index in range(size)
        )
        runtime = 100.0 * draw(st.integers(1, 36))
        terms = PlacementTerms(topology=TopologyRequest(required=draw(st.sampled_from(["", "", "", "rack"]))))
        declared = runtime * draw(st.sampled_from([1, 1, 1, 2]))
        jobs.append(Job(f"j{number}", pods, 100.0 * draw(st.integers(0, 36)), runtime, declared, terms))
    return jobs


def fits(job: Job, nodes: Sequence[Node]) -> bool:
    """Tell whether a gang fits on the empty cluster."""
    table = table_of(nodes)
    return isinstance(plan(job.pods, WhatIf(table), ground_of(table, RACKS), job.terms), Plan)


def first_come(line: Line, nodes: Sequence[Node], job: Job) -> float | None:
    """Return when a gang would start if nobody else started before it, going by what runs now and says."""
    table: NodeTable = table_of(nodes)
    for running in line.running.values():
        for each in running.pods:
            claim = line.table.claim_of(each.uid)
            assert claim is not None
            table.claim(each.uid, claim.node, claim.shape)
    ends = {name: line.record.started[name] + (running.declared or 0) for name, running in line.running.items()}
    for at in sorted({line.now, *ends.values()}):
        for name, end in ends.items():
            if end <= at:
                for each in line.running[name].pods:
                    table.release(each.uid)
        if isinstance(plan(job.pods, WhatIf(table), ground_of(table, RACKS), job.terms), Plan):
            return at
    return None


def played(nodes: Sequence[Node], jobs: Sequence[Job], backfilling: Backfilling, margin: float) -> Iterator[Line]:
    """Play the gangs that can start at all; yield the line after each moment."""
    startable = [job for job in jobs if fits(job, nodes)]
    line = Line(table_of(nodes), startable, backfilling, levels=RACKS, margin=margin)
    for _ in line.play():
        yield line
    assert line.record.ended.keys() == {job.name for job in startable}


@PLAYED
@given(clusters(), lines(), MARGINS)
def test_head_starts_no_later_than_without_backfill(nodes: list[Node], jobs: list[Job], margin: float) -> None:
    """With EASY backfill whoever is first is told when he would start if nobody passed him, and starts by then."""
    due: dict[str, float] = {}
    for line in played(nodes, jobs, Backfilling.EASY, margin):
        for job in line.waiting:
            promises = line.record.promises.get(job.name, [])
            if len(promises) == 1 and job.name not in due:
                alone = first_come(line, nodes, job)
                assert alone is not None
                assert promises[0].at <= alone
                due[job.name] = promises[0].at
        for name, promises in line.record.promises.items():
            told = [start.at for start in promises]
            assert told == sorted(told, reverse=True)
            if name in due and name in line.record.started:
                assert line.record.started[name] <= due[name]


@PLAYED
@given(clusters(), lines(), MARGINS)
def test_nobody_starts_later_than_promised(nodes: list[Node], jobs: list[Job], margin: float) -> None:
    """With conservative backfill no promise is ever followed by a later one, and everybody starts as promised."""
    for line in played(nodes, jobs, Backfilling.CONSERVATIVE, margin):
        for name, promises in line.record.promises.items():
            told = [start.at for start in promises]
            assert told == sorted(told, reverse=True)
            assert line.record.started.get(name, 0.0) <= told[0]
            assert name in line.record.started or line.now < told[-1]


@PLAYED
@given(clusters(), lines(), st.sampled_from([Backfilling.EASY, Backfilling.CONSERVATIVE]))
def test_nothing_is_given_twice(nodes: list[Node], jobs: list[Job], backfilling: Backfilling) -> None:
    """Nobody gets room that somebody has, whoever overruns or does not say how long he runs."""
    doubtful = [
        replace(job, declared=(job.runtime, None, job.runtime / 2, job.runtime * 2)[index % 4])
        for index, job in enumerate(jobs)
    ]
    for line in played(nodes, doubtful, backfilling, 0.0):
        assert (line.table.free() >= 0).all()


def test_short_work_fills_the_gap() -> None:
    """Work that ends before the head's start runs at once, where first come first served lets nodes idle."""
    nodes = [node(f"n-{index}", 4) for index in range(2)]
    whole: Shape = shape(4)

    def job(name: str, size: int, arrival: float, runtime: float) -> Job:
        pods = tuple(pod(f"{name}-{index}", shape=whole) for index in range(size))
        return Job(name, pods, arrival, runtime, runtime)

    jobs = [job("first", 1, 0, 1000), job("large", 2, 1, 1000), job("short", 1, 2, 500), job("long", 1, 3, 5000)]
    starts = {}
    for backfilling in Backfilling:
        line = Line(table_of(nodes), jobs, backfilling)
        assert list(line.play())
        starts[backfilling] = line.record.started
    assert starts[Backfilling.NONE] == {"first": 0, "large": 1000, "short": 2000, "long": 2000}
    assert starts[Backfilling.EASY] == {"first": 0, "large": 1000, "short": 2, "long": 2000}
    assert starts[Backfilling.CONSERVATIVE] == starts[Backfilling.EASY]
