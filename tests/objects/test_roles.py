"""Roles and ranks, as the controllers of many frameworks write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.podoptions import UNRANKED, RoleRank, read_rank, read_role

INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
TASK = "volcano.sh/task-spec"


@pytest.mark.parametrize(
    ("labels", "annotations", "role"),
    [
        ({"muster.dev/role": "ps", REPLICATED_JOB: "workers"}, {}, "ps"),
        ({REPLICATED_JOB: "workers", REPLICA_TYPE: "worker"}, {}, "workers"),
        ({LWS_WORKER: "0"}, {}, "leader"),
        ({LWS_WORKER: "3"}, {}, "worker"),
        ({REPLICA_TYPE: "Worker"}, {}, "worker"),
        ({"training.kubeflow.org/job-role": "launcher"}, {}, "launcher"),
        ({TASK: "worker"}, {TASK: "ps"}, "worker"),
        ({}, {TASK: "ps"}, "ps"),
        ({"ray.io/node-type": "head"}, {}, "head"),
        ({"muster.dev/role": "", "ray.io/node-type": "worker"}, {}, "worker"),
        ({"ray.io/node-type": "worker", "ray.io/group": "h100"}, {}, "h100"),
        ({"ray.io/node-type": "head", "ray.io/group": "headgroup"}, {}, "head"),
        ({"app": "train"}, {"note": "worker"}, ""),
    ],
)
def test_a_role_is_what_its_framework_calls_it(labels: dict[str, str], annotations: dict[str, str], role: str) -> None:
    """Muster's own label counts first, then JobSet, LeaderWorkerSet, Kubeflow, Volcano and Ray."""
    assert read_role(labels, annotations) == role


@pytest.mark.parametrize(
    ("labels", "annotations", "indices"),
    [
        ({INDEX: "3"}, {INDEX: "4"}, (3,)),
        ({INDEX: "3", POD_INDEX: "4"}, {}, (3,)),
        ({POD_INDEX: "4"}, {}, (4,)),
        ({}, {INDEX: "5"}, (5,)),
        ({"training.kubeflow.org/replica-index": "2"}, {}, (2,)),
        ({"volcano.sh/task-index": "6"}, {}, (6,)),
        ({}, {"volcano.sh/task-index": "6"}, (6,)),
        ({"kueue.x-k8s.io/pod-group-pod-index": "1"}, {}, (1,)),
        ({JOB_INDEX: "2", INDEX: "7"}, {}, (2, 7)),
        ({JOB_INDEX: "2"}, {}, (2,)),
        ({LWS_GROUP: "1", LWS_WORKER: "4"}, {}, (1, 4)),
        ({LWS_WORKER: "4", POD_INDEX: "9"}, {}, (0, 4)),
        ({INDEX: "first"}, {INDEX: "5"}, ()),
        ({}, {INDEX: ""}, ()),
        ({}, {}, ()),
    ],
)
def test_a_members_number_is_what_its_controller_wrote(
    labels: dict[str, str], annotations: dict[str, str], indices: tuple[int, ...]
) -> None:
    """Outer numbers come before inner ones; labels go before annotations, and what is no number is none."""
    rank = read_rank(labels, annotations, "")
    assert rank == RoleRank(indices=indices)
    assert (rank is UNRANKED) == (not indices)


@pytest.mark.parametrize("role", ["leader", "master", "launcher", "head", "chief", "driver"])
def test_leading_roles_come_first(role: str) -> None:
    """The member that others connect to is rank 0, whatever its number and its role's name."""
    assert read_rank({INDEX: "9"}, {}, role) < read_rank({INDEX: "0"}, {}, "a-worker") < read_rank({}, {}, "worker")


def test_members_of_a_role_stand_together() -> None:
    """The third worker is next to the second, not to the third parameter server."""
    ranks = sorted(read_rank({INDEX: str(number)}, {}, role) for role in ("worker", "ps") for number in range(3))
    assert [(rank.role, *rank.indices) for rank in ranks] == [
        ("ps", 0),
        ("ps", 1),
        ("ps", 2),
        ("worker", 0),
        ("worker", 1),
        ("worker", 2),
    ]


def test_groups_of_a_leader_worker_set_stand_together() -> None:
    """Each group follows its own leader: leaders of other groups do not come between."""
    members = [(group, worker) for group in range(2) for worker in range(3)]
    labels = [{LWS_GROUP: str(group), LWS_WORKER: str(worker)} for group, worker in members]
    ranks = [read_rank(each, {}, read_role(each, {})) for each in reversed(labels)]
    assert [rank.indices for rank in sorted(ranks)] == members


KEYS = st.sampled_from([INDEX, POD_INDEX, JOB_INDEX, LWS_GROUP, LWS_WORKER, REPLICA_TYPE, TASK])


@given(st.lists(st.dictionaries(KEYS, st.text(max_size=3) | st.integers(0, 20).map(str)), min_size=2, max_size=5))
def test_any_two_ranks_can_be_compared(pods: list[dict[str, str]]) -> None:
    """Whatever stands on them, members have one order."""
    ranks = [read_rank(labels, {}, read_role(labels, {})) for labels in pods]
    backwards = ranks[::-1]
    assert sorted(ranks) == sorted(backwards)
