"""Consolidation: gangs move by themselves to make room for one that waits, where their Queues say that they may.

    Queue of those who move            asked before anything moves
    policy: WhenGangsWait              is it for them to move at all?
    delay                              has the gang waited for so long?
    coolDown                           have they run for so long since they last started?
    maxEvictionsPerHour                how many of the Queue's pods have moved within the last hour?
    maxLostGPUHoursPerHour             how much work that was not saved has that cost?

None of higher priority moves, none that no controller makes again, and none unless each has a place to go to, which is
kept. What is lost is no more than what is gained: the GPU-hours of the gang's wait until it would start without moves,
and where that is not known as many as it has waited already.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.moves import FoundMoves, MoveSearch
from extender.eviction.pending import PendingEvictions
from extender.eviction.policies import Claimant, Policies
from extender.eviction.search.choosing import BudgetCheck
from extender.eviction.search.units import Victim
from extender.judge import Case
from extender.ledger.effects import CollectedEffects, EvictionReason, Note
from extender.objects.budget import Budgets
from extender.objects.meta import read_timestamp
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.queue import ConsolidationPolicy
from extender.placement.backfill.start import Start
from extender.queues.sharing import Option, Sharing

#: How long a gang for which no moves were found waits before the next search (seconds), doubled each time.
_SEARCH_PAUSE_SECONDS: Final = 30.0
_LONGEST_SEARCH_PAUSE_SECONDS: Final = 600.0

#: After each search there is none for so many times as long as it took: what is urgent goes first.
_REST_PER_SEARCH: Final = 50.0

_HOUR: Final = 3600.0


@dataclass(slots=True)
class _Spent:
    """What the moves of one queue have cost: when (seconds, monotonic), how many pods, and how many GPU-hours."""

    moves: deque[tuple[float, int, float]] = field(default_factory=deque)

    def since(self, moment: float) -> tuple[int, float]:
        """Return how many pods have moved since, and how many GPU-hours were lost; forget what was before."""
        while self.moves and self.moves[0][0] <= moment:
            self.moves.popleft()
        return sum(pods for _, pods, _ in self.moves), sum(hours for _, _, hours in self.moves)


class Consolidation:
    """Find moves that make room for gangs, and have them made, within what Queues allow for an hour."""

    def __init__(  # noqa: PLR0913, PLR0917 - whose moves, for whom, and by which rules
        self,
        model: ClusterModel,
        sharing: Sharing,
        budgets: Budgets,
        pending_evictions: PendingEvictions,
        look_at: Callable[[str, float], None],
        clock: Clock,
        effects: CollectedEffects,
    ) -> None:
        """Look in `model`. `look_at` has a gang judged again at some time (seconds, monotonic)."""
        self._model = model
        self._sharing = sharing
        self._budgets = budgets
        self._pending_evictions = pending_evictions
        self._look_at = look_at
        self._clock = clock
        self._effects = effects
        self._policies = Policies(model, sharing)
        self._search = MoveSearch(model, sharing)
        self._spent: dict[str, _Spent] = {}
        self._paused: dict[str, tuple[float, float]] = {}  # how long no moves are searched for, and until when
        self._resting_until = 0.0

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone, or that waits no more."""
        self._paused.pop(uid, None)

    def attempt(self, case: Case, options: Iterable[Option], start: Start | None) -> bool:
        """Look for moves after which a gang is placed in one of some flavors; return whether that is cleared now.

        `start` is when it starts without any, None if that is not known.
        """
        gang, now = case.gang, self._clock.monotonic()
        pause, until = self._paused.get(gang.uid, (0.0, now))
        until = max(until, self._resting_until, self._pending_evictions.waits_until(gang))
        if now < until:
            self._look_at(gang.uid, until)
            return False
        movable = list(self._movable(gang))
        if not movable:
            return False
        budgets, begun = _HourlyBudgets(self, self._budgets), False
        for option in options:
            found = self._search.find(case, option, movable, budgets)
            if found is not None and found.destinations and self._is_worth_it(gang, found, start):
                self._begin(case, option, found)
                begun = True
                break
        took = self._clock.monotonic() - now
        self._resting_until = now + took + took * _REST_PER_SEARCH
        if not begun:
            seconds = min(max(2 * pause, _SEARCH_PAUSE_SECONDS), _LONGEST_SEARCH_PAUSE_SECONDS)
            self._paused[gang.uid] = seconds, now + seconds
            self._look_at(gang.uid, now + seconds)
        return begun

    # Who may move.

    def _movable(self, gang: Gang) -> Iterator[Victim]:
        """Yield what may move for a gang; have it judged again when the first may that may not yet."""
        now = self._clock.now().timestamp()
        waits_since, soonest = now - _waited(gang, now), None

        def spared(holder: GroupRef) -> bool:
            return holder == gang.ref or self._pending_evictions.spares(holder, reclaimed=False)

        for victim in self._policies.all_victims(spared, now):
            policy = self._policy(victim.queue)
            if policy is None or victim.priority > gang.priority:
                continue
            shield = max(policy.cool_down, self._sharing.tree.queue(victim.queue).preemption.min_runtime)
            if waits_since + policy.delay > now:
                later = waits_since + policy.delay
            elif (some := _settled(victim, now - shield)) is not None:
                yield some
                continue
            else:
                later = now + shield - victim.seconds
            if later > now:
                soonest = later if soonest is None else min(later, soonest)
        if soonest is not None:
            self._look_at(gang.uid, self._clock.monotonic() + soonest - now)

    def _policy(self, queue: str) -> ConsolidationPolicy | None:
        return (
            self._sharing.tree.queue(queue).preemption.consolidation if queue in self._sharing.consolidating else None
        )

    # What it may cost.

    def allows(self, pods: Iterable[Pod]) -> bool:
        """Tell whether the queues of all of these pods allow that they move within this hour."""
        count, hours = Counter[str](), defaultdict[str, float](float)
        for pod in pods:
            queue = self._queue_of(pod)
            count[queue] += 1
            hours[queue] += self._lost(pod)
        since = self._clock.monotonic() - _HOUR
        for queue, number in count.items():
            policy, spent = self._policy(queue), self._spent.get(queue, _Spent()).since(since)
            if policy is None or spent[0] + number > policy.evictions:
                return False
            if spent[1] + hours[queue] > policy.lost_gpu_hours:
                return False
        return True

    def _queue_of(self, pod: Pod) -> str:
        charge = self._sharing.charges.of(pod.uid)
        return "" if charge is None else charge.queue

    def _lost(self, pod: Pod) -> float:
        """Return how many GPU-hours are lost at most if a pod moves."""
        gang, now = self._model.gangs.get(pod.group), self._clock.now().timestamp()
        seconds = 0.0 if pod.started_at is None else max(now - pod.started_at, 0.0)
        most = None if gang is None else gang.unsaved_at_most(now)
        return pod.shape.gpus * (seconds if most is None else min(seconds, most)) / _HOUR

    def _is_worth_it(self, gang: Gang, found: FoundMoves, start: Start | None) -> bool:
        """Tell whether moves cost no more GPU-hours than the gang would wait, or than it has, where that is unknown."""
        now = self._clock.now().timestamp()
        seconds = _waited(gang, now) if start is None else max(start.at - now, 0.0)
        return _gpus(gang) * seconds / _HOUR >= sum(map(self._lost, _pods(found)))

    # What is done.

    def _begin(self, case: Case, option: Option, found: FoundMoves) -> None:
        """Have those evicted that move, with the notice that their queues give them; say what it costs and gains."""
        gang, pods, now = case.gang, _pods(found), self._clock.monotonic()
        lost = sum(map(self._lost, pods))
        self._spent = {queue: spent for queue, spent in self._spent.items() if spent.since(now - _HOUR)[0]}
        for queue in {self._queue_of(pod): None for pod in pods}:
            own = [pod for pod in pods if self._queue_of(pod) == queue]
            self._spent.setdefault(queue, _Spent()).moves.append((now, len(own), sum(map(self._lost, own))))
        self._pending_evictions.start_moves(Claimant.of(case, option), found, EvictionReason.CONSOLIDATED)
        moves = (f"{each.name} from {', '.join(each.origins)} to {', '.join(each.targets)}" for each in found.moves)
        gain = f"{_gpus(gang)} GPUs start for at most {lost:.1f} GPU-hours lost"
        message = f"{len(pods)} pods move, so that {gain}: {'; '.join(moves)}"
        self._effects.notes.append(Note(gang.ref, warning=False, reason="Consolidating", message=message))
        self.forget(gang.uid)


@dataclass(frozen=True, slots=True)
class _HourlyBudgets:
    """What queues allow for an hour, and what PodDisruptionBudgets say."""

    consolidation: Consolidation
    budgets: BudgetCheck

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Tell whether all of these pods may move together."""
        return self.consolidation.allows(pods) and self.budgets.allows(pods)


def _settled(victim: Victim, before: float) -> Victim | None:
    """Return what of a victim has run since `before` (epoch seconds) and has a controller; None for nothing."""

    def may_move(pod: Pod) -> bool:
        return pod.controller != "" and pod.started_at is not None and pod.started_at <= before

    extras = tuple(filter(may_move, victim.extras))
    core = victim.core if extras == victim.extras and all(map(may_move, victim.core)) else ()
    return replace(victim, core=core, extras=extras) if core or extras else None


def _waited(gang: Gang, now: float) -> float:
    """Return for how long the oldest member without a node has waited (seconds)."""
    created = (read_timestamp(pod.created) for pod in gang.members.values() if not pod.bound)
    return max(now - min((moment for moment in created if moment is not None), default=now), 0.0)


def _pods(found: FoundMoves) -> list[Pod]:
    return [pod for each in found.preemption.evictions for pod in each.pods]


def _gpus(gang: Gang) -> int:
    return sum(pod.shape.gpus for pod in gang.unplaced())
