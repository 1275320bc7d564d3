"""Large random clusters, and gangs of which it is known that they have a place: nodes are filled with their pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from extender.cluster.table import NodeTable
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.objects.topology import RoleGroup, Slice, TopologyRequest
from extender.placement.candidates import PlacementTerms
from tests.cluster.conftest import GPU, node, pod, table_of

#: How often a node keeps some room, for each pod that it gets.
_STOPS = 0.03


@dataclass(frozen=True)
class Planted:
    """Nodes, and pods that have a place on them together in the way that is asked for."""

    table: NodeTable
    pods: tuple[Pod, ...]
    terms: PlacementTerms


@dataclass
class _Site:
    """Nodes that are being filled: what is free, and the rack and the block of each."""

    free: dict[str, dict[str, int]] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def fill(self, name: str, parts: Mapping[str, Mapping[str, int]], random: Random) -> Counter[str]:
        """Put parts of roles, by what each asks for, on a node until none fits or it stops; return how many of each."""
        found: Counter[str] = Counter()
        own = self.free[name]
        while fits := [role for role, part in parts.items() if all(own.get(r, 0) >= n for r, n in part.items())]:
            role = random.choice(fits)
            for resource, amount in parts[role].items():
                own[resource] -= amount
            found[role] += 1
            if random.random() < _STOPS:
                break
        return found


def planted(seed: int) -> Planted:
    """Return the question of a seed: 40 to 200 nodes of several kinds, and 1 to 4 roles that nearly fill them."""
    random = Random(f"planted {seed}")
    resources = random.choice((["cpu"], ["cpu", GPU], ["cpu", "memory", GPU]))
    site = _site(random, resources)
    roles = ["leader", "worker", "server", "data"][: random.randint(1, 4)]
    shapes = {role: _asked(random, resources) for role in roles}
    kind = random.choice(("plain", "slices", "role", "block", "slices in a block"))
    names = list(site.free)
    topology = TopologyRequest()
    sizes, rack = dict.fromkeys(roles, 1), ""
    if "block" in kind:
        topology = replace(topology, required="block")
        block = site.blocks[random.choice(names)]
        names = [name for name in names if site.blocks[name] == block]
    if "slices" in kind:
        sizes[roles[0]] = random.choice((2, 3))
        topology = replace(topology, slices=(Slice(sizes[roles[0]], "node", frozenset(roles[:1])),))
    if kind == "role":
        rack = site.racks[random.choice(names)]
        topology = replace(topology, role_groups=(RoleGroup(frozenset(roles[:1]), "rack"),))
    counts: Counter[str] = Counter()
    for name in names:
        there = roles[1:] if rack and site.racks[name] != rack else roles
        parts = {role: {r: n * sizes[role] for r, n in shapes[role].items()} for role in there}
        counts += Counter({role: count * sizes[role] for role, count in site.fill(name, parts, random).items()})
    return Planted(table_of(site.nodes), _members(counts, shapes), PlacementTerms(topology=topology))


def _members(counts: Mapping[str, int], shapes: Mapping[str, Mapping[str, int]]) -> tuple[Pod, ...]:
    found: list[Pod] = []
    for role, count in counts.items():
        shape = Shape(tuple(sorted(shapes[role].items())))
        found += (replace(pod(f"{role}-{number:05d}", shape=shape), role=role) for number in range(count))
    return tuple(found)


def _asked(random: Random, resources: Sequence[str]) -> dict[str, int]:
    asked = {"cpu": 1000 * random.randint(1, 16), "pods": 1}
    if "memory" in resources and random.random() < 0.7:
        asked["memory"] = random.randint(1, 16)
    if GPU in resources and random.random() < 0.6:
        asked[GPU] = random.choice((1, 2, 3, 4))
    return asked


def _site(random: Random, resources: Sequence[str]) -> _Site:
    """Draw nodes in racks, four to a block; half of them have less than others of their kind."""
    kinds = [
        {"cpu": 1000 * random.randint(8, 64), "memory": random.randint(8, 64), GPU: random.choice((0, 4, 8))}
        for _ in range(random.randint(1, 5))
    ]
    size, site = random.choice((4, 8, 16)), _Site()
    for number in range(random.randint(40, 200)):
        has = dict(random.choice(kinds))
        if random.random() < 0.5:
            has["cpu"] -= 1000 * random.randint(0, has["cpu"] // 2000)
            has[GPU] = random.randint(0, has[GPU])
        has = {"pods": 110} | {resource: has[resource] for resource in resources if has[resource]}
        name, rack, block = f"n{number}", f"r{number // size}", f"b{number // size // 4}"
        site.nodes.append(node(name, allocatable=has, labels={"rack": rack, "block": block}))
        site.free[name], site.racks[name], site.blocks[name] = dict(has), rack, block
    return site
