"""Random gangs on small random clusters, and whether a place exists: every assignment is tried, plainly.

Written without the planner's own pieces: what is required is read off the request here once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.levels import Level, Levels
from extender.objects.meta import Selector
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.topology import Objective, RoleGroup, Slice, TopologyRequest
from extender.placement.candidates import Candidates, PlacementTerms
from extender.placement.plan import Plan, Shortfall, plan
from tests.cluster.conftest import GPU, node, pod, table_of
from tests.placement.conftest import ground_of

LEVELS = Levels((Level("block", "block"), Level("rack", "rack")))
#: What a domain of a level is called by: the labels of its nodes, outermost first.
_LABELS = {"block": ("block",), "rack": ("block", "rack"), "node": ("block", "rack", "name")}
_OUTER = {"block": 0, "rack": 1, "node": 2}
#: States of the exhaustive search beyond which a question is too large to be asked.
_MOST_STATES = 200_000


class TooManyWaysError(Exception):
    """Trying everything would take too long."""


@dataclass(frozen=True, slots=True)
class Placeable:
    """One question: may these pods be placed?

    `settled` is node -> GPUs that the gang has there already, `vetoes` (node, shape) that kube-scheduler refused.
    """

    table: NodeTable
    pods: tuple[Pod, ...]
    terms: PlacementTerms
    settled: Mapping[str, int]
    vetoes: frozenset[tuple[str, Shape]]

    @property
    def candidates(self) -> Candidates:
        """Return where the pods may be placed, as the planner is told."""
        ground = ground_of(self.table, LEVELS)
        vetoed = {(int(self.table.rows_of([name])[0]), shape) for name, shape in self.vetoes}

        def eligible(shape: Shape) -> NDArray[np.bool_]:
            mask = ground.eligible(shape).copy()
            mask[[row for row, refused in vetoed if refused == shape]] = False
            return mask

        rows = {int(self.table.rows_of([name])[0]): gpus for name, gpus in self.settled.items()}
        return replace(ground, eligible=eligible, settled=rows)

    def planned(self) -> Plan | Shortfall:
        """Return what the planner says."""
        return plan(self.pods, WhatIf(self.table), self.candidates, self.terms)

    def admits(self, name: str, shape: Shape) -> bool:
        """Tell whether a pod of a shape may go to a node at all."""
        return (name, shape) not in self.vetoes and shape.selector.matches(name, self.labels(name))

    def labels(self, name: str) -> Mapping[str, str]:
        """Return a node's labels."""
        found = self.table.find(name)
        assert found is not None
        return found.labels

    def domain(self, name: str, level: str) -> tuple[str, ...] | None:
        """Return the domain of a level that a node is in, None without one."""
        if level == "node":
            return (name,)
        found = tuple(self.labels(name).get(label, "") for label in _LABELS[level])
        return found if found[-1] else None

    def together(self, liked: Mapping[int, str] = MappingProxyType({})) -> list[tuple[str, frozenset[str]]]:
        """Return which pods (UIDs) have to share a domain of which level.

        `liked` are the role groups that need not share one, and do, by index: the level of which they share one.
        """
        topology, everything = self.terms.topology, list(self.pods)
        found = [(topology.required, frozenset(each.uid for each in everything))] if topology.required else []
        parts: dict[tuple[bool, ...], list[Pod]] = {}
        levels = [liked.get(at, group.level if group.required else "") for at, group in enumerate(topology.role_groups)]
        for level, group in zip(levels, topology.role_groups, strict=True):
            if level:
                found.append((level, frozenset(each.uid for each in everything if each.role in group.roles)))
        for each in everything:
            own = [level != "" and each.role in g.roles for level, g in zip(levels, topology.role_groups, strict=True)]
            parts.setdefault(tuple(own), []).append(each)
        for members in parts.values():
            found += self._slices(members)
        return [(level, uids) for level, uids in found if len(uids) > 1 or level != "node"]

    def _slices(self, pods: Sequence[Pod]) -> list[tuple[str, frozenset[str]]]:
        """Return the slices that pods, in member order, are counted off in, those inside slices included."""
        layers: dict[tuple[tuple[str, int], ...], list[Pod]] = {}
        for each in pods:
            own = [s for s in self.terms.topology.slices if not s.roles or each.role in s.roles]
            layers.setdefault(tuple(sorted(((s.level, s.size) for s in own), key=lambda s: _OUTER[s[0]])), []).append(
                each
            )
        found = []
        for layer, members in layers.items():
            for level, size in layer:  # sizes divide each other, so that inner ones begin afresh in outer ones
                parts = [members[at : at + size] for at in range(0, len(members), size)]
                found += [(level, frozenset(each.uid for each in part)) for part in parts]
        return found

    @property
    def _ways(self) -> list[Mapping[int, str]]:
        """Return of which levels role groups, by index, may share domains of those that only should.

        It is the level that they prefer, or as wide a one as there is. Slices of a group that does are counted off by
        themselves.
        """
        groups = [(at, each.level) for at, each in enumerate(self.terms.topology.role_groups) if not each.required]
        choices = [[(at, ""), (at, level), (at, "block")] for at, level in groups]
        return [{at: level for at, level in each if level} for each in product(*choices)]

    def problems(self, nodes: Mapping[str, str]) -> list[str]:
        """Return what is wrong with a placement (UID -> node name)."""
        return min((self._problems(nodes, liked) for liked in self._ways), key=len)

    def _problems(self, nodes: Mapping[str, str], liked: Mapping[int, str]) -> list[str]:
        found = [] if nodes.keys() == {each.uid for each in self.pods} else ["not all pods have a node"]
        found += [f"{p.name} is not admitted" for p in self.pods if not self.admits(nodes[p.uid], p.shape)]
        for name in set(nodes.values()):
            asked: Counter[str] = Counter()
            for each in self.pods:
                if nodes[each.uid] == name:
                    asked.update(dict(each.shape.requests))
            free = self.free(name)
            found += [f"{name} has no {asked[r]} {r}" for r in asked if asked[r] > free.get(r, 0)]
        for level, uids in self.together(liked):
            domains = {self.domain(nodes[uid], level) for uid in uids}
            if len(domains) > 1 or None in domains:
                found.append(f"{sorted(uids)} share no {level}")
        if self.terms.topology.required and self.settled:
            level = self.terms.topology.required
            around = {self.domain(name, level) for name in self.settled} - {None}
            if any(self.domain(name, level) not in around for name in nodes.values()):
                found.append("away from the others")
        return found

    def free(self, name: str) -> dict[str, int]:
        """Return what is free of a node."""
        found = self.table.find(name)
        assert found is not None
        free = dict(found.allocatable)
        for _, claim in self.table.claims_on(name):
            for resource, amount in claim.shape.requests:
                free[resource] = free.get(resource, 0) - amount
        return free

    def exists(self) -> bool:
        """Tell whether there is a placement, by trying every node for one pod after the other."""
        return any(map(self._exists, self._ways))

    def _exists(self, liked: Mapping[int, str]) -> bool:
        names = [each.name for each in self.table.nodes()]
        return _Trying(self, self.together(liked), {name: self.free(name) for name in names}).rest(0)


class _Trying:
    """Tries every node for one pod after the other."""

    def __init__(
        self, of: Placeable, together: list[tuple[str, frozenset[str]]], free: dict[str, dict[str, int]]
    ) -> None:
        self._of = of
        self._together = together
        self._free = free
        self._failed: set[object] = set()
        self._chosen: list[tuple[str, ...] | None] = [None] * len(together)
        required = of.terms.topology.required
        self._near = required if of.settled else ""
        self._around = {of.domain(name, required) for name in of.settled} - {None} if self._near else set()

    def rest(self, at: int) -> bool:
        """Tell whether the pods from one on have nodes."""
        if at == len(self._of.pods):
            return True
        state = (at, tuple(tuple(free.values()) for free in self._free.values()), tuple(self._chosen))
        if state in self._failed:
            return False
        if len(self._failed) > _MOST_STATES:
            raise TooManyWaysError
        each = self._of.pods[at]
        for name in self._free:
            domains = self._domains(each, name)
            if domains is not None and self._on(name, each, domains, at):
                return True
        self._failed.add(state)
        return False

    def _domains(self, each: Pod, name: str) -> list[tuple[str, ...] | None] | None:
        """Return the domains that are chosen with a pod on a node, None if it cannot be there."""
        if not self._of.admits(name, each.shape) or any(
            self._free[name].get(r, 0) < amount for r, amount in each.shape.requests
        ):
            return None
        if self._near and self._of.domain(name, self._near) not in self._around:
            return None
        chosen = list(self._chosen)
        for index, (level, uids) in enumerate(self._together):
            if each.uid in uids:
                domain = self._of.domain(name, level)
                if domain is None or chosen[index] not in {None, domain}:
                    return None
                chosen[index] = domain
        return chosen

    def _on(self, name: str, each: Pod, domains: list[tuple[str, ...] | None], at: int) -> bool:
        before, self._chosen = self._chosen, domains
        for resource, amount in each.shape.requests:
            self._free[name][resource] -= amount
        done = self.rest(at + 1)
        for resource, amount in each.shape.requests:
            self._free[name][resource] += amount
        self._chosen = before
        return done


def drawn(seed: int) -> Placeable:
    """Return the question of a seed: 2 to 8 nodes in racks and blocks, 1 to 4 roles that ask for 1 to 3 resources."""
    random = Random(seed)
    resources = random.choice([["cpu"], ["cpu", "memory"], ["cpu", GPU], ["cpu", "memory", GPU], ["cpu", GPU]])
    table = table_of(_nodes(random, resources))
    names = [each.name for each in table.nodes()]
    for index, name in enumerate(names):
        if random.random() < 0.3:
            taken = {"cpu": 1000 * random.randint(0, 3), "pods": 1}
            if GPU in resources and random.random() < 0.5:
                taken[GPU] = random.randint(1, 4)
            table.claim(f"other-{index}", name, Shape(tuple(sorted(taken.items()))))
    pods, roles = _pods(random, resources)
    topology = _topology(random, roles)
    settled = {}
    if random.random() < 0.2:
        near = random.choice(names)
        same = [n for n in names if _label(table, n, "rack") == _label(table, near, "rack")]
        settled = {name: random.choice([0, 1, 2]) for name in random.sample(same, min(len(same), random.randint(1, 2)))}
    shapes = sorted({each.shape for each in pods}, key=lambda shape: shape.requests)
    vetoes = {(random.choice(names), random.choice(shapes)) for _ in range(random.choice([0, 0, 0, 1, 3]))}
    terms = PlacementTerms(random.choice([Packing.BINPACK] * 4 + [Packing.SPREAD]), topology)
    return Placeable(table, pods, _with_groups_inside(terms, Random(-1 - seed)), settled, frozenset(vetoes))


def _with_groups_inside(terms: PlacementTerms, random: Random) -> PlacementTerms:
    """Add a group to the terms, now and then, of some of the roles of another one."""
    groups = terms.topology.role_groups
    if not groups or random.random() < 0.6:
        return terms
    outer = random.choice(groups)
    roles = frozenset(random.sample(sorted(outer.roles), random.randint(1, len(outer.roles))))
    inner = RoleGroup(roles, random.choice(["block", "rack", "node"]), required=random.random() < 0.8)
    found = [*groups, inner]
    random.shuffle(found)
    return replace(terms, topology=replace(terms.topology, role_groups=tuple(found)))


def _label(table: NodeTable, name: str, label: str) -> str:
    found = table.find(name)
    assert found is not None
    return found.labels.get(label, "")


def _nodes(random: Random, resources: Sequence[str]) -> Iterator[Node]:
    blocks = random.randint(1, 2)
    kinds = [
        {
            "cpu": 1000 * random.randint(2, 10),
            "memory": random.randint(2, 10),
            GPU: random.choice([0, 2, 4, 8]),
            "pods": random.choice([20, 20, 20, 3]),
        }
        for _ in range(random.randint(1, 3))
    ]
    for index in range(random.randint(2, 8)):
        kind = {r: amount for r, amount in random.choice(kinds).items() if r in {*resources, "pods"} and amount}
        labels = {"block": f"b{random.randrange(blocks)}", "rack": f"r{random.randrange(3)}"}
        odd = random.random()
        if odd < 0.1:
            labels.pop("rack")
        elif odd < 0.15:
            labels = {}
        labels["pool"] = random.choice("aab")
        if random.random() < 0.5:
            labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
        yield node(f"n{index}", allocatable=kind, labels=labels)


def _pods(random: Random, resources: Sequence[str]) -> tuple[tuple[Pod, ...], list[str]]:
    roles = ["leader", "worker", "server", "data"][: random.randint(1, 4)]
    pods: list[Pod] = []
    for rank, role in enumerate(roles):
        asked = {"cpu": 1000 * random.randint(1, 4), "pods": 1}
        if "memory" in resources and random.random() < 0.7:
            asked["memory"] = random.randint(1, 4)
        if GPU in resources and random.random() < 0.6:
            asked[GPU] = random.choice([1, 2, 4])
        selector = Selector(equals=(("pool", "a"),)) if random.random() < 0.15 else Selector()
        shape = Shape(tuple(sorted(asked.items())), selector)
        count = random.randint(1, 4) if len(roles) > 1 else random.randint(1, 6)
        pods += (replace(pod(f"p{rank}-{role}-{index}", shape=shape), role=role) for index in range(count))
    return tuple(pods), roles


def _topology(random: Random, roles: Sequence[str]) -> TopologyRequest:
    if random.random() < 0.25:
        return TopologyRequest()
    levels = ["block", "rack", "node"]
    required = random.choice(["", "", "block", "rack", "rack"])
    preferred = random.choice(["", "", "rack"])
    slices: tuple[Slice, ...] = ()
    if random.random() < 0.5:
        of = frozenset(random.sample(roles, 1)) if random.random() < 0.5 else frozenset()
        size = random.choice([2, 2, 3])
        inner, outer = sorted(random.sample(levels, 2), key=levels.index, reverse=True)
        slices = (Slice(size, random.choice([inner, outer]), of),)
        if random.random() < 0.3:
            slices = (Slice(2 * size, outer, of), Slice(size, inner, of))
    groups: list[RoleGroup] = []
    if random.random() < 0.4:
        left = list(roles)
        random.shuffle(left)
        while left and random.random() < 0.7:
            taken, left = frozenset(left[: random.randint(1, 2)]), left[2:]
            groups.append(RoleGroup(taken, random.choice(levels), required=random.random() < 0.8))
    objective = random.choice([Objective.ALLREDUCE, Objective.ALLREDUCE, Objective.ALLTOALL, Objective.NONE])
    return TopologyRequest(required, preferred, slices, tuple(groups), objective)
