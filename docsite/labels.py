"""The reference of keys under `muster.dev/`: labels, annotations, the scheduling gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docsite.markdown import code, page, table
from extender.objects import holdings, jobsigns, keys

_INTRO = """
Every key under `muster.dev/` that is read or written. A key that does not exist, or a value that cannot be used,
makes an Event `InvalidField` that names it, on the object; the rest of the object counts. Where a key may stand on
PodGroup and pods, the PodGroup's counts first. What is read of other schedulers' and operators' keys:
[gangs](../gangs.md#the-words-of-other-schedulers).
"""

_GANG_OBJECT = "PodGroup, the operator's object, or pods"


@dataclass(frozen=True, slots=True)
class Key:
    """What a key is: `form` label, annotation or gate; the objects it is `on`; a `value`; what it means."""

    form: str
    on: str
    value: str
    meaning: str


#: Every key that the program knows; a test holds this to it.
MEANINGS: Mapping[str, Key] = {
    keys.GANG: Key(
        "label", "pods", "train", "the [gang](../gangs.md#labels-alone) that the pod is in, without an object"
    ),
    keys.USER: Key(
        "label", "pods", "jane", "who submitted them, for what [one user may run](../queues.md#what-one-user-may-run)"
    ),
    keys.GROUP: Key("label", "pods", "ml", "the same of a group"),
    keys.MIN_MEMBER: Key(
        "annotation",
        "pods, the operator's object",
        "4",
        "how many members must start together, where no PodGroup says so",
    ),
    keys.MAX_MEMBER: Key(
        "annotation",
        _GANG_OBJECT,
        "8",
        "how many members have a node at a time at most ([more](../gangs.md#more-pods-than-the-minimum))",
    ),
    keys.ROLE: Key("label", "pods", "worker", "the member's [role](../gangs.md#roles)"),
    keys.ROLE_MINIMUMS: Key(
        "annotation",
        _GANG_OBJECT,
        "leader=1,worker=4",
        "how many of each role must start together ([more](../gangs.md#a-minimum-for-each-role))",
    ),
    keys.TREE: Key(
        "annotation",
        _GANG_OBJECT,
        '{"parts": [{"name": "a", "required": "rack", "roles": {"worker": 4}}]}',
        "parts in parts, with a minimum and levels of their own ([more](../gangs.md#parts-in-parts))",
    ),
    keys.PLACEMENT: Key(
        "annotation",
        _GANG_OBJECT,
        "spread",
        "`binpack` or `spread`, or one for each resource ([more](../gangs.md#where-the-pods-go))",
    ),
    keys.TOPOLOGY_REQUIRED: Key(
        "annotation", _GANG_OBJECT, "block", "all members in one domain of this [level](../topology.md#the-network)"
    ),
    keys.TOPOLOGY_PREFERRED: Key("annotation", _GANG_OBJECT, "rack", "in one domain of this level where that can be"),
    keys.TOPOLOGY_SLICE: Key(
        "annotation", _GANG_OBJECT, "rack=4,node=2", "so many members each in one domain ([slices](../gangs.md#slices))"
    ),
    keys.TOPOLOGY_ROLE_GROUPS: Key(
        "annotation", _GANG_OBJECT, "leader+worker=rack", "the members with these roles in one domain of this level"
    ),
    keys.OBJECTIVE: Key(
        "annotation",
        _GANG_OBJECT,
        "alltoall",
        "the collective whose bandwidth the place is chosen for: `allreduce` (default), `alltoall`, `none`",
    ),
    keys.QUEUE: Key(
        "label or annotation", "PodGroup, pods", "team-a", "the [Queue](../queues.md#which-queue-a-gang-is-in)"
    ),
    keys.EXPECTED_DURATION: Key(
        "annotation", _GANG_OBJECT, "90m", "how long it runs once started ([backfill](../backfill.md))"
    ),
    keys.CHECKPOINT_INTERVAL: Key(
        "annotation",
        _GANG_OBJECT,
        "30m",
        "after how much work it saves it: [no more counts as lost](../queues.md#consolidation) with an eviction",
    ),
    jobsigns.LAST_CHECKPOINT: Key(
        "annotation",
        _GANG_OBJECT,
        "2026-11-26T09:30:00Z",
        "written by the job: when it last saved its work ([more](../checkpoints.md))",
    ),
    keys.EVICTION_NOTICE: Key(
        "annotation", _GANG_OBJECT, "5m", "how long before its eviction it is [told](../checkpoints.md#notice)"
    ),
    jobsigns.EVICTION_PLANNED: Key(
        "annotation",
        "pods",
        "2026-11-26T09:30:00Z/2026-11-26T09:40:00Z",
        "written by Muster: since when, and until when the gang has [notice](../checkpoints.md#notice)",
    ),
    jobsigns.EVICTION_ACKNOWLEDGED: Key(
        "annotation",
        _GANG_OBJECT,
        "2026-11-26T09:30:00Z/2026-11-26T09:40:00Z",
        "written by the job: a copy of `muster.dev/eviction-planned`; it may be evicted now",
    ),
    keys.HOLD: Key(
        "annotation",
        _GANG_OBJECT,
        "true",
        "the gang is not started while it is there, and waits with [Held](../reasons.md#held); what runs goes on",
    ),
    keys.MAX_RUNTIME: Key(
        "annotation", _GANG_OBJECT, "24h", "how long it runs [at most](../checkpoints.md#how-long-a-gang-may-run)"
    ),
    keys.PREEMPTIBLE: Key(
        "annotation",
        _GANG_OBJECT,
        "false",
        "`false`: [never evicted](../queues.md#pods-that-are-not-to-be-evicted); on a pod, for that pod alone",
    ),
    keys.BELOW_MINIMUM: Key(
        "annotation",
        _GANG_OBJECT,
        "repair",
        "what becomes of it when it runs and has lost members: `evict` (default), `repair`, `ignore`",
    ),
    keys.ADMISSION_GATE: Key(
        "scheduling gate",
        "pods",
        "",
        "taken off when the gang could start; until then no autoscaler looks at the pod "
        "([more](../operations.md#unmet-demand))",
    ),
    keys.GPU_LINKS: Key("annotation", "nodes", "", "how the node's GPUs are [linked](../gpu-links.md#what-is-read)"),
    holdings.OBSERVED_GPUS: Key("annotation", "pods", "0,1", "device indices that an agent of yours has seen"),
    holdings.OBSERVED_ZONES: Key("annotation", "pods", "0", "NUMA zone ids that an agent of yours has seen"),
    holdings.PREDICTED_GPUS: Key(
        "annotation",
        "pods",
        "0,1",
        "written with the Binding: the GPUs it is expected to get ([more](../operations.md#which-gpus-a-pod-holds))",
    ),
    keys.PLACE: Key(
        "annotation",
        "the object",
        "node-1*8,node-2*8",
        "written when Muster resumes it: where its pods are planned ([more](../suspended-jobs.md#what-happens))",
    ),
    holdings.PREDICTED_ZONES: Key("annotation", "pods", "0", "written with the Binding: the same for NUMA zones"),
}


def known_keys() -> set[str]:
    """Return every key under `muster.dev/` that the program knows."""
    named = {value for value in vars(keys).values() if isinstance(value, str) and value.startswith(keys.PREFIX)}
    return (named | keys.KNOWN_LABELS | keys.KNOWN_ANNOTATIONS | keys.TOLD_KEYS) - {keys.PREFIX}


def render() -> str:
    """Return the page."""
    nothing = Key("", "", "", "")
    rows = []
    for key in sorted(known_keys()):
        said = MEANINGS.get(key, nothing)
        rows.append((code(key), said.form, said.on, code(said.value), said.meaning))
    return page("Labels and annotations", _INTRO, table(("key", "is a", "on", "for example", "meaning"), rows))
