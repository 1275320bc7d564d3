"""LeaderWorkerSets of which the pods alone do not say enough.

Each group is a gang of its own, and its pods say how many they are. But the workers of some sets are made only when
their leader is bound, or ready. Source: kubernetes-sigs/lws api/leaderworkerset/v1 and
pkg/controllers/pod_controller.go.
"""

from __future__ import annotations

from dataclasses import replace

from extender.domain.integer import parse_integer
from extender.domain.membership import GroupApi, GroupRef, lws_group
from extender.domain.peers import field_of
from extender.domain.podgroup import PodGroup
from extender.domain.reason import Problem
from extender.domain.workloads.roster import Part, first_negative, gang_of, object_ref, role_of
from extender.wire.kubernetes import ObjectMeta
from extender.wire.workloads import (
    LeaderWorkerSet,
    LeaderWorkerSetSpec,
    LeaderWorkerTemplate,
    RollingUpdate,
    RolloutStrategy,
)

API_VERSION = "leaderworkerset.x-k8s.io/v1"
EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"

_LEADER_READY = "LeaderReady"


def read_leader_worker_set(workload: LeaderWorkerSet) -> tuple[PodGroup, ...]:
    """Read a `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet into its groups; none where their pods say everything.

    A bad count becomes the `problem` of the first group; there are no others then.
    """
    meta = workload.metadata or ObjectMeta()
    spec = workload.spec or LeaderWorkerSetSpec()
    template = spec.leader_worker_template or LeaderWorkerTemplate()
    exclusive = (meta.annotations or {}).get(EXCLUSIVE_TOPOLOGY, "")
    if not exclusive and spec.startup_policy != _LEADER_READY:
        return ()
    problem = first_negative({"spec.replicas": spec.replicas, "spec.leaderWorkerTemplate.size": template.size})
    first, *others = [_group(meta, template, index) for index in range(1 if problem else max(_groups(spec), 1))]
    if exclusive:
        options = first.options.with_problems((_two_steps(exclusive),))
        first = replace(first, options=options)  # people need not be told for each group
    return (replace(first, problem=problem), *others)


def _group(meta: ObjectMeta, template: LeaderWorkerTemplate, index: int) -> PodGroup:
    workers = max((1 if template.size is None else template.size) - 1, 0)
    leader = role_of(template.leader_template or template.worker_template, "leader")
    parts = (Part.of(leader, 1), Part.of(role_of(template.worker_template, "worker"), workers, first=0))
    ref = GroupRef(GroupApi.LEADER_WORKER_SET, meta.namespace or "", lws_group(meta.name or "", str(index)))
    group = gang_of(ref, object_ref(API_VERSION, "LeaderWorkerSet", meta), meta, parts)
    return replace(group, uid=f"{group.uid}/{index}")


def _groups(spec: LeaderWorkerSetSpec) -> int:
    """Return how many groups there can be at a time, those included that an update adds."""
    replicas = 1 if spec.replicas is None else spec.replicas
    update = (spec.rollout_strategy or RolloutStrategy()).rolling_update_configuration or RollingUpdate()
    surge = update.max_surge or 0
    if isinstance(surge, str):
        percent = parse_integer(surge.removesuffix("%")) or 0
        surge = -(-replicas * percent // 100)
    return replicas + max(surge, 0)


def _two_steps(key: str) -> Problem:
    return Problem(
        field_of(EXCLUSIVE_TOPOLOGY),
        f"keeps groups from starting at once: the workers are made when their leader is bound; "
        f"muster.dev/topology-required: {key} on the pods has each group in one {key} without that",
    )
