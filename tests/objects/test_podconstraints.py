"""How many constraints a pod may have: each is evaluated for every node, while others wait."""

from __future__ import annotations

import pytest

from extender.objects.meta import Requirement
from extender.objects.pod import MOST_CONSTRAINTS, MOST_CONTAINERS, Pod, read_pod
from extender.objects.podspec import decode_pod
from tests.builders import GPU, Json, pod_json, written

CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1", GPU: "1"}}}


def terms(count: int, values: int = 1) -> Json:
    """Return a spec that requires any of so many terms."""
    wanted = {"key": "a", "operator": "In", "values": [f"v{each}" for each in range(values)]}
    every = [{"matchExpressions": [wanted]}] * count
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": every}}}
    }


def read(spec: Json) -> Pod:
    """Read a pod with GPUs."""
    return read_pod(decode_pod(written(pod_json(gpus=8, spec=spec))))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (terms(MOST_CONSTRAINTS + 1), "spec.affinity"),
        (terms(30_000), "spec.affinity"),
        ({"nodeSelector": {f"key-{each}": "v" for each in range(MOST_CONSTRAINTS + 1)}}, "spec.affinity"),
        ({"tolerations": [{"key": f"k{each}"} for each in range(MOST_CONSTRAINTS + 1)]}, "spec.tolerations"),
        ({"containers": [CONTAINER] * (MOST_CONTAINERS + 1)}, "spec.containers"),
    ],
    ids=["one more", "as many as an object holds", "node selector", "tolerations", "containers"],
)
def test_too_many_are_not_evaluated(spec: Json, field: str) -> None:
    """The pod says what is wrong with it, keeps what it asks for, and no node is asked about it."""
    pod = read(spec)
    assert pod.problem is not None
    assert pod.problem.field == field
    assert pod.shape.gpus >= 8
    assert len(pod.shape.containers) <= 1
    assert (pod.shape.selector.size, pod.shape.tolerations) == (0, ())


def test_as_many_as_there_may_be_are_evaluated() -> None:
    """Each with any number of values, which are looked up by their hash."""
    pod = read(terms(MOST_CONSTRAINTS, 10_000))
    assert pod.problem is None
    assert pod.shape.selector.matches("n", {"a": "v9999"})
    assert not pod.shape.selector.matches("n", {"a": "v10000"})


@pytest.mark.parametrize("count", [1, 8, 9, 100])
def test_few_values_and_many_mean_the_same(count: int) -> None:
    """However they are looked up."""
    values = tuple(f"v{each}" for each in range(count))
    for label in ({}, {"k": "v0"}, {"k": f"v{count}"}):
        assert Requirement("k", "In", values).matches(label) == (label.get("k") in values)
        assert Requirement("k", "NotIn", values).matches(label) == (label.get("k") not in values)
