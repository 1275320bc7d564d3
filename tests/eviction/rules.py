"""The rules of docs/queues.md on who leaves for whom, stated once more, on plain numbers, for every set of victims.

Nothing here is shared with what is tested: quota is worked out from scratch for each question, and a set is allowed if
any order exists in which each of it goes by right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations

from extender.objects.queue import (
    BorrowWithin,
    FairSharingStrategy,
    NonPreemptible,
    PreemptionPolicy,
    Reclaim,
    WithinQueue,
)


@dataclass(frozen=True)
class Team:
    """A queue: what it has, lends and borrows at most (GPUs), and what it says of evictions."""

    name: str
    parent: str
    nominal: int
    borrowing: int | None = None
    lending: int | None = None
    weight: float = 1.0
    priority: int = 0
    policy: PreemptionPolicy = field(default_factory=PreemptionPolicy)


@dataclass(frozen=True)
class Runs:
    """A gang that runs, with so many GPUs for each member on the nodes of `rows`, in member order.

    `kept` says of each member whether it says that it is not to be evicted, `word` what its PodGroup says of all. One
    that is `single` is a pod without a group. `age` is how long it has run (seconds). `numbers` are in the names of its
    pods.
    """

    name: str
    queue: str
    priority: int
    gpus: int
    rows: tuple[int, ...]
    minimum: int
    kept: tuple[bool, ...]
    word: bool | None = None
    whole: bool = False
    single: bool = False
    age: float = 1000.0
    numbers: tuple[int, ...] = ()

    def name_of(self, at: int) -> str:
        """Return the name of a pod by its place."""
        return f"{self.name}-{self.numbers[at] if self.numbers else at}"

    @property
    def pods(self) -> set[str]:
        """Name its pods."""
        return {self.name_of(at) for at in range(len(self.rows))}

    def without(self, names: Collection[str]) -> Runs:
        """Return what is left of it without some pods."""
        left = [at for at in range(len(self.rows)) if self.name_of(at) not in names]
        rows, kept = tuple(self.rows[at] for at in left), tuple(self.kept[at] for at in left)
        return replace(
            self, rows=rows, kept=kept, numbers=tuple(self.numbers[at] if self.numbers else at for at in left)
        )

    @property
    def protected(self) -> tuple[bool, ...]:
        """Say of each member whether it is not to be evicted."""
        return self.kept if self.word is None else (not self.word,) * len(self.rows)

    @cached_property
    def spare(self) -> tuple[int, ...]:
        """Return which members may leave one by one: the last ones, with all that are to stay and the minimum left."""
        free = [at for at, stays in enumerate(self.protected) if not stays]
        count = 0 if self.whole else max(len(self.rows) - self.minimum, 0)
        return tuple(sorted(free[len(free) - min(count, len(free)) :]))

    def pieces(self, first: int) -> Iterator[Piece]:
        """Iterate over what can go of it at once, numbered from `first`: each spare member, and the rest with these."""
        for at in reversed(self.spare):
            yield Piece(first, self, (at,), core=False)
            first += 1
        if not any(self.protected):
            yield Piece(first, self, tuple(at for at in range(len(self.rows)) if at not in self.spare), core=True)

    @property
    def lasting(self) -> int:
        """Count the GPUs that never come back: where any member is to stay, all that may not leave."""
        return (len(self.rows) - len(self.spare)) * self.gpus if any(self.protected) else 0


@dataclass(frozen=True)
class Piece:
    """Members of a gang that can only go together: `members` are their places in it."""

    number: int
    of: Runs = field(hash=False)
    members: tuple[int, ...] = field(hash=False)
    core: bool

    @property
    def pods(self) -> set[str]:
        """Name its pods."""
        return {self.of.name_of(member) for member in self.members}

    @property
    def gpus(self) -> int:
        """Count its GPUs."""
        return len(self.members) * self.of.gpus


@dataclass(frozen=True)
class Claim:
    """Members that ask for room: of a gang of a queue that starts, or that `has_started` and wants more.

    `oldest` says that it is older than all that run, `lasting` that it could not be evicted.
    """

    name: str
    queue: str
    priority: int
    pods: int
    gpus: int
    has_started: bool = False
    oldest: bool = False
    lasting: bool = False

    @property
    def asked(self) -> int:
        """Count the GPUs that it asks for."""
        return self.pods * self.gpus


@dataclass(frozen=True)
class Ground:
    """All that the question depends on whose members have to leave.

    `free` is what each node has left (GPUs) with all that run. `beside` is what is used, by queue, beside what runs and
    may leave, `lasting` the part of all that is used which never comes back.
    """

    free: tuple[int, ...]
    teams: Mapping[str, Team]
    pieces: tuple[Piece, ...]
    beside: Mapping[str, int]
    lasting: Mapping[str, int]
    claim: Claim

    # Quota, as Kueue documents it.

    def path(self, name: str) -> list[str]:
        """Return a queue and those above it."""
        found = [name]
        while parent := self.teams[found[-1]].parent:
            found.append(parent)
        return found

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        return {name: [each.name for each in self.teams.values() if each.parent == name] for name in self.teams}

    @cached_property
    def _has(self) -> dict[str, int]:
        return {name: self._has_of(name) for name in self.teams}

    def _has_of(self, name: str) -> int:
        below = self._below[name]
        return self.teams[name].nominal + sum(self._has_of(each) - self._keeps_of(each) for each in below)

    @cached_property
    def _keeps(self) -> dict[str, int]:
        return {name: self._keeps_of(name) for name in self.teams}

    def _keeps_of(self, name: str) -> int:
        lending = self.teams[name].lending
        return 0 if lending is None else max(0, self._has_of(name) - lending)

    def own(self, gone: Iterable[Piece]) -> dict[str, int]:
        """Return what each queue's own gangs use once some have gone."""
        used = dict.fromkeys(self.teams, 0)
        for name, amount in self.beside.items():
            used[name] += amount
        away = {each.number for each in gone}
        for each in self.pieces:
            if each.number not in away:
                used[each.of.queue] += each.gpus
        return used

    def uses(self, name: str, own: Mapping[str, int]) -> int:
        """Return what a queue uses with those below it, without what these keep for themselves."""
        below = self._below[name]
        return own[name] + sum(max(0, self.uses(each, own) - self._keeps[each]) for each in below)

    def _with_claim(self, own: Mapping[str, int]) -> dict[str, int]:
        return {**own, self.claim.queue: own[self.claim.queue] + self.claim.asked}

    def within_quota(self, gone: Iterable[Piece]) -> bool:
        """Tell whether all that have to do with it stay within what they may use, if the claim is added."""
        own = self.own(gone)
        later = self._with_claim(own)
        for name in self.path(self.claim.queue):
            team, before, after = self.teams[name], self.uses(name, own), self.uses(name, later)
            if not team.parent:
                most: int | None = self._has[name]
            else:
                most = None if team.borrowing is None else self._has[name] + team.borrowing
            if most is not None and after > most and after != before:
                return False
        return not self.claim.lasting or self._stays_nominal()

    def _stays_nominal(self) -> bool:
        """Tell whether what never comes back finds nominal quota in its queue, or else in those above."""
        if self.teams[self.claim.queue].policy.non_preemptible is NonPreemptible.ANYWHERE:
            return True
        root = self.path(self.claim.queue)[-1]
        before = self._unmet(root, self.lasting)
        asked = {**self.lasting, self.claim.queue: self.lasting.get(self.claim.queue, 0) + self.claim.asked}
        return self._unmet(root, asked) <= before

    def _unmet(self, name: str, held: Mapping[str, int]) -> int:
        used = held.get(name, 0) + sum(self._unmet(each, held) for each in self._below[name])
        return max(0, used - self.teams[name].nominal)

    # Room.

    def has_room(self, gone: Iterable[Piece]) -> bool:
        """Tell whether the nodes hold the claim once some have gone."""
        free = list(self.free)
        for each in gone:
            for member in each.members:
                free[each.of.rows[member]] += each.of.gpus
        return sum(room // self.claim.gpus for room in free) >= self.claim.pods

    def fits(self, gone: Sequence[Piece]) -> bool:
        """Tell whether the claim has room and quota once some have gone."""
        return self.has_room(gone) and self.within_quota(gone)

    # Rights.

    def meet(self, name: str) -> str:
        """Return where the branch of a queue and that of the claim come together."""
        mine = self.path(self.claim.queue)
        return next(each for each in self.path(name) if each in mine)

    def _line(self, name: str) -> list[str]:
        """Return a queue and those above it, up to below where they meet."""
        path = self.path(name)
        return path[: path.index(self.meet(name))]

    @cached_property
    def _policy(self) -> PreemptionPolicy:
        return self.teams[self.claim.queue].policy

    def _may_go_in_own_queue(self, piece: Piece) -> bool:
        """Tell whether a piece of the claim's own queue is below it, and spare if the claim is for more members."""
        priority, claim = piece.of.priority, self.claim
        if self._policy.within_queue is WithinQueue.NEVER or (claim.has_started and piece.core):
            return False
        newer = self._policy.within_queue is WithinQueue.LOWER_OR_NEWER and claim.oldest and not claim.has_started
        return priority < claim.priority or (newer and priority == claim.priority)

    def _may_leave(self, piece: Piece) -> bool:
        """Tell whether a piece may go for others at all by now: it has run for as long as its queue protects it."""
        return piece.of.age >= self.teams[piece.of.queue].policy.min_runtime

    @cached_property
    def spare(self) -> frozenset[Piece]:
        """Return the members beyond minimums of other queues' gangs that might go for the claim."""
        lent = (each for each in self.pieces if each.of.queue != self.claim.queue and not each.core)
        return frozenset(filter(self._might_go, lent))

    def _might_go(self, piece: Piece) -> bool:
        """Tell whether a piece goes by right once some others have gone, whoever they are."""
        able = [each for each in self.pieces if each is not piece and self._may_leave(each)]
        own = [each for each in able if each.of.queue == self.claim.queue and self._may_go_in_own_queue(each)]
        lent = [each for each in able if each.of.queue != self.claim.queue]
        sets = (some for size in range(len(lent) + 1) for some in combinations(lent, size))
        return any(self.may_go(piece, some) or self.may_go(piece, [*own, *some]) for some in sets)

    @cached_property
    def _most_reclaimed(self) -> float:
        match self._policy.reclaim_within_cohort:
            case Reclaim.ANY:
                return float("inf")
            case Reclaim.LOWER_PRIORITY:
                return self.claim.priority - 1
        return float("-inf")

    @cached_property
    def _most_taken(self) -> float:
        if self._policy.borrow_within_cohort is BorrowWithin.NEVER or self.claim.has_started:
            return float("-inf")
        threshold = self._policy.max_priority_threshold
        return self.claim.priority - 1 if threshold is None else min(self.claim.priority - 1, threshold)

    def _has_borrowed(self, queue: str, own: Mapping[str, int]) -> bool:
        """Tell whether a queue's own gangs use more than it has, and so does each above it, up to where they meet."""
        over = all(self.uses(each, own) > self._has[each] for each in self._line(queue))
        return own[queue] > self.teams[queue].nominal and over

    def _is_within(self, queue: str, own: Mapping[str, int]) -> bool:
        """Tell whether the claim's branch below where it meets a queue is within its quota with the claim."""
        meet, later = self.meet(queue), self._with_claim(own)
        if meet == self.claim.queue:
            return later[meet] <= self.teams[meet].nominal
        path = self.path(self.claim.queue)
        branch = path[path.index(meet) - 1]
        return self.uses(branch, later) <= self._has[branch]

    def _share(self, queue: str, meet: str, own: Mapping[str, int]) -> float:
        """Return what the branch of a queue below some other borrows, by its weight."""
        if queue == meet:
            return max(0, own[queue] - self.teams[queue].nominal)
        path = self.path(queue)
        branch = path[path.index(meet) - 1]
        return max(0, self.uses(branch, own) - self._has[branch]) / self.teams[branch].weight

    def _evens(self, piece: Piece, gone: Sequence[Piece]) -> bool:
        """Tell whether weighted shares even out: the claim would borrow, and comes to no more than the other has."""
        strategy, before = self._policy.fair_sharing, self.own(gone)
        with_claim = self._with_claim(before)
        if strategy is FairSharingStrategy.NEVER:
            return False
        if self.uses(self.claim.queue, with_claim) <= self._has[self.claim.queue]:
            return False
        meet = self.meet(piece.of.queue)
        if strategy is FairSharingStrategy.INITIAL_SHARE:
            mine = self._share(self.claim.queue, meet, with_claim)
            return mine < self._share(piece.of.queue, meet, with_claim) - 1e-9
        after = self._with_claim(self.own([*gone, piece]))
        mine, theirs = self._share(self.claim.queue, meet, after), self._share(piece.of.queue, meet, after)
        return mine <= theirs + 1e-9

    def may_go(self, piece: Piece, gone: Sequence[Piece]) -> bool:
        """Tell whether a piece goes by right once some have gone."""
        if not self._may_leave(piece):
            return False
        if piece.of.queue == self.claim.queue:
            return self._may_go_in_own_queue(piece)
        if not piece.core or self.claim.queue == piece.of.queue:
            counted = self.own(gone)
        else:  # what gangs can spare counts as borrowed before what any of them needs
            counted = self.own([*gone, *(each for each in self.spare if each not in gone)])
        if not self._has_borrowed(piece.of.queue, counted):
            return False
        if piece.of.priority <= self._most_taken:
            return True
        if piece.of.priority > self._most_reclaimed:
            return False
        return self._is_within(piece.of.queue, self.own(gone)) or self._evens(piece, gone)

    def _is_whole(self, gone: Sequence[Piece]) -> bool:
        """Tell whether all spare members of those go whose core does."""
        going = {each.of.name for each in gone if each.core}
        return all(each in gone for each in self.pieces if each.of.name in going)

    @property
    def _evening(self) -> bool:
        """Tell whether the claim would borrow, in a queue that evens shares out."""
        fair = self._policy.fair_sharing is not FairSharingStrategy.NEVER
        own = self.own(())
        return fair and self.uses(self.claim.queue, self._with_claim(own)) > self._has[self.claim.queue]

    def _is_lent_back(self, piece: Piece, gone: Sequence[Piece]) -> bool:
        """Tell whether the claim has quota enough without a piece of its own branch, beside one of another branch."""
        if piece.of.queue == self.claim.queue:
            return False
        up = self.path(self.claim.queue).index
        furthest = max(up(self.meet(each.of.queue)) for each in gone)
        return up(self.meet(piece.of.queue)) < furthest and self.within_quota(
            each for each in gone if each is not piece
        )

    def entitled(self, gone: Sequence[Piece]) -> bool:
        """Tell whether there is an order in which each goes by right, those of the claim's own queue first.

        None of the branch that the claim shares goes only so that there is a right to those of another.
        """
        if self._evening and any(self._is_lent_back(each, gone) for each in gone):
            return False
        own = [each for each in gone if each.of.queue == self.claim.queue]
        lent = frozenset(each for each in gone if each.of.queue != self.claim.queue)
        if not all(self.may_go(each, ()) for each in own):
            return False
        reached = {frozenset[Piece]()}
        for _ in lent:
            reached = {some | {each} for some in reached for each in lent - some if self.may_go(each, [*own, *some])}
        return bool(reached)

    # Answers.

    def choices(self) -> list[frozenset[Piece]]:
        """Return all sets that may go and make the claim fit."""
        able = [each for each in self.pieces if self._may_leave(each)]
        sets = chain.from_iterable(combinations(able, size) for size in range(len(able) + 1))
        return [frozenset(some) for some in sets if self._is_whole(some) and self.fits(some) and self.entitled(some)]

    def kind(self, gone: Iterable[Piece]) -> str:
        """Return which of others' and own gangs go: none, lent, own or both."""
        queues = {each.of.queue == self.claim.queue for each in gone}
        return "none" if not queues else "both" if len(queues) > 1 else "own" if queues == {True} else "lent"

    def turns(self, kind: str) -> Iterator[frozenset[Piece]]:
        """Iterate over those up to each turn: who has most above its weighted share gives back first, own ones last.

        They are those that others have borrowed, own ones or both, by the kind of set that is enough.
        """
        gone: list[Piece] = []
        able = list(filter(self._might_go, self.pieces))
        lent = [each for each in able if each.of.queue != self.claim.queue and kind != "own"]
        own = [each for each in able if each.of.queue == self.claim.queue and kind != "lent"]
        last: tuple[object, ...] | None = None
        while lent or own:
            if lent:
                queue = min({each.of.queue for each in lent}, key=lambda name: (self._excess(name, gone), name))
            else:
                queue = self.claim.queue
            line = [each for each in (lent or own) if each.of.queue == queue]
            first = min(line, key=lambda each: (each.core, each.of.priority, each.of.age, each.number))
            if last not in {None, (queue, first.core, first.of.priority)}:
                yield frozenset(gone)
            last = queue, first.core, first.of.priority
            gone.append(first)
            (lent or own).remove(first)
        yield frozenset(gone)

    def _excess(self, queue: str, gone: Sequence[Piece]) -> tuple[tuple[float, int], ...]:
        """Return the sort key by which who is furthest above its weighted share comes first, from the root down."""
        own = self.own(gone)
        over = [
            (-max(0, self.uses(each, own) - self._has[each]) / self.teams[each].weight, self.teams[each].priority)
            for each in reversed(self.path(queue))
        ]
        if self._below[queue]:
            over.append((-max(0.0, own[queue] - self.teams[queue].nominal), 0))
        return tuple(over)
