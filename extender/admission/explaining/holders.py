"""Who holds what a gang needs, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from extender.admission.admission import Admission
from extender.admission.explaining.nearest import NearestMiss
from extender.admission.explaining.scene import Scene
from extender.admission.heads import declared
from extender.backfill.calendar import Calendar, expected_release
from extender.cluster.nodekinds import whole_gpus
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod, Shape

#: Holders that are told of at most.
MOST_HOLDERS = 10


@dataclass(frozen=True, slots=True)
class Holding:
    """What one gang, or one pod without gang, has of the nodes in question.

    `pod` is one of its pods, whose gang, if it has one, is called `ref`.
    """

    ref: GroupRef | None
    pod: Pod
    gpus: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has what a gang needs.

    `gang` is namespace/name, of a pod without gang its own. `ends_at` is when it is expected to give that back (epoch
    seconds), None if nobody has said, or if it is overdue by more than means anything.
    """

    gang: str
    gpus: int
    nodes: int
    priority: int
    queue: str
    ends_at: float | None
    overdue: bool


def holdings(scene: Scene, miss: NearestMiss | None) -> tuple[Holding, ...]:
    """Return who holds anything of what the nodes of a nearest miss are short of, who holds most first.

    Complexity: O(claims on those nodes).
    """
    if miss is None:
        return ()
    gpus_of = _TakenGpus(frozenset(miss.lacks))
    found: dict[GroupRef | str, _Tally] = {}
    for row in miss.rows:
        for uid, claim in scene.table.claims_on(scene.table.node(row).name):
            gpus = gpus_of[claim.shape]
            pod = None if gpus is None else scene.material.pods.get(uid)
            if gpus is None or pod is None or uid in scene.gang.members:
                continue
            holder: GroupRef | str = uid if pod.group is None else pod.group
            tally = found.get(holder)
            if tally is None:
                tally = found[holder] = _Tally(pod)
            tally.gpus += gpus
            tally.rows.add(row)
    held = [Holding(tally.pod.group, tally.pod, tally.gpus, len(tally.rows)) for tally in found.values()]
    return tuple(sorted(held, key=lambda each: (-each.gpus, -each.nodes, each.pod.key))[:MOST_HOLDERS])


@dataclass(slots=True)
class _Tally:
    """What somebody holds, as far as it has been counted."""

    pod: Pod
    gpus: int = 0
    rows: set[int] = field(default_factory=set)


class _TakenGpus(dict[Shape, int | None]):
    """By shape, how many GPUs a pod takes; None if it takes nothing of what is short. Many pods have few shapes."""

    def __init__(self, short: frozenset[str]) -> None:
        """Look at what pods take of `short`; if that is empty, at whatever they take."""
        super().__init__()
        self._short = short

    def __missing__(self, shape: Shape) -> int | None:
        """Look at a shape for the first time."""
        takes = not self._short or any(amount and name in self._short for name, amount in shape.requests)
        self[shape] = whole_gpus(shape) if takes else None
        return self[shape]


def identify(admission: Admission, held: Iterable[Holding]) -> tuple[Holder, ...]:
    """Return who the holders are as things stand now; those that are gone meanwhile are left out.

    For the event loop, as it reads what changes; there are MOST_HOLDERS at most.
    """
    now = admission.clock.now().timestamp()
    return tuple(holder for each in held if (holder := _identify(admission, each, now)) is not None)


def _identify(admission: Admission, held: Holding, now: float) -> Holder | None:
    sharing, pod = admission.sharing, held.pod
    if held.ref is None:
        if pod.uid not in admission.model.pods:
            return None
        managed = admission.model.manages(pod)
        duration, started = declared(pod), pod.started_at
        name, priority, queue = pod.key, pod.priority, sharing.queue_of_pod(pod) if managed else ""
    else:
        gang = admission.model.gangs.get(held.ref)
        if gang is None:
            return None
        duration, started = gang.expected_duration, gang.started_at
        name, priority, queue = str(held.ref), gang.priority, sharing.queue_of(gang)
    ends_at, overdue = _end((name, (pod.uid,)), started, duration, now)
    return Holder(name, held.gpus, held.nodes, priority, queue, ends_at, overdue)


def _end(
    who: tuple[str, Sequence[str]], started: float | None, duration: float | None, now: float
) -> tuple[float | None, bool]:
    """Return when somebody is expected to end, as starts are worked out, and whether that is overdue."""
    release = expected_release(*who, started, duration, now)
    if release is None:
        return None, False
    calendar = Calendar((release,), now)
    if not calendar.moments:
        return None, True
    return calendar.moments[0].at, bool(calendar.overdue)
