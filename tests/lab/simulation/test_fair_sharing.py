"""Queues that ask for fair sharing, played by the real Muster: shares soon follow weights, and stay there."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain, pairwise
from typing import Any

import pytest

from muster_lab.simulation.results import result_json
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.world import Connect
from tests.lab.simulation.greedy import FINAL, INITIAL, ArrivingGang, PlainGreedy, SharedHour, WeightedQueue, draw

#: Drawn hours that are compared with the greedy's.
HOURS = int(os.environ.get("FAIR_HOURS", "10"))

GPUS, NODES = 8, 5
WEIGHTS = {"a": 1, "b": 2, "c": 5}
#: Seconds between the arrivals of the queues.
APART = 300
QUEUE = """
  - name: {name}
    parent: root
    weight: {weight}
    flavors: [{{name: default, resources: [{{name: nvidia.com/gpu, nominalQuota: 0}}]}}]
    preemption: {{minRuntime: 2m, fairSharing: {{strategy: {strategy}, delay: 1m}}}}
"""


def played(strategy: str, members: int, connect: Connect) -> dict[str, Any]:
    """Return an hour of a cluster that one queue after the other would fill with gangs of so many pods."""
    queues = "".join(QUEUE.format(name=name, weight=weight, strategy=strategy) for name, weight in WEIGHTS.items())
    gangs = "".join(
        f"  - {{name: {name}{number}, queue: {name}, minMember: {members}, replicas: {members}, "
        f"arrival: {APART * place}, requests: {{nvidia.com/gpu: 1}}}}\n"
        for place, name in enumerate(WEIGHTS)
        for number in range(GPUS * NODES // members)
    )
    text = (
        f"nodes: [{{name: n, count: {NODES}, allocatable: {{cpu: 100, nvidia.com/gpu: {GPUS}}}}}]\n"
        "topology: {levels: []}\n"
        f"queues:\n  - {{name: root, flavors: [{{name: default, resources: "
        f"[{{name: nvidia.com/gpu, nominalQuota: {GPUS * NODES}}}]}}]}}{queues}"
        f"gangs:\n{gangs}until: 1h\n"
    )
    return result_json(simulate(read_scenario(text, "fair.yaml"), connect))


@pytest.mark.parametrize(("strategy", "members"), [("LessThanOrEqualToFinalShare", 1), ("LessThanInitialShare", 2)])
def test_within_an_hour_shares_are_within_five_percent_of_the_weights(
    strategy: str, members: int, connect: Connect
) -> None:
    """Gangs leave whole, no gang twice for the same queue within minRuntime, and no more than has to change hands."""
    outcome = played(strategy, members, connect)
    used = Counter(gang["name"][0] for gang in outcome["gangs"] if gang["phase"] == "Running")
    total = GPUS * NODES
    for name, weight in WEIGHTS.items():
        fair = total * weight / sum(WEIGHTS.values())
        assert abs(used[name] * members - fair) <= 0.05 * total, used
    leaving: dict[tuple[str, str], list[float]] = {}
    for each in outcome["evictions"]:
        leaving.setdefault((each["gang"], each["by"].removeprefix("default/")[0]), []).append(each["at"])
    times = [sorted(set(at)) for at in leaving.values()]
    assert all(later - before >= 120 for at in times for before, later in pairwise(at))
    gone = Counter(each["gang"] for each in outcome["evictions"])
    assert set(gone.values()) <= {members * count for count in range(1, 4)}
    # b takes two thirds of what a has, then c five eighths of what both have.
    least = total * 2 / 3 + total * 5 / 8
    assert sum(gone.values()) <= 1.1 * least, f"{sum(gone.values())} pods were evicted, {least:.0f} have to be"
    assert {each["reason"] for each in outcome["evictions"]} == {"FairSharing"}
    assert len(list(chain.from_iterable(times))) >= len(gone)


def by_muster(hour: SharedHour, connect: Connect) -> tuple[int, int, float]:
    """Return how many gangs and GPUs of theirs Muster has evicted in an hour, and how uneven it ends."""
    outcome = result_json(simulate(read_scenario(hour.scenario(), "hour.yaml"), connect))
    gpus = {f"default/{gang.name}": gang.gpus for gang in hour.gangs}
    left = outcome["evictions"]
    running = [gang["name"].removeprefix("default/") for gang in outcome["gangs"] if gang["phase"] == "Running"]
    gangs = {(each["gang"], each["at"]) for each in left}
    return len(gangs), sum(gpus[each["gang"]] for each in left), hour.unevenness(running)


def by_greedy(hour: SharedHour) -> tuple[int, int, float]:
    """Return the same of the plain greedy."""
    played = PlainGreedy(hour).play()
    sizes = {gang.name: gang.size for gang in hour.gangs}
    return len(played.evicted), sum(sizes[gone] for _, gone, _ in played.evicted), hour.unevenness(played.running)


@pytest.mark.parametrize("strategy", [FINAL, INITIAL])
def test_a_plain_greedy_evicts_as_many_for_the_same_weights(strategy: str, connect: Connect) -> None:
    """Where gangs are alike none is better to evict than another: Muster evicts no more, unless it ends more even."""
    members = 4
    queues = [WeightedQueue(name, weight) for name, weight in WEIGHTS.items()]
    gangs = [
        ArrivingGang(f"{queue.name}{number}", queue.name, members, 1, APART * place)
        for place, queue in enumerate(queues)
        for number in range(GPUS * NODES // members)
    ]
    hour = SharedHour(NODES, queues, gangs, strategy)
    ours, greedy = by_muster(hour, connect), by_greedy(hour)
    assert ours[2] <= greedy[2]
    assert ours[0] <= greedy[0] or ours[2] < greedy[2]


def test_a_plain_greedy_evicts_more_where_gangs_differ(connect: Connect) -> None:
    """In hours with queues, parents, nodes and gangs of all sizes Muster evicts far fewer, and ends no less even."""
    hours = [draw(str(seed)) for seed in range(HOURS)]
    ours, greedy = (
        [sum(each) for each in zip(*figures, strict=True)]
        for figures in ([by_muster(hour, connect) for hour in hours], [by_greedy(hour) for hour in hours])
    )
    figures = f"gangs, GPUs and unevenness: {ours}, a plain greedy {greedy}"
    assert ours[0] <= 0.75 * greedy[0], figures
    assert ours[1] <= 0.75 * greedy[1], figures
    assert ours[2] <= greedy[2], figures
