"""Scenarios in which a number or a reason was told that was not true, a place was missed, or the wrong gang evicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster_lab.simulation.results import result_json
from muster_lab.simulation.scenario_file import load_scenario
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.world import Connect

CASES = Path(__file__).with_name("cases")


def played(case: str, connect: Connect) -> dict[str, Any]:
    """Return the outcome of a scenario with Muster."""
    return result_json(simulate(load_scenario(CASES / f"{case}.yaml"), connect))


@pytest.mark.parametrize(
    ("case", "gang", "message"),
    [
        (
            "slices-wrong-number",
            "job",
            "no rack is large enough for a slice of 3, however empty: at most 0 of 6 members fit",
        ),
        (
            "role-group-numbers",
            "train",
            "no rack is large enough for all of role a, however empty: at most 2 of 3 members fit",
        ),
        (
            "quota-maximum-number",
            "never",
            "asks for 32 nvidia.com/gpu of default, of which Queue a can never have more than 16",
        ),
        (
            "slice-repair-waits",
            "g",
            (
                "no node has room for the missing members of a slice of 2 beside the others now: "
                "at most 3 of 4 members fit"
            ),
        ),
    ],
)
def test_a_wait_says_the_number_of_what_failed(case: str, gang: str, message: str, connect: Connect) -> None:
    """Of the slice, the role or the quota that is short, and not of the gang or of what is left now."""
    found = {each["name"]: each["reason"] for each in played(case, connect)["gangs"]}
    assert found[gang]["message"] == message


def test_who_cannot_be_evicted_does_not_borrow(connect: Connect) -> None:
    """Its Queue could not lend again what another has lent it, so the owner of the quota starts at once."""
    pinned, owner = played("not-preemptible-borrows", connect)["gangs"]
    assert pinned["reason"]["message"] == (
        "asks for 4 nvidia.com/gpu of default, of which Queue a can never have more than 1 "
        "for pods that cannot be evicted, which may not borrow"
    )
    assert owner["phase"] == "Running"


def test_a_gang_below_its_minimum_is_evicted_for_that_reason(connect: Connect) -> None:
    """The eviction has the reason of the Event about it, though it was for no other gang."""
    (eviction,) = played("below-minimum-reason", connect)["evictions"]
    assert (eviction["pod"], eviction["by"], eviction["reason"]) == ("default/g-0", None, "BelowMinimum")


@pytest.mark.parametrize(
    ("case", "gang", "nodes"),
    [
        ("mixed-roles-fit", "g", [("ps", "n-0"), ("ps", "n-1"), ("worker", "n-0"), ("worker", "n-1")]),
        (
            "mixed-roles-two-kinds-of-nodes",
            "g",
            [("data", "big-0"), ("data", "big-1"), *(("worker", f"gpu-{index}") for index in range(4))],
        ),
        ("leader-and-sliced-workers", "lws", [("leader", "h2"), *(("worker", f"h{1 + n // 2}") for n in range(4))]),
        ("free-rack-called-impossible", "lws", [("leader", "large"), ("worker", "large")]),
        ("free-racks-unseen-evicts", "lws", [("leader", "n-32"), ("worker", "n-33")]),
        ("first-member-impossible", "job", [("a", None), ("b", "n-0"), ("b", "n-0")]),
        ("slice-repair", "g", [(None, "n-0"), (None, "n-0"), (None, "n-1"), (None, "n-1")]),
        (
            "slice-repair-extras",
            "g",
            [(None, "n-0"), (None, "n-0"), (None, "n-1"), (None, "n-1"), (None, "n-3"), (None, "n-3")],
        ),
        (
            "nested-role-groups",
            "train",
            [("a", "n-0"), ("a", "n-1"), ("a", "n-1"), ("b", "n-2"), ("b", "n-2"), ("b", "n-3")],
        ),
        ("role-preferred-widens", "job", [*(("one", "a1") for _ in range(3)), ("one", "a2"), ("two", "a2")]),
        ("prefer-no-schedule", "g", [(None, "b-0"), (None, "b-1")]),
        ("free-racks-unseen", "lws", [("leader", "n-32"), ("worker", "n-33")]),
        ("domain-for-all-that-exist", "job", [(None, "b1"), (None, "b1"), (None, "b2"), (None, "b2")]),
    ],
)
def test_a_gang_has_the_place_that_there_is(
    case: str, gang: str, nodes: list[tuple[str | None, str | None]], connect: Connect
) -> None:
    """Though the quick ways find none, or one in which not all have room; and nobody is evicted for it."""
    outcome = played(case, connect)
    (found,) = (each for each in outcome["gangs"] if each["name"] == gang)
    assert found["phase"] == "Running"
    assert sorted(((pod["role"], pod["node"]) for pod in found["pods"]), key=str) == sorted(nodes, key=str)
    assert not outcome["evictions"]


@pytest.mark.parametrize(
    ("case", "gone", "starts"),
    [
        ("reclaim-before-own", {"borrower-0"}, "owner-urgent"),
        ("own-and-lent-together", {"borrower", "low"}, "urgent"),
        ("who-gives-back", {"big-0"}, "owner-0"),
        ("head-blocks-urgent", {"x0"}, "x-urgent"),
        ("head-blocks-urgent-without-queues", {"low-0"}, "urgent"),
        ("preempt-clears-for-the-head", {"x0"}, "x-urgent"),
        ("rebalance-weights-alone", {"a0"}, "b0"),
        ("rebalance-above-quota", {"a0"}, "b0"),
    ],
)
def test_the_right_gangs_leave(case: str, gone: set[str], starts: str, connect: Connect) -> None:
    """What others have borrowed before a queue's own gangs, both only where neither is enough; all in one decision.

    The queue that is furthest above its share gives back first. Nobody leaves for what is kept for a gang ahead.
    """
    outcome = played(case, connect)
    pods = {pod["name"]: each["name"] for each in outcome["gangs"] for pod in each["pods"]}
    assert {pods[each["pod"].split("/")[-1]] for each in outcome["evictions"]} == gone
    assert {each["by"] for each in outcome["evictions"]} == {f"default/{starts}"}
    (found,) = (each for each in outcome["gangs"] if each["name"] == starts)
    assert found["phase"] == "Running"


def test_a_gang_moves_so_that_another_fits(connect: Connect) -> None:
    """Where its Queue says so, beside another; it loses the hour that it has run, and all run then."""
    outcome = played("consolidate", connect)
    (eviction,) = outcome["evictions"]
    assert (eviction["by"], eviction["reason"], eviction["at"]) == ("default/big", "Consolidated", 3600.0)
    assert {each["phase"] for each in outcome["gangs"]} == {"Running"}
    assert outcome["summary"]["lostGpuHours"] == 2.0


def test_a_core_within_quota_stays(connect: Connect) -> None:
    """Only the extra is borrowed: it alone does not make room for the gang that comes, so nobody leaves."""
    outcome = played("core-within-quota", connect)
    assert not outcome["evictions"]
    assert {each["name"]: each["phase"] for each in outcome["gangs"]} == {"a-elastic": "Running", "b-two": "Pending"}


def have(outcome: dict[str, Any]) -> dict[str, int]:
    """Return how many pods of each gang have a node and were not evicted."""
    evicted = {each["pod"] for each in outcome["evictions"]}
    return {
        gang["name"]: sum(
            pod["node"] is not None and f"{gang['namespace']}/{pod['name']}" not in evicted for pod in gang["pods"]
        )
        for gang in outcome["gangs"]
    }


def test_extras_are_handed_out_evenly(connect: Connect) -> None:
    """Of eight GPUs two elastic gangs that are equals have four each."""
    assert have(played("extras-even", connect)) == {"e0": 4, "e1": 4}


def test_extras_preempt_extras_of_lower_priority(connect: Connect) -> None:
    """What others cannot start without stays, whatever its priority."""
    outcome = played("extras-preempt", connect)
    assert have(outcome) == {"low": 1, "high": 3}
    assert {each["by"] for each in outcome["evictions"]} == {"default/high"}


def test_a_member_that_is_not_to_be_evicted_stays(connect: Connect) -> None:
    """With as many others as its gang needs; those that it can spare leave, the last first."""
    outcome = played("kept-member", connect)
    assert have(outcome) == {"low": 2, "high": 2}
    assert [each["pod"] for each in outcome["evictions"]] == ["default/low-2", "default/low-1"]


def test_extras_reclaim_the_quota_of_their_queue(connect: Connect) -> None:
    """All that is lent comes back, from a gang that has nothing of its own the core too."""
    assert have(played("extras-reclaim", connect)) == {"borrower": 0, "owner": 4}
