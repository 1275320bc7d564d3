"""What part a member plays in its gang, and where it stands among its like."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from extender.domain import keys
from extender.domain.integer import parse_integer
from extender.domain.membership import LWS_GROUP, RAY_NODE_TYPE

#: Roles whose members come before all others: rank 0 is theirs in MPI, PyTorch, Ray and Spark.
LEADING_ROLES = frozenset({"leader", "master", "launcher", "head", "chief", "driver"})

#: Sources: kubernetes-sigs/jobset api/jobset/v1alpha2; kubeflow/training-operator and kubeflow/mpi-operator
#: pkg/apis/kubeflow.org; volcano-sh/apis pkg/apis/batch/v1alpha1/labels.go; ray-project/kuberay utils/constant.go.
_JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
_KUBEFLOW_ROLES = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role")
_RAY_GROUP = "ray.io/group"
VOLCANO_TASK = "volcano.sh/task-spec"
#: Labels that stand for a member's role in one framework or another.
ROLE_LABELS = frozenset({keys.ROLE, _JOBSET_ROLE, *_KUBEFLOW_ROLES, _RAY_GROUP, VOLCANO_TASK})

#: Source: kubernetes-sigs/lws api/leaderworkerset/v1. The leader's worker index is 0.
_LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"

JOBSET_JOB = "jobset.sigs.k8s.io/job-index"
_COMPLETION = "batch.kubernetes.io/job-completion-index"
#: Where controllers write a member's number among those of its role, first match wins. Sources: Indexed Job and
#: StatefulSet (k8s.io/api/batch/v1, apps/v1); Kubeflow, Volcano and Kueue as above.
_INDEX_KEYS = (
    _COMPLETION,
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)


class Rank(NamedTuple):
    """A member's place in its gang: leading roles first, then role by role, then by number.

    `indices` are the numbers that controllers gave, the outermost first. Of a LeaderWorkerSet they say everything, as
    each group has its own leader: `role` is empty then.
    """

    follows: bool = True
    role: str = ""
    indices: tuple[int, ...] = ()


#: The rank of a member of which nothing is known but its name.
UNRANKED = Rank()


def read_role(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return a member's role, "" if nobody has named one; Muster's own label counts first."""
    if role := labels.get(keys.ROLE) or labels.get(_JOBSET_ROLE):
        return role
    if (worker := labels.get(_LWS_WORKER)) is not None:
        return "leader" if worker == "0" else "worker"
    for label in _KUBEFLOW_ROLES:
        if role := labels.get(label):
            return role.lower()  # the operator's own webhooks and early versions write `Worker`
    return labels.get(VOLCANO_TASK) or annotations.get(VOLCANO_TASK) or _ray_role(labels)


def read_rank(labels: Mapping[str, str], annotations: Mapping[str, str], role: str) -> Rank:
    """Return a member's rank; what is no number counts as none."""
    if _LWS_WORKER in labels:
        return _shared(Rank(indices=_numbers(labels.get(LWS_GROUP, "0"), labels[_LWS_WORKER])))
    text = _index(labels)
    if text is None:
        text = _index(annotations)
    outer = (labels[JOBSET_JOB],) if JOBSET_JOB in labels else ()
    indices = _numbers(*outer, text or "")
    return _shared(Rank(role not in LEADING_ROLES, role, indices)) if role or indices else UNRANKED


def _ray_role(labels: Mapping[str, str]) -> str:
    """Return `head`, or the group of a worker: groups differ in what they ask for, and have minimums of their own."""
    node_type = labels.get(RAY_NODE_TYPE, "")
    return (labels.get(_RAY_GROUP) or node_type) if node_type == "worker" else node_type


def _index(keyed: Mapping[str, str]) -> str | None:
    for key in _INDEX_KEYS:
        if (text := keyed.get(key)) is not None:
            return text
    return None


@lru_cache(maxsize=65_536)
def _shared(rank: Rank) -> Rank:
    """Return one object for equal ranks: every gang has a member 0."""
    return rank


def _numbers(*texts: str) -> tuple[int, ...]:
    """Read numbers up to the first text that is none."""
    numbers: list[int] = []
    for text in texts:
        number = parse_integer(text)
        if number is None:
            break
        numbers.append(number)
    return tuple(numbers)
