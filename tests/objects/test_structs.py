"""The structs name the fields that Kubernetes has."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from extender.kube.api import ApiStatus, ObjectList
from extender.objects.budget import PodDisruptionBudget
from extender.objects.meta import ConditionObject, Decoder
from extender.objects.node import NodeObject
from extender.objects.podspec import PodObject, decode_pod
from extender.objects.priority import PriorityClass
from extender.objects.sources.coscheduling import CoschedulingSpec, CoschedulingStatus
from extender.objects.sources.native import NativePodGroup
from tests.builders import pod_json, written
from tests.objects.documents import load
from tests.objects.schemas import crd_schema, declared, properties

OBJECTS = load("objects/data/objects.json")
#: The struct of each kind that Kubernetes wrote with every field set.
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "Condition": ConditionObject,
    "NativePodGroup": NativePodGroup,
    "Node": NodeObject,
    "ObjectList": ObjectList,
    "Pod": PodObject,
    "PodDisruptionBudget": PodDisruptionBudget,
    "PriorityClass": PriorityClass,
    "Status": ApiStatus,
}


def unknown_fields(struct: msgspec.Struct, path: str) -> Iterator[str]:
    """Yield the path of every field that is still None in a struct read from a document with every field set."""
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if value is None:
            yield f"{path}.{field.encode_name}"
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, msgspec.Struct):
                yield from unknown_fields(inner, f"{path}.{field.encode_name}")


@pytest.mark.parametrize("kind", sorted(OBJECTS))
def test_every_field_is_one_that_kubernetes_writes(kind: str) -> None:
    """Of an object that Kubernetes wrote with every field set, every declared field is found."""
    decoded = Decoder(STRUCTS[kind])(written(OBJECTS[kind]))
    assert list(unknown_fields(decoded, kind)) == []


def test_every_field_of_a_coscheduling_group_is_in_the_crd() -> None:
    """The PodGroup struct reads no field of spec and status that the shipped CRD lacks."""
    schema = crd_schema("podgroup-crd.yaml")
    read = set(declared(CoschedulingSpec, ".spec")) | set(declared(CoschedulingStatus, ".status"))
    assert ".status.conditions.observedGeneration" in read
    assert read - set(properties(schema, "")) == set()


def test_an_empty_object_is_a_struct_of_nones() -> None:
    """Nothing is required: absent and null fields both read as None."""
    assert decode_pod(b"{}") == PodObject()
    assert decode_pod(b'{"metadata":null,"spec":null,"status":null}') == PodObject()


def test_unknown_fields_are_skipped() -> None:
    """Fields that no decision needs do not matter, whatever they hold."""
    plain = decode_pod(written(pod_json()))
    assert decode_pod(written(pod_json() | {"extra": [{"deep": [1, None]}]})) == plain


def test_a_quantity_may_be_a_number() -> None:
    """A resource list takes strings, whole numbers and fractions, as people write them in YAML."""
    pod = decode_pod(b'{"spec":{"overhead":{"cpu":1.5,"memory":1024,"nvidia.com/gpu":"8"}}}')
    assert pod.spec is not None
    assert pod.spec.overhead == {"cpu": 1.5, "memory": 1024, "nvidia.com/gpu": "8"}
