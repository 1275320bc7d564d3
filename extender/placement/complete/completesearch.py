"""Find a place for pods of several kinds if there is any, by which combinations of them each domain holds.

Complete: a place is missed only where the steps that the search may take are not enough, and then it says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.objects.pod import Pod, Shape
from extender.placement.candidates import Candidates, Groups, PlacementTerms, ScopeDomains
from extender.placement.complete.bundles import Bundle, Kind, Parcel, Vocabulary, gather, vocabularies
from extender.placement.complete.nodekinds import node_kinds
from extender.placement.complete.regions import (
    AlikeNodes,
    Counts,
    OutOfStepsError,
    Region,
    Regions,
    Steps,
    behind,
    combinations,
    holds,
    nothing,
)

#: How many times the steps of a search its first look at the nodes may take: what each holds is remembered.
_LOOKING: Final = 8


@dataclass(frozen=True, slots=True)
class GaveUp:
    """How far a search came that gave up: of how many nodes of all that hold any pods it knows all that they hold."""

    nodes: int
    of: int


@dataclass(frozen=True, slots=True)
class SeatPlan:
    """A node for every pod: UID -> row."""

    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Members:
    """Domains, or nodes, that hold the same: the number of their region, and each one's nodes or domains within."""

    region: int
    rows: Sequence[int] = ()
    domains: Sequence[Sequence[_Members]] = ()

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.rows) or len(self.domains)


class CompleteSearch:
    """Search a place for pods, all of which are to be placed in one domain of a level.

    Regions are computed from the nodes outwards, those of equal domains once. On the way out bundles are closed: what
    a rack holds is counted in pods until it is known how many whole slices that makes.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what decides where pods may go
        self,
        pods: Sequence[Pod],
        groups: Groups,
        whatif: WhatIf,
        candidates: Candidates,
        terms: PlacementTerms,
        level: int,
        memory: dict[Hashable, Regions],
        steps: Steps,
    ) -> None:
        """Prepare to search the domains of `level`, the cluster for -1; `whatif` is not changed.

        `pods` are in member order, `groups` are the same by shape.
        """
        self._whatif = whatif
        self._candidates = candidates
        self._tree = tree = candidates.tree
        self._steps = steps
        self._level = level
        required = tree.levels.find(terms.topology.required) if terms.topology.required else None
        domains = ScopeDomains(whatif, candidates, terms)
        self._usable = domains.reachable(level, candidates.settled)
        for each in {level, -1 if required is None else required} - {-1}:
            self._usable = self._usable & (tree.path(each) >= 0)
        holding = domains.holding(level, groups, self._usable)
        if level >= 0:
            self._usable[self._usable] = holding[tree.path(level)[self._usable]]
        self._possible = bool(holding.any())
        self._parcel, beside = gather(pods if self._possible else (), terms.topology, tree, level)
        for each in beside:
            self._usable = self._usable & (tree.path(each) >= 0)
        self._levels = sorted(_levels(self._parcel))
        self._vocabularies = vocabularies(self._parcel, self._levels)
        counted = tuple((each.kinds, each.caps) for each in self._vocabularies)
        known = memory.get(counted)
        self._regions = memory[counted] = Regions() if known is None or known.is_too_much else known

    def find(self) -> SeatPlan | GaveUp | None:
        """Return a node for each pod, None if there is no place for all of them, or how far the search came."""
        shapes, known, there = self._shapes, 0, 1
        if not self._possible:
            return None
        try:
            wanted = dict(zip(shapes, self._vocabularies[-1].caps, strict=True))
            looking = Steps(_LOOKING * self._steps.most)
            nodes = node_kinds(self._whatif, self._eligible, wanted, self._regions.nodes, looking)
            there = max(nodes.rows.shape[0], 1)
            own = [self._regions.of_node(region) for region in nodes.regions]
            numbers = np.array(own, dtype=np.intp)[nodes.kinds]
            for rows, inside in self._scopes(nodes):
                members = self._members(rows, numbers[inside], 0)
                *_, found = self._sums(members, 0)
                if holds(self._regions[found], self._vocabularies[0].caps):
                    return self._seats(members)
                known += rows.shape[0]
        except OutOfStepsError:
            return GaveUp(known, there)
        return None

    @property
    def _shapes(self) -> list[Shape]:
        return [kind for kind in self._vocabularies[-1].kinds if isinstance(kind, Shape)]

    def _eligible(self, shape: Shape) -> NDArray[np.bool_]:
        return self._candidates.eligible(shape) & self._usable

    def _scopes(self, nodes: AlikeNodes) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the nodes of the domains that may hold everything, as rows and as indices: the roomiest first."""
        wanted = np.array(self._vocabularies[-1].caps, dtype=np.float64)
        kinds = wanted.shape[0]
        fits = [np.array(combinations(region, kinds), dtype=np.float64) for region in nodes.regions]
        path = self._tree.path(self._level)[nodes.rows] if self._level >= 0 else np.zeros(nodes.rows.shape[0], np.intp)
        domains = int(path.max(initial=-1)) + 1
        share = np.full(domains, np.inf)
        # However pods are weighed, the nodes of a domain have to hold the weight of all.
        for weights in (*np.eye(kinds), np.ones(kinds), *nodes.asked.T.astype(np.float64)):
            most = np.array([(fit @ weights).max(initial=0.0) for fit in fits])[nodes.kinds]
            sums = np.bincount(path, weights=most, minlength=domains)
            share = np.minimum(share, sums / max(float(weights @ wanted), 1.0))
        order = self._tree.ranks[self._level] if 0 <= self._level < self._tree.depth else np.arange(domains)
        ranked = np.lexsort((order[:domains], -share))
        by_domain = np.argsort(path, kind="stable")
        starts = np.searchsorted(path[by_domain], np.arange(domains + 1))
        for domain in ranked.tolist():
            if share[domain] < 1 - 1e-9:
                return
            inside = by_domain[starts[domain] : starts[domain + 1]]
            if inside.shape[0]:
                yield nodes.rows[inside], inside

    def _members(self, rows: NDArray[np.intp], numbers: NDArray[np.intp], at: int) -> list[_Members]:
        """Return the domains of the level `at`, nodes behind the last level, by what they hold: the roomiest first."""
        found: dict[int, list[Sequence[_Members]]] = {}
        if at == len(self._levels):
            order = np.lexsort((self._whatif.table.order()[rows], numbers))
            kinds, starts = np.unique(numbers[order], return_index=True)
            parts = np.split(rows[order], starts[1:])
            members = [_Members(kind, rows=part.tolist()) for kind, part in zip(kinds.tolist(), parts, strict=True)]
            return sorted(members, key=self._rank)
        level = self._levels[at]
        path = self._tree.path(level)[rows]
        for domain in np.unique(path).tolist():
            inside = path == domain
            within = self._members(rows[inside], numbers[inside], at + 1)
            number = self._closed_region(within, at, int(rows[inside][0]))
            found.setdefault(number, []).append(within)
        return sorted((_Members(number, domains=own) for number, own in found.items()), key=self._rank)

    def _rank(self, members: _Members) -> tuple[int, int]:
        region = self._regions[members.region]
        return -int(region[(0,) * region.ndim]) - sum(region.shape), members.region

    def _closed_region(self, within: Sequence[_Members], at: int, row: int) -> int:
        """Return the number of the region of one domain, counted in what may be closed in it; `row` is in it."""
        vocabulary, level = self._vocabularies[at], self._levels[at]
        shut = tuple(
            isinstance(kind, Bundle)
            and kind.level == level
            and any(self._tree.path(each)[row] < 0 for each in (level, *kind.beside))
            for kind in vocabulary.kinds
        )
        *_, inside = self._sums(within, at + 1)
        key = at, shut, inside
        number = self._regions.find(key)
        if number is None:
            region = behind(self._regions[inside], vocabulary.caps, vocabulary.opened, shut, self._steps)
            number = self._regions.keep(key, region)
        return number

    def _sums(self, members: Sequence[_Members], at: int) -> Iterator[int]:
        """Yield what none of the members hold, the first, the first two and so on, until that is everything."""
        caps, regions = self._vocabularies[at].caps, self._regions
        key: tuple[int, ...] = (at,)
        number = regions.find(key)
        if number is None:
            number = regions.keep(key, nothing(len(caps)))
        yield number
        for each in members:
            number = self._together(number, self._power(each.region, each.count, at), at)
            yield number
            if holds(regions[number], caps):
                return

    def _power(self, number: int, count: int, at: int) -> int:
        """Return what several members hold together that hold the same."""
        count = min(count, sum(self._vocabularies[at].caps))  # each that is used holds one at least
        if count == 1:
            return number
        one, other = (self._power(number, part, at) for part in (count - count // 2, count // 2))
        return self._together(one, other, at)

    def _together(self, one: int, other: int, at: int) -> int:
        key, regions = (at, one, other), self._regions
        return regions.together(key, (one, other), self._vocabularies[at].caps, self._steps)

    def _seats(self, members: Sequence[_Members]) -> SeatPlan:
        self._steps = Steps(1 << 62)  # what was computed is looked up, or as much work again
        rows: dict[str, int] = {}
        self._hand_out(members, self._vocabularies[0].caps, _Pools([self._parcel]), 0, rows)
        return SeatPlan(rows)

    def _hand_out(
        self, members: Sequence[_Members], counts: Counts, pools: _Pools, at: int, rows: dict[str, int]
    ) -> None:
        """Give the nodes of members of the level `at` so much of what is in the pools."""
        vocabulary = self._vocabularies[at]
        for each, shares in self._shared_out(members, counts, at):
            for index, share in enumerate(shares):
                if not any(share):
                    continue
                taken = pools.take(vocabulary.kinds, share)
                if each.rows:
                    rows.update((pod.uid, each.rows[index]) for pod in taken.loose())
                    continue
                inner = taken.opened(self._levels[at])
                self._hand_out(each.domains[index], inner.counts(self._vocabularies[at + 1]), inner, at + 1, rows)

    def _shared_out(
        self, members: Sequence[_Members], counts: Counts, at: int
    ) -> Iterator[tuple[_Members, list[Counts]]]:
        """Yield what each of the members gets: the first as much as they can, so that few nodes are used."""
        regions, sums = self._regions, list(self._sums(members, at))
        for before, each in reversed(list(zip(sums, members, strict=False))):
            share = _share(regions[self._power(each.region, each.count, at)], regions[before], counts)
            counts = tuple(count - own for count, own in zip(counts, share, strict=True))
            yield each, self._divided(each.region, each.count, at, share)

    def _divided(self, number: int, count: int, at: int, share: Counts) -> list[Counts]:
        """Divide a share among members that hold the same."""
        if not any(share):
            return [share] * count
        used = min(count, sum(self._vocabularies[at].caps))
        if used == 1:
            return [share, *[(0,) * len(share)] * (count - 1)]
        first, second = used - used // 2, used // 2
        behind_it, before_it = (self._regions[self._power(number, part, at)] for part in (second, first))
        own = _share(behind_it, before_it, share)
        rest = tuple(count - part for count, part in zip(share, own, strict=True))
        unused = [(0,) * len(share)] * (count - used)
        return [*self._divided(number, first, at, rest), *self._divided(number, second, at, own), *unused]


def _share(region: Region, others: Region, counts: Counts) -> Counts:
    """Return how much of so much a region takes, as little as can be, so that the others hold the rest."""
    none = (0,) * len(counts)
    if holds(others, counts):
        return none
    for most in sorted(combinations(region, len(counts)), key=sum):
        own = tuple(map(min, most, counts))
        if holds(others, tuple(count - part for count, part in zip(counts, own, strict=True))):
            return own
    msg = "what two regions hold together is the sum of what each holds"
    raise AssertionError(msg)


def _levels(parcel: Parcel) -> set[int]:
    """Return the levels of all bundles."""
    found: set[int] = set()
    for kind, parcels in parcel.parcels.items():
        found.add(kind.level)
        found |= _levels(parcels[0])
    return found


class _Pools:
    """Pods and bundles that are still to be handed out, by kind."""

    def __init__(self, parcels: Sequence[Parcel]) -> None:
        self._pods: dict[Shape, list[Pod]] = {}
        self._parcels: dict[Bundle, list[Parcel]] = {}
        for parcel in parcels:
            for shape, pods in parcel.pods.items():
                self._pods.setdefault(shape, []).extend(pods)
            for kind, own in parcel.parcels.items():
                self._parcels.setdefault(kind, []).extend(own)

    def take(self, kinds: Sequence[Kind], counts: Counts) -> _Pools:
        """Take so many of each kind out."""
        taken = _Pools(())
        for kind, count in zip(kinds, counts, strict=True):
            if count and isinstance(kind, Bundle):
                taken._parcels[kind], self._parcels[kind] = self._parcels[kind][:count], self._parcels[kind][count:]
            elif count and isinstance(kind, Shape):
                taken._pods[kind], self._pods[kind] = self._pods[kind][:count], self._pods[kind][count:]
        return taken

    def opened(self, level: int) -> _Pools:
        """Return the same with the bundles of a level opened."""
        whole = {kind: tuple(own) for kind, own in self._parcels.items() if kind.level != level}
        rest = Parcel({shape: tuple(own) for shape, own in self._pods.items()}, whole)
        return _Pools([rest, *(each for kind, own in self._parcels.items() if kind.level == level for each in own)])

    def counts(self, vocabulary: Vocabulary) -> Counts:
        """Return how many there are of each kind."""
        return tuple(
            len(self._parcels.get(kind, ()) if isinstance(kind, Bundle) else self._pods.get(kind, ()))
            for kind in vocabulary.kinds
        )

    def loose(self) -> list[Pod]:
        """Return the pods."""
        return [pod for pods in self._pods.values() for pod in pods]
