"""Labels of many pods are kept small, and are still labels."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.meta import NO_LABELS, LabelSet, decode_metadata, share_labels
from tests.builders import written

TEXTS = st.text(max_size=5)


@given(st.dictionaries(TEXTS, TEXTS), TEXTS)
def test_a_set_of_labels_is_what_the_dict_is(labels: dict[str, str], key: str) -> None:
    """Whatever is asked of it, a set of labels answers as the dict from which it was made."""
    shared = share_labels(labels)
    assert shared == labels
    assert dict(shared) == labels
    assert list(shared) == list(labels)
    assert len(shared) == len(labels)
    assert shared.get(key) == labels.get(key)
    assert (key in shared) == (key in labels)
    assert hash(shared) == hash(share_labels(dict(reversed(labels.items()))))
    assert repr(shared) == f"LabelSet({labels})"


def test_what_is_not_there_is_a_key_error() -> None:
    """As with any mapping."""
    with pytest.raises(KeyError, match="team"):
        share_labels({})["team"]


def test_nobody_else_changes_labels() -> None:
    """What becomes of the dict afterwards does not matter."""
    labels = {"team": "red"}
    shared = share_labels(labels)
    labels["team"] = "blue"
    assert shared == {"team": "red"}


def test_no_labels_are_one_object() -> None:
    """Pods without labels cost nothing."""
    assert share_labels({}) is NO_LABELS


def test_any_number_of_labels_is_kept() -> None:
    """Sets too large to be remembered for others are kept all the same."""
    labels = {f"label-{number}": str(number) for number in range(1000)}
    assert share_labels(labels) == labels


def test_numbered_pods_share_all_but_their_number() -> None:
    """The labels of 1,000 members of an Indexed Job, as they come from the API server, take under 300 bytes each."""

    def of(number: int) -> LabelSet:
        labels = {
            "app.kubernetes.io/name": "trainer",
            "batch.kubernetes.io/controller-uid": "d4a7f0c1-52f2-4a9e-8f6e-8a3f7f1c9a11",
            "batch.kubernetes.io/job-name": "trainer-2026-09-14",
            "batch.kubernetes.io/job-completion-index": f"{number:06}",
            "scheduling.x-k8s.io/pod-group": "trainer-2026-09-14",
            "team": "research-foundation",
        }
        metadata = decode_metadata(written({"metadata": {"labels": labels}})).metadata
        assert metadata is not None
        return share_labels(metadata.labels or {})

    def size(first: int) -> float:
        tracemalloc.start()
        try:
            kept = [of(number) for number in range(first, first + 1000)]
            return tracemalloc.get_traced_memory()[0] / len(kept)
        finally:
            tracemalloc.stop()

    of(0)
    assert min(map(size, (1, 1001, 2001))) < 300  # threads that other tests left may allocate meanwhile
