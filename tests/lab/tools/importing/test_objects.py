"""Finding objects in files."""

from __future__ import annotations

import pytest

from muster_lab.tools.foreignqueues import ClusterQueueSpec
from muster_lab.tools.importing.objects import ImportingError, read_objects

QUEUE = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: %s}"


def test_lists_are_taken_apart() -> None:
    """What `kubectl get -o yaml` or `-o json` writes is read as the objects in it; empty documents are nothing."""
    text = (
        '{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "a.b/v1", "kind": "C", '
        '"metadata": {"name": "d", "namespace": "e"}}]}\n---\n---\n'
        "{apiVersion: v1, kind: F, metadata: {name: g}}"
    )
    listed, single = read_objects({"all.json": text})
    assert (listed.group, listed.kind, listed.namespace, listed.name) == ("a.b", "C", "e", "d")
    assert (str(listed), str(single), single.group) == ("C e/d", "F g", "")


def test_an_object_may_be_given_twice_if_it_is_the_same() -> None:
    """Files overlap; two different specs would leave open which one counts."""
    twice = {"one": QUEUE % "{cohort: a}", "two": QUEUE % "{cohort: a}"}
    assert len(read_objects(twice)) == 1
    with pytest.raises(ImportingError, match="ClusterQueue a is given twice, with different specs"):
        read_objects(twice | {"three": QUEUE % "{cohort: b}"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "queues.yaml: line 1, column 5: "),
        ("hello", "queues.yaml, document 1 is no Kubernetes object: it has no kind"),
        ("{kind: List, items: [{}]}", "queues.yaml, document 1, item 1 is no Kubernetes object: it has no kind"),
        ("---\n---\nkind: Queue", "queues.yaml, document 2: a Queue without metadata.name"),
        ("{kind: Queue, metadata: {name: 3}}", "queues.yaml, document 1: a Queue without metadata.name"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(text: str, message: str) -> None:
    """File, document, and what is missing."""
    with pytest.raises(ImportingError) as refused:
        read_objects({"queues.yaml": text})
    assert str(refused.value).startswith(message)


def test_a_field_of_the_wrong_kind_is_refused_by_name() -> None:
    """Object and path, as in the file."""
    (one,) = read_objects({"a": QUEUE % "{fairSharing: {weight: []}}"})
    with pytest.raises(ImportingError, match=r"^ClusterQueue a: Expected .* - at `spec.fairSharing.weight`$"):
        one.part("spec", ClusterQueueSpec)


def test_fields_that_nobody_reads_are_found_at_any_depth() -> None:
    """Through lists and optional parts; what is empty says nothing."""
    spec = "{x: 1, y: {}, resourceGroups: [{flavors: [{name: f, z: 2}, {z: 3}]}], fairSharing: {w: null, v: 4}}"
    (one,) = read_objects({"a": QUEUE % spec})
    found = list(one.unmapped("spec", ClusterQueueSpec))
    assert found == [
        ("spec.x", 1),
        ("spec.resourceGroups.flavors.z", 2),
        ("spec.resourceGroups.flavors.z", 3),
        ("spec.fairSharing.v", 4),
    ]
