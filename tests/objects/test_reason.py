"""A gang that waits says why in one sentence."""

from __future__ import annotations

import pytest

from extender.objects.reason import Problem, Reason, Wait, quoted

#: Every reason with what it is given, and the sentence that people read.
SENTENCES: dict[Reason, tuple[dict[str, int], dict[str, str], str]] = {
    Reason.POD_GROUP_MISSING: ({}, {"kind": "JobSet", "group": "ns/a"}, "JobSet ns/a does not exist"),
    Reason.INVALID_POD_GROUP: (
        {},
        {"kind": "PodGroup", "group": "ns/a", "detail": "spec.minMember: -1 is negative"},
        "PodGroup ns/a is invalid: spec.minMember: -1 is negative",
    ),
    Reason.INVALID_MEMBER: ({}, {"pod": "a-0", "detail": "spec: {odd}"}, "member a-0 is invalid: spec: {odd}"),
    Reason.MIXED_PRIORITIES: ({}, {"detail": "0, 10"}, "members have different priorities: 0, 10"),
    Reason.MIXED_SCHEDULERS: ({}, {"detail": "a, b"}, "members name different schedulers: a, b"),
    Reason.MEMBERS_MISSING: ({"exist": 3, "minMember": 4}, {}, "3 of 4 members exist"),
    Reason.ROLE_MEMBERS_MISSING: (
        {"exist": 3, "minMember": 4},
        {"role": "worker"},
        "3 of 4 members of role worker exist",
    ),
    Reason.ROLE_MEMBERS_GATED: (
        {"gated": 1, "exist": 4, "minMember": 4},
        {"role": "worker"},
        "1 of 4 members of role worker have scheduling gates, 4 must be free of them",
    ),
    Reason.MEMBERS_GATED: (
        {"gated": 2, "exist": 5, "minMember": 4},
        {},
        "2 of 5 members have scheduling gates, 4 must be free of them",
    ),
    Reason.UNKNOWN_QUEUE: (
        {},
        {"queue": "search", "known": "research, train"},
        "no Queue is called search; known: research, train",
    ),
    Reason.INVALID_QUEUE: (
        {},
        {"queue": "train", "detail": "spec.parent: there is no Queue all"},
        "Queue train cannot be used: spec.parent: there is no Queue all",
    ),
    Reason.NAMESPACE_NOT_ALLOWED: (
        {},
        {"queue": "train", "namespace": "dev"},
        "Queue train takes no gangs from namespace dev",
    ),
    Reason.HELD: ({}, {}, "is held until the annotation muster.dev/hold is taken off"),
    Reason.QUEUE_STOPPED: (
        {},
        {"queue": "train", "policy": "Hold"},
        "Queue train starts nothing: its stopPolicy is Hold",
    ),
    Reason.EXCEEDS_QUOTA: (
        {"asked": 64, "available": 16},
        {"wanted": "64", "resource": "nvidia.com/gpu", "flavor": "h100", "queue": "train", "most": "16", "whose": ""},
        "asks for 64 nvidia.com/gpu of h100, of which Queue train can never have more than 16",
    ),
    Reason.QUOTA_EXCEEDED: (
        {"asked": 64, "available": 8},
        {"wanted": "64", "resource": "nvidia.com/gpu", "flavor": "h100", "queue": "train", "left": "8", "whose": ""},
        "asks for 64 nvidia.com/gpu of h100, of which Queue train has 8 left now",
    ),
    Reason.TOO_MANY_RUNNING: (
        {"running": 3, "most": 3},
        {"queue": "train"},
        "Queue train runs 3 of at most 3 gangs",
    ),
    Reason.RUNNING_LIMIT: (
        {"running": 24, "most": 32, "wanted": 16},
        {"who": "user jane", "what": "GPUs", "queue": "train"},
        "user jane may run 32 GPUs at a time in Queue train: 24 run, and this asks for 16 more",
    ),
    Reason.BEHIND_IN_QUEUE: (
        {},
        {"head": "ns/b", "queue": "train"},
        "ns/b is ahead in Queue train, and no gang may pass it",
    ),
    Reason.PREEMPTING: (
        {"pods": 16},
        {"notice": "; they have notice until noon"},
        "its place is being cleared; pods of others that are still there: 16; they have notice until noon",
    ),
    Reason.BEING_EVICTED: (
        {"pods": 3},
        {"by": "ns/b"},
        "is being evicted for ns/b; pods of it that are still there: 3",
    ),
    Reason.NODES_LOST: (
        {"lost": 2},
        {"nodes": "n1, n2", "detail": "14 of 16 members fit now"},
        "members on lost nodes (n1, n2): 2; there is no other place for them now: 14 of 16 members fit now",
    ),
    Reason.REPAIRING: (
        {"lost": 2},
        {},
        "members that were on lost nodes: 2; their new places are kept until others come for them",
    ),
    Reason.KEPT_FOR_REPAIRS: (
        {},
        {"queue": "train"},
        "the free capacity is kept for repairs of gangs of Queue train",
    ),
    Reason.MIN_RESOURCES_UNMET: (
        {"needed": 32, "free": 8},
        {"wanted": "32 nvidia.com/gpu"},
        "minResources asks for 32 nvidia.com/gpu, the cluster has less free",
    ),
    Reason.NO_NODE_MATCHES: (
        {"nodes": 5},
        {"unplaceable": "a-0"},
        "none of 5 nodes matches the selectors and tolerations of a-0",
    ),
    Reason.EXCEEDS_CLUSTER: ({"fits": 3, "minMember": 4}, {}, "3 of 4 members would fit on the empty cluster"),
    Reason.EXCEEDS_DOMAIN: (
        {"fits": 2, "minMember": 3},
        {"level": "rack", "part": "all"},
        "no rack is large enough for all, however empty: at most 2 of 3 members fit",
    ),
    Reason.NEVER_ALIGNED: (
        {"fits": 0, "minMember": 1},
        {"request": "5 nvidia.com/gpu"},
        (
            "the kubelets' Topology Managers would admit 0 of 1 members on the empty cluster: no node has "
            "5 nvidia.com/gpu in as few NUMA zones as its policy demands"
        ),
    ),
    Reason.UNKNOWN_LEVEL: (
        {},
        {"level": "pod", "known": "block, rack, node"},
        "no topology level is called pod; known: block, rack, node",
    ),
    Reason.DOMAIN_FULL: (
        {"fits": 2, "minMember": 3},
        {"level": "rack", "part": "all"},
        "no rack has room for all now: at most 2 of 3 members fit",
    ),
    Reason.ZONES_FULL: (
        {"fits": 0, "counted": 1, "minMember": 1},
        {},
        (
            "0 of 1 members fit now into NUMA zones as the kubelets' Topology Managers demand; by their number alone "
            "1 would"
        ),
    ),
    Reason.REJECTED_BY_KUBELET: (
        {"fits": 1, "minMember": 2},
        {},
        "kubelets rejected such pods on nodes that have room; 1 of 2 members fit on other nodes",
    ),
    Reason.SEARCH_GAVE_UP: (
        {"searched": 12, "nodes": 40, "minMember": 4},
        {},
        "no place found yet, and none ruled out: the search knows what 12 of 40 nodes hold together",
    ),
    Reason.INSUFFICIENT_CAPACITY: ({"fits": 3, "minMember": 4}, {}, "3 of 4 members fit now"),
    Reason.AWAITING_NODES: (
        {"fits": 3, "minMember": 4, "pods": 4},
        {"detail": "3 of 4 members fit now", "request": "ns/a-1", "state": "Accepted"},
        "3 of 4 members fit now; ProvisioningRequest ns/a-1 asks for nodes for 4 pods: Accepted",
    ),
    Reason.BEHIND_HEAD: ({}, {"head": "ns/b"}, "the free capacity is held for ns/b, which is ahead in the queue"),
    Reason.BACKING_OFF: ({"attempts": 2}, {}, "backing off after 2 reservations that did not start"),
    Reason.BINDING_REFUSED: ({}, {"detail": "403 Forbidden: no"}, "the API server does not bind it: 403 Forbidden: no"),
    Reason.REFUSED_BY_SCHEDULER: ({}, {"detail": "0/4 nodes"}, "kube-scheduler refused: 0/4 nodes"),
    Reason.MAX_MEMBER_REACHED: (
        {"beyond": 2},
        {},
        "the gang has as many members on nodes as its maximum allows; 2 wait for one of them to end",
    ),
    Reason.AWAITING_MEMBERS: ({"minMember": 4}, {}, "placed; waits for 4 members to reach bind"),
    Reason.WRITES_BACKLOGGED: ({}, {}, "nominations do not get through to the API server"),
    Reason.CACHE_NOT_SYNCED: ({}, {"detail": "pods not synced"}, "pods not synced"),
    Reason.CACHE_STALE: ({}, {"detail": "pods, nodes"}, "nothing heard from the API server about pods, nodes"),
    Reason.NOT_LEADING: ({}, {}, "the kube-scheduler beside this Muster does not hold the Lease"),
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    """Each reason renders its numbers and names, and nothing of them is taken for a placeholder."""
    numbers, names, sentence = SENTENCES[reason]
    assert Wait(reason, numbers, names).message == sentence


@pytest.mark.parametrize("reason", Reason)
def test_what_kube_scheduler_is_told_is_steady(reason: Reason) -> None:
    """How many fit, or what is left, changes with what others do; the sentence for kube-scheduler does not."""
    numbers, names, _ = SENTENCES[reason]
    changing = {"fits": 91, "counted": 92}
    told = Wait(reason, numbers | {key: value for key, value in changing.items() if key in numbers}, names)
    static = {Reason.EXCEEDS_CLUSTER, Reason.EXCEEDS_DOMAIN, Reason.NEVER_ALIGNED, Reason.REJECTED_BY_KUBELET}
    assert reason in static or told.steady_message == Wait(reason, numbers, names).steady_message


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_a_name_for_programs(reason: Reason) -> None:
    """The value serves as metric label, condition reason and anchor: letters only, capital first."""
    assert reason.isascii()
    assert reason.isalpha()
    assert reason[0].isupper()


def test_equal_waits_are_equal_values() -> None:
    """Two waits for the same reason with the same numbers are one state, not a change."""
    assert Wait(Reason.MEMBERS_MISSING, {"exist": 3}) == Wait(Reason.MEMBERS_MISSING, {"exist": 3})
    assert Wait(Reason.MEMBERS_MISSING, {"exist": 3}) != Wait(Reason.MEMBERS_MISSING, {"exist": 2})


def test_a_quotation_is_a_line_at_most() -> None:
    """What somebody wrote is repeated, but not a page of it."""
    assert quoted("two racks") == "'two racks'"
    assert quoted("r" * 80) == f"'{'r' * 80}'"
    assert quoted("r" * 81) == f"'{'r' * 77}...'"


def test_a_problem_reads_as_field_and_message() -> None:
    """A problem is written the way Kubernetes writes them."""
    assert str(Problem("spec.minMember", "-1 is negative")) == "spec.minMember: -1 is negative"
