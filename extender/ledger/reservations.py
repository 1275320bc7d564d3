"""Making, repairing and giving up reservations: every change of the ledger and what follows from it."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from extender.clock import Clock
from extender.cluster.gangs import Gang, member_order
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.cluster.workloads import ManagedWorkload, StartStage
from extender.ledger.effects import CollectedEffects, GangStep, Milestone, Nomination, Note, Suspension
from extender.ledger.misfits import Misfits
from extender.ledger.rejections import Refusals, Vetoes, leave_out
from extender.ledger.slots import Ledger, Nudges, Reservation, Slot, SlotState
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason, Wait
from extender.objects.refusal import OWN_WORDS, RefusalKind, refusal_kind
from extender.objects.workload import write_place
from extender.placement.candidates import Eligible, NodeFilter
from extender.queues.order import position
from extender.settings import Settings

#: More doublings than any pause has.
_MOST_DOUBLINGS: Final = 32

#: What operators ask for by containers that they add to pods.
_ADDED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Pause:
    """How often a gang's reservation has failed, and until when it waits (seconds, monotonic)."""

    attempts: int
    until: float


class Backoff:
    """Remember the pause of each gang by the UID of its present life."""

    def __init__(self, initial: float, maximum: float) -> None:
        """Pause for `initial` seconds at first, twice as long every time, up to `maximum`."""
        self._initial = initial
        self._maximum = maximum
        self._pauses: dict[str, Pause] = {}
        self._ends: list[tuple[float, str]] = []

    def fail(self, gang_uid: str, now: float, lasted: float = 0.0) -> Pause:
        """Lengthen a gang's pause: half of it fixed, half jitter.

        It may grow to twice what the reservation `lasted` (seconds), whatever the maximum is: gangs that fail in turn
        would otherwise be back before the next one has given its room away.
        The jitter comes from a hash of gang and attempt: different for every gang, the same in every replay.
        """
        attempts = self.attempts(gang_uid) + 1
        ceiling = min(max(self._maximum, 2 * lasted), self._initial * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS))
        digest = hashlib.blake2b(f"{gang_uid}/{attempts}".encode(), digest_size=8).digest()
        jitter = int.from_bytes(digest, "big") / 2**64
        pause = self._pauses[gang_uid] = Pause(attempts, now + ceiling * (1 + jitter) / 2)
        heapq.heappush(self._ends, (pause.until, gang_uid))
        return pause

    def pause(self, gang_uid: str, now: float) -> Pause | None:
        """Return the pause that a gang is in, or None."""
        pause = self._pauses.get(gang_uid)
        return pause if pause is not None and now < pause.until else None

    def attempts(self, gang_uid: str) -> int:
        """Return how often a gang's reservation has failed."""
        pause = self._pauses.get(gang_uid)
        return 0 if pause is None else pause.attempts

    def forget(self, gang_uid: str) -> bool:
        """Start from nothing: the gang started, or this life of it ended; return whether there was anything."""
        return self._pauses.pop(gang_uid, None) is not None

    def next_end(self) -> float | None:
        """Return when the next pause ends that `ended` has not reported yet, or None."""
        return self._ends[0][0] if self._ends else None

    def ended(self, now: float) -> list[str]:
        """Return the UIDs of gangs that a pause of has ended since last asked, even if they are in another now."""
        ended = []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heapq.heappop(self._ends)[1])
        return ended


class Failures:
    """Remember for a while of which namespaces reservations were in vain.

    What one gang may keep from others for nothing is bounded by its reservation, but a namespace may have any number of
    such gangs that take turns. So its gangs come after those of all others for a while: as long as a reservation lasts
    after the first one in vain, and twice as long after each further one, up to LONGEST_SECONDS.

    Attributes:
        namespaces: those that are remembered, by name; some may be over.
    """

    #: Nothing waits for longer than this because of what its neighbours did.
    LONGEST_SECONDS: Final = 600.0

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Remember the first for `seconds`, by `timer` (seconds, monotonic)."""
        self._seconds = seconds
        self._timer = timer
        self.namespaces: dict[str, Pause] = {}

    def fail(self, namespace: str) -> None:
        """Take in that a reservation of a gang of a namespace was in vain."""
        now = self._timer()
        self.namespaces = {name: each for name, each in self.namespaces.items() if now < each.until}
        known = self.namespaces.get(namespace)
        attempts = 1 if known is None else known.attempts + 1
        seconds = min(self._seconds * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS), self.LONGEST_SECONDS)
        self.namespaces[namespace] = Pause(attempts, now + seconds)

    def is_failing(self, namespace: str) -> bool:
        """Tell whether gangs of a namespace come after those of others."""
        known = self.namespaces.get(namespace)
        return known is not None and self._timer() < known.until


#: How long kube-scheduler may take to bring a pod again whose bind call failed: its backoff is 10 s at most by default
#: (podMaxBackoffSeconds), and then the pod queues.
_RETURN_SECONDS = 15.0
#: Why gangs wait that are placed.
_PLACED: Final = frozenset({Reason.AWAITING_MEMBERS, Reason.BINDING_REFUSED})
#: Nominations that are ordered before others have the event loop: 3 ms, with the writes that they become.
_NOMINATIONS_PER_STEP: Final = 250
#: How long kube-scheduler may take to bring each member of a gang that is larger than so many; it brings 200 to 400 a
#: second on a machine that does nothing else.
_LARGE = 1_000
_SECONDS_PER_MEMBER = 0.01
#: How long controllers may take to make each pod that is expected of any object: kube-controller-manager writes 20
#: times a second by default (--kube-api-qps), other things than pods too.
_SECONDS_PER_EXPECTED = 0.1


def _allowance(members: int) -> float:
    """Return how much longer a gang of so many members may take than others (seconds)."""
    return max(members - _LARGE, 0) * _SECONDS_PER_MEMBER


def own_words(ref: GroupRef) -> str:
    """Return how the reasons for a gang's pods begin."""
    return OWN_WORDS[ref.is_pod]


class Reservations:
    """Keep the ledger in step with the cluster, and order the nominations and answers that each change calls for.

    Attributes:
        ledger: what is promised to which gang.
        nudges: whose nomination is to be written again, and when.
        misfits: which members kube-scheduler refused on which nodes.
        failures: the namespaces whose gangs have had reservations in vain lately.
        waits: gang UID -> why it waits; gangs that are running, or were not evaluated yet, have none.
        awaiting: UIDs of the gangs that are placed and wait for members to arrive there.
    """

    def __init__(
        self, model: ClusterModel, settings: Settings, clock: Clock, effects: CollectedEffects, refusals: Refusals
    ) -> None:
        self._model = model
        self._refusals = refusals
        self._settings = settings
        self._clock = clock
        self._decisions = itertools.count(1)
        self._unnominated: dict[str, None] = {}  # pods that were promised a node, in order
        self._returns: list[tuple[float, str]] = []  # a heap: until when members of which gang are expected back
        self.ledger = Ledger(model)
        self.nudges = Nudges(model, self.ledger, settings.nudge_seconds, clock, refusals.may_be_stuck)
        self.backoff = Backoff(settings.backoff_initial_seconds, settings.backoff_max_seconds)
        self.misfits = Misfits()
        self.failures = Failures(settings.reservation_timeout_seconds, clock.monotonic)
        self.waits: dict[str, Wait] = {}
        self.awaiting: set[str] = set()
        self._effects = effects

    def reserve(self, gang: Gang, pods: Mapping[str, Pod], nodes: Mapping[str, str]) -> Reservation:
        """Promise each pod its node (both by pod UID), and nominate it there; of many pods `nominate` does that.

        A reservation that has not started keeps its deadline when a member is placed again: it cannot be put off
        without end by replacing members. Members that join a started gang get the time that a new one gets.
        """
        now = self._clock.monotonic()
        before = self.ledger.of_gang(gang.uid)
        kept = before is not None and not gang.has_minimum
        deadline = before.deadline if before is not None and kept else now + self._timeout(gang.group, len(nodes))
        decision = f"{gang.uid.removeprefix('pod:')[:8]}-{next(self._decisions)}"
        reservation = self.ledger.open(gang.ref, gang.uid, decision, deadline)
        failed = self.waits.get(gang.uid)
        if failed is not None and failed.reason is Reason.BINDING_REFUSED:
            reservation.failure = failed.names["detail"]
        if gang.uid in self.misfits.of_gangs:
            nodes = self.misfits.arrange(gang, pods, nodes)
        self.ledger.promise(reservation, [(pods[uid], node) for uid, node in nodes.items()], now)
        if self.ledger.expected:
            if before is None:
                deadline += _SECONDS_PER_EXPECTED * self.ledger.expected
                self.ledger.open(gang.ref, gang.uid, decision, deadline)
            self.resume(reservation)
        self._unnominated |= dict.fromkeys(nodes)
        if len(self._unnominated) <= _NOMINATIONS_PER_STEP:
            self.nominate()
        self._effects.milestones.append(
            Milestone(GangStep.PLACED, gang.ref, reservation.decision, len(nodes), routine=gang.ref.is_pod)
        )
        self._effects.changed[gang.ref] = None
        return reservation

    def nominate(self) -> bool:
        """Nominate some of the pods that were promised a node and are not on their way; return whether there are more.

        Each nomination becomes a write: ordering those of a large gang takes longer than placing it.
        """
        for uid in list(islice(self._unnominated, _NOMINATIONS_PER_STEP)):
            del self._unnominated[uid]
            entry = self.ledger.of_pod(uid)
            if entry is None or entry[1].state is not SlotState.RESERVED:
                continue
            reservation, slot = entry
            if slot.pod.is_expected:
                continue
            self.nudges.watch(reservation, slot)
            pod = self._model.pods.get(uid, slot.pod)
            if pod.nominated_node != slot.node:
                self._effects.nominations[uid] = Nomination(pod, slot.node)
        return bool(self._unnominated)

    def resume(self, reservation: Reservation) -> None:
        """Have the objects resumed of which pods are expected that have a node promised."""
        slots = {uid: slot.pod for uid, slot in reservation.slots.items() if slot.pod.is_expected}
        for managed in self._model.workloads.of_pods(slots):
            workload = managed.workload
            if managed.stage is StartStage.HELD and workload.suspended:
                nodes = {uid: reservation.slots[uid].node for uid in slots}
                place = write_place(workload.uids, nodes)
                self._effects.suspensions[workload.uid] = Suspension(workload, suspend=False, place=place)

    def hand_over(self, expected: Pod, pod: Pod) -> None:
        """Give a pod that has come the slot of the one that was expected, unless it asks for more than there is.

        The API server adds tolerations to every pod: whether the node admits it is looked at again. Operators add
        containers with a little of their own, for which the node may have room: Ray an autoscaler, Kubeflow one that
        waits for the master.
        """
        entry = self.ledger.of_pod(expected.uid)
        if entry is None or not pod.placeable:
            return
        reservation, slot = entry
        kept, table = slot.pod.shape, self._model.table
        requests = () if pod.shape.is_covered_by(kept) else pod.shape.requests
        more = {name for name, amount in requests if amount > kept.request(name)}
        if pod.group != reservation.ref or more - _ADDED:
            return
        short = table.short_of(slot.node)
        self.ledger.release(expected.uid)
        self.ledger.promise(reservation, [(pod, slot.node)], self._clock.monotonic())
        if not more.isdisjoint(table.short_of(slot.node) - short):
            self.ledger.release(pod.uid)
            return
        if pod.shape != kept:
            table.touch(slot.node)
        self._unnominated[pod.uid] = None
        self.nominate()

    def _suspend(self, starting: Iterable[ManagedWorkload], *, missing: bool) -> str:
        """Have objects suspended again that did not start in time; return what to say of it, "" for none."""
        again = [managed.workload for managed in starting if managed.can_be_suspended]
        self._effects.suspensions |= {each.uid: Suspension(each, suspend=True) for each in again}
        why = ", as not all of its pods were created" if missing else ""
        return f"{again[0].about} is suspended again{why}." if again else ""

    def _timeout(self, group: PodGroup | None, members: int) -> float:
        """Return how long a reservation of so many members of a gang may last (seconds)."""
        own = None if group is None else group.schedule_timeout
        return own or self._settings.reservation_timeout_seconds + _allowance(members)

    def move(self, reservation: Reservation, pod: Pod, node: str) -> Slot:
        """Promise a member another node than before; the caller has checked that it has room there."""
        self._effects.changed[reservation.ref] = None
        self.ledger.promise(reservation, [(pod, node)], self._clock.monotonic())
        return reservation.slots[pod.uid]

    def trade(self, reservation: Reservation, slot: Slot, offered: Collection[str]) -> bool:
        """Let a member that kube-scheduler refuses on its node have the offered one of another, if one is alike.

        Return whether one was; it gets the refused node instead.
        """
        gang, node = self._model.gangs.get(reservation.ref), slot.node
        if gang is None or gang.ref.is_pod:
            return False
        self.misfits.add(gang.uid, slot.pod.uid, node)
        other = self.misfits.partner(gang, reservation, slot, offered)
        if other is None:
            return False
        self.ledger.release(other.pod.uid)
        self.move(reservation, slot.pod, other.node)
        self.move(reservation, other.pod, node)
        self._unnominated |= {slot.pod.uid: None, other.pod.uid: None}
        self.nominate()
        return True

    def hold(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member has arrived at the barrier."""
        reservation.hold(slot.pod.uid, self._clock.monotonic())

    def send_back(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member's held bind call was answered in vain: it keeps its slot, and comes again."""
        until = self._clock.monotonic() + _RETURN_SECONDS + _allowance(len(reservation.slots))
        reservation.send_back(slot.pod.uid, until)
        heapq.heappush(self._returns, (until, reservation.gang_uid))
        self._underway_again(reservation, slot)

    def not_bound(self, reservation: Reservation, slot: Slot, why: str, *, refused: bool) -> None:
        """Take in that the API server made no Binding of a member, as far as is known.

        If it was `refused` the slot is given back; else it waits for another attempt. Where none of the gang is bound
        or about to be, what is refused, or fails past its deadline, is given up as a whole: others get the nodes.
        """
        reservation.failure = why
        if refused:
            self.drop(slot.pod.uid, why)
        else:
            reservation.retry(slot.pod.uid)
            self._underway_again(reservation, slot)
        gang = self._model.gangs.get(reservation.ref)
        if gang is None or gang.has_minimum:
            return
        if gang.census().bound or reservation.is_binding or not (refused or reservation.overdue):
            self.wait(gang, Wait(Reason.BINDING_REFUSED, names={"detail": why}))
        else:
            self._give_up(reservation, why, GangStep.RELEASED, why)

    def missed(self, now: float) -> list[str]:
        """Return the UIDs of gangs of which members were expected back until a moment that has passed, each once."""
        missed = []
        while self._returns and self._returns[0][0] <= now:
            missed.append(heapq.heappop(self._returns)[1])
        return missed

    def open_barrier(self, gang: Gang) -> bool:
        """Let all held members go if those that must start together are there; return whether so.

        These are minMember members, and of each part of the gang its own minimum: arrived, bound or succeeded. Those of
        a part that the gang can do without go when the minimum of that part is there.
        """
        reservation = self.ledger.of_gang(gang.uid)
        now = self._clock.monotonic()
        tree = gang.tree
        any_parts = tree is not None and tree.has_choice  # of which some may have fewer members than those planned
        if reservation is None or (
            not any_parts and gang.census().secured + reservation.arrived(now) < gang.min_member
        ):
            return False
        arrived = reservation.arrived_roles(now) if any_parts or gang.role_minimums else {}
        if (any_parts or gang.role_minimums) and not gang.would_have_minimum(arrived):
            return False
        held = reservation.release_held(gang.torn(arrived) if any_parts else ())
        self._effects.released += held
        if not reservation.started:
            reservation.started = True
            waited = now - gang.first_seen
            self._effects.milestones.append(
                Milestone(
                    GangStep.STARTED, gang.ref, reservation.decision, len(held), waited=waited, routine=gang.ref.is_pod
                )
            )
        if not reservation.failure:  # else it pauses for longer the next time, and says why until its members are bound
            self._end_pause(gang.uid)
            self._record(gang.uid, None)
        self._effects.changed[gang.ref] = None
        return True

    def await_members(self, gang: Gang) -> None:
        """Open the barrier if it may be, or say that the gang is placed and waits for its members to arrive there."""
        if not self.open_barrier(gang):
            reservation = self.ledger.of_gang(gang.uid)
            failure = "" if reservation is None else reservation.failure
            if failure:
                self.wait(gang, Wait(Reason.BINDING_REFUSED, names={"detail": failure}))
            else:
                self.wait(gang, Wait(Reason.AWAITING_MEMBERS, {"minMember": gang.min_member}))

    def wait(self, gang: Gang, wait: Wait | None) -> None:
        """Record a gang's reason (None: it does not wait) and note when it changed."""
        before = self.waits.get(gang.uid)
        if before is wait or before == wait:
            return
        if wait is None and before is not None and before.reason is Reason.BINDING_REFUSED:
            self._end_pause(gang.uid)
        self._record(gang.uid, wait)
        self._effects.changed[gang.ref] = None

    def _record(self, uid: str, wait: Wait | None) -> None:
        if wait is None:
            self.waits.pop(uid, None)
        else:
            self.waits[uid] = wait
        if wait is not None and wait.reason in _PLACED and self.ledger.of_gang(uid) is not None:
            self.awaiting.add(uid)
        else:
            self.awaiting.discard(uid)

    def drop(self, uid: str, why: str) -> Slot | None:
        """Take back one pod's slot; its held bind call fails with `why`, its nomination is cleared."""
        slot = self.ledger.release(uid)
        if slot is not None:
            self._after_drop(slot, why)
        return slot

    def drop_gang(self, gang_uid: str, why: str, step: GangStep = GangStep.RELEASED) -> int:
        """Take back all slots of a gang whose Binding is not under way; return how many. `step` is what that is."""
        reservation = self.ledger.of_gang(gang_uid)
        slots = self.ledger.release_gang(gang_uid)
        if reservation is not None and slots:
            self._effects.milestones.append(Milestone(step, reservation.ref, reservation.decision, len(slots), why=why))
        for slot in slots:
            self._after_drop(slot, why)
        return len(slots)

    def end_life(self, gang_uid: str, why: str) -> None:
        """Forget everything about a gang's past life."""
        self.drop_gang(gang_uid, why)
        self.misfits.forget(gang_uid)
        self._end_pause(gang_uid)
        self._record(gang_uid, None)

    def expire(self) -> bool:
        """Give up promises whose deadline has passed, a gang's as a whole; return whether there were any."""
        now = self._clock.monotonic()
        due = self.ledger.expire(now)
        for reservation in due:
            late = [slot for slot in reservation.slots.values() if slot.state is SlotState.RESERVED]
            if not late:  # all have arrived; should a Binding fail, its member has this much time again
                reservation.overdue = True
                timeout = self._timeout(None, len(reservation.slots))
                self.ledger.open(reservation.ref, reservation.gang_uid, reservation.decision, now + timeout)
                continue
            self._effects.expired += 1
            message = f"{reservation.arrived(now)} of {len(reservation.slots)} placed members reached bind in time"
            refusal = reservation.failure or next((own for slot in late if (own := self._refusal(slot))), "")
            missing = any(slot.pod.is_expected for slot in late)
            starting = list(self._model.workloads.of_pods({slot.pod.uid: slot.pod for slot in late}))
            self._give_up(reservation, f"reservation expired: {message}", GangStep.EXPIRED, refusal)
            gang = self._model.gangs.get(reservation.ref)
            begun = gang is not None and (gang.has_minimum or gang.census().bound > 0)
            again = "" if begun else self._suspend(starting, missing=missing)
            self._model.workloads.outdated |= {each.workload.uid: None for each in starting}
            text = " ".join(filter(None, (f"{message}; released all of them.", again, refusal)))
            self._effects.notes.append(Note(reservation.ref, warning=True, reason="ReservationExpired", message=text))
        return bool(due)

    def _give_up(self, reservation: Reservation, why: str, step: GangStep, refusal: str = "") -> None:
        """Take back places that a gang had in vain, and have it pause; `refusal` is what others said of its pods."""
        now, gang = self._clock.monotonic(), self._model.gangs.get(reservation.ref)
        lasted = self._timeout(None if gang is None else gang.group, len(reservation.slots))
        self.drop_gang(reservation.gang_uid, why, step)
        attempts = self.backoff.fail(reservation.gang_uid, now, lasted).attempts
        self.failures.fail(reservation.ref.namespace)
        self._model.gangs.touch(reservation.gang_uid)
        reason = Reason.REFUSED_BY_SCHEDULER if refusal else Reason.BACKING_OFF
        reason = Reason.BINDING_REFUSED if reservation.failure else reason
        self._record(reservation.gang_uid, Wait(reason, {"attempts": attempts}, {"detail": refusal} if refusal else {}))
        self._effects.changed[reservation.ref] = None

    def renominate(self, pod: Pod, slot: Slot) -> bool:
        """Nominate again a member whose nomination was taken off; return whether it is found to be refused for good.

        It is where kube-scheduler finds room on no node though the promised one has had it for a while.
        """
        if slot.stirred:
            slot.stirred = False  # by Muster itself, which is about to set it again
            return False
        nomination = self.nudges.lost(pod, slot)
        full = self._refusals.lacks_room(pod) and self.nudges.is_settled(slot)
        if nomination is not None and not full:
            self._effects.nominations[pod.uid] = nomination
            return False
        return (full or self._refusals.may_be_stuck(pod)) and self._refusals.stuck(pod)

    def nudge(self) -> bool:
        """Nominate again the members that did not come back to filter; return whether any is refused for good."""
        for nomination in self.nudges.due():
            self._effects.nominations[nomination.pod.uid] = nomination
        found = [self._refusals.stuck(pod) for pod in self.nudges.take_stuck()]
        return any(found)

    def drop_refused(self, gang: Gang) -> None:
        """Take back the slots of members that kube-scheduler refuses by itself and that are not on their way."""
        reservation = self.ledger.of_gang(gang.uid)
        if reservation is None or not gang.refused:
            return
        refused = [uid for uid in gang.refused if uid in reservation.slots]
        reserved = [uid for uid in refused if reservation.slots[uid].state is SlotState.RESERVED]
        for uid in reserved:
            if not gang.ref.is_pod:
                self.misfits.add(gang.uid, uid, reservation.slots[uid].node)
            self.drop(uid, f"kube-scheduler refused it: {gang.refused[uid]}")
        if reserved:
            self.failures.fail(gang.ref.namespace)

    def tried_again(self, gang_uid: str) -> None:
        """Take in that what kept a gang from starting has changed: it does not pause for what has been."""
        self._end_pause(gang_uid)

    def drop_invalid(self, nodes: Iterable[str], admitted: NodeFilter, vetoes: Vetoes) -> None:
        """Take back slots on `nodes` that went, closed, shrank or were filled by others, and those of gangs that went.

        A veto moves members that are still on their way. One that has arrived passed kube-scheduler's filters on that
        very node: what was refused is one more of its kind.
        """
        table = self._model.table
        for node in nodes:
            if not (slots := self.ledger.on_node(node)):
                continue  # as most are, of the thousands that a first pass looks at
            row, short = table.row(node), table.short_of(node)
            for reservation, slot in slots:
                gang = self._model.gangs.get(reservation.ref)
                if gang is None or gang.uid != reservation.gang_uid:
                    self.end_life(reservation.gang_uid, "the PodGroup is gone")
                    continue
                if slot.state is SlotState.BINDING:
                    continue
                shape = slot.pod.shape
                vetoed = {} if slot.state is SlotState.HELD else vetoes.of_gang(gang.uid, table)
                # Only who asks for what is short moves: the others would come back to the same node.
                shortages = not short.isdisjoint(name for name, _ in shape.requests)
                if row is None or shortages or not leave_out(admitted, vetoed)(shape)[row]:
                    self.drop(slot.pod.uid, f"node {node} is no longer available")

    def rebuild(self, eligible: Eligible) -> None:
        """Read the ledger back from the nominations on the pods, gangs that hold nodes already first.

        Members that lost theirs are placed by the pass, but for expected pods: a Job is resumed for all of them.
        """
        table = self._model.table
        nominations: dict[GroupRef, list[Pod]] = {}
        for pod in self._model.pods.values():  # tens of thousands, of which most are bound
            if pod.nominated_node and pod.placeable:
                nominations.setdefault(pod.group, []).append(pod)
        with_nominations = [gang for ref in nominations if (gang := self._model.gangs.get(ref)) is not None]
        for gang in sorted(with_nominations, key=position):
            nominated = sorted(nominations[gang.ref], key=member_order)
            whatif = WhatIf(table)
            nodes: dict[str, str] = {}
            for pod in nominated:
                row = table.row(pod.nominated_node)
                vector = table.vector(pod.shape.requests)
                if row is not None and whatif.counts(vector, eligible(pod.shape))[row] > 0:
                    whatif.take(row, vector)
                    nodes[pod.uid] = pod.nominated_node
            expected = any(pod.is_expected for pod in nominated)
            counted = [pod for pod in gang.members.values() if pod.uid in nodes or (pod.placeable and not expected)]
            managed = all(self._model.manages(pod) for pod in nominated)
            if nodes and managed and gang.would_have_minimum(Counter(pod.role for pod in counted)):
                self.reserve(gang, {pod.uid: pod for pod in nominated}, nodes)
            for pod in nominated:
                if managed and not pod.is_expected and self.ledger.of_pod(pod.uid) is None:
                    self._effects.nominations[pod.uid] = Nomination(pod, "")

    def _underway_again(self, reservation: Reservation, slot: Slot) -> None:
        """Look again at what was settled when the member had arrived: its node, its nomination, and the barrier."""
        self._model.table.touch(slot.node)
        self._model.gangs.touch(reservation.gang_uid)
        self.nudges.watch(reservation, slot)

    def _end_pause(self, gang_uid: str) -> None:
        if self.backoff.forget(gang_uid):
            self._model.gangs.touch(gang_uid)

    def _after_drop(self, slot: Slot, why: str) -> None:
        uid = slot.pod.uid
        if slot.state is SlotState.HELD:
            self._effects.refused[uid] = why
        unwritten = self._unnominated.pop(uid, self) is None
        unwritten |= self._effects.nominations.pop(uid, None) is not None
        pod = self._model.pods.get(uid)
        if pod is None:
            return
        self._effects.changed[pod.group] = None
        if pod.is_expected:
            managed = self._model.workloads.of(pod)
            if managed is not None and managed.stage is StartStage.HELD:
                self._effects.suspensions[managed.workload.uid] = None
        elif pod.placeable and (not unwritten or pod.nominated_node):
            self._effects.nominations[uid] = Nomination(pod, "")

    def _refusal(self, slot: Slot) -> str:
        """Return kube-scheduler's own words about a pod it never offered, or "" when they only repeat Muster's."""
        pod = self._model.pods.get(slot.pod.uid, slot.pod)
        return "" if refusal_kind(pod.refusal) is RefusalKind.ASKED else pod.refusal
