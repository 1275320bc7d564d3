"""Selectors and allocations are those of kube-scheduler's own libraries."""

from __future__ import annotations

import random

import pytest

from extender.devices.allocator import DeviceCause, DeviceRefusal, allocate
from extender.devices.selectors import SelectorError, Selectors
from tests.builders import Json
from tests.devices.model import asked, outcome_of, slice_of, told_outcome, view_of
from tests.devices.oracle import allocation_question, ask_oracle, match_question
from tests.devices.selectors import DEVICES, REFUSED, SELECTORS
from tests.devices.worlds import NODE, DraWorld
from tests.objects.dra import NVIDIA, slice_json

#: What the search may try here; where that is not enough, kube-scheduler mostly runs out of time as well.
STEPS = 10_000


@pytest.fixture(scope="module")
def told() -> dict[str, Json]:
    """Return what kube-scheduler says of each selector."""
    expressions = [*SELECTORS, *REFUSED]
    answers = ask_oracle([match_question(each, NVIDIA, DEVICES) for each in expressions])
    return dict(zip(expressions, answers, strict=True))


@pytest.fixture(scope="module")
def selectors() -> Selectors:
    """Return selectors that have seen all others before."""
    return Selectors()


def test_the_table_has_more_than_200_selectors() -> None:
    """None of them twice."""
    assert len(set(SELECTORS)) == len(SELECTORS) > 200


@pytest.mark.parametrize("expression", SELECTORS)
def test_a_selector_matches_the_devices_that_it_matches_for_kube_scheduler(
    expression: str, told: dict[str, Json], selectors: Selectors
) -> None:
    """And fails for those for which it fails there."""
    expected: list[bool | str] = ["error"] * len(DEVICES)
    if "compileError" not in told[expression]:
        expected = [each if isinstance(each, bool) else "error" for each in told[expression]["matches"]]
    devices = slice_of(slice_json("slice", *DEVICES)).devices
    found = [selectors.matches(expression, NVIDIA, device) for device in devices]
    assert ["error" if isinstance(each, SelectorError) else each for each in found] == expected


def test_combined_selectors_match_as_for_kube_scheduler(selectors: Selectors) -> None:
    """Of 3,000 random combinations those that the API server takes: what one leaves behind is nothing to the next."""
    draw = random.Random(5)
    parts = [each for each in SELECTORS if "//" not in each]
    forms = ("{} && {}", "{} || {}", "!{} && {}", "{} ? {} : {}", "[{}, {}].exists(q, q)", "cel.bind(w, {}, w && {})")
    made = [draw.choice(forms).format(*(f"({draw.choice(parts)})" for _ in range(3))) for _ in range(3000)]
    devices = slice_of(slice_json("slice", *DEVICES)).devices
    answers = ask_oracle([match_question(each, NVIDIA, DEVICES) for each in made])
    taken = [(each, told) for each, told in zip(made, answers, strict=True) if "compileError" not in told]
    assert len(taken) > 2000
    for expression, told in taken:
        found = [selectors.matches(expression, NVIDIA, device) for device in devices]
        expected = [each if isinstance(each, bool) else "error" for each in told["matches"]]
        outcome = ["error" if isinstance(each, SelectorError) else each for each in found]
        if expression.startswith("cel.bind"):  # what is bound is worked out here whether it is needed or not
            expected = ["error" if own == "error" else each for own, each in zip(outcome, expected, strict=True)]
        assert outcome == expected, expression


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_not_known_here_is_refused_by_name(
    expression: str, told: dict[str, Json], selectors: Selectors
) -> None:
    """Kubernetes may know it: it is no match and no mismatch then, and the expression is named."""
    assert expression in told
    problem = selectors.problem(expression)
    assert isinstance(problem, SelectorError)
    assert str(problem).startswith("selector ")
    assert problem.expression == expression


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_claims_get_the_devices_that_kube_scheduler_would_give_them(first: int) -> None:
    """Of 1,000 random clusters: the same devices in the same order, and the same nodes, or nothing either way."""
    worlds = [DraWorld(seed) for seed in range(first, first + 250)]
    questions = [
        allocation_question(
            node=NODE, slices=world.slices, classes=world.classes, allocated=world.allocated, claims=world.claims
        )
        for world in worlds
    ]
    decided = given = 0
    for seed, question, answer in zip(range(first, first + 250), questions, ask_oracle(questions), strict=True):
        found = allocate(asked(question["claims"]), view_of(question), STEPS)
        gave_up = isinstance(found, DeviceRefusal) and found.cause is DeviceCause.SEARCH_GAVE_UP
        if gave_up or "gaveUp" in answer:
            continue
        assert outcome_of(found) == told_outcome(answer), f"world {seed}"
        decided += 1
        given += not isinstance(found, DeviceRefusal)
    assert decided >= 240
    assert given >= 50
