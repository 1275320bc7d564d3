"""Selectors of labels as kubectl takes them."""

from __future__ import annotations

import pytest

from extender.objects.labelselector import LabelSelectorError, parse_selector

LABELS = {"team": "a", "tier": "gold", "example.com/size": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "picks"),
    [
        ("", True),
        ("team=a", True),
        ("team==a,tier!=silver", True),
        ("team = b", False),
        ("other!=x", True),
        ("tier in (gold, silver),team", True),
        ("tier notin (gold),team", False),
        ("!team", False),
        ("! other", True),
        ("example.com/size>4,example.com/size<9", True),
        ("example.com/size>8", False),
        ("empty=", True),
        ("team=", False),
    ],
)
def test_what_a_selector_picks(text: str, picks: bool) -> None:
    """All parts must hold; a label that is not there is unequal to everything."""
    assert parse_selector(text).matches(LABELS) is picks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("team=a,", "'' cannot be read; write KEY=VALUE"),
        ("tier in (gold", "'tier in (gold' cannot be read"),
        ("a b", "'a b' cannot be read"),
        ("=x", "'=x' cannot be read"),
        ("a/b/c", "'a/b/c' cannot be read"),
        ("team=a b", "'a b' in 'team=a b' cannot be a label's value"),
        ("size>x", "'x' in 'size>x' is no integer"),
        ("tier in (gold,-)", "'-' in 'tier in (gold,-)' cannot be a label's value"),
    ],
)
def test_what_is_no_selector(text: str, said: str) -> None:
    """The message has the part that is wrong."""
    with pytest.raises(LabelSelectorError, match="label selector: ") as refused:
        parse_selector(text)
    assert said in str(refused.value)
