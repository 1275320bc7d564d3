"""The smallest changes with which a gang that waits would be placed now; each has been tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from extender.admission.explaining.material import Offered
from extender.admission.explaining.morenodes import more_nodes
from extender.admission.explaining.rivals import Rivals, lower_priority, rivals_of
from extender.admission.explaining.scene import Scene
from extender.admission.explaining.trial import beyond_rank, fits
from extender.admission.site import Demand, Party, Site
from extender.cluster.core import core_size
from extender.domain.pod import Pod, Shape
from extender.domain.quantity import format_amount
from extender.domain.topology import TopologyRequest

__all__ = ["MOST_SUGGESTIONS", "MOST_TRIALS", "Rivals", "Suggestion", "rivals_of", "suggest"]

MOST_SUGGESTIONS: Final = 5
#: Trials for one gang at most. Each costs a count of what fits, in thin slices of numpy; of a gang with slices, groups
#: of roles or pods of several shapes, a plan.
MOST_TRIALS: Final = 64

#: What of a pod's request may be less without another program: how fast it runs depends on its GPUs.
_YIELDING: Final = ("cpu", "memory", "ephemeral-storage")
#: Smaller requests are multiples of these (milli-CPU, bytes), as people write them: of the coarsest that a request has
#: so many of.
_GRAINS: Final[Mapping[str, Sequence[int]]] = {"cpu": (1000, 100, 10, 1)}
_BYTE_GRAINS: Final = (2**30, 2**20, 2**10, 1)
_LEAST_GRAINS: Final = 8

#: How much each change asks of people, from 0 (a number in the gang's own manifest) on; what part of the gang or of the
#: cluster it changes is added, up to 1. Others have to agree to quota, to new nodes, and to be evicted.
_WEIGHTS: Final = {
    "topologyLevel": 0.2,
    "resources": 0.1,
    "minMember": 0.4,
    "quota": 0.8,
    "priority": 1.0,
    "nodes": 1.2,
}

_EVICTS: Final = "others of lower priority may be evicted for it, if policies and budgets allow"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change with which a gang would be placed now, nothing else being changed.

    `change` is minMember, topologyLevel, resources, quota, priority or nodes; `before` and `after` are its value.
    """

    change: str
    before: Any
    after: Any
    message: str
    size: float = 0.0

    def json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"change": self.change, "from": self.before, "to": self.after, "message": self.message}


def suggest(scene: Scene, rivals: Rivals) -> tuple[Suggestion, ...]:
    """Return the smallest changes that help, the smallest first; none for a gang that fits, or for which none is known.

    Only single changes are tried, so there may be none where two would do. Nothing is searched for a gang whose queue
    takes it in no case, that has to wait for somebody ahead of it, or whose members have scheduling gates.
    """
    party = scene.party
    if party is None or not party.demand.pods or scene.material.gated or scene.material.unusable or rivals.ahead:
        return ()
    search = _Search(scene, party, rivals)
    found = sorted(search.run(), key=lambda each: (_WEIGHTS[each.change] + each.size, each.change))
    return tuple(found[:MOST_SUGGESTIONS])


class _Search:
    """Try one kind of change after the other, as long as trials are left."""

    def __init__(self, scene: Scene, party: Party, rivals: Rivals) -> None:
        self._scene = scene
        self._gang = scene.gang
        self._party = party
        self._rivals = rivals
        self._left = MOST_TRIALS

    def run(self) -> Iterator[Suggestion]:
        """Yield what helps."""
        within = [offered for offered in self._scene.material.options if offered.lack is None]
        if self._missing:  # no node helps a gang that is not there yet
            yield from self._fewer(self._scene.material.options)
            return
        if any(self._fits(self._party, self._site(offered)) for offered in within):
            return
        yield from self._fewer(self._scene.material.options)
        if within:
            site = self._site(within[0])
            yield from self._wider(site)
            yield from self._smaller(site)
            yield from self._higher(site)
            yield from self._larger_cluster(site)
        yield from self._more_quota()

    @property
    def _missing(self) -> int:
        """Return how many members more must exist, or be free of gates, before nodes are looked for."""
        secured = self._gang.census().secured + len(self._scene.material.promised)
        return max(self._gang.min_member - secured - self._party.demand.pods, 0)

    def _site(self, offered: Offered) -> Site:
        return self._scene.site(offered.option)

    def _fits(self, party: Party, site: Site, *, beside: int = 0) -> bool:
        """Try a party; none fits any more when all trials have been used, `beside` of which are for others."""
        return self._may_try(beside) and fits(self._scene, party, site)

    def _may_try(self, beside: int = 0) -> bool:
        """Count a trial, and tell whether there is one left."""
        if self._left <= beside:
            return False
        self._left -= 1
        return True

    def _fewer(self, options: Sequence[Offered]) -> Iterator[Suggestion]:
        """Try the largest smaller minimum."""
        minimums = sum(self._gang.role_minimums.values())
        census, needed = self._gang.census(), self._party.demand.pods
        lowest = max(minimums - census.secured - len(self._scene.material.promised), 1)
        total, best = needed + self._missing, 0
        highest = needed + 1 if self._missing else needed
        if self._gang.role_minimums and core_size(self._gang, 0) < lowest:
            return
        for offered in options:
            site, flavor = self._site(offered), offered.option.flavor

            def enough(pods: int, site: Site = site, flavor: str = flavor) -> bool:
                party = self._first(pods)
                return self._rivals.covers(flavor, party.amounts) and self._fits(party, site, beside=16)

            best = max(best, _largest(lowest, highest, enough))
        if best:
            before = self._gang.min_member
            after = before - (total - best)
            message = f"minMember {after} instead of {before}: so many members would be placed now"
            yield Suggestion("minMember", before, after, message, 1 - after / before)

    def _first(self, pods: int) -> Party:
        """Return the first members that the gang needs, as a party of their own."""
        if pods == self._party.demand.pods:
            return self._party
        demand = Demand.of_gang(self._gang, pods)
        return Party(self._gang, demand, self._party.settled)

    def _wider(self, site: Site) -> Iterator[Suggestion]:
        """Try the levels around the one that is required, the next one first, then none at all."""
        asked = self._party.demand.topology
        levels = site.tree.levels
        before = asked.required or ("slices" if asked.slices else "role groups" if asked.role_groups else "")
        if not before:
            return
        at = levels.find(asked.required) if asked.required else None
        outer = range((len(levels.levels) if at is None else at) - 1, -1, -1) if asked.required else ()
        wider = [(levels.name(index), replace(asked, required=levels.name(index))) for index in outer]
        freed = TopologyRequest(preferred=asked.preferred or asked.required, objective=asked.objective)
        for steps, (name, topology) in enumerate((*wider, ("", freed)), start=1):
            if self._fits(self._asking(topology), site):
                if name:
                    message = f"{name} instead of {before} as the required topology level"
                else:
                    message = (
                        f"no required topology ({before} is required): it would be placed as close as there is room"
                    )
                yield Suggestion("topologyLevel", before, name or None, message, steps / (len(wider) + 1))
                return

    def _asking(self, topology: TopologyRequest) -> Party:
        """Return the party as if it asked for another topology."""
        party = self._party
        return Party(self._gang, demand_of(party.pods, party.demand, topology), party.settled, _pods=party.pods)

    def _smaller(self, site: Site) -> Iterator[Suggestion]:
        """Try the largest smaller request of each resource that may keep GPUs idle."""
        party, asks_for_more = self._party, {r for shape, _ in self._party.demand.shapes for r, _ in shape.requests}
        for resource in _YIELDING:
            before = max(shape.request(resource) for shape, _ in party.demand.shapes)
            if not before or len(asks_for_more) <= 2:  # noqa: PLR2004 - the resource itself and the pod
                continue

            grain = grain_of(resource, before)

            def enough(grains: int, resource: str = resource, grain: int = grain) -> bool:
                return self._fits(self._with_less(resource, grains * grain), site, beside=8)

            if not enough(0):
                continue
            after = _largest(1, -(-before // grain), enough) * grain
            if after:
                was, less = format_amount(resource, before), format_amount(resource, after)
                message = f"{less} {resource} per pod instead of {was}: nodes have the rest, but not so much {resource}"
                yield Suggestion("resources", {resource: was}, {resource: less}, message, 1 - after / before)

    def _with_less(self, resource: str, most: int) -> Party:
        """Return the party as if no pod asked for more than `most` of a resource."""
        party, demand = self._party, self._party.demand
        smaller = {shape: with_less(shape, resource, most) for shape, _ in demand.shapes}
        if len(smaller) == 1 and not demand.sequence and not party.settled:  # counting says everything
            ((shape, pods),) = demand.shapes
            return Party(self._gang, replace(demand, shapes=frozenset({(smaller[shape], pods)})))
        pods_with_less = [replace(pod, shape=smaller[pod.shape]) for pod in party.pods]
        return Party(
            self._gang, demand_of(pods_with_less, demand, demand.topology), party.settled, _pods=pods_with_less
        )

    def _higher(self, site: Site) -> Iterator[Suggestion]:
        """Try the lowest priority that lets the gang go before others, or have them evicted."""
        own, holders = self._rivals.priority, lower_priority(self._scene, self._rivals, self._party)
        heads = {keep.gang.priority for keep in self._scene.material.keeps if not keep.firm}
        steps = sorted({priority + 1 for priority in (*holders, *heads) if priority >= own})

        def enough(upto: int) -> bool:
            return self._fits(self._party, beyond_rank(self._scene, site, steps[-upto], holders), beside=2)

        # Few enough is found as many enough is: the most steps that may be left out.
        spare = _largest(1, len(steps) + 1, enough)
        if spare:
            after = steps[-spare]
            alone = self._fits(self._party, beyond_rank(self._scene, site, after, {}))
            then = "it goes before those for whom room is kept now" if alone else _EVICTS
            yield Suggestion("priority", own, after, f"priority {after} instead of {own}: {then}")

    def _larger_cluster(self, site: Site) -> Iterator[Suggestion]:
        """Try the fewest more nodes of the kind of which there are most."""
        found = more_nodes(self._scene, site, self._party, self._may_try)
        if found is not None:
            nodes = len(self._scene.table)
            share = found.nodes / max(nodes + found.nodes, 1)
            yield Suggestion("nodes", nodes, nodes + found.nodes, found.message, share)

    def _more_quota(self) -> Iterator[Suggestion]:
        """Try each flavor as if there were quota for what the gang asks for."""
        for offered in self._scene.material.options:
            lack = offered.lack
            if lack is None or not self._fits(self._party, self._site(offered)):
                continue
            more = lack.asked - max(lack.available, 0)
            others = [
                resource
                for resource, amount in self._party.amounts.items()
                if resource != lack.resource and not self._rivals.covers(lack.flavor, {resource: amount})
            ]
            added = format_amount(lack.resource, more)
            message = f"{added} more {lack.resource} of flavor {lack.flavor} for Queue {lack.queue}"
            if others:
                message += f", and more {', '.join(sorted(others))}"
            left = format_amount(lack.resource, max(lack.available, 0))
            after = format_amount(lack.resource, lack.asked)
            yield Suggestion("quota", left, after, f"{message}: there is room on nodes", more / max(lack.asked, 1))
            return


def demand_of(pods: Sequence[Pod], like: Demand, topology: TopologyRequest) -> Demand:
    """Return what `pods`, in member order, ask for, packed as in `like`."""
    sequence: tuple[tuple[str, Shape, int], ...] = ()
    if topology.slices or topology.role_groups:
        runs = groupby(pods, key=lambda pod: (pod.role, pod.shape))
        sequence = tuple((role, shape, sum(1 for _ in run)) for (role, shape), run in runs)
    shapes = frozenset(Counter(pod.shape for pod in pods).items())
    return Demand(shapes, like.packing, len(pods), topology, sequence)


def with_less(shape: Shape, resource: str, most: int) -> Shape:
    """Return a shape that asks for no more than `most` of a resource; of several containers as if they were one."""
    if shape.request(resource) <= most:
        return shape
    requests = tuple((name, min(value, most) if name == resource else value) for name, value in shape.requests)
    return replace(shape, requests=tuple(each for each in requests if each[1]), containers=())


def grain_of(resource: str, amount: int) -> int:
    """Return of what a smaller request is a multiple: of whole CPUs or GiB, or finer if it has only a few of these."""
    grains = _GRAINS.get(resource, _BYTE_GRAINS)
    return next((grain for grain in grains if amount >= _LEAST_GRAINS * grain), grains[-1])


def _largest(lowest: int, beyond: int, enough: Callable[[int], bool]) -> int:
    """Return the largest number from `lowest` to below `beyond` that is `enough`, 0 if none is; by bisection."""
    low, high = lowest - 1, beyond
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            low = middle
        else:
            high = middle
    return low if low >= lowest else 0
