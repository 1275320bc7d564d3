"""Tolerations cover the taints that Kubernetes says they cover."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.podspec import (
    DOOM,
    Taint,
    TaintObject,
    Toleration,
    TolerationObject,
    announcement,
    first_untolerated,
    read_taints,
    read_tolerations,
)
from tests.objects.documents import load

TAINTS = tuple(
    Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in load("objects/data/taints.json")
)
CASES = load("objects/data/tolerations.json")

GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")
MAINTENANCE = Taint("maintenance", "", "NoExecute")


def toleration(key: str = "", operator: str = "", value: str = "", effect: str = "") -> Toleration:
    """Build a toleration that says only what is given."""
    return Toleration(key, operator, value, effect)


@pytest.mark.parametrize(
    "cases",
    [list(group) for _, group in itertools.groupby(CASES, lambda case: case["toleration"].get("operator", ""))],
    ids=lambda cases: f"{cases[0]['toleration'].get('key', 'any key')} {cases[0]['toleration'].get('operator', '')}",
)
def test_a_toleration_covers_what_kubernetes_says(cases: list[dict[str, Any]]) -> None:
    """For every key, operator, value and effect, the taints covered are those of Toleration.ToleratesTaint."""
    for case in cases:
        known = toleration(**case["toleration"])
        covered = [index for index, taint in enumerate(TAINTS) if known.tolerates(taint)]
        assert covered == case["tolerates"], known


def test_only_hard_taints_are_read() -> None:
    """PreferNoSchedule and unknown effects keep no pod away; absent fields read as empty."""
    taints = [
        TaintObject("a", "1", "NoSchedule"),
        TaintObject("b", "2", "PreferNoSchedule"),
        TaintObject("c", None, "NoExecute"),
        TaintObject("d", "4", None),
        TaintObject(effect="NoSchedule"),
    ]
    assert read_taints(taints) == (
        Taint("a", "1", "NoSchedule"),
        Taint("c", "", "NoExecute"),
        Taint("", "", "NoSchedule"),
    )
    assert read_taints(None) == ()


@pytest.mark.parametrize("key", DOOM)
def test_a_taint_may_announce_that_a_node_goes(key: str) -> None:
    """What the taint means and its key are said, whatever its value and whatever else the node is tainted with."""
    said = announcement((GPU_TAINT, Taint(key, "1790000000", "NoSchedule")))
    assert said == f"{DOOM[key]} (taint {key})"


def test_other_taints_announce_nothing() -> None:
    """A node that is reserved, cordoned or only a candidate for removal is not announced to go."""
    candidate = TaintObject("DeletionCandidateOfClusterAutoscaler", "1790000000", "PreferNoSchedule")
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    assert announcement((GPU_TAINT, MAINTENANCE, cordon, *read_taints([candidate]))) == ""


def test_absent_fields_of_a_toleration_read_as_empty() -> None:
    """A toleration may leave out any of its fields; a pod may have none."""
    assert read_tolerations([TolerationObject(key="a")]) == (toleration("a"),)
    assert read_tolerations([TolerationObject("a", "Equal", "b", "NoExecute")]) == (
        Toleration("a", "Equal", "b", "NoExecute"),
    )
    timed = read_tolerations([TolerationObject("a", "Exists", effect="NoExecute", toleration_seconds=0)])
    assert timed == (Toleration("a", "Exists", "", "NoExecute", bounded=True),)
    assert read_tolerations(None) == ()


def test_the_first_taint_that_nobody_covers_is_named() -> None:
    """A node is closed by the first of its taints that no toleration covers."""
    taints = (GPU_TAINT, MAINTENANCE)
    assert first_untolerated(taints, ()) is GPU_TAINT
    assert first_untolerated(taints, (toleration("nvidia.com/gpu", "Exists"),)) is MAINTENANCE
    assert first_untolerated(taints, (toleration(operator="Exists"),)) is None
    assert first_untolerated((), ()) is None


TEXTS = st.sampled_from(["", "a", "5", "-5", "9" * 30, "Exists"]) | st.text(max_size=5)


@given(
    known=st.builds(Toleration, TEXTS, st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "In"]), TEXTS, TEXTS),
    taint=st.builds(Taint, TEXTS, TEXTS, TEXTS),
)
def test_tolerating_never_raises(known: Toleration, taint: Taint) -> None:
    """Any toleration can be held against any taint; one that covers it still does without key and effect."""
    wider = toleration(operator=known.operator, value=known.value)
    assert not known.tolerates(taint) or wider.tolerates(taint)
    assert first_untolerated([taint], (known,)) is (None if known.tolerates(taint) else taint)
