"""The Queue CRD as a file: it explains itself, and its words are the program's."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import pytest

from extender.objects.queue import BorrowWithin, QueueingStrategy, Reclaim, StopPolicy, WithinQueue
from tests.manifests.conftest import Manifest, load

(CRD,) = load("queue-crd.yaml")
SCHEMA: Manifest = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def fields(schema: Manifest, path: str) -> Iterator[tuple[str, Manifest]]:
    """Yield every field with its path."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from fields(inner.get("items", inner), f"{path}.{name}")


def test_every_field_has_a_description() -> None:
    """`kubectl explain queue` has a sentence for each field of spec and status."""
    unexplained = [
        path
        for part in ("spec", "status")
        for path, field in fields(SCHEMA["properties"][part], part)
        if not field.get("description", "").endswith((".", "?"))
    ]
    assert unexplained == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("spec.queueingStrategy", QueueingStrategy),
        ("spec.stopPolicy", StopPolicy),
        ("spec.preemption.withinQueue", WithinQueue),
        ("spec.preemption.reclaimWithinCohort", Reclaim),
        ("spec.preemption.borrowWithinCohort.policy", BorrowWithin),
    ],
)
def test_the_values_of_a_choice_are_the_programs(path: str, kind: type[StrEnum]) -> None:
    """The CRD lets exactly those values through that Muster knows."""
    assert dict(fields(SCHEMA["properties"]["spec"], "spec"))[path]["enum"] == list(kind)


def test_queues_belong_to_the_cluster() -> None:
    """They are no namespace's own, and have a status that only Muster writes."""
    assert CRD["spec"]["scope"] == "Cluster"
    assert CRD["metadata"]["name"] == f"{CRD['spec']['names']['plural']}.{CRD['spec']['group']}"
    assert CRD["spec"]["versions"][0]["subresources"] == {"status": {}}
