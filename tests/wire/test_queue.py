"""The structs of a Queue read the fields that the CRD has."""

from __future__ import annotations

from extender.wire import codec, queue
from tests.wire.schemas import crd_schema, declared, properties

SCHEMA = crd_schema("queue-crd.yaml")


def test_every_field_that_is_read_is_in_the_crd() -> None:
    """The structs read no field of spec and status that the shipped CRD lacks."""
    read = set(declared(queue.QueueSpec, ".spec")) | set(declared(queue.QueueStatus, ".status"))
    assert ".spec.flavors.resources.nominalQuota" in read
    assert read - set(properties(SCHEMA, "")) == set()


def test_every_field_that_users_may_write_is_read() -> None:
    """Nothing in the CRD's spec is without effect."""
    written = set(properties(SCHEMA["properties"]["spec"], ".spec"))
    assert written - set(declared(queue.QueueSpec, ".spec")) == set()


def test_an_empty_object_is_a_struct_of_nones() -> None:
    """Nothing is required: absent and null fields both read as None."""
    assert codec.decode_queue(b"{}") == queue.Queue()
    assert codec.decode_queue(b'{"metadata":null,"spec":null,"status":null}') == queue.Queue()


def test_amounts_are_numbers_or_text() -> None:
    """Quotas and weights may be whole numbers, fractions and quantities."""
    body = b'{"spec":{"weight":0.5,"flavors":[{"resources":[{"nominalQuota":16,"lendingLimit":"64Gi"}]}]}}'
    spec = codec.decode_queue(body).spec
    assert spec == queue.QueueSpec(
        weight=0.5,
        flavors=[queue.FlavorQuotas(resources=[queue.ResourceQuota(nominal_quota=16, lending_limit="64Gi")])],
    )
