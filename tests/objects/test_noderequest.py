"""ProvisioningRequests: for which gang they are, and how far they have come."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import NodeRequestGone, NodeRequestSeen
from extender.control.watched import PROVISIONING, Known
from extender.objects.meta import Identity
from extender.objects.noderequest import (
    NodeRequest,
    NodeRequestPhase,
    consuming,
    decode_provisioning_request,
    read_node_request,
    write_ref,
)
from extender.objects.podgroup import GroupRef
from tests.builders import written

REF = GroupRef("scheduling.x-k8s.io", "ns", "train")
MADE, CHANGED = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def request(*conditions: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """Return a request for three pods of one kind and one of another."""
    annotations = {"muster.dev/asked-for": write_ref(REF), "muster.dev/attempt": "2"}
    metadata = {"namespace": "ns", "name": "r", "uid": "u", "creationTimestamp": MADE, "annotations": annotations}
    spec = {"provisioningClassName": "class", "podSets": [{"count": 3}, {"count": 1}]}
    return {"metadata": metadata | meta, "spec": spec, "status": {"conditions": list(conditions)}}


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    """Return a condition."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": CHANGED}


def read(*conditions: dict[str, Any], **meta: Any) -> NodeRequest | None:
    """Read a request."""
    return read_node_request(decode_provisioning_request(written(request(*conditions, **meta))))


def test_a_request_says_for_which_gang_it_is_and_how_manieth() -> None:
    """What the gang lacks is counted by kind."""
    found = read()
    assert found == NodeRequest(REF, "r", "u", "class", (1, 3), 2, since=1767225600.0)
    assert (found.key, found.detail) == ("ns/r", "")


@pytest.mark.parametrize(
    ("conditions", "phase", "detail"),
    [
        ([condition("Accepted")], NodeRequestPhase.PENDING, "Accepted"),
        (
            [condition("Accepted"), condition("Provisioned", "False", "CapacityIsNotFound", "no\n room")],
            NodeRequestPhase.PENDING,
            "not Provisioned (CapacityIsNotFound): no room",
        ),
        (
            [condition("Provisioned", "False", "CapacityIsNotFound")],
            NodeRequestPhase.PENDING,
            "not Provisioned (CapacityIsNotFound)",
        ),
        ([condition("Provisioned"), condition("Failed", "False")], NodeRequestPhase.PROVISIONED, "Provisioned"),
        ([condition("Failed", reason="Expired")], NodeRequestPhase.FAILED, "Failed (Expired)"),
        ([condition("Provisioned"), condition("BookingExpired")], NodeRequestPhase.FAILED, "BookingExpired"),
        (
            [condition("Provisioned"), condition("CapacityRevoked", reason="CapacityRevoked")],
            NodeRequestPhase.FAILED,
            "CapacityRevoked",
        ),
    ],
)
def test_conditions_say_how_far_it_has_come(
    conditions: list[dict[str, Any]], phase: NodeRequestPhase, detail: str
) -> None:
    """One that has expired or is revoked was provisioned before; one that is accepted says why no nodes come."""
    found = read(*conditions)
    assert found is not None
    assert (found.phase, found.detail) == (phase, detail)


def test_what_an_autoscaler_says_is_shortened() -> None:
    """An Event has room for a thousand characters."""
    found = read(condition("Failed", message="x" * 999))
    assert found is not None
    assert len(found.detail) == 200


@pytest.mark.parametrize("text", ["", "api", "api/", "/name", "api/name/uid/more", "api//uid"])
def test_one_that_names_no_gang_is_not_read(text: str) -> None:
    """Whoever has put the label there."""
    found = decode_provisioning_request(written(request(annotations={"muster.dev/asked-for": text})))
    assert read_node_request(found) is None
    assert list(PROVISIONING.seen(found, Known())) == [NodeRequestGone("u")]


@pytest.mark.parametrize("ref", [REF, GroupRef("pod", "ns", "p", "uid-p")])
def test_a_gang_is_found_again(ref: GroupRef) -> None:
    """A gang of one has a UID besides."""
    found = read(annotations={"muster.dev/asked-for": write_ref(ref)}, deletionTimestamp=MADE)
    assert found == NodeRequest(ref, "r", "u", "class", (1, 3), since=1767225600.0, deleting=True)


@pytest.mark.parametrize("written_as", ["{}", '{"spec": {"podSets": [{}]}, "status": {}}'])
def test_next_to_nothing_is_no_request(written_as: str) -> None:
    """Nothing is taken for given."""
    assert read_node_request(decode_provisioning_request(written_as.encode())) is None


def test_what_the_watch_tells() -> None:
    """A request that was made, and one that is gone."""
    found = decode_provisioning_request(written(request()))
    (seen,) = PROVISIONING.seen(found, Known())
    assert isinstance(seen, NodeRequestSeen)
    assert list(PROVISIONING.gone(Identity("ns", "r", "u"), Known())) == [NodeRequestGone("u")]


def test_pods_name_a_request_by_both_prefixes() -> None:
    """Autoscalers before 1.31 read the older one alone."""
    assert consuming("r", "class") == {
        "autoscaling.x-k8s.io/consume-provisioning-request": "r",
        "autoscaling.x-k8s.io/provisioning-class-name": "class",
        "cluster-autoscaler.kubernetes.io/consume-provisioning-request": "r",
        "cluster-autoscaler.kubernetes.io/provisioning-class-name": "class",
    }
