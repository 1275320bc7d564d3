"""Follow what happens, and keep account of it: which gangs came, ran and ended, and whose GPUs were used for what.

The accountant is told after the engine has taken in each event, reads what came of it, and changes nothing of it. What
costs more than a lookup is left for `settle`, which runs every few seconds, in steps.

A pod counts from when it was bound, as the API server says in whole seconds and the watch tells a moment later, until
it ends or is deleted. What was not seen live is taken from its conditions, or from what a store has: see `adopt`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from extender.admission.admission import Admission
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.explain.documents import GangPhase
from extender.explain.runtimes import LearnedRuntimes
from extender.explain.views import gang_view
from extender.history.lives import GpuCount, HeldNode, Life
from extender.history.meters import GpuTotals, HourBook, Meter
from extender.history.records import HOUR, Batch, GangOutcome, GangRecord, OpenPod, Payer, Purpose, StoredState
from extender.ledger.effects import Effects
from extender.objects.meta import read_timestamp
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from extender.objects.requests import is_gpu

#: News that is older than this is late (seconds): its own time counts then, else that at which it comes. It is more
#: than the clocks of two machines differ by, and what a condition says is cut to whole seconds.
_LATE: Final = 5.0
_HALF_SECOND: Final = 0.5
#: Records in one batch: some 5 ms.
_MOST_RECORDS: Final = 500
#: Gangs that have ended and wait for a store that is away; older ones are dropped.
_MOST_ENDED: Final = 20_000
#: Hours times payers that wait for a store that is away.
_MOST_SUMS: Final = 100_000
#: Pods whose end is remembered until a store is adopted.
_MOST_PAST: Final = 50_000
#: Gangs that are looked at in one step: a millisecond or two.
_GANGS_PER_STEP: Final = 100


@dataclass(frozen=True, slots=True)
class PastPod:
    """A pod that holds its node no more: from when until when it did (epoch seconds).

    One of which its end is not `known` had ended by then.
    """

    uid: str
    life: Life
    count: int
    began: float
    ended: float
    known: bool = True

    def end_after(self, since: float) -> float:
        """Return when it ended, if it had not at `since`: in the middle where only that is known."""
        since = max(since, self.began)
        return max(self.ended if self.known else (since + self.ended) / 2, since)


class Accountant:
    """Keep account of the gangs that are there, and of those that ended, until they are taken.

    Attributes:
        totals: GPU-seconds since this began, for counters.
        dropped: how many records and sums could not be kept until a store took them.
        most_ended: how many gangs that have gone may wait for a store.
    """

    def __init__(
        self,
        admission: Admission,
        clock: Clock,
        user_label: str = "",
        *,
        recording: bool = False,
        runtimes: LearnedRuntimes | None = None,
    ) -> None:
        """Begin now; `user_label` is the label of pods that names their user. Without `recording` nothing is stored."""
        self._admission = admission
        self._model = admission.model
        self._clock = clock
        self._user_label = user_label
        self._recording = recording
        self.runtimes = LearnedRuntimes(user_label) if runtimes is None else runtimes
        self._adopted = False
        now = self._now()
        self.totals = GpuTotals(now)
        self._book = HourBook(now)
        self._lives: dict[GroupRef, Life] = {}
        self._held: dict[str, HeldNode] = {}
        self._touched: dict[GroupRef, None] = {}
        self._dirty: dict[str, Life] = {}
        self._past: deque[PastPod] = deque(maxlen=_MOST_PAST)
        self._opened: dict[str, HeldNode] = {}
        self._closed: dict[str, None] = {}
        self._renamed: dict[str, str] = {}
        self._capacity = 0
        self.dropped = 0
        self.most_ended = _MOST_ENDED

    @property
    def adopted(self) -> bool:
        """Tell whether accounts go on from what a store has, so that they can be taken."""
        return self._adopted

    # What happens.

    def pod_seen(self, uid: str, *, new: bool) -> None:
        """Take in a pod that was added or changed, by what the model has of it; `new` if it was not known."""
        pod = self._model.pods.get(uid)
        held = self._held.get(uid)
        if pod is None or (held is None and not self._model.manages(pod)):
            return
        if pod.bound:
            if held is None:
                self._hold(pod, _moment(pod.scheduled_at, self._now()))
            elif held.life.ref != pod.group or held.gpus != _gpus(pod):
                held.evicting = None
                self._release(held, self._now(), None)  # its devices are known now, or its labels were edited
                self._hold(pod, self._now())
        elif held is not None:
            now = self._now()
            self._release(held, max(_moment(pod.finished_at, now), held.began), pod)
        elif new and (life := self._life(pod.group)) is not None and pod.done:
            self._remember(pod, life)

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod was deleted."""
        held = self._held.get(uid)
        if held is not None:
            self._release(held, self._now(), None)

    def follow(self, effects: Effects[Any]) -> None:
        """Take in what an event called for: which gangs changed, why they wait, and who is to leave for whom."""
        ledger = self._admission.reservations.ledger
        for ref, wait in effects.changed.items():
            gone = self._model.gangs.get(ref) is None
            if gone:
                self._touched.pop(ref, None)
            else:
                self._touched[ref] = None
            life = self._lives.get(ref)
            if life is None:
                continue
            if wait is not None:
                life.wait = wait
            reservation = ledger.of_gang(life.uid)
            reserved = 0 if reservation is None else reservation.gpus
            if reserved != life.kept.value:
                self._change(life, Purpose.RESERVED, reserved - life.kept.value, self._now())
            if gone:
                self._gone(life)
        self._follow_evictions(effects)

    def _follow_evictions(self, effects: Effects[Any]) -> None:
        for uid, eviction in effects.evictions.items():
            self._evicting(uid, eviction.reason, eviction.by)
        for suspension in effects.suspensions.values():
            if suspension is not None and suspension.suspend and suspension.reason is not None:
                for uid in suspension.pods:
                    self._evicting(uid, suspension.reason, "")
        for uid in effects.spared:
            self.stays(uid)

    def stays(self, uid: str) -> None:
        """Take in that a pod is not evicted after all."""
        held = self._held.get(uid)
        if held is not None and held.evicting is not None:
            held.evicting = None
            held.life.leaving.pop(uid, None)
            self._note_open(held)

    def stand_down(self) -> None:
        """Take in that another replica decides: nothing is reserved here, and its store is another's."""
        now = self._now()
        for life in self._lives.values():
            if life.kept.value:
                self._change(life, Purpose.RESERVED, -life.kept.value, now)

    # What is taken.

    def settle(self, capacity: int) -> Iterator[None]:
        """Look at the gangs that changed, in steps between which others may have the event loop.

        `capacity` is how many GPUs there are from now on.
        """
        if capacity != self._capacity:
            self._count_hours(Payer(), Purpose.CAPACITY, capacity - self._capacity, self._now())
            self._capacity = capacity
        for number, ref in enumerate(list(self._touched), start=1):
            if ref not in self._touched:
                continue  # it has gone meanwhile
            del self._touched[ref]
            gang = self._model.gangs.get(ref)
            if gang is not None and (life := self._life(ref)) is not None:
                self._describe(life, gang)
                self._note(life)
            if number % _GANGS_PER_STEP == 0:
                yield

    def take(self) -> Batch:
        """Return what has changed since the last batch; of very many gangs the rest comes with the next.

        Complexity: O(payers + changes).
        """
        now = self._now()
        uids = list(islice(self._dirty, _MOST_RECORDS))
        lives = [self._dirty.pop(uid) for uid in uids]
        opened, self._opened = self._opened, {}
        closed, self._closed = self._closed, {}
        renamed, self._renamed = self._renamed, {}
        pods = [_open_pod(held) for held in opened.values()]
        records = [life.record(now) for life in lives]
        return Batch(now, records, renamed, pods, tuple(closed), self._book.take(now))

    @property
    def behind(self) -> bool:
        """Tell whether there are records left that the last batch had no room for."""
        return bool(self._dirty)

    def known(self) -> list[str]:
        """Return the UIDs of all gangs that there is something to tell of: a store is asked what it has of them."""
        return list({*(life.uid for life in self._lives.values()), *self._dirty})

    def adopt(self, stored: StoredState) -> None:
        """Go on from what a store has: what it has counted is not counted again, and what it has open goes on.

        What it has open and is not there any more ended between then and now: in the middle, as far as is known.
        """
        now = self._now()
        since = now if stored.at is None else min(stored.at, now)
        self._book.clear(now, Purpose.USED, Purpose.CAPACITY)
        self._book.change(Payer(), Purpose.CAPACITY, self._capacity, since)
        lives = {life.uid: life for life in (*self._dirty.values(), *self._lives.values())}
        self._dirty = dict(lives)
        for uid, life in lives.items():
            life.spent, record = Meter(), stored.gangs.get(uid)
            if record is not None:
                life.resume(record, since)
                life.spent.add(_used(record, since))
                if record.ended is not None and life.ended is not None:
                    del self._dirty[uid]  # it is known
        pods = {pod.uid: pod for pod in stored.pods}
        self._opened, self._renamed = {}, {}
        for held in self._held.values():
            pod = pods.pop(held.uid, None)
            self._count(held.life, held.count, held.began if pod is None else since)
            if pod is None:
                self._note_open(held)
                continue
            held.began = pod.began
            if pod.evicting and held.evicting is None:
                self._evicting(held.uid, pod.evicting, pod.evicting_for)
        self._adopted = True
        self._count_past(stored, pods, since)
        self._close_missing(stored, pods.values(), lives, (since, now))

    def _count_past(self, stored: StoredState, pods: dict[str, OpenPod], since: float) -> None:
        """Count what has ended since a store was written; take those off `pods` that it has open."""
        past, self._past = list(self._past), deque(maxlen=_MOST_PAST)
        for each in past:
            pod = pods.pop(each.uid, None)
            record = stored.gangs.get(each.life.uid)
            ended = each.end_after(since)
            if pod is not None:
                self._closed[each.uid] = None
                self._count(each.life, each.count, since, ended)
            elif record is None or each.began > since - _HALF_SECOND:  # else it was counted, and closed
                self._count(each.life, each.count, each.began, ended)
            if not each.known:
                each.life.ended_before(each.ended, ended)

    def release(self) -> None:
        """Give up the store that was adopted: it is another replica's, or has been away for too long."""
        now = self._now()
        self._adopted = False
        self.dropped += len(self._ended()) + self._book.size
        self._dirty.clear()
        self._book.clear(now, *Purpose)
        self._opened, self._closed, self._renamed = {}, {}, {}
        for life in self._lives.values():
            life.forget(now)
            self._book.change(life.payer, Purpose.RESERVED, life.kept.value, now)

    def bound_memory(self) -> None:
        """Drop what has waited for a store for too long: nothing grows while it is away."""
        if max(len(self._closed), len(self._renamed)) > _MOST_PAST or self._book.size > _MOST_SUMS:
            self.release()
        gone = self._ended()
        for uid in gone[: max(len(gone) - self.most_ended, 0)]:
            del self._dirty[uid]
            self.dropped += 1

    # How it is kept.

    def _ended(self) -> list[str]:
        """Return the UIDs of gangs that have gone and wait for a store, the oldest first."""
        return [uid for uid, life in self._dirty.items() if self._lives.get(life.ref) is not life]

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _life(self, ref: GroupRef) -> Life | None:
        """Return what is kept of a gang, beginning with it if it is new; None for one that others look after."""
        gang = self._model.gangs.get(ref)
        life = self._lives.get(ref)
        if gang is None or (life is not None and life.uid == gang.uid):
            return life
        if life is not None:
            if life.uid.startswith("pod:") and not gang.uid.startswith("pod:"):
                self._rename(life, gang.uid)  # its pods came before its PodGroup
                return life
            self._gone(life)
        if not self._model.concerns(gang):
            return None
        now = self._now()
        created = read_timestamp(gang.created) if gang.created else None
        created = now if created is None else min(created, now)
        life = Life(ref, gang.uid, created, Payer("", ref.namespace), waits_since=created)
        self._describe(life, gang)
        self._lives[ref] = life
        self._note(life)
        return life

    def _rename(self, life: Life, uid: str) -> None:
        if self._adopted:
            before = next((old for old, new in self._renamed.items() if new == life.uid), None)
            self._renamed[before or life.uid] = uid
        if self._dirty.pop(life.uid, None) is not None:
            self._dirty[uid] = life
        life.uid = uid

    def _describe(self, life: Life, gang: Gang) -> None:
        """Take in what a gang says of itself now, and what it is charged to; see whether it has ended meanwhile."""
        life.priority = gang.priority
        life.wanted = max(life.wanted, len(gang.members))
        pod = next(iter(gang.members.values()), None)
        group = gang.group
        if group is not None and group.about is not None:
            life.owner = f"{group.about.kind}/{group.about.name}"
        elif pod is not None and pod.owner is not None:
            life.owner = f"{pod.owner.kind}/{pod.owner.name}"
        user = life.payer.user
        if pod is not None:
            user = pod.labels.get(self._user_label, "") if self._user_label else ""
            charge = self._admission.sharing.charges.of(pod.uid)
            life.flavor = life.flavor if charge is None else charge.flavor
        payer = Payer(self._admission.sharing.queue_of(gang), life.ref.namespace, user)
        if payer != life.payer:
            now = self._now()
            for use, meter in ((Purpose.USED, life.spent), (Purpose.RESERVED, life.kept)):
                self._move(use, meter.value, life.payer, payer, now)
            life.payer = payer
        if not life.pods and life.ended is None:
            self._stopped(life, gang, self._now() if life.last_ended is None else life.last_ended, None)

    def _move(self, use: Purpose, gpus: int, old: Payer, new: Payer, now: float) -> None:
        for payer, by in ((old, -gpus), (new, gpus)):
            self.totals.change(payer, use, by, now)
            self._count_hours(payer, use, by, now)

    def _hold(self, pod: Pod, began: float) -> None:
        life = self._life(pod.group)
        if life is None:
            return
        held = _held_by(pod, life, began)
        self._held[pod.uid] = held
        if life.ended is not None and life.waits_since is None and not life.pods:
            life.waits_since = life.ended  # it is there again, after an eviction say
        life.hold(held, pod.node_name)
        self._change(life, Purpose.USED, held.count, began)
        self._note_open(held)
        if life.waits_since is not None:
            gang = self._model.gangs.get(pod.group)
            if gang is not None and gang.has_minimum:
                life.start()
        self._note(life)

    def _release(self, held: HeldNode, at: float, pod: Pod | None) -> None:
        """Take in that a pod holds its node no more, as `pod` was when it ended, None if it was deleted."""
        life = held.life
        del self._held[held.uid]
        life.let_go(held, at)
        self._change(life, Purpose.USED, -held.count, at)
        self._note_past(held, at)
        left = None
        if held.evicting is not None and (pod is None or pod.phase is not Phase.SUCCEEDED):
            left = held.evicting
            life.leaving.pop(held.uid, None)
            if pod is not None and (saved := pod.signs.checkpoint(at)) is not None:
                life.saved = max(life.saved or 0.0, saved)
            lost = self._lose(life, held.count, held.began, at)
            self.totals.add(life.payer, Purpose.LOST, lost)
            life.evict(*left)
        if not life.pods:
            self._stopped(life, self._model.gangs.get(life.ref), at, left)
        self._note(life)

    def _lose(self, life: Life, gpus: int, began: float, at: float) -> float:
        """Count what is lost with a member that is evicted, and return it (GPU-seconds)."""
        lost = gpus * life.unsaved(began, at)
        life.lost += lost
        self._book.add(int(at // HOUR), life.payer, Purpose.LOST, lost)
        return lost

    def _stopped(self, life: Life, gang: Gang | None, at: float, left: tuple[str, str] | None) -> None:
        """Take in that no member of a gang holds a node, since `at`; see whether it has ended, and how."""
        life.stop(at, left)
        phase = None if gang is None else gang_view(self._admission, gang).phase
        if phase is GangPhase.FINISHED:
            if life.ended is None and life.started is not None and not life.evictions:
                payer = life.payer
                self.runtimes.note(payer.queue, payer.namespace, payer.user, max(at - life.started, 0.0))
            life.end(at, GangOutcome.SUCCEEDED)
        elif phase is GangPhase.FAILED:
            life.end(at, GangOutcome.EVICTED if left else GangOutcome.FAILED)
        elif life.started is not None and (gang is None or not gang.members):
            life.end(at, GangOutcome.EVICTED if left else GangOutcome.DELETED)
        elif life.started is not None and life.waits_since is None:
            life.waits_since = at

    def _gone(self, life: Life) -> None:
        """Take in that there is no such gang any more."""
        if self._lives.get(life.ref) is life:
            del self._lives[life.ref]
        now = self._now()
        for held in list(life.pods.values()):
            self._release(held, now, None)
        if life.kept.value:
            self._change(life, Purpose.RESERVED, -life.kept.value, now)
        if life.ended is None:
            life.end(now, GangOutcome.DELETED)
        self._note(life)

    def _evicting(self, uid: str, reason: str, by: str) -> None:
        held = self._held.get(uid)
        if held is None:
            return
        life = held.life
        if not life.leaving and (gang := self._model.gangs.get(life.ref)) is not None:
            now = self._now()
            saved = gang.last_checkpoint(now)
            life.saved = saved if life.saved is None or saved is None else max(life.saved, saved)
            life.interval = gang.checkpoint_interval
            life.ready = any(sign.planned is not None and sign.acknowledged == sign.planned for sign in gang.signs)
        life.leaving[uid] = None
        held.evicting = str(reason), by
        self._note_open(held)

    def _remember(self, pod: Pod, life: Life) -> None:
        """Take in a pod that had ended before it was seen, as far as it tells."""
        now = self._now()
        began = pod.scheduled_at or pod.started_at
        if not pod.node_name or began is None:
            return
        began = min(began + _HALF_SECOND, now)
        ended = max(_moment(pod.finished_at, now), began)
        held = _held_by(pod, life, began)
        life.hold(held, pod.node_name)
        life.let_go(held, ended)
        self._count(life, held.count, began, ended)
        self._note_past(held, ended, known=pod.finished_at is not None)
        gang = self._model.gangs.get(pod.group)
        if life.started is None and gang is not None and gang.has_minimum:
            life.start()
        if not life.pods:
            self._stopped(life, gang, ended, None)
        self._note(life)

    def _close_missing(
        self, stored: StoredState, pods: Iterable[OpenPod], lives: dict[str, Life], between: tuple[float, float]
    ) -> None:
        """End what a store has open and is not there any more: `pods`, and gangs that are not among `lives`."""
        since, now = between
        middle = (since + now) / 2
        gone = {uid: _restored(record, since) for uid, record in stored.gangs.items() if uid not in lives}
        for pod in pods:
            self._closed[pod.uid] = None
            life = lives.get(pod.gang) or gone.get(pod.gang)
            if life is None:
                continue
            self._count(life, pod.gpus, since, middle)
            life.last_ended = max(life.last_ended or middle, middle)
            if pod.evicting:
                self._lose(life, pod.gpus, pod.began, middle)
                life.evict(pod.evicting, pod.evicting_for)
        for uid, life in gone.items():
            left = life.before is not None and life.evictions > life.before.evictions
            life.end(middle, GangOutcome.EVICTED if left else GangOutcome.DELETED)
            self._dirty[uid] = life

    def _count(self, life: Life, gpus: int, start: float, end: float | None = None) -> None:
        """Count GPUs of a gang in use from `start` on, until `end` if that is known; counters know of it already."""
        for at, by in ((start, gpus), (end, -gpus)):
            if at is not None:
                life.spent.change(by, at)
                self._book.change(life.payer, Purpose.USED, by, at)

    def _change(self, life: Life, use: Purpose, gpus: int, at: float) -> None:
        (life.spent if use is Purpose.USED else life.kept).change(gpus, at)
        self.totals.change(life.payer, use, gpus, at)
        self._count_hours(life.payer, use, gpus, at)

    def _count_hours(self, payer: Payer, use: Purpose, gpus: int, at: float) -> None:
        """Count by the hour, where a store takes it: a pod that has run for a year has 8,760 of them.

        What runs, and what there is, is counted when a store is adopted, from where that ends.
        """
        if self._adopted or (self._recording and use is Purpose.RESERVED):
            self._book.change(payer, use, gpus, at)

    def _note(self, life: Life) -> None:
        if self._recording:
            self._dirty[life.uid] = life

    def _note_open(self, held: HeldNode) -> None:
        if self._recording and held.count:
            self._opened[held.uid] = held
            self._closed.pop(held.uid, None)

    def _note_past(self, held: HeldNode, at: float, *, known: bool = True) -> None:
        """Note that a pod holds its node no more, until a store is told, or adopted."""
        if not (self._recording and held.count):
            return
        self._opened.pop(held.uid, None)
        if self._adopted:
            self._closed[held.uid] = None
        else:
            self.dropped += len(self._past) == _MOST_PAST
            self._past.append(PastPod(held.uid, held.life, held.count, held.began, at, known))


def _held_by(pod: Pod, life: Life, began: float) -> HeldNode:
    gpus = _gpus(pod)
    return HeldNode(pod.uid, life, began, gpus, sum(each.number for each in gpus))


def _gpus(pod: Pod) -> tuple[GpuCount, ...]:
    """Return the GPUs that a pod asks for, by the name of the resource."""
    if not pod.shape.gpus:
        return ()
    return tuple(GpuCount(name, count) for name, count in pod.shape.requests if count and is_gpu(name))


def _moment(told: float | None, now: float) -> float:
    """Return when something happened that is told of now, and says when in whole seconds; None: it does not say."""
    return now if told is None or now - told < _LATE else min(told + _HALF_SECOND, now)


def _open_pod(held: HeldNode) -> OpenPod:
    reason, by = held.evicting or ("", "")
    return OpenPod(held.uid, held.life.uid, held.count, held.began, reason, by)


def _restored(record: GangRecord, since: float) -> Life:
    """Return what is kept of a gang that a store alone knows, as of `since`."""
    ref = GroupRef(record.api, record.namespace, record.name)
    payer = Payer(record.queue, record.namespace, record.user)
    waits = None if record.started is not None else record.created
    life = Life(ref, record.uid, record.created, payer, waits, record.owner, record.flavor, record.priority)
    life.resume(record, since)
    life.spent.add(_used(record, since))
    return life


def _used(record: GangRecord, at: float) -> float:
    """Return how many GPU-seconds a gang had used by `at`, as far as a store knows."""
    return record.used + record.using * max(at - record.as_of, 0.0)
