"""What decisions rest on: the state of one cycle, which makes of it the case of each gang, for `judge` to decide.

Nothing but the cycle itself moves anything while it lasts: what it reserves, what it keeps for gangs that have to wait.
A verdict stands as long as its `VerdictKey` does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from extender.admission.verdicts import KindVerdict, VerdictKey
from extender.clock import Clock
from extender.cluster.gangs import Gang, role_gaps
from extender.cluster.model import ClusterModel
from extender.judge import ANYWHERE, Case
from extender.ledger.earmark import Earmark
from extender.ledger.rejections import Vetoes
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.placement.capacityview import CapacityViews, PodSet, amounts_of
from extender.placement.plan import Planner, plan
from extender.queues.order import Position, Walk
from extender.queues.sharing import NAMELESS, FlavorOffer, Option, QuotaCheck, Sharing


@dataclass(slots=True)
class Entry:
    """A gang that wants nodes, as it stood when it last changed, and what was found out about it.

    `core` is what it cannot start without; None for a gang that only wants places for members beyond minMember. With
    `gated` it asks for no nodes yet, only whether its queue has quota for it; one that `blocks` lets not
    every gang pass. Its verdict was given on `judged_on`, which made it a `head` or not; that on the members beyond on
    `extras_judged_on`, and why the first of these find no place is `short`. So many `searches` for a place gave up.
    `shared` is what it shares with those of its `kind` in its queue.
    """

    gang: Gang
    queue: str
    position: Position
    core: PodSet | None
    gated: bool = False
    blocks: bool = False
    kind: Hashable | None = None
    shared: KindVerdict = field(default_factory=KindVerdict)
    judged_on: VerdictKey | None = None
    head: Earmark | None = None
    extras_judged_on: VerdictKey | None = None
    short: Wait | None = None
    searches: int = 0

    @property
    def is_judged(self) -> bool:
        """Tell whether its turn has come since it last changed."""
        return (self.extras_judged_on if self.core is None else self.judged_on) is not None

    @property
    def is_urgent(self) -> bool:
        """Tell whether it comes before all that is not, whatever queue it is in."""
        return not (self.position.not_partial and self.position.not_aged)


def line_up(walk: Walk[Entry]) -> list[Entry]:
    """Return who wants nodes or quota for what it cannot start without, in the order in which a pass judges them.

    Who would borrow comes after all who would not, as when it was last judged.
    """
    line: list[Entry] = []
    for each in walk:
        if each.shared.is_deferred and not walk.is_last:
            walk.defer_alone()
        elif each.shared.borrows and each.queue != NAMELESS and not (each.is_urgent or walk.is_last):
            walk.defer()
        else:
            line.append(each)
    return [each for each in line if each.core is not None]


class OpensSpares(Protocol):
    """Tell whether a gang in a queue may use the spares that a Queue keeps."""

    def __call__(self, owner: str, gang: Gang, queue: str, *, repairs: bool = False) -> bool:
        """Tell whether it may."""


#: Gangs that are taken in or told between two looks at the clock; after each that is evaluated there is one.
GLANCE: Final = 32


class Pace:
    """Tell when a step of a pass has lasted for long enough: the event loop serves nothing else meanwhile.

    Attributes:
        done: how much has been done since the last look at the clock.
    """

    #: How long a step may take (seconds). One gang is the least that it evaluates; a plan for 1,000 pods takes longer.
    STEP_SECONDS: Final = 0.001

    def __init__(self, clock: Clock) -> None:
        """Go by `clock`; no step has begun."""
        self._clock = clock
        self._until = 0.0
        self.done = 0

    def begin(self) -> None:
        """Begin a step."""
        self._until, self.done = self._clock.monotonic() + self.STEP_SECONDS, 0

    def is_over(self) -> bool:
        """Look at the clock: tell whether the step is to end."""
        self.done = 0
        return self._clock.monotonic() >= self._until


class Cycle:
    """The state of one cycle: what its next verdict rests on.

    Attributes:
        views: the nodes.
        obstacle: why no gang at all is placed, None where gangs are.
        heads: what is kept for the gangs that wait for room, the first in the queue first.
        firm: what is being cleared for gangs, or kept for those that lost members, by gang UID.
        spares: what Queues keep for repairs.
        ahead: by queue, the gang that keeps all behind it waiting, and its place.
        frugal: for roots of trees in which no gang may borrow, the gang that has waited for so long that this is so.
        now: when it began (epoch seconds).
        changed: gangs that have changed between two steps of it.
        again: whether another one is due: it gave back room behind gangs that it had judged already, or a search for
            a place is to go on.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what decisions rest on
        self,
        model: ClusterModel,
        sharing: Sharing,
        vetoes: Vetoes,
        views: CapacityViews,
        now: float,
        obstacle: Wait | None = None,
        planner: Planner = plan,
        opens: OpensSpares | None = None,
    ) -> None:
        """Begin without any gang that waits for room. With an `obstacle` no gang is placed; `opens` is for spares."""
        self._model = model
        self._sharing = sharing
        self._vetoes = vetoes
        self.obstacle = obstacle
        self._planner = planner
        self._opens = opens
        self._state: tuple[object, ...] = ()
        self._split: tuple[Sequence[Earmark], bool] = ((), False)  # earmarks, and whether any is open to some gangs
        self.views = views
        self.now = now
        self.heads: tuple[Earmark, ...] = ()
        self.firm: dict[str, Earmark] = {}
        self.spares: tuple[Earmark, ...] = ()
        self.ahead: dict[str, tuple[Position, str]] = {}
        self.frugal: dict[str, str] = {}
        self.changed: dict[GroupRef, Gang] = {}
        self.again = False

    def is_outdated(self, entry: Entry) -> bool:
        """Tell whether a gang is left to the next cycle, because it has changed since this one began."""
        outdated = entry.gang.ref in self.changed
        self.again |= outdated
        return outdated

    def verdict_key(self, queue: str) -> VerdictKey:
        """Return what a verdict given now on a gang of a queue rests on."""
        earmarks = (*self.heads, *self.firm.values(), *self.spares)
        _, ahead = self.ahead.get(queue, (None, ""))
        frugal = bool(self.frugal) and self._sharing.root(queue) in self.frugal
        return VerdictKey(self._model.table.generation, earmarks, self.obstacle, ahead, frugal)

    def key_for_newcomer(self, queue: str, place: Position) -> VerdictKey:
        """Return what the verdict would rest on of a gang that came into a queue now, at some place."""
        key = self.verdict_key(queue)
        blocker, _ = self.ahead.get(queue, (None, ""))
        heads = (head for head in self.heads if head.position < place)
        return key._replace(
            earmarks=(*heads, *self.firm.values(), *self.spares),
            ahead=key.ahead if blocker is not None and blocker < place else "",
        )

    def has_moved(self) -> bool:
        """Tell whether verdict keys may be others than when this was last asked."""
        state = (self._model.table.generation, self.heads, self.firm, self.spares, len(self.ahead), len(self.frugal))
        before, self._state = self._state, state
        return before != state

    def has_had_its_turn(self, gang: Gang) -> bool:
        """Tell whether a gang's place is being cleared: who comes ahead of it since then does not hold it up.

        Otherwise others would leave in vain.
        """
        return gang.uid in self.firm

    def case(
        self, pod_set: PodSet, queue: str, key: VerdictKey, *, known: bool = True, now: float | None = None
    ) -> Case:
        """Return the case of members of a gang on what `key` says; one that is not `known` has no past.

        `now` is in epoch seconds, that of the cycle if it is left out.
        """
        gang, quota = pod_set.gang, None
        offers: Sequence[FlavorOffer] = ANYWHERE
        if queue:
            gives_way = self.frugal and not self.has_had_its_turn(gang)
            patient = self.frugal.get(self._sharing.root(queue), "") if gives_way else ""
            quota = QuotaCheck(self._sharing, gang.uid, queue, pod_set.amounts, patient, _fixed(pod_set))
            offers = [quota.offer(option) for option in self._options(pod_set, queue, known=known)]
        return Case(
            pod_set,
            queue,
            self.views,
            offers,
            key.obstacle or (self._obstacle_of(pod_set, queue, key.ahead, known=known) if queue else None),
            self._kept_from(gang, queue, key.earmarks, self.now if now is None else now),
            self._vetoes.of_gang(gang.uid, self._model.table) if known and gang.uid in self._vetoes.of_gangs else {},
            self._planner,
            quota,
        )

    def _obstacle_of(self, pod_set: PodSet, queue: str, ahead: str, *, known: bool) -> Wait | None:
        """Return why members of a gang do not start in its queue now, whatever is free."""
        gang, sharing = pod_set.gang, self._sharing
        if ahead and not self.has_had_its_turn(gang):
            return Wait(Reason.BEHIND_IN_QUEUE, names={"queue": queue, "head": ahead})
        # What is only thought of runs nowhere, whatever gang of its name does.
        holder = gang.ref if known else GroupRef(gang.ref.api, gang.ref.namespace, "")
        barred = sharing.barred(queue, holder)
        return barred or (sharing.over_limit(queue, gang.uid, holder, pod_set.pods) if sharing.limiting else None)

    def _options(self, pod_set: PodSet, queue: str, *, known: bool) -> Sequence[Option]:
        """Return where members of a gang may be placed, what they prefer first."""
        held = self._sharing.charges.holders(queue).get(pod_set.gang.ref, ()) if known else ()
        return self._sharing.options(queue, pod_set.amounts, held)

    def borrows(self, pod_set: PodSet, queue: str, *, known: bool = True) -> bool:
        """Tell whether members would take their queue beyond its quota in every flavor that they may be placed in."""
        sharing, amounts = self._sharing, pod_set.amounts
        with sharing.charges.apart_from(pod_set.gang.uid):
            options = self._options(pod_set, queue, known=known)
            return all(sharing.borrows(queue, each, amounts) for each in options)

    def _kept_from(self, gang: Gang, queue: str, earmarks: Sequence[Earmark], now: float) -> Sequence[Earmark]:
        """Return what a gang may not use; what is being cleared for it is its own, also if others wait before it."""
        cleared = gang.uid in self.firm  # asked for every gang that waits: no call
        if earmarks is not self._split[0]:  # for a thousand gangs in turn they are the same
            self._split = earmarks, any(each.start is not None or each.spares for each in earmarks)
        if not cleared and not self._split[1]:
            return earmarks
        duration = gang.expected_duration
        return [
            each
            for each in earmarks
            if each.gang is not gang
            and (each.firm or not (cleared or each.open_to(duration, now)))
            and not (each.spares and self._opens is not None and self._opens(each.spares, gang, queue))
        ]


def _fixed(pod_set: PodSet) -> Mapping[str, int]:
    """Return how much members ask for that could not be evicted once they are placed.

    Of a gang with a member that is not to be evicted that is all that it cannot start without, and beyond that such
    members; all, if it only leaves whole.
    """
    gang = pod_set.gang
    if gang.preemptible:
        return {}
    if gang.goes_whole or gang.placed_count < gang.min_member or role_gaps(gang):
        return pod_set.amounts
    return amounts_of((pod.shape, 1) for pod in pod_set.pods if gang.keeps(pod))
