"""Label selectors pick what the API server's own do."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.labelselector import LabelSelector, read_label_selector
from extender.domain.reason import Problem
from extender.wire.codec import Decoder
from extender.wire.topology import LabelSelector as WireSelector
from tests.builders import written

_DECODE = Decoder(WireSelector)


def read(**fields: Any) -> LabelSelector | Problem:
    """Read a selector given as JSON."""
    return read_label_selector(_DECODE(written(fields)), "spec.selector")


def requirement(key: str, operator: str, *values: str) -> dict[str, list[dict[str, object]]]:
    """Return the fields of a selector with one requirement."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "picked"),
    [
        ({}, "abc"),
        ({"matchLabels": None, "matchExpressions": None}, "abc"),
        ({"matchLabels": {"team": "red"}}, "a"),
        ({"matchLabels": {"team": "red", "tier": "2"}}, ""),
        (requirement("team", "In", "red", "blue"), "ab"),
        (requirement("team", "NotIn", "red"), "bc"),
        (requirement("tier", "Exists"), "b"),
        (requirement("tier", "DoesNotExist"), "ac"),
        ({"matchLabels": {"team": "blue"}} | requirement("tier", "In", "2"), "b"),
    ],
)
def test_all_requirements_must_hold(selector: dict[str, Any], picked: str) -> None:
    """Labels and expressions must all hold, an absent label satisfies NotIn, and an empty selector picks everything."""
    objects = {"a": {"team": "red"}, "b": {"team": "blue", "tier": "2"}, "c": {}}
    read_selector = read(**selector)
    assert isinstance(read_selector, LabelSelector)
    assert "".join(name for name, labels in objects.items() if read_selector.matches(labels)) == picked


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (
            requirement("team", "Is", "red"),
            "spec.selector.matchExpressions[0].operator: 'Is' is none of DoesNotExist, Exists, In, NotIn",
        ),
        (requirement("team", "In"), "spec.selector.matchExpressions[0].values: must not be empty with In"),
        (requirement("team", "Exists", "red"), "spec.selector.matchExpressions[0].values: must be empty with Exists"),
        (requirement("", "Exists"), "spec.selector.matchExpressions[0].key: is missing"),
        ({"matchExpressions": [{}]}, "spec.selector.matchExpressions[0].key: is missing"),
    ],
)
def test_a_selector_that_cannot_be_used_names_its_field(selector: dict[str, Any], problem: str) -> None:
    """What the API server's own rules refuse is told with the field."""
    assert str(read(**selector)) == problem
