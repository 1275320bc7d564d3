"""Queues as tests need them, and forests of them drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from extender.objects.queue import Flavor, Queue, Quota
from tests.builders import GPU

H100 = "h100"

Selector = tuple[tuple[str, str], ...]


def queue(
    name: str,
    parent: str = "",
    gpus: int | None = None,
    *,
    borrow: int | None = None,
    lend: int | None = None,
    **others: Any,
) -> Queue:
    """Build a queue with a quota of `gpus` H100s, and without any if that is None."""
    if gpus is not None:
        others["flavors"] = (Flavor(H100, {GPU: Quota(gpus, borrow, lend)}),)
    return Queue(name, parent=parent, **others)


def flavor(name: str, quotas: Mapping[str, int] | None = None, selector: Selector | None = None) -> Flavor:
    """Build a flavor with quotas by resource."""
    return Flavor(name, {resource: Quota(nominal) for resource, nominal in (quotas or {}).items()}, selector)


RESOURCES = ("gpu", "cpu")
FLAVORS = ("a", "b")

limits = st.none() | st.integers(0, 8)
quotas = st.builds(Quota, st.integers(0, 8), limits, limits)


@st.composite
def flavors(draw: st.DrawFn) -> tuple[Flavor, ...]:
    """Draw what a queue has."""
    return tuple(
        Flavor(name, draw(st.dictionaries(st.sampled_from(RESOURCES), quotas)))
        for name in draw(st.lists(st.sampled_from(FLAVORS), unique=True))
    )


@st.composite
def forests(draw: st.DrawFn, most: int = 6) -> list[Queue]:
    """Draw sound queues, parents first."""
    count = draw(st.integers(1, most))
    parents = [""] + [draw(st.sampled_from(["", *(f"q{above}" for above in range(i))])) for i in range(1, count)]
    return [Queue(f"q{index}", parent=parent, flavors=draw(flavors())) for index, parent in enumerate(parents)]


amounts: st.SearchStrategy[Mapping[str, int]] = st.dictionaries(
    st.sampled_from(RESOURCES), st.integers(0, 9), min_size=1
)
