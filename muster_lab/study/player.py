"""Play a trace: tell the admission what happens, carry out what it wants done, let time jump to the next event."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from extender.admission.engine import Engine
from extender.admission.events import (
    Arrive,
    BindVerdict,
    Decide,
    Event,
    GroupGone,
    GroupSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    QueueSeen,
    Rebuild,
    Tick,
)
from extender.clock import ManualClock, thread_cpu_seconds
from extender.ledger.effects import Evict, Nomination
from extender.objects.keys import Options
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.placement.placement import describe, shares_of
from muster_lab.study.fleet import Fleet, Rooms, shape_of
from muster_lab.study.policy import StudyPolicy
from muster_lab.traces.trace import Trace, TraceJob


class StudyRun(NamedTuple):
    """One time that a job held its GPUs: from `start` until they were free again at `end` (seconds).

    `kept` are the seconds of work that counted in the end: less than it held them if it was evicted, or if it ran at a
    `pace` below 1, which is that of the fastest place that there could be for it.
    """

    job: int
    start: float
    end: float
    kept: float
    pace: float = 1.0


class StudyEviction(NamedTuple):
    """One gang that was evicted: its job, when, for whom (namespace/name, "" if unknown), why."""

    job: int
    at: float
    by: str
    reason: str


class UsageStep(NamedTuple):
    """How things stood from `at` (seconds) until the next step: GPUs that were free, stranded, and waited for."""

    at: float
    free: int
    stranded: float
    wanted: int


@dataclass(frozen=True, slots=True)
class StudyHistory:
    """A trace as one policy played it; jobs are named by their place in the trace.

    `waiting` says why those waited that had not ended when nothing more could happen. `passes` and `cpu_seconds` are
    what it took of this machine.
    """

    trace: Trace
    runs: tuple[StudyRun, ...]
    evictions: tuple[StudyEviction, ...]
    steps: tuple[UsageStep, ...]
    waiting: Mapping[int, Reason | None]
    passes: int
    cpu_seconds: float


#: Kubernetes' default terminationGracePeriodSeconds: how long an evicted pod holds its node on.
TERMINATION_SECONDS = 30.0
#: What time alone asks for is looked at once a second at most: the admission is asked for its next moment after it.
_LEAST_TICK = 1.0
#: When nothing is left that runs or arrives, deadlines and pauses still may let a gang start: so many of them, at
#: most, without anything happening.
_IDLE_TICKS = 256
#: More rounds at one moment mean that the admission takes back again and again what it has decided.
_MOST_ROUNDS = 1_000

_NAMESPACE = "study"

Progress: TypeAlias = Callable[[int, float, int], None]
"""Told how many jobs have ended, the time (seconds), and how many gangs wait."""


class StudyError(RuntimeError):
    """What must not happen: the admission promised what is not there, or does not come to rest."""


class _Kind(IntEnum):
    """What an event is; of simultaneous ones, what frees nodes comes first."""

    ENDS = 0
    GONE = 1
    ARRIVES = 2


class _Event(NamedTuple):
    at: float
    kind: _Kind
    job: int
    attempt: int


@dataclass(slots=True)
class _Life:
    """A job on its way: its members as the API server has them, and what it has done so far.

    `nominated` are members that may bind (pod UID -> node). `done` is the work that a restart keeps (seconds);
    `started` is when the present attempt began to run, None if it does not, and `pace` the work that it does there in a
    second.
    """

    index: int
    job: TraceJob
    group: PodGroup
    pods: dict[str, Pod] = field(default_factory=dict)
    nominated: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    started: float | None = None
    leaving: bool = False
    done: float = 0.0
    pace: float = 1.0


class StudyPlayer:
    """One trace under one policy, on nodes that are all well.

    kube-scheduler is played as instantaneous: a nominated member is at bind as soon as its node has room, and its
    Binding is made when the barrier opens. Evicted gangs leave after 30 s; their owner creates them again at once.
    """

    def __init__(self, trace: Trace, fleet: Fleet, policy: StudyPolicy) -> None:
        """Prepare an empty cluster; raise TraceError for a job that could never run there."""
        fleet.check(trace)
        self._trace = trace
        self._policy = policy
        self._clock = ManualClock()
        self._engine = Engine(policy.settings(), self._clock)
        self._admission = self._engine.admission
        self._rooms = Rooms(fleet, trace)
        self._queues = policy.names(trace)
        self._lives: dict[int, _Life] = {}
        self._life_of: dict[str, _Life] = {}
        self._ready: dict[int, _Life] = {}  # lives with nominated members
        self._wanted = 0
        self._ended = 0
        self._runs: list[StudyRun] = []
        self._evictions: list[StudyEviction] = []
        self._evictions_due: dict[str, Evict] = {}  # pod UID -> what is to be evicted
        self._steps: list[UsageStep] = []
        for node in fleet.each():
            self._tell(NodeSeen(node))
        for queue in policy.queues(trace, fleet):
            self._tell(QueueSeen(queue))
        self._tell(Rebuild())
        self._events = [_Event(job.submitted, _Kind.ARRIVES, index, 0) for index, job in enumerate(trace.jobs)]
        heapq.heapify(self._events)

    def play(self, progress: Progress | None = None) -> StudyHistory:
        """Play until nothing more happens, and tell `progress` now and then."""
        began = thread_cpu_seconds()
        idle = 0
        while (moment := self._next()) is not None and idle < _IDLE_TICKS:
            self._clock.advance(moment - self._clock.monotonic())
            before = self._standing()
            while self._events and self._events[0].at <= moment:
                self._happen(heapq.heappop(self._events))
            self._settle()
            changed = before != self._standing()
            idle = 0 if changed or self._events else idle + 1
            if changed:
                self._steps.append(UsageStep(moment, self._rooms.free, self._rooms.stranded, self._wanted))
                if progress is not None:
                    progress(self._ended, moment, len(self._lives))
        waits = self._admission.reservations.waits
        waiting = {
            index: None if (wait := waits.get(life.group.uid)) is None else wait.reason
            for index, life in self._lives.items()
        }
        return StudyHistory(
            self._trace,
            tuple(self._runs),
            tuple(self._evictions),
            tuple(self._steps),
            waiting,
            self._admission.passes,
            thread_cpu_seconds() - began,
        )

    def _standing(self) -> tuple[float, ...]:
        """Return numbers of which one differs whenever something has happened."""
        rooms = self._rooms
        return rooms.free, rooms.stranded, self._wanted, len(self._lives), len(self._runs), len(self._evictions)

    def _next(self) -> float | None:
        """Return when something happens next, None if nothing does."""
        times = [self._events[0].at] if self._events else []
        tick = self._admission.next_tick()
        if tick is not None and self._lives:
            times.append(max(tick, self._clock.monotonic() + _LEAST_TICK))
        return min(times, default=None)

    def _happen(self, event: _Event) -> None:
        if event.kind is _Kind.ARRIVES:
            self._arrive(event.job)
            return
        life = self._lives.get(event.job)
        if life is None or life.attempt != event.attempt:
            return
        if event.kind is _Kind.ENDS and not life.leaving:
            self._end(life)
        elif event.kind is _Kind.GONE:
            self._start_over(life)

    def _settle(self) -> None:
        """Let the admission decide, and carry out what it wants, until it wants nothing more at this moment."""
        for _ in range(_MOST_ROUNDS):
            self._tell(Tick())
            self._tell(Decide())
            while self._admission.is_busy:
                self._tell(Decide())
            evictions, self._evictions_due = self._evictions_due, {}
            moved = self._evict(evictions.values())
            moved |= self._bind()
            if not moved and not self._admission.pending:
                return
        raise StudyError(f"{_MOST_ROUNDS} passes at {self._clock.monotonic():.3f} s have not come to rest")

    def _tell(self, event: Event[Any]) -> None:
        """Have the engine take in an event, and remember what it calls for until it is carried out."""
        effects = self._engine.apply(event)
        self._nominate(effects.nominations)
        self._evictions_due |= effects.evictions

    def _arrive(self, index: int) -> None:
        """Create the PodGroup of a job, and its pods."""
        job = self._trace.jobs[index]
        width = len(str(len(self._trace.jobs)))
        serial = f"{index:0{width}d}"  # UIDs decide between gangs of one second: in order of submission
        options = Options(
            queue=self._queues[job.queue],
            expected_duration=job.declared,
            preemptible=None if job.preemptible else False,
        )
        ref = GroupRef(COSCHEDULING, _NAMESPACE, f"gang-{serial}")
        group = PodGroup(ref, uid=f"gang-{serial}", min_member=job.pods, created=self._now(), options=options)
        life = self._lives[index] = _Life(index, job, group)
        self._tell(GroupSeen(group))
        self._create_pods(life)

    def _create_pods(self, life: _Life) -> None:
        job, group = life.job, life.group
        first = Pod(
            uid="",
            namespace=_NAMESPACE,
            name="",
            shape=shape_of(job),
            created=self._now(),
            group=group.ref,
            priority=job.priority if self._policy.priorities else 0,
            scheduler_name=self._admission.settings.scheduler_names[0],
        )
        for member in range(job.pods):
            uid = f"{group.uid}-{life.attempt}-{member}"
            pod = life.pods[uid] = replace(first, uid=uid, name=f"{group.ref.name}-{member}")
            self._life_of[uid] = life
            self._tell(PodSeen(pod))
        self._wanted += job.all_gpus

    def _nominate(self, nominations: Mapping[str, Nomination]) -> None:
        """Take in where members are wanted; kube-scheduler brings them there."""
        for uid, nomination in nominations.items():
            life = self._life_of.get(uid)
            if life is None:
                continue
            if nomination.node:
                life.nominated[uid] = nomination.node
                self._ready[life.index] = life
            else:
                life.nominated.pop(uid, None)

    def _bind(self) -> bool:
        """Bring to bind the gangs that are nominated; return whether any was bound. Their nodes have room for them."""
        bound = False
        for index, life in [*self._ready.items()]:
            shape = shape_of(life.job)
            if not self._rooms.hold((node, shape) for node in life.nominated.values()):
                raise StudyError(f"{life.group.ref} is promised nodes that have no room for it")
            del self._ready[index]
            nodes, life.nominated = life.nominated, {}
            free: list[str] = []
            released: list[str] = []
            for uid, node in nodes.items():
                effects = self._engine.apply(Arrive(uid, node))
                arrival = effects.answer
                if arrival.verdict is BindVerdict.REFUSE:
                    raise StudyError(f"a nominated pod is refused at bind: {arrival.message}")
                if arrival.verdict is BindVerdict.WRITE:
                    free.append(uid)
                released += effects.released
            for uid in dict.fromkeys((*released, *free)):
                self._write_binding(life, uid, nodes[uid])
                bound = True
            self._start_running(life)
        return bound

    def _write_binding(self, life: _Life, uid: str, node: str) -> None:
        pod = replace(
            life.pods[uid],
            node_name=node,
            nominated_node=node,
            phase=Phase.RUNNING,
            started_at=self._clock.now().timestamp(),
        )
        life.pods[uid] = pod
        self._rooms.take(node, pod.shape)
        self._tell(PodSeen(pod))

    def _start_running(self, life: _Life) -> None:
        """Let the training go on where it was saved, if all members are there."""
        if life.started is None and all(pod.node_name for pod in life.pods.values()):
            life.started = self._clock.monotonic()
            self._wanted -= life.job.all_gpus
            life.pace = self._pace(life)
            ends = life.started + max(life.job.runtime - life.done, 0.0) / life.pace
            heapq.heappush(self._events, _Event(ends, _Kind.ENDS, life.index, life.attempt))

    def _pace(self, life: _Life) -> float:
        """Return how many seconds of its work a job does in one: fewer where its collectives are slow."""
        job, model = life.job, self._admission.model
        gang = model.gangs.get(life.group.ref)
        if gang is None or not job.communication:
            return 1.0
        nodes = {uid: pod.node_name for uid, pod in life.pods.items()}
        placement = describe(nodes, model.table, model.tree, gang.topology.objective)
        products = {share.product for share in shares_of(nodes, model.table).values() if share.product is not None}
        if placement is None or placement.bus_bandwidth is None:
            return 1.0
        fastest = max(product.fastest(job.all_gpus) for product in products)
        return 1 / (1 + job.communication * max(fastest / placement.bus_bandwidth - 1, 0.0))

    def _end(self, life: _Life) -> None:
        """Let the members succeed, and have what is left of the job deleted."""
        now = self._clock.monotonic()
        if life.started is not None:
            self._runs.append(StudyRun(life.index, life.started, now, (now - life.started) * life.pace, life.pace))
        for pod in life.pods.values():
            self._tell(PodSeen(replace(pod, phase=Phase.SUCCEEDED)))
        self._forget_pods(life)
        self._tell(GroupGone(life.group.ref, life.group.uid))
        del self._lives[life.index]
        self._ended += 1

    def _evict(self, evictions: Iterable[Evict]) -> bool:
        """Evict: a gang that loses a member stops as a whole, since none of it can go on without the others."""
        struck: dict[int, tuple[_Life, Evict]] = {}
        for eviction in evictions:
            life = self._life_of.get(eviction.pod.uid)
            if life is not None and not life.leaving:
                struck.setdefault(life.index, (life, eviction))
        now = self._clock.monotonic()
        for life, eviction in struck.values():
            self._evictions.append(StudyEviction(life.index, now, eviction.by, eviction.reason))
            life.leaving = True
            life.nominated.clear()
            self._ready.pop(life.index, None)
            for uid, pod in life.pods.items():
                life.pods[uid] = replace(pod, deleting=True)
                self._tell(PodSeen(life.pods[uid]))
            gone = now + (TERMINATION_SECONDS if life.started is not None else 0.0)
            heapq.heappush(self._events, _Event(gone, _Kind.GONE, life.index, life.attempt))
            if life.started is not None:
                saved = _saved(life.job, life.done + (now - life.started) * life.pace)
                self._runs.append(StudyRun(life.index, life.started, gone, saved - life.done, life.pace))
                life.done = saved
            else:
                self._wanted -= life.job.all_gpus
        return bool(struck)

    def _start_over(self, life: _Life) -> None:
        """Let evicted members go, and their owner create them again."""
        self._forget_pods(life)
        life.attempt += 1
        life.started, life.leaving = None, False
        self._create_pods(life)

    def _forget_pods(self, life: _Life) -> None:
        for uid, pod in life.pods.items():
            if pod.node_name:
                self._rooms.give_back(pod.node_name, pod.shape)
            self._tell(PodGone(uid))
            del self._life_of[uid]
        life.pods.clear()

    def _now(self) -> str:
        """Return the time as the API server writes it: whole seconds."""
        return f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _saved(job: TraceJob, worked: float) -> float:
    """Return how much of the work survives an eviction: up to the last checkpoint, nothing without any."""
    return 0.0 if job.checkpoint is None else math.floor(worked / job.checkpoint) * job.checkpoint
