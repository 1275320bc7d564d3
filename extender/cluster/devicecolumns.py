"""Devices as columns of the node table: how many each node has of what is asked for in some words.

A request for devices names a class and selectors. Each such demand that a pod makes is a column, as a resource is,
so that plans, quota and explanations count devices as they count GPUs. One device may be of several demands: who takes
one that is certain to be of another demand takes it there as well, so that no device is promised twice.

A worked example. Nodes have four GPUs of 80 GB (a) or four of 40 GB (b). Asked for are: any GPU, one of 80 GB, and
the resource nvidia.com/gpu, which stands for the class of all GPUs.

    devices    of the demands              columns: any   80 GB   nvidia.com/gpu
    a          any, 80 GB, resource        node a     4       4                4
    b          any, resource               node b     4       0                4

    a request for ...   takes from the columns        because every device that it may get is of these, too
    80 GB               80 GB, any, nvidia.com/gpu
    any                 any, nvidia.com/gpu
    nvidia.com/gpu      nvidia.com/gpu                nodes with a device plugin have it, and no devices

Of demands that overlap without one being in the other there is a column for both together as well, from which both
take: then the columns have room if and only if each pod can have devices of its own (Hall's theorem). Who asks for an
extended resource gets devices on some nodes only. Where its devices are a part of a column, that column has a twin, of
which nodes with a device plugin have as much as they list of the resource: both take from the twin on every node. What
several nodes reach is in no column: kube-scheduler alone decides about demands that such devices are of.

Whole GPUs for which no resource stands that counts GPUs are a demand that no claim makes: all claims of them take from
its column, so that they are counted as GPUs wherever these are. Beside its columns a node has, for explanations, how
many devices would be in them but for their taints, and whether a pool of it is unpublished or invalid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from extender.devices.inventory import Inventory
from extender.objects.deviceclass import UNREADY, DeviceClass, barred_column
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.dradevices import DeviceKey
from extender.objects.gpudescription import is_whole_gpu
from extender.objects.podspec import Toleration, first_untolerated
from extender.objects.requests import CLASS_RESOURCE_PREFIX, SLICE_GPUS, TOGETHER, is_extended, is_gpu
from extender.objects.resourceclaim import ClaimSpec
from extender.objects.resourceslice import PoolDevice, ResourceSlice

#: Tells whether a device of a driver matches all of some CEL expressions.
Matcher = Callable[[str, PoolDevice, tuple[str, ...]], bool]

#: A device that several claims may share counts as so many: how much of it is left is not a number of devices.
_SHARED_DEVICE: Final = 1 << 20

_NONE: Final = Counter[int]()
_NO_RESOURCES: Final[Mapping[str, int]] = {}
_NO_DEVICES: Final = frozenset[int]()

#: Demands with selectors of their own, of all pods and of those of one namespace; each is a column, and anybody may ask
#: for something new.
MOST_DEMANDS: Final = 64
MOST_OF_A_NAMESPACE: Final = 16

#: Devices that are looked at for a new demand in one step: 0.5 ms where the selector reads what many devices have in
#: common, 4 ms where each has to be evaluated. A small cluster is looked at while the pod is read.
DEVICES_PER_STEP: Final = 100

#: Columns for overlapping demands together; of more no exact count is kept, and kube-scheduler's refusals correct it.
_MOST_UNIONS: Final = 24


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """Devices of a class that match further selectors (CEL), and that are taken in spite of some taints."""

    device_class: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @property
    def is_special(self) -> bool:
        """Tell whether more is asked for than the class."""
        return bool(self.selectors or self.tolerations)

    @property
    def column(self) -> str:
        """Return what the column is called: Kubernetes' own name where no selector is asked for."""
        if not self.device_class:
            return SLICE_GPUS
        name = f"{CLASS_RESOURCE_PREFIX}{self.device_class}"
        if self.selectors:
            name += f" matching {' and '.join(map(_apart, self.selectors))}"
        if self.tolerations:
            name += f" tolerating {', '.join(sorted(map(_tolerated, self.tolerations)))}"
        return name


#: The whole GPUs for which no resource stands that counts GPUs: a claim that gets such devices takes GPUs.
_GPUS: Final = DeviceDemand("")


def _apart(expression: str) -> str:
    """Return an expression without two spaces in a row, so that it cannot be taken for what joins several demands."""
    return " ".join(expression.split())


def _tolerated(toleration: Toleration) -> str:
    """Return in words which taints are tolerated."""
    value = f"={toleration.value}" if toleration.operator != "Exists" else ""
    return f"{toleration.key or 'any taint'}{value}{':' if toleration.effect else ''}{toleration.effect}"


def demands_of(spec: ClaimSpec) -> Counter[DeviceDemand]:
    """Return how many devices of which kind a claim asks for at least.

    Of `All` it is one, of a request with alternatives none: more of them is decided by what a node has. Access for
    administration takes nothing.
    """
    asked: Counter[DeviceDemand] = Counter()
    for request in spec.requests:
        if len(request.options) != 1:
            continue
        (option,) = request.options
        if not option.admin:
            demand = DeviceDemand(option.device_class, option.selectors, option.tolerations)
            asked[demand] += 1 if option.count is None else option.count
    return asked


@dataclass(slots=True)
class _Signed:
    """A device, of which demands it is, and of which it would be if they tolerated its taints."""

    device: PoolDevice
    signature: int = 0
    barred: int = 0


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """What a change of slices, classes or demands moved: the nodes whose extended resources or devices are others now.

    With `relations` other demands than before take from a column, so that what pods ask for is to be read again; with
    `moved` anything is another than before, so that what allocations take is to be counted again.
    """

    nodes: frozenset[str] = frozenset()
    relations: bool = False
    moved: bool = False


class DeviceColumns:
    """Keep which devices each node has, of which demands they are, and how many that makes in each column.

    Attributes:
        resources: the extended resources that stand for a class, and that class.
        twins_of: the columns from which a request for an extended resource takes besides, where there are any.
    """

    def __init__(self, provide: Callable[[str, dict[str, int]], bool], inventory: Inventory, matches: Matcher) -> None:
        """Start without devices; `provide` is told of the amounts of each node that has any."""
        self._provide = provide
        self._inventory = inventory
        self._matches = matches
        self._labels: dict[str, Mapping[str, str]] = {}
        self._devices: dict[str, dict[DeviceKey, _Signed]] = {}
        self._afar: dict[str, int] = {}  # of which demands those devices are that a node shares with others
        self._node_of: dict[DeviceKey, str] = {}
        self._bits: dict[DeviceDemand, int] = {_GPUS: 1}
        self._gpu_classes = 0  # the demands for which resources stand that count GPUs
        self._spare_bits: list[int] = []  # devices may still have them, of demands that are forgotten
        self._unread: dict[DeviceDemand, list[str]] = {}  # nodes whose devices are to be looked at
        self._namespaces: dict[DeviceDemand, str] = {}  # who asked first, of those with selectors
        self._uses = Counter[DeviceDemand]()  # by pods
        self._signatures: dict[str, Counter[int]] = {}
        self._barred: dict[str, Counter[int]] = {}
        self._unready: set[str] = set()  # nodes of which some pool is incomplete, and was before, or invalid
        self._plugin: dict[str, Mapping[str, int]] = {}  # what nodes list themselves
        self._masks: dict[str, int] = {}  # column -> the demands of which any makes a device count
        self._twins: dict[str, tuple[str, ...]] = {}  # twin -> the extended resources that take from it
        self._takes: dict[DeviceDemand, tuple[str, ...]] = {}
        self._all: Counter[int] = Counter()
        self._odd = 0  # the demands of devices that are shared, or share counters
        self.resources: dict[str, str] = {}
        self.twins_of: dict[str, tuple[str, ...]] = {}

    # Objects.

    def put_class(self, device_class: DeviceClass) -> ColumnChange:
        """Take in a class that was added or changed."""
        return self._classes_changed() if self._inventory.put_class(device_class) else ColumnChange()

    def drop_class(self, name: str) -> ColumnChange:
        """Forget a class."""
        return self._classes_changed() if self._inventory.drop_class(name) else ColumnChange()

    def has_class(self, name: str) -> bool:
        """Tell whether there is a class of this name."""
        return self._inventory.device_class(name) is not None

    def put_slice(self, item: ResourceSlice) -> ColumnChange:
        """Take in a slice that was added or changed."""
        return self._slices_changed(self._inventory.put_slice(item))

    def drop_slice(self, name: str) -> ColumnChange:
        """Forget a slice."""
        return self._slices_changed(self._inventory.drop_slice(name))

    def put_rule(self, rule: DeviceTaintRule) -> ColumnChange:
        """Take in a rule that taints devices."""
        return self._slices_changed(None) if self._inventory.put_rule(rule) else ColumnChange()

    def drop_rule(self, name: str) -> ColumnChange:
        """Forget a rule that taints devices."""
        return self._slices_changed(None) if self._inventory.drop_rule(name) else ColumnChange()

    def put_node(self, name: str, allocatable: Mapping[str, int], labels: Mapping[str, str]) -> ColumnChange:
        """Take in what a node lists itself, and the labels by which devices of others can be used from it."""
        listed = {resource: amount for resource, amount in allocatable.items() if amount and is_extended(resource)}
        if listed != self._plugin.get(name, {}):
            self._plugin[name] = listed
            if self._masks:
                self._tell([name])
        before, self._labels[name] = self._labels.get(name), labels
        return ColumnChange() if before == labels else self._slices_changed(frozenset({name}))

    def drop_node(self, name: str) -> None:
        """Forget a node; its devices stay until their slices go."""
        self._plugin.pop(name, None)
        self._labels.pop(name, None)
        self._inventory.forget_node(name)

    # Questions.

    def want(self, demand: DeviceDemand, namespace: str = "") -> ColumnChange:
        """Have a column for a demand; of very many, or of one namespace, the selectors of further ones are left out.

        Those that no pod asks for any more make room. What a large cluster has of it is known once `read_on` has seen
        all its devices.
        """
        if demand in self._bits:
            return ColumnChange()
        forgotten = ColumnChange()
        if demand.is_special and self._is_full(namespace):
            forgotten = self._forget_unused()
            if self._is_full(namespace):
                demand = DeviceDemand(demand.device_class)
        if demand in self._bits or len(self._bits) >= 2 * MOST_DEMANDS:
            return forgotten
        if demand.is_special:
            self._namespaces[demand] = namespace
        self._bits[demand] = self._free_bit()
        self._unread[demand] = [*{**self._devices, **self._afar}]
        read = self.read_on()
        return read if read.moved else forgotten

    def use(self, demands: Iterable[DeviceDemand], before: Iterable[DeviceDemand] = ()) -> None:
        """Note which demands a pod makes, and which it made before."""
        self._uses.update(demands)
        self._uses.subtract(before)
        for each in before:
            if self._uses[each] <= 0:
                del self._uses[each]

    def is_read(self, demand: DeviceDemand) -> bool:
        """Tell whether all devices have been looked at for a wanted demand."""
        return demand not in self._unread

    @property
    def is_reading(self) -> bool:
        """Tell whether there are devices that have not been looked at for a demand."""
        return bool(self._unread)

    def read_on(self, most: float = DEVICES_PER_STEP) -> ColumnChange:
        """Look at some more devices for the demands that are new, a node at a time."""
        ended = False
        while self._unread and most > 0:
            demand, nodes = next(iter(self._unread.items()))
            while nodes and most > 0:
                most -= self._look(demand, nodes.pop())
            if not nodes:
                del self._unread[demand]
                ended = True
        return self._related() if ended else ColumnChange()

    def _related(self) -> ColumnChange:
        """Find out again which demand takes from which columns, and tell all nodes."""
        self._relate()
        self._tell({*self._signatures, *self._plugin})
        return ColumnChange(relations=True, moved=True)

    def takes(self, demand: DeviceDemand) -> tuple[str, ...]:
        """Return the columns from which a device of a wanted demand is taken."""
        if demand not in self._bits:
            demand = DeviceDemand(demand.device_class)
        return self._takes.get(demand, ())

    def is_plain(self, demand: DeviceDemand) -> bool:
        """Tell whether devices of a wanted demand are had whole, and none takes anything of another."""
        return not self._bits.get(demand, 0) & self._odd

    def extended(self, node: str) -> Mapping[str, int]:
        """Return how many devices of a node stand for which extended resource that it does not list itself.

        Whole GPUs for which none stands are among them.
        """
        if node not in self._signatures and SLICE_GPUS not in self._twins:
            return {}
        amounts = self._amounts(node, (*self.resources, SLICE_GPUS))
        return {resource: amount for resource, amount in amounts.items() if amount}

    def node_of(self, devices: Iterable[DeviceKey]) -> str:
        """Return the node whose devices these are, "" if it is not known or they are of several."""
        nodes = {self._node_of.get(each, "") for each in devices}
        return nodes.pop() if len(nodes) == 1 else ""

    def on_node(self, node: str) -> Iterator[tuple[DeviceKey, PoolDevice]]:
        """Iterate over the devices of a node."""
        return ((key, signed.device) for key, signed in self._devices.get(node, {}).items())

    def taken_by(self, node: str, devices: Iterable[DeviceKey]) -> Counter[str]:
        """Return how much of each column of a node these of its devices take."""
        taken: Counter[str] = Counter()
        own, listed = self._devices.get(node, {}), self._plugin.get(node, {})
        for key in devices:
            if (signed := own.get(key)) is not None:
                taken.update(c for c, mask in self._masks.items() if signed.signature & mask and c not in listed)
        return taken

    # What follows.

    def _classes_changed(self) -> ColumnChange:
        """Read again which class stands for which extended resource, and of which demands each device is."""
        named = {each.resource for each in self._inventory.classes.values() if each.resource}
        chosen = {resource: self._inventory.class_of_resource(resource) for resource in sorted(named)}
        self.resources = {resource: each.name for resource, each in chosen.items() if each is not None}
        for name in self.resources.values():
            if DeviceDemand(name) not in self._bits:
                self._bits[DeviceDemand(name)] = self._free_bit()
        self._gpu_classes = sum(self._bits[DeviceDemand(name)] for each, name in self.resources.items() if is_gpu(each))
        return self._sign_all()

    def _slices_changed(self, nodes: frozenset[str] | None) -> ColumnChange:
        """Read the devices of nodes again, None for all."""
        touched = [*{**self._devices, **self._labels}] if nodes is None else sorted(nodes)
        moved = [node for node in touched if self._read_devices(node)]
        return replace(self._recount(moved), nodes=frozenset(moved)) if moved else ColumnChange()

    def _read_devices(self, node: str) -> bool:
        """Read the devices of a node again; return whether they are others than before."""
        before, afar, unready = self._devices.get(node, {}), 0, False
        now: dict[DeviceKey, _Signed] = {}
        for pool in self._inventory.pools_of(node, self._labels.get(node, {})):
            if pool.incomplete:  # its driver is at work on it: what it had will be there again in a moment
                now |= {key: signed for key, signed in before.items() if key.pool_key == pool.key}
            unready |= not pool.usable and not any(key.pool_key == pool.key for key in now)
            for each in pool.candidates if pool.usable else ():
                if each.reachable and each.node == node:
                    signed = before.get(each.key)
                    if signed is None or signed.device is not each.device:
                        signed = self._signed(each.key.driver, each.device)
                    now[each.key] = signed
                elif each.reachable:
                    afar |= self._signed(each.key.driver, each.device).signature
        moved = now != before or afar != self._afar.get(node, 0) or unready != (node in self._unready)
        (self._unready.add if unready else self._unready.discard)(node)
        for key in before.keys() - now.keys():
            self._node_of.pop(key, None)
        self._node_of |= dict.fromkeys(now, node)
        self._devices.pop(node, None)
        self._afar.pop(node, None)
        if now:
            self._devices[node] = now
        if afar:
            self._afar[node] = afar
        return moved

    def _sign_all(self) -> ColumnChange:
        """Tell of which demands each device is, as the classes are now."""
        self._unread.clear()
        for node in list(self._afar):
            self._read_devices(node)
        for devices in self._devices.values():
            for key, signed in devices.items():
                devices[key] = self._signed(key.driver, signed.device)
        return self._recount(self._devices)

    def _is_full(self, namespace: str) -> bool:
        """Tell whether there are as many demands with selectors as there may be, of all or of a namespace."""
        own = sum(each == namespace for each in self._namespaces.values())
        return own >= MOST_OF_A_NAMESPACE or len(self._namespaces) >= MOST_DEMANDS

    def _free_bit(self) -> int:
        """Return a bit for a new demand: what devices still say of it is about one that is forgotten."""
        bit = self._spare_bits.pop() if self._spare_bits else 1 << len(self._bits)
        self._odd &= ~bit
        return bit

    def _forget_unused(self) -> ColumnChange:
        """Forget demands with selectors that no pod makes any more."""
        unused = [each for each in self._namespaces if each not in self._uses and each not in self._unread]
        for each in unused:
            self._spare_bits.append(self._bits.pop(each))
            del self._namespaces[each]
        return self._related() if unused else ColumnChange()

    def _look(self, demand: DeviceDemand, node: str) -> int:
        """Tell which devices of a node are of a new demand; return how many were looked at, 1 at least."""
        bit = self._bits[demand]
        if node in self._afar:
            self._read_devices(node)
        devices = self._devices.get(node, {})
        for key, signed in devices.items():
            signed.signature &= ~bit  # of a demand that is forgotten
            signed.barred &= ~bit
            self._sign(signed, key.driver, demand, bit)
            if signed.signature & bit and signed.device.is_divided:
                self._odd |= bit
        self._sum(node)
        return max(len(devices), 1)

    def _sum(self, node: str) -> None:
        """Count the devices of a node by what they are of."""
        self._all.subtract(self._signatures.pop(node, _NONE))
        self._barred.pop(node, None)
        counts, barred = Counter[int](), Counter[int]()
        for signed in self._devices.get(node, {}).values():
            counts[signed.signature] += _SHARED_DEVICE if signed.device.shared else 1
            if signed.barred:
                barred[signed.barred] += 1
        if counts:
            self._signatures[node] = counts
        if barred:
            self._barred[node] = barred
        self._all.update(counts)

    def _recount(self, nodes: Collection[str]) -> ColumnChange:
        before = {node: self.extended(node) for node in nodes}
        for node in nodes:
            self._sum(node)
        odd, self._odd = self._odd, self._odd | self._odd_on(nodes)
        twin = self._twins.get(SLICE_GPUS)
        relations = self._relate() or odd != self._odd
        self._tell({*nodes, *self._signatures, *self._plugin} if relations else nodes)
        others = frozenset(node for node, was in before.items() if self.extended(node) != was)
        if twin != self._twins.get(SLICE_GPUS):
            others |= self._plugin.keys()
        return ColumnChange(others, relations, moved=True)

    def _odd_on(self, nodes: Iterable[str]) -> int:
        """Return of which demands those devices of nodes are that are shared, or share counters."""
        odd = 0
        for node in nodes:
            for signed in self._devices.get(node, {}).values():
                if signed.device.is_divided:
                    odd |= signed.signature
        return odd

    def _signed(self, driver: str, device: PoolDevice) -> _Signed:
        signed = _Signed(device)
        for demand, bit in self._bits.items():
            if demand is not _GPUS:
                self._sign(signed, driver, demand, bit)
        if is_whole_gpu(driver, device) and not (signed.signature | signed.barred) & self._gpu_classes:
            signed.signature |= 0 if device.taints else self._bits[_GPUS]
        return signed

    def _sign(self, signed: _Signed, driver: str, demand: DeviceDemand, bit: int) -> None:
        """Note whether a device is of a demand, or would be without its taints."""
        if self._is_of(demand, driver, signed.device):
            if first_untolerated(signed.device.taints, demand.tolerations) is None:
                signed.signature |= bit
            else:
                signed.barred |= bit

    def _is_of(self, demand: DeviceDemand, driver: str, device: PoolDevice) -> bool:
        device_class = self._inventory.device_class(demand.device_class)
        if device_class is None or device_class.problem is not None:
            return False
        return self._matches(driver, device, (*device_class.selectors, *demand.selectors))

    def _relate(self) -> bool:
        """Find out which demand takes from which columns; return whether that is another answer than before."""
        there = [signature for signature, count in self._all.items() if count > 0]
        afar = set(self._afar.values())
        found = {
            demand: frozenset(each for each in there if each & bit)
            for demand, bit in self._bits.items()
            if demand not in self._unread and not any(each & bit for each in afar)
        }
        masks = {demand.column: self._bits[demand] for demand in found}
        sets = {demand.column: devices for demand, devices in found.items()}
        for name, demands in _unions(found).items():
            masks[name] = sum(self._bits[each] for each in demands)
            sets[name] = frozenset().union(*(found[each] for each in demands))
        for resource, name in self.resources.items():
            masks[resource] = self._bits[DeviceDemand(name)]
            sets[resource] = found.get(DeviceDemand(name), frozenset())
        wider = {
            name: [each for each in self.resources if sets[each] and sets[each] < devices]
            for name, devices in sets.items()
            if name not in self.resources and name != SLICE_GPUS
        }
        twins = {f"{name}{TOGETHER}extended": tuple(resources) for name, resources in wider.items() if resources}
        for name, resources in wider.items():
            if resources:
                masks[f"{name}{TOGETHER}extended"], sets[f"{name}{TOGETHER}extended"] = masks[name], sets[name]
        if gpus := tuple(
            each for each in self.resources if sets[each] and sets[each] <= sets.get(SLICE_GPUS, _NO_DEVICES)
        ):
            twins[SLICE_GPUS] = gpus
        takes = {
            demand: tuple(name for name, devices in sets.items() if name == demand.column or (own and own <= devices))
            for demand, own in found.items()
        }
        twins_of = {
            resource: tuple(twin for twin, resources in twins.items() if resource in resources)
            for resource in self.resources
        }
        twins_of = {resource: names for resource, names in twins_of.items() if names}
        changed = (takes, twins_of) != (self._takes, self.twins_of)
        self._masks, self._takes, self._twins, self.twins_of = masks, takes, twins, twins_of
        return changed

    def _tell(self, nodes: Iterable[str]) -> None:
        """Tell the table how much each of these nodes has in each column; nodes that are alike are counted once."""
        alike: dict[tuple[object, ...], dict[str, int]] = {}
        for node in nodes:
            signatures, listed = self._signatures.get(node, _NONE), self._plugin.get(node, _NO_RESOURCES)
            barred, unready = self._barred.get(node, _NONE), node in self._unready
            key = (frozenset(signatures.items()), frozenset(listed.items()), frozenset(barred.items()), unready)
            amounts = alike.get(key)
            if amounts is None:
                found = self._amounts(node, self._masks) | {UNREADY: int(unready)}
                if barred:
                    found |= {barred_column(each.column): _count(barred, bit) for each, bit in self._bits.items()}
                amounts = alike[key] = {column: amount for column, amount in found.items() if amount}
            self._provide(node, amounts.copy())

    def _amounts(self, node: str, columns: Iterable[str]) -> dict[str, int]:
        """Return how much a node has in some columns, those left out that it lists itself."""
        signatures, listed = self._signatures.get(node, _NONE), self._plugin.get(node, {})
        return {
            column: _count(signatures, self._masks.get(column, 0))
            + sum(listed.get(each, 0) for each in self._twins.get(column, ()))
            for column in columns
            if column not in listed
        }


def _count(signatures: Counter[int], mask: int) -> int:
    """Return how many devices are of any of the demands in `mask`."""
    return sum(count for signature, count in signatures.items() if signature & mask)


def _unions(found: Mapping[DeviceDemand, frozenset[int]]) -> dict[str, tuple[DeviceDemand, ...]]:
    """Return the demands that overlap without one being in the other, by what the column of both is called."""
    unions: dict[str, tuple[DeviceDemand, ...]] = {}
    groups: list[tuple[DeviceDemand, ...]] = [(demand,) for demand, devices in found.items() if devices]
    for _ in range(len(groups)):
        grown = []
        for one, other in combinations(groups, 2):
            both = tuple(dict.fromkeys((*one, *other)))
            here = frozenset().union(*(found[each] for each in one))
            there = frozenset().union(*(found[each] for each in other))
            name = TOGETHER.join(sorted(each.column for each in both))
            overlap = here & there and not here <= there and not there <= here
            if overlap and name not in unions and len(unions) < _MOST_UNIONS:
                unions[name] = both
                grown.append(both)
        if not grown:
            break
        groups += grown
    return unions
