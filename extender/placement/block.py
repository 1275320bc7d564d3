"""Placing pods that belong together: the domain that holds all of them first, then one shape after the other in it.

A gang whose pods ask for different numbers of GPUs is placed by how many GPUs each node is best to give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import gcd
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import member_order
from extender.cluster.whatif import Mark, WhatIf
from extender.objects.keys import Packing
from extender.objects.pod import Pod, Shape
from extender.objects.requests import GPU_RESOURCES
from extender.objects.topology import Objective, RoleGroup, TopologyRequest, WeighedPlace, nested
from extender.placement.bags import Score, Wanted, Way
from extender.placement.candidates import (
    MOST_SCOPES,
    Candidates,
    Groups,
    PlacementScope,
    PlacementTerms,
    ScopeDomains,
    binding,
    counted_off,
)
from extender.placement.room import AVOIDED_LOSS, clique_units, field_of, pack, strands, used_last
from extender.placement.search import Search, assign

Quota: TypeAlias = list[tuple[int, int]]
"""(row, GPUs) in the order of the tree."""

#: Worse than anything that can be placed.
_UNKNOWN = Score(2**62, 1, 0)


class Relaxation:
    """The gang as if it were equal pods, each with as many GPUs as the pods' numbers have for a common divisor.

    What is best for those is exact and a bound for the gang; sharing its pods out by it mostly reaches that bound.
    """

    def __init__(
        self, whatif: WhatIf, candidates: Candidates, groups: Mapping[Shape, Sequence[Pod]], objective: Objective
    ) -> None:
        """Relax the pods of `groups`, all of which ask for GPUs; `whatif` is not changed."""
        self._gpus = reduce(gcd, (shape.whole_gpus for shape in groups))
        pods = sum(shape.whole_gpus * len(members) for shape, members in groups.items()) // self._gpus
        self._field = field_of(
            whatif, candidates.tree, self._average(groups, pods), _admitted_by_all(candidates, groups), {}
        )
        units, self._kinds = clique_units(self._field, whatif, pods)
        self._search = Search(self._field, Wanted(pods, pods * self._gpus, objective), units, self._kinds)
        self._position = {int(row): position for position, row in enumerate(self._field.rows)}

    def quotas(self, levels: Iterable[int]) -> list[Quota]:
        """Return how many GPUs each node is best to give, for the best domain of each level that may be the best."""
        everywhere = np.ones(self._field.rows.shape[0], dtype=np.bool_)
        return [
            [(int(self._field.rows[position]), pods * self._gpus) for position, pods in assign(self._search, choice)]
            for choice in self._search.best(levels, everywhere)
        ]

    def score(self, gpus: Mapping[int, int]) -> Score:
        """Return how good it is to have so many GPUs on each row; worse than anything for what it does not know."""
        used = {self._position.get(row, -1): count // self._gpus for row, count in gpus.items()}
        units = self._field.units
        if any(at < 0 or pods > units[int(self._field.kinds[at])].cap for at, pods in used.items()):
            return _UNKNOWN
        tree = self._field.tree
        level, _ = tree.common(np.array(list(gpus), dtype=np.intp))
        islands: Counter[tuple[int, int]] = Counter()  # (kind, which of its kind) -> pods
        loss = 0
        for at, pods in used.items():
            kind, clique = int(self._field.kinds[at]), int(self._kinds[at])
            loss += units[kind].loss[pods]
            if clique >= 0 and tree.cliques is not None:
                domain = int(self._field.paths[tree.cliques, at])
                islands[self._search.clique_base + clique, domain] += pods
            else:
                islands[kind, at] += pods
        loss += sum(self._search.units[kind].loss[0] for kind, _ in islands)  # of a node nothing is broken: its is 0
        count = min(len(islands), 3)
        steps = (self._search.step(kind, count, level, pods) for (kind, _), pods in islands.items())
        return self._search.score(min(steps), loss)

    def weighed(self, scores: Iterable[Score]) -> WeighedPlace | None:
        """Return what was chosen of these, and what else was best; None where it does not know any."""
        known = [Way(bound=False, score=score) for score in scores if score != _UNKNOWN]
        return self._search.bags.weighed(min(known).score, known) if known else None

    def _average(self, groups: Mapping[Shape, Sequence[Pod]], pods: int) -> Shape:
        """Return the shape of the equal pods: their GPUs, and of everything else what the gang asks for on average."""
        totals: Counter[str] = Counter()
        for shape, members in groups.items():
            for resource, amount in shape.requests:
                totals[resource] += amount * len(members)
        asked = {r: self._gpus if r in GPU_RESOURCES else -(-amount // pods) for r, amount in totals.items()}
        return Shape(tuple(sorted(asked.items())))


def _admitted_by_all(candidates: Candidates, groups: Iterable[Shape]) -> NDArray[np.bool_]:
    """Return (rows,) the nodes that admit all shapes."""
    masks = [candidates.eligible(shape) for shape in groups]
    admitted: NDArray[np.bool_] = np.logical_and.reduce(masks)
    return admitted


def _telling(weighed: WeighedPlace) -> tuple[bool, int]:
    return weighed.passed is not None, weighed.gpus


class _Saved(NamedTuple):
    """A block as it was: how far the what-if copy had come, and what the block remembers of it."""

    mark: Mark
    settled: dict[int, int]
    touched: NDArray[np.bool_]
    fragmentation: float
    weighed: WeighedPlace | None
    rows: dict[str, int]


# Example. 3 workers (4 GPUs, 8 CPUs each) and a launcher (60 CPUs) that require one rack. H100 nodes with 64 CPUs, in
# rack aa (aa0 with 8 GPUs free, aa1 with 4) and in rack ab (ab0 and ab1 with 8, and ab2 without GPUs).
#
#   levels   [rack]                     -1, the cluster, is not tried: the rack is required
#   scopes   aa, ab                     each has room for the workers, and for the launcher, counted by themselves;
#                                       aa is first: the workers, which are the first shape, lose less there
#   aa       workers: aa0 2, aa1 1      48 and 55 CPUs are left: no launcher, so all of it is taken back
#   ab       workers: ab0 2, ab1 1      launcher: ab2, as it needs no GPUs and strands none there
#
# What lies inside what (roles, then shapes, then slices) is a Block of its own inside the scope of the outer one.
class Block:
    """Place pods of several shapes together, within one domain of the level that the terms ask for.

    Attributes:
        rows: pod UID -> row, of those that were placed.
        fragmentation: what future requests lose by it (GB/s).
        weighed: by what most of them were placed, of the comparisons with a place that was passed by if there is any.
    """

    def __init__(self, whatif: WhatIf, candidates: Candidates, terms: PlacementTerms) -> None:
        """Place nothing yet; what is placed is taken from `whatif`."""
        self._whatif = whatif
        self._candidates = candidates
        self._terms = terms
        self._tree = candidates.tree
        self._domains = ScopeDomains(whatif, candidates, terms)
        self._settled = dict(candidates.settled)
        self._touched = np.zeros(whatif.free.shape[1], dtype=np.bool_)
        self.rows: dict[str, int] = {}
        self.fragmentation = 0.0
        self.weighed: WeighedPlace | None = None

    def place(self, groups: Groups) -> bool:
        """Place all pods, or none; return which."""
        for level in self._domains.levels(groups, self._settled):
            for scope, weighed in self._scopes(level, groups):
                if self._place_within(scope, groups):
                    self._tell(weighed)
                    return True
        return False

    def _tell(self, weighed: WeighedPlace | None) -> None:
        """Keep by what pods were placed, unless what is kept says more."""
        if weighed is not None and (self.weighed is None or _telling(weighed) >= _telling(self.weighed)):
            self.weighed = weighed

    def place_most(self, groups: Groups) -> int:
        """Place as many pods as there is room for, wherever that is; return how many."""
        fits = 0
        for shape, pods in groups.items():
            counts = self._domains.room(shape)
            few = list(pods)[: min(len(pods), int(np.minimum(counts, len(pods)).sum()))]
            if few:
                self._pack(shape, few, counts)
            fits += len(few)
        return fits

    def _scopes(self, level: int, groups: Groups) -> Iterator[tuple[PlacementScope, WeighedPlace | None]]:
        """Yield domains of `level` that each shape by itself fits into, the best for the first shape first, and why."""
        mask = self._domains.roomy(level, groups, self._settled)
        if level < 0:
            yield PlacementScope(level, mask), None
            return
        path = self._tree.path(level)
        shape, pods = next(iter(groups.items()))
        for _ in range(MOST_SCOPES):
            best = self._best_row(level, mask, shape, pods) if mask.any() else None
            if best is None:
                return
            row, weighed = best
            inside = path == path[row]
            yield PlacementScope(level, mask & inside), weighed
            mask &= ~inside

    def _best_row(
        self, level: int, mask: NDArray[np.bool_], shape: Shape, pods: Sequence[Pod]
    ) -> tuple[int, WeighedPlace | None] | None:
        """Return a node of the domain of `level` that is best for pods of one shape, and why; None if there is none."""
        mark = self._whatif.mark()
        trial = Block(self._whatif, self._candidates, self._terms)
        trial._settled = dict(self._settled)
        placed = trial._place_shape(PlacementScope(level, mask), shape, pods, whole=level)
        self._whatif.undo(mark)
        return (next(iter(trial.rows.values())), trial.weighed) if placed else None

    def _place_within(self, scope: PlacementScope, groups: Groups) -> bool:
        """Place everything inside a scope, roles that share a domain first; nothing is taken on failure."""
        before = self._save()
        rest = {shape: list(pods) for shape, pods in groups.items()}
        groups_of_roles = binding(self._terms.topology.role_groups, self._tree)
        gathered = not groups_of_roles or self._place_roles(scope, groups_of_roles, rest)
        if gathered and self._place_shapes(scope, {shape: pods for shape, pods in rest.items() if pods}):
            return True
        self._restore(before)
        return False

    def _place_shapes(self, scope: PlacementScope, groups: Groups) -> bool:
        """Place all shapes, one after the other; several with GPUs rather by what is best for all of them together."""
        terms = self._terms
        if terms.topology.slices and len(groups) > 1:
            return self._place_slices(scope, groups)
        with_gpus = {shape: pods for shape, pods in groups.items() if shape.whole_gpus}
        alone = len(with_gpus) <= 1 or self._settled
        if alone or terms.packing is Packing.SPREAD or terms.topology.objective is Objective.NONE:
            return self._one_by_one(groups, scope)
        relaxed = Relaxation(self._whatif, self._candidates.within(scope.mask), with_gpus, terms.topology.objective)
        quotas = relaxed.quotas(range(scope.level, self._tree.depth + 1))
        ways = [partial(self._one_by_one, with_gpus, scope)]
        ways += [partial(self._share_out, with_gpus, scope, dict(quota)) for quota in quotas]
        found = [trial for way in ways if (trial := self._trial(relaxed, way)) is not None]
        if not found:
            return False
        score, rows = min(found, key=lambda trial: trial[0])
        self._tell(relaxed.weighed(each for each, _ in found))
        for shape, pods in with_gpus.items():
            by_row: dict[int, list[Pod]] = {}
            for pod in pods:
                by_row.setdefault(rows[pod.uid], []).append(pod)
            ordered = [pod for members in by_row.values() for pod in members]
            self._take(shape, ordered, [(row, len(members)) for row, members in by_row.items()])
        self.fragmentation += score.loss
        rest = {shape: pods for shape, pods in groups.items() if shape not in with_gpus}
        return self._one_by_one(rest, scope)

    def _one_by_one(self, groups: Groups, scope: PlacementScope) -> bool:
        return all(self._place_shape(scope, shape, pods) for shape, pods in groups.items())

    def _trial(self, relaxed: Relaxation, place: Callable[[], bool]) -> tuple[Score, dict[str, int]] | None:
        """Place pods, say how good that is and where they went, and take it back; None if it fails."""
        before = self._save()
        trial = None
        if place():
            added = {row: gpus - before.settled.get(row, 0) for row, gpus in self._settled.items()}
            trial = relaxed.score({row: gpus for row, gpus in added.items() if gpus}), self.rows
        self._restore(before)
        return trial

    def _save(self) -> _Saved:
        mark, settled, touched = self._whatif.mark(), dict(self._settled), self._touched.copy()
        return _Saved(mark, settled, touched, self.fragmentation, self.weighed, dict(self.rows))

    def _restore(self, saved: _Saved) -> None:
        """Take back whatever was placed since."""
        self._whatif.undo(saved.mark)
        self._settled, self._touched, self.fragmentation = saved.settled, saved.touched, saved.fragmentation
        self.weighed, self.rows = saved.weighed, saved.rows

    def _share_out(self, groups: Groups, scope: PlacementScope, left: dict[int, int]) -> bool:
        """Place pods on nodes that give so many GPUs each, those with the most GPUs first; return whether all fit."""
        for shape in sorted(groups, key=attrgetter("whole_gpus"), reverse=True):
            counts, gpus, pods = self._domains.room(shape, scope.mask), shape.whole_gpus, groups[shape]
            shares: list[tuple[int, int]] = []
            wanted = len(pods)
            for row, quota in left.items():
                share = min(quota // gpus, int(counts[row]), wanted)
                if share:
                    shares.append((row, share))
                    left[row] -= share * gpus
                    wanted -= share
            if wanted:
                return False
            self._take(shape, pods, shares)
        return True

    def _place_roles(self, scope: PlacementScope, groups: Sequence[RoleGroup], rest: dict[Shape, list[Pod]]) -> bool:
        """Place the members of each group in one domain, those of groups inside it, too, and take them out of `rest`.

        Members of a group that should share a domain stay in `rest` if none holds them, up to the level of the scope.
        Return false if members had to be in one domain and no domain holds them.
        """
        return all(self._place_group(scope, group, inside, rest) for group, inside in nested(groups))

    def _place_group(
        self, scope: PlacementScope, group: RoleGroup, inside: tuple[RoleGroup, ...], rest: dict[Shape, list[Pod]]
    ) -> bool:
        chosen = {shape: [pod for pod in pods if pod.role in group.roles] for shape, pods in rest.items()}
        chosen = {shape: pods for shape, pods in chosen.items() if pods}
        if not chosen:
            return True
        for level in self._levels_of(group, scope):
            topology = replace(self._terms.topology, required=level, preferred="", role_groups=inside)
            if self._place_sub_block(scope, topology, chosen):
                break
        else:
            return not group.required and self._place_roles(scope, inside, rest)
        for shape, pods in chosen.items():
            placed = {pod.uid for pod in pods}
            rest[shape] = [pod for pod in rest[shape] if pod.uid not in placed]
        return True

    def _levels_of(self, group: RoleGroup, scope: PlacementScope) -> list[str]:
        """Return the levels of which one domain may hold a group: its own, and where that is preferred wider ones."""
        at = self._tree.levels.find(group.level)
        if group.required or at is None:
            return [group.level]
        return [group.level, *(self._tree.levels.name(level) for level in range(at - 1, scope.level, -1))]

    def _place_sub_block(self, scope: PlacementScope, topology: TopologyRequest, groups: Groups) -> bool:
        """Place pods that need a domain of their own inside the scope."""
        candidates = replace(self._candidates.within(scope.mask), settled={})
        block = Block(self._whatif, candidates, replace(self._terms, topology=topology))
        if not block.place(groups):
            return False
        self.rows |= block.rows
        self.fragmentation += block.fragmentation
        self._tell(block.weighed)
        for row, gpus in block._settled.items():
            self._settled[row] = self._settled.get(row, 0) + gpus
            self._touched[row] = True
        return True

    def _place_shape(
        self, scope: PlacementScope, shape: Shape, pods: Sequence[Pod], *, whole: int | None = None
    ) -> bool:
        """Place pods of one shape; return whether all found room. With `whole` all go to one domain of that level."""
        parts = counted_off(pods, self._terms.topology, self._tree)
        return all(self._place_part(scope, shape, part, slices, whole) for slices, part in parts)

    def _place_part(
        self,
        scope: PlacementScope,
        shape: Shape,
        pods: Sequence[Pod],
        slices: tuple[tuple[int, int], ...],
        whole: int | None,
    ) -> bool:
        """Place pods of one shape that are counted off in the same slices; return whether all found room."""
        if not slices and (not shape.whole_gpus or self._terms.packing is Packing.SPREAD):
            counts = self._domains.room(shape, scope.mask)
            if whole is not None and whole >= 0:
                counts = self._confine(whole, counts, len(pods))
            if int(np.minimum(counts, len(pods)).sum()) < len(pods):
                return False
            self._pack(shape, pods, counts)
            return True
        size = slices[0][1] if slices else 1
        even = len(pods) - len(pods) % size
        if even and not self._search(scope, shape, pods[:even], slices):
            return False
        # What is left of the last slice has to be in one domain just as a whole one has.
        rest = pods[even:]
        if not rest:
            return True
        return self._place_sub_block(scope, self._inside_slice(slices[0][0]), {shape: rest})

    def _place_slices(self, scope: PlacementScope, groups: Groups) -> bool:
        """Place pods of several shapes that are counted off in slices together, in member order, slice by slice."""
        pods = sorted((pod for pods in groups.values() for pod in pods), key=member_order)
        for slices, members in counted_off(pods, self._terms.topology, self._tree):
            shapes = {shape: own for shape in groups if (own := [pod for pod in members if pod.shape == shape])}
            if not slices or len(shapes) == 1:
                if not self._one_by_one(shapes, scope):
                    return False
                continue
            level, size = slices[0]
            for first in range(0, len(members), size):
                chosen = members[first : first + size]
                part = {shape: own for shape in groups if (own := [pod for pod in chosen if pod.shape == shape])}
                if not self._place_sub_block(scope, self._inside_slice(level), part):
                    return False
        return True

    def _inside_slice(self, level: int) -> TopologyRequest:
        """Return what the members of one slice ask for: one domain of `level`, and the layers of slices further in."""
        topology, find = self._terms.topology, self._tree.levels.find
        inner = tuple(part for part in topology.slices if (at := find(part.level)) is not None and at > level)
        name = self._tree.levels.name(level)
        return replace(topology, required=name, preferred="", role_groups=(), slices=inner)

    def _confine(self, level: int, counts: NDArray[np.int64], pods: int) -> NDArray[np.int64]:
        """Leave room in one domain of `level` only: the tightest that holds all pods, or for spreading the roomiest."""
        room = self._tree.sums(level, np.minimum(counts, pods))
        holding = np.flatnonzero(room >= pods)
        if not holding.shape[0]:
            return np.zeros_like(counts)
        total = self._tree.sums(level, counts)[holding]
        spread = self._terms.packing is Packing.SPREAD
        chosen = int(holding[np.argmax(total) if spread else np.argmin(total)])
        path = self._tree.path(level)
        return np.where(path == chosen, counts, 0)

    def _search(
        self, scope: PlacementScope, shape: Shape, pods: Sequence[Pod], slices: tuple[tuple[int, int], ...]
    ) -> bool:
        """Place pods of one shape where the bandwidth is highest within the scope."""
        settled = {row: gpus for row, gpus in self._settled.items() if gpus}
        eligible = self._candidates.eligible(shape) & scope.mask
        for level, _ in slices:  # a node without a domain of that level shares none with others
            eligible &= self._tree.path(level) >= 0
        avoided = None if self._candidates.avoided is None else self._candidates.avoided(shape)
        field = field_of(self._whatif, self._tree, shape, eligible, settled)
        plain = avoided is None or not avoided[field.rows].any()
        field = field if plain or avoided is None else used_last(field, avoided)
        wanted = Wanted(
            pods=len(pods),
            gpus=len(pods) * field.gpus + sum(settled.values()),
            objective=self._terms.topology.objective,
            slices=slices,
            joined=bool(settled),
        )
        units, kinds = clique_units(field, self._whatif, len(pods), wanted.multiple(self._tree.depth))
        search = Search(field, wanted, units, kinds)
        for levels, mask in self._rings(scope, settled):
            choices = search.best(levels, mask[field.rows])
            if choices:
                shares = assign(search, choices[0])
                self._take(shape, pods, [(int(field.rows[position]), count) for position, count in shares])
                used = field.rows[[position for position, _ in shares]]
                last = 0 if avoided is None else AVOIDED_LOSS * int(np.count_nonzero(avoided[used]))
                self.fragmentation += max(choices[0].score.loss - last, 0)
                # Where some nodes are used last the losses hold more than what others lose.
                self._tell(search.bags.weighed(choices[0].score) if plain else None)
                return True
        return False

    def _rings(
        self, scope: PlacementScope, settled: Mapping[int, int]
    ) -> Iterator[tuple[Sequence[int], NDArray[np.bool_]]]:
        """Yield the levels to search together, and the nodes: everything at once, or outwards from settled members."""
        if not settled:
            yield range(scope.level, self._tree.depth + 1), scope.mask
            return
        rows = np.array(list(settled), dtype=np.intp)
        common, _ = self._tree.common(rows)
        for level in range(max(common, scope.level), scope.level - 1, -1):
            yield [level], scope.mask & self._domains.reachable(level, self._settled)
        yield [-1], scope.mask

    def _pack(self, shape: Shape, pods: Sequence[Pod], counts: NDArray[np.int64]) -> None:
        """Place pods that have no GPUs to be joined, or are to be spread, where `counts` leaves room for all."""
        table = self._whatif.table
        stranded = strands(table, table.vector(shape.requests))
        # As few nodes as possible: back to those in use. As many as possible: away from them, among equals.
        binpack = self._terms.packing is Packing.BINPACK
        preference = np.where(self._touched, -1, stranded) if binpack else 2 * stranded + self._touched
        if self._candidates.avoided is not None:
            last = self._candidates.avoided(shape)
            preference = np.where(last & ~self._touched, preference + AVOIDED_LOSS, preference)
        shares = pack(counts, len(pods), self._terms.packing, preference, table.order())
        self._take(shape, pods, [(share.row, share.pods) for share in shares])

    def _take(self, shape: Shape, pods: Sequence[Pod], shares: Sequence[tuple[int, int]]) -> None:
        """Give each pod its node, in member order, and take the room."""
        rows = np.array([row for row, _ in shares], dtype=np.intp)
        counts = np.array([count for _, count in shares], dtype=np.int64)
        self._whatif.take_from(rows, self._whatif.table.vector(shape.requests), counts)
        self._whatif.settle(rows, shape, counts)
        self._touched[rows] = True
        gpus = shape.whole_gpus
        for row, count in shares:
            self._settled[row] = self._settled.get(row, 0) + gpus * count
        self.rows.update(zip((pod.uid for pod in pods), np.repeat(rows, counts).tolist(), strict=True))
