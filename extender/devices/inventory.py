"""Which devices there are, and from which nodes they can be used: pools put together from slices.

Source: dynamic-resource-allocation/structured/internal/incubating GatherPools, release 1.37: pools in order of driver
and name, those with binding conditions last; slices of a pool by name; devices as their slice has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from extender.caches import SizedDict
from extender.objects.deviceclass import DeviceClass
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.dradevices import DeviceKey, NodeScope, PoolKey
from extender.objects.resourceslice import CounterSet, PoolDevice, ResourceSlice


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that claims may be given on a node.

    `reachable` is False for one whose slice is about this node, and which itself is not. `node` is the only node from
    which it can be used, "" for one that several can use; `scope` says which these are.
    """

    key: DeviceKey
    device: PoolDevice
    reachable: bool = True
    scope: NodeScope | None = None

    @property
    def node(self) -> str:
        """Return the only node from which the device can be used, "" for one that several may use."""
        return "" if self.scope is None else self.scope.name


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool as one node sees it.

    Nothing of a pool is given out that is `incomplete`, because its driver is at work on it, or invalid for the reason
    in `invalid`. `elsewhere` are devices of other nodes that take counters, too.
    """

    key: PoolKey
    candidates: tuple[Candidate, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    elsewhere: tuple[Candidate, ...] = ()
    incomplete: bool = False
    invalid: str = ""

    @property
    def usable(self) -> bool:
        """Tell whether devices of it are given out."""
        return not self.incomplete and not self.invalid

    @property
    def conditional(self) -> bool:
        """Tell whether a device of it must be made ready before a pod is bound: these pools come last."""
        return any(each.device.conditions for each in self.candidates)


#: What may be remembered of the pools that nodes see (bytes): 1.5 KB for a node with eight devices of its own.
_SEEN_BYTES = 64 << 20


class _Seen(NamedTuple):
    labels: Mapping[str, str]
    pools: tuple[NodePool, ...]


class Inventory:
    """Keep slices, classes and taint rules, and say which pools each node sees.

    Attributes:
        version: how often anything has changed.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._slices: dict[str, ResourceSlice] = {}
        self._pools: dict[PoolKey, dict[str, ResourceSlice]] = {}
        self._local: dict[str, dict[PoolKey, int]] = {}
        self._roaming: dict[PoolKey, int] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._of_resource: dict[str, DeviceClass] = {}
        self._seen: SizedDict[str, _Seen] = SizedDict(_SEEN_BYTES)
        self._built: dict[PoolKey, dict[tuple[object, ...], NodePool]] = {}
        self.version = 0

    # -------------------------------------------------------------------------------------------------- what changes

    def put_slice(self, piece: ResourceSlice) -> frozenset[str] | None:
        """Take in a slice; return the nodes whose pools may be others now, None for all nodes."""
        before = self._slices.get(piece.name)
        if before == piece:
            return frozenset()
        return _united(self.drop_slice(piece.name), self._add_slice(piece))

    def drop_slice(self, name: str) -> frozenset[str] | None:
        """Forget a slice; return the nodes whose pools may be others now, None for all nodes."""
        piece = self._slices.pop(name, None)
        if piece is None:
            return frozenset()
        touched = self._touched(piece.pool)
        pool = self._pools[piece.pool]
        del pool[name]
        if not pool:
            del self._pools[piece.pool]
        for scope in _scopes(piece):
            self._count(scope, piece.pool, -1)
        return self._changed(touched)

    def put_rule(self, rule: DeviceTaintRule) -> bool:
        """Take in a taint rule; return whether it says anything else than before. Any node may be concerned."""
        changed = self._rules.get(rule.name) != rule
        self._rules[rule.name] = rule
        if changed:
            self._changed(None)
        return changed

    def drop_rule(self, name: str) -> bool:
        """Forget a taint rule; return whether it was there."""
        known = self._rules.pop(name, None) is not None
        if known:
            self._changed(None)
        return known

    def put_class(self, item: DeviceClass) -> bool:
        """Take in a class; return whether it says anything else than before."""
        changed = self._classes.get(item.name) != item
        self._classes[item.name] = item
        if changed:
            self._resolve_resources()
        return changed

    def drop_class(self, name: str) -> bool:
        """Forget a class; return whether it was there."""
        known = self._classes.pop(name, None) is not None
        if known:
            self._resolve_resources()
        return known

    def _resolve_resources(self) -> None:
        """Find the class of each extended resource: of several the newest, then the first by name.

        Source: dynamic-resource-allocation/deviceclass/extendedresourcecache.
        """
        self.version += 1
        self._of_resource.clear()
        by_name = sorted(self._classes.values(), key=lambda each: each.name, reverse=True)
        for item in sorted(by_name, key=lambda each: each.created):
            self._of_resource |= dict.fromkeys(item.resources, item)

    def _add_slice(self, piece: ResourceSlice) -> frozenset[str] | None:
        self._slices[piece.name] = piece
        self._pools.setdefault(piece.pool, {})[piece.name] = piece
        for scope in _scopes(piece):
            self._count(scope, piece.pool, 1)
        return self._changed(self._touched(piece.pool))

    def _count(self, scope: NodeScope, pool: PoolKey, by: int) -> None:
        """Count the slices of a pool that a node sees, or that any node may see."""
        counts = self._local.setdefault(scope.name, {}) if scope.name else self._roaming
        counts[pool] = counts.get(pool, 0) + by
        if not counts[pool]:
            del counts[pool]
        if scope.name and not counts:
            del self._local[scope.name]

    def _touched(self, pool: PoolKey) -> frozenset[str] | None:
        """Return the nodes that see a pool, None if any may."""
        if pool in self._roaming:
            return None
        scopes = (scope for piece in self._pools.get(pool, {}).values() for scope in _scopes(piece))
        return frozenset(scope.name for scope in scopes)

    def _changed(self, nodes: frozenset[str] | None) -> frozenset[str] | None:
        self.version += 1
        if nodes is None:
            self._seen.clear()
            self._built.clear()
        for node in nodes or ():
            self._seen.forget(node)
        return nodes

    # ---------------------------------------------------------------------------------------------------- what there is

    def device_class(self, name: str) -> DeviceClass | None:
        """Return a class by its name."""
        return self._classes.get(name)

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """Return the classes by their names."""
        return self._classes

    def class_of_resource(self, resource: str) -> DeviceClass | None:
        """Return the class that an extended resource stands for."""
        return self._of_resource.get(resource)

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        """Return the slices by their names, taint rules left out."""
        return self._slices

    def pools_of(self, node: str, labels: Mapping[str, str]) -> tuple[NodePool, ...]:
        """Return the pools that the node called `node` with `labels` sees, in the order in which they are searched.

        Remembered until a slice or rule changes that may concern the node.
        """
        seen = self._seen.get(node)
        if seen is not None and (not self._roaming or seen.labels == labels):
            return seen.pools
        found = [self._pool_of(pool, node, labels) for pool in {*self._local.get(node, ()), *self._roaming}]
        pools = tuple(sorted((each for each in found if each), key=lambda each: (each.conditional, each.key)))
        own = sum(len(each.candidates) + len(each.elsewhere) for each in pools if each.key not in self._built)
        self._seen.keep(node, _Seen(labels, pools), 400 + 100 * len(pools) + 200 * own)
        return pools

    def forget_node(self, node: str) -> None:
        """Forget what a node that is gone has seen."""
        self._seen.forget(node)

    def _pool_of(self, key: PoolKey, node: str, labels: Mapping[str, str]) -> NodePool | None:
        """Return a pool as a node sees it, None if it sees nothing of its newest generation."""
        pieces = [each for each in self._pools[key].values() if each.problem is None]
        relevant = [each for each in pieces if _is_about(each, node, labels)]
        if not relevant:
            return None
        generation = max(each.generation for each in relevant)
        newest = sorted((each for each in relevant if each.generation == generation), key=lambda each: each.name)
        others: list[ResourceSlice] = []
        wanted = newest[0].slice_count
        if len(newest) != wanted:
            if any(each.generation > generation for each in pieces):
                return None  # its driver replaces it, and has nothing for this node yet
            named = {each.name for each in newest}
            others = [each for each in pieces if each.generation == generation and each.name not in named]
            if len(newest) + len(others) != wanted:
                return NodePool(key, incomplete=True)
        if key in self._local.get(node, ()) or any(each.per_device for each in newest):
            return self._build(key, newest, others, node, labels)
        shared = self._built.setdefault(key, {})
        which = tuple(each.name for each in newest)
        if which not in shared:
            shared[which] = self._build(key, newest, others, node, labels)
        return shared[which]

    def _build(
        self,
        key: PoolKey,
        newest: list[ResourceSlice],
        others: list[ResourceSlice],
        node: str,
        labels: Mapping[str, str],
    ) -> NodePool:
        """Put a complete pool together, or say why it is invalid."""
        offering = [each for each in newest if not each.counter_sets]
        candidates = tuple(self._candidates(offering, node, labels))
        elsewhere = tuple(self._candidates([each for each in others if not each.counter_sets], node, labels))
        sets = tuple(each for piece in (*newest, *others) for each in piece.counter_sets)
        invalid = _invalid(candidates, elsewhere, sets)
        if invalid:
            return NodePool(key, invalid=invalid)
        return NodePool(key, candidates, sets, tuple(each for each in elsewhere if each.device.counters.uses))

    def _candidates(self, pieces: list[ResourceSlice], node: str, labels: Mapping[str, str]) -> Iterator[Candidate]:
        for piece in pieces:
            for device in piece.devices:
                key = DeviceKey(piece.pool.driver, piece.pool.pool, device.name)
                scope = device.scope if piece.per_device else piece.scope
                reachable = not piece.per_device or (scope is not None and scope.matches(node, labels))
                yield Candidate(key, self._tainted(key, device), reachable, scope)

    def _tainted(self, key: DeviceKey, device: PoolDevice) -> PoolDevice:
        """Return a device with the taints that rules put on it."""
        taints = tuple(rule.taint for rule in self._rules.values() if rule.taint is not None and rule.covers(key))
        return replace(device, taints=(*device.taints, *taints)) if taints else device


def _scopes(piece: ResourceSlice) -> set[NodeScope]:
    """Return from where a slice, or any of its devices, can be used."""
    if piece.scope is not None:
        return {piece.scope}
    return {each.scope for each in piece.devices if each.scope is not None}


def _is_about(piece: ResourceSlice, node: str, labels: Mapping[str, str]) -> bool:
    return any(scope.matches(node, labels) for scope in _scopes(piece))


def _united(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _invalid(here: Iterable[Candidate], elsewhere: Iterable[Candidate], sets: tuple[CounterSet, ...]) -> str:
    """Say what makes a pool invalid, "" for a valid one."""
    names: set[str] = set()
    for each in here:
        if each.device.name in names:
            return f"duplicate device name {each.device.name}"
        names.add(each.device.name)
    counters: dict[str, set[str]] = {}
    for item in sets:
        if item.name in counters:
            return f"duplicate counter set name {item.name}"
        counters[item.name] = {name for name, _ in item.counters}
    for each in (*here, *elsewhere):
        for use in each.device.counters.uses:
            if use.counter_set not in counters:
                return f"counter set {use.counter_set} not found"
            for name, _ in use.counters:
                if name not in counters[use.counter_set]:
                    return f"counter {name} not found in counter set {use.counter_set}"
    return ""
