"""LeaderWorkerSets: each group of a set is a gang, and its pods say how many they are.

The object matters where the workers of a group are made only when their leader is bound, or ready: of that the pods
alone do not say enough. Source: kubernetes-sigs/lws api/leaderworkerset/v1 and pkg/controllers/pod_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct

from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef
from extender.objects.peers import field_of
from extender.objects.podgroup import ANY_NAME, GroupRef, PodGroup, SubmittedPodSet, numbered
from extender.objects.podspec import PodSpec, PodTemplate
from extender.objects.reason import Problem
from extender.objects.sources.roster import RosterPart, first_negative, gang_of, role_of
from extender.objects.sources.source import Keyed, Source, WorkloadKind
from extender.objects.text import parse_integer

LEADER_WORKER_SET: Final = "leaderworkerset.x-k8s.io"
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
#: The leader's worker index is 0.
LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"

_LEADER_READY = "LeaderReady"
_TEMPLATE = "spec.leaderWorkerTemplate"


class LeaderWorkerTemplate(Struct, gc=False, frozen=True, rename="camel"):
    """What a group consists of: `size` pods, the leader among them; without a template of its own it has the worker's.

    One of the two templates at least is needed.
    """

    size: Int32 | None = None
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate | None = None


class RollingUpdate(Struct, gc=False, frozen=True, rename="camel"):
    """How many groups more than `replicas` there may be during an update: a number, or a percentage of them."""

    max_surge: int | str | None = None


class RolloutStrategy(Struct, gc=False, frozen=True, rename="camel"):
    """How the groups of a LeaderWorkerSet are replaced."""

    rolling_update_configuration: RollingUpdate | None = None


class LeaderWorkerSetSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a LeaderWorkerSet; `startup_policy` is LeaderCreated or LeaderReady, `group_identity` Ordinal or Hash."""

    replicas: Int32 | None = None
    group_identity: str | None = None
    leader_worker_template: LeaderWorkerTemplate | None = None
    startup_policy: str | None = None
    rollout_strategy: RolloutStrategy | None = None


class LeaderWorkerSet(Struct, gc=False, frozen=True):
    """A `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet."""

    metadata: ObjectMeta | None = None
    spec: LeaderWorkerSetSpec | None = None


decode_leader_worker_set = Decoder(LeaderWorkerSet)


def read_leader_worker_set(workload: LeaderWorkerSet) -> tuple[PodGroup, ...]:
    """Read a `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet into its groups; none where their pods say everything.

    A bad count becomes the `problem` of the first group; there are no others then. Of groups that are known by a hash
    there is one, which stands for all.
    """
    meta = workload.metadata or ObjectMeta()
    spec = workload.spec or LeaderWorkerSetSpec()
    template = spec.leader_worker_template or LeaderWorkerTemplate()
    exclusive = (meta.annotations or {}).get(EXCLUSIVE_TOPOLOGY, "")
    if not makes_leaders_first(meta, spec):
        return ()
    problem = first_negative({"spec.replicas": spec.replicas, f"{_TEMPLATE}.size": template.size})
    hashed = spec.group_identity == "Hash"
    indices = [ANY_NAME] if hashed else map(str, range(1 if problem else max(_groups(spec), 1)))
    first, *others = [_group(meta, template, index) for index in indices]
    if exclusive:
        options = first.options.with_problems((_two_steps(exclusive),))
        first = replace(first, options=options)  # people need not be told for each group
    return (replace(first, problem=problem), *others)


def makes_leaders_first(meta: ObjectMeta | None, spec: LeaderWorkerSetSpec) -> bool:
    """Tell whether the workers of a group are made when its leader is bound, or ready."""
    exclusive = ((meta.annotations if meta is not None else None) or {}).get(EXCLUSIVE_TOPOLOGY)
    return bool(exclusive) or spec.startup_policy == _LEADER_READY


def _group(meta: ObjectMeta, template: LeaderWorkerTemplate, index: str) -> PodGroup:
    workers = max((1 if template.size is None else template.size) - 1, 0)
    leader = role_of(template.leader_template or template.worker_template, "leader")
    parts = (RosterPart.of(leader, 1), RosterPart.of(role_of(template.worker_template, "worker"), workers, first=0))
    ref = GroupRef(LEADER_WORKER_SET, meta.namespace or "", _group_name(meta.name or "", index))
    group = gang_of(ref, ObjectRef.of(f"{LEADER_WORKER_SET}/v1", "LeaderWorkerSet", meta), meta, parts)
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


def leader_worker_set_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods that the groups of a LeaderWorkerSet have at first."""
    workload = of.whole(LeaderWorkerSet)
    return pods_of_groups(of, workload.metadata, workload.spec or LeaderWorkerSetSpec(), {LWS_NAME: of.name})


def pods_of_groups(
    of: Manifest, meta: ObjectMeta | None, spec: LeaderWorkerSetSpec, labels: Keyed, where: str = ""
) -> Sequence[SubmittedPodSet]:
    """Return the pods that the groups of a set have at first, which stands at `where` in an object.

    They have `labels`, the name of the set among them.
    """
    set_name = labels[LWS_NAME]
    template = spec.leader_worker_template or LeaderWorkerTemplate()
    size = 1 if template.size is None else template.size
    replicas = 1 if spec.replicas is None else spec.replicas
    groups = numbered(set_name, replicas, of, f"{where}spec.replicas")
    workers = numbered(set_name, max(size - 1, 0), of, f"{where}{_TEMPLATE}.size")
    numbered(set_name, replicas * max(size, 0), of, f"{where}{_TEMPLATE}.size")
    leaders_first = makes_leaders_first(meta, spec)
    annotations = {LWS_SIZE: str(size)}
    own = f"{where}{_TEMPLATE}.{'leaderTemplate' if template.leader_template is not None else 'workerTemplate'}"
    sets: list[SubmittedPodSet] = []
    for number, name in enumerate(groups):
        keys = {**labels, LWS_GROUP: str(number)}
        leader = template.leader_template or template.worker_template
        sets.append(SubmittedPodSet(leader, own, (name,), keys, annotations, (LWS_WORKER,)))
        if not leaders_first:
            names = tuple(f"{name}-{index}" for index in range(1, len(workers) + 1))
            at, worker = f"{where}{_TEMPLATE}.workerTemplate", template.worker_template
            sets.append(SubmittedPodSet(worker, at, names, keys, annotations, (LWS_WORKER,), first=1))
    return sets


def _group_name(name: str, index: str) -> str:
    """Return what the group number `index` of the set called `name` is called, as its leader is."""
    return f"{name}-{index}"


def _gang(_spec: PodSpec, labels: Keyed, _annotations: Keyed) -> str:
    name, index = labels.get(LWS_NAME), labels.get(LWS_GROUP)
    return _group_name(name, index) if name and index else ""


def _role(labels: Keyed, _annotations: Keyed) -> str:
    worker = labels.get(LWS_WORKER)
    if worker is None:
        return ""
    return "leader" if worker == "0" else "worker"


SOURCE = Source(
    api=LEADER_WORKER_SET,
    noun="LeaderWorkerSet",
    gang=_gang,
    gang_keys=(LWS_NAME,),
    kinds=(
        WorkloadKind(
            LEADER_WORKER_SET,
            "LeaderWorkerSet",
            "leaderworkersets",
            ("v1",),
            decode_leader_worker_set,
            lambda item, _priorities: read_leader_worker_set(item),
            leader_worker_set_pods,
        ),
    ),
    role=_role,
    role_keys=(LWS_WORKER,),
    whole_index=(LWS_GROUP, LWS_WORKER),
    size_annotation=LWS_SIZE,
)
