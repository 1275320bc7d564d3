"""What kube-scheduler's messages about pods that it did not place say."""

from __future__ import annotations

import pytest

from extender.objects.refusal import OWN_WORDS, SKELETONS, RefusalKind, refusal_kind, shortened

UNPREEMPTED = " preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."

#: As kube-scheduler 1.37 writes them.
SAID = {
    "": RefusalKind.NONE,
    '0/4 nodes are available: persistentvolumeclaim "data" not found. not found': RefusalKind.ALONE,
    "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found": RefusalKind.ALONE,
    f"0/4 nodes are available: 4 node(s) didn't match pod affinity rules.{UNPREEMPTED}": RefusalKind.ALONE,
    "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 3 node(s) were unschedulable.": RefusalKind.ALONE,
    f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu.{UNPREEMPTED}": RefusalKind.ROOM,
    "0/4 nodes are available: 2 Insufficient cpu, 3 Insufficient nvidia.com/gpu, 1 Too many pods.": RefusalKind.ROOM,
    f"0/4 nodes are available: 4 cannot allocate all claims.{UNPREEMPTED}": RefusalKind.ROOM,
    "0/4 nodes are available: 1 cannot allocate all claims, 3 resourceclaim not available on the node.": (
        RefusalKind.ROOM
    ),
    f"0/4 nodes are available: resource claim default/a is in the process of being allocated.{UNPREEMPTED}": (
        RefusalKind.ROOM
    ),
    "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient cpu.": RefusalKind.MIXED,
    "0/4 nodes are available: 3 Insufficient cpu, 1 node(s) had untolerated taint {a: b}.": RefusalKind.MIXED,
    "0/4 nodes are available: 1 gang waits: 0 of 2 members fit now, 3 Insufficient cpu.": RefusalKind.ASKED,
    "0/4 nodes are available: 4 pod waits: it has not been planned yet.": RefusalKind.ASKED,
    'running PreBind plugin "VolumeBinding": binding volumes: timed out': RefusalKind.OTHER,
    "no nodes available to schedule pods": RefusalKind.OTHER,
    "Scheduling is blocked due to non-empty scheduling gates": RefusalKind.OTHER,
}


@pytest.mark.parametrize(("text", "kind"), SAID.items())
def test_a_message_says_what_a_retry_waits_for(text: str, kind: RefusalKind) -> None:
    """Whether Muster was asked, and whether room on nodes may end the refusal, stands in the message."""
    assert refusal_kind(text) is kind


@pytest.mark.parametrize("kind", SKELETONS)
def test_what_stands_for_a_message_says_the_same(kind: RefusalKind) -> None:
    """With other words behind it, it is a refusal of the same kind."""
    assert refusal_kind(f"{SKELETONS[kind]}text-17") is kind


def test_people_are_told_no_more_than_an_event_holds() -> None:
    """What preemption came to is left out, and a long text is cut."""
    assert shortened(f"0/4 nodes are available: 4 Insufficient cpu.{UNPREEMPTED}").endswith("4 Insufficient cpu.")
    assert len(shortened("x" * 5000)) == 400
    assert all(not word.startswith(" ") for word in OWN_WORDS)
