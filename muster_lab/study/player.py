"""Play a trace: tell the admission what happens, carry out what it wants done, let time jump to the next event."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

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
from extender.ledger.effects import Evict, EvictionReason, Nomination
from extender.objects.jobsigns import JobSigns
from extender.objects.keys import Options
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.placement.placement import describe, shares_of
from muster_lab.simulation.node_failures import UNREACHABLE_SECONDS
from muster_lab.study.failures import NO_FAILURES, SILENCE_SECONDS, FailureModel, silent
from muster_lab.study.fleet import Fleet, Rooms, shape_of
from muster_lab.study.history import StudyEviction, StudyHistory, StudyInterruption, StudyRun, UsageStep
from muster_lab.study.policy import StudyPolicy
from muster_lab.traces.trace import Trace, TraceJob

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
    """What an event is; of simultaneous ones, what frees nodes comes first.

    Of nodes: one is back, does not answer, loses its pods to the taint manager, or fails.
    """

    ENDS = 0
    GONE = 1
    BACK = 2
    SILENT = 3
    CLEARED = 4
    FAILS = 5
    ARRIVES = 6


class _Event(NamedTuple):
    """What happens, and to which job in which attempt, or to which node in which outage."""

    at: float
    kind: _Kind
    job: int
    attempt: int


_OF_NODES: Final = frozenset({_Kind.BACK, _Kind.SILENT, _Kind.CLEARED, _Kind.FAILS})


@dataclass(slots=True)
class _Life:
    """A job on its way: its members as the API server has them, and what it has done so far.

    `nominated` are members that may bind (pod UID -> node). `done` is the work that a restart keeps (seconds), `told`
    how much of it Muster has heard of;
    `started` is when the present attempt began to run, None if it does not, and `pace` the work that it does there in a
    second. `interrupted` is when a node failed under it, until it runs again; `failed` the same for as long as it holds
    its GPUs.
    """

    index: int
    job: TraceJob
    group: PodGroup
    pods: dict[str, Pod] = field(default_factory=dict)
    nominated: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    started: float | None = None
    failed: float | None = None
    interrupted: float | None = None
    leaving: bool = False
    done: float = 0.0
    told: float = 0.0
    pace: float = 1.0

    @property
    def works(self) -> bool:
        """Tell whether it holds GPUs as a whole: it runs, or would if no node had failed."""
        return self.started is not None or self.failed is not None


class StudyPlayer:
    """One trace under one policy, on nodes that fail as `failures` says until the last job is submitted.

    kube-scheduler is played as instantaneous: a nominated member is at bind as soon as its node has room, and its
    Binding is made when the barrier opens. Evicted gangs leave after 30 s; their owner creates them again at once.
    A gang stops when a node fails under it, and goes on from what it has saved when it is whole again.
    """

    def __init__(self, trace: Trace, fleet: Fleet, policy: StudyPolicy, failures: FailureModel = NO_FAILURES) -> None:
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
        self._interruptions: list[StudyInterruption] = []
        self._nodes = list(fleet.each())
        self._outages = list(failures.outages(fleet.nodes, trace.span))
        self._away: dict[str, int] = {}  # node -> which outage
        self._replaced = 0
        for node in self._nodes:
            self._tell(NodeSeen(node))
        for queue in policy.queues(trace, fleet):
            self._tell(QueueSeen(queue))
        self._tell(Rebuild())
        self._events = [_Event(job.submitted, _Kind.ARRIVES, index, 0) for index, job in enumerate(trace.jobs)]
        self._events += [_Event(out.at, _Kind.FAILS, out.node, number) for number, out in enumerate(self._outages)]
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
            if self._policy.told:
                self._tell_saved()
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
            (*self._interruptions, *self._unresumed()),
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
        if event.kind in _OF_NODES:
            self._happen_to_node(event)
            return
        life = self._lives.get(event.job)
        if life is None or life.attempt != event.attempt:
            return
        if event.kind is _Kind.ENDS and not life.leaving:
            self._end(life)
        elif event.kind is _Kind.GONE:
            self._start_over(life)

    def _happen_to_node(self, event: _Event) -> None:
        node, now = self._nodes[event.job], self._clock.monotonic()
        if event.kind is _Kind.FAILS:
            back = self._outages[event.attempt].back
            self._away[node.name] = event.attempt
            self._rooms.close(node.name)
            for life in [each for each in self._lives.values() if each.started is not None]:
                if not life.leaving and any(pod.node_name == node.name for pod in life.pods.values()):
                    self._interrupt(life)
            times = (now + SILENCE_SECONDS, now + SILENCE_SECONDS + UNREACHABLE_SECONDS, back)
            for at, kind in zip(times, (_Kind.SILENT, _Kind.CLEARED, _Kind.BACK), strict=True):
                heapq.heappush(self._events, _Event(at, kind, event.job, event.attempt))
        elif self._away.get(node.name) != event.attempt:
            return
        elif event.kind is _Kind.SILENT:
            self._tell(NodeSeen(silent(node, self._clock.now().timestamp())))
        else:
            uids = [uid for uid, life in self._life_of.items() if life.pods[uid].node_name == node.name]
            self._replace(uid for uid in uids if not self._life_of[uid].leaving)
            if event.kind is _Kind.BACK:
                del self._away[node.name]
                self._rooms.reopen(node.name)
                self._tell(NodeSeen(node))

    def _interrupt(self, life: _Life) -> None:
        """Stop a gang: a node has failed under it, and the others cannot go on alone."""
        self._stop(life, now := self._clock.monotonic())
        life.failed = life.interrupted = now
        life.attempt += 1
        self._wanted += life.job.all_gpus

    def _stop(self, life: _Life, until: float) -> None:
        """Note what an attempt has come to that ends now; its GPUs are held until then."""
        if life.started is not None:
            saved = _saved(life.job, life.done + (self._clock.monotonic() - life.started) * life.pace)
            self._runs.append(StudyRun(life.index, life.started, until, saved - life.done, life.pace))
            life.done, life.started = saved, None
        elif life.failed is not None:
            self._runs.append(StudyRun(life.index, life.failed, until, 0.0))
            life.failed = None

    def _unresumed(self) -> Iterator[StudyInterruption]:
        for life in self._lives.values():
            if life.interrupted is not None:
                yield StudyInterruption(life.index, life.interrupted, None)

    def _replace(self, uids: Iterable[str]) -> None:
        """Let pods go that were on a node which failed, and their owner create others in their stead."""
        for uid in list(uids):
            life = self._life_of.pop(uid)
            pod = life.pods.pop(uid)
            self._rooms.give_back(pod.node_name, pod.shape)
            self._tell(PodGone(uid))
            self._replaced += 1
            another = replace(
                pod,
                uid=f"{uid.partition('+')[0]}+{self._replaced}",
                node_name="",
                nominated_node="",
                phase=Phase.PENDING,
                started_at=None,
                created=self._now(),
            )
            life.pods[another.uid] = another
            self._life_of[another.uid] = life
            self._tell(PodSeen(another))

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

    def _tell_saved(self) -> None:
        """Let gangs say when they have saved their progress last, before it is decided which of them is evicted."""
        now = self._clock.monotonic()
        for life in self._lives.values():
            if life.started is None or life.leaving:
                continue
            saved = _saved(life.job, life.done + (now - life.started) * life.pace)
            if saved > max(life.told, life.done):
                life.told = saved
                passed = now - life.started - (saved - life.done) / life.pace
                signs = JobSigns(last_checkpoint=self._clock.now().timestamp() - passed)
                life.group = replace(life.group, options=replace(life.group.options, signs=signs))
                self._tell(GroupSeen(life.group))

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
        nodes = [pod.node_name for pod in life.pods.values()]
        if life.started is None and all(nodes) and self._away.keys().isdisjoint(nodes):
            self._stop(life, now := self._clock.monotonic())
            if life.interrupted is not None:
                self._interruptions.append(StudyInterruption(life.index, life.interrupted, now))
            life.started, life.interrupted = now, None
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
        lost: list[str] = []
        for eviction in evictions:
            life = self._life_of.get(eviction.pod.uid)
            if life is None or life.leaving:
                continue
            if eviction.reason is EvictionReason.NODE_LOST and life.pods[eviction.pod.uid].node_name in self._away:
                lost.append(eviction.pod.uid)
            else:
                struck.setdefault(life.index, (life, eviction))
        now = self._clock.monotonic()
        self._replace(uid for uid in lost if self._life_of[uid].index not in struck)
        for life, eviction in struck.values():
            self._evictions.append(StudyEviction(life.index, now, eviction.by, eviction.reason))
            life.leaving = True
            life.nominated.clear()
            self._ready.pop(life.index, None)
            for uid, pod in life.pods.items():
                life.pods[uid] = replace(pod, deleting=True)
                self._tell(PodSeen(life.pods[uid]))
            gone = now + (TERMINATION_SECONDS if life.works else 0.0)
            heapq.heappush(self._events, _Event(gone, _Kind.GONE, life.index, life.attempt))
            if life.started is None:
                self._wanted -= life.job.all_gpus
            self._stop(life, gone)
        return bool(struck or lost)

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
