"""Who holds devices: claims and their templates, what pods ask of the columns because of them, and what is allocated.

A pod asks the columns of the node table for the devices of its claims, so that a promise of a node is one of devices
too. What kube-scheduler has allocated counts as it is: where a claim holds what no pod on its node has been counted
for, it has a claim of its own in the table, as pods have. That is so for claims of pods that are gone or not placed
any more, of claims that several pods share, and for devices that are of more demands than was asked for.

    a claim of a pod                       the pod asks for its devices      the claim is counted by itself for
    not allocated                          yes                               nothing
    allocated, the pod is on that node     yes                               what it has beyond what was asked for
    allocated, the pod has no node         no, but only that node will do    all that it has
    shared, not allocated                  the first of a gang's pods        nothing
    shared, allocated                      no, but only that node will do    all that it has

The quota of its Queue is charged for a claim whatever the columns have of it, by each name of its classes: for its own
claims the pod, for a shared one the first of a gang's pods. What no column says of that a pod asks for as `CHARGED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

from extender.caches import Shared
from extender.cluster.devicecolumns import DEVICES_PER_STEP, ColumnChange, DeviceColumns, DeviceDemand, demands_of
from extender.cluster.devicetrials import DeviceTrials
from extender.cluster.table import NodeTable
from extender.devices.allocator import AskedClaim
from extender.devices.fitting import is_counted
from extender.devices.inventory import Inventory
from extender.devices.selectors import Selectors
from extender.objects.computedomain import ComputeDomain, asks_for_channel, joined
from extender.objects.deviceclass import DeviceClass
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.gpudescription import describe_gpus
from extender.objects.holdings import DeviceHolding
from extender.objects.meta import SelectorTerm, share_labels
from extender.objects.node import Node, clique_of
from extender.objects.pod import CHARGED, Pod, Shape
from extender.objects.reason import Problem
from extender.objects.resourceclaim import ClaimAllocation, ClaimSpec, ResourceClaim, ResourceClaimTemplate
from extender.objects.resourceslice import PoolDevice, ResourceSlice
from extender.objects.topology import SHARED_CLAIM

#: How the claims of ResourceClaims are called in the node table, where UIDs of pods are: no pod is called so.
CLAIM_PREFIX: Final = "claim:"

_NOTHING: Final = Counter[str]()

#: Returns one object for equal shapes.
_shared = Shared[Shape]()


class Touched(NamedTuple):
    """What is to be read again, as it was told: nodes whose resources, and pods whose claims are others than before."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    moved: bool = False

    @classmethod
    def nothing(cls) -> Touched:
        """Return that nothing is."""
        return cls()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a pod asks for: `free` as long as nothing of it is allocated, `pinned` where its claims are already.

    `counts` says which of its claims are counted with the pod, and for how much of which column; the others by
    themselves. Who has to be on one node with it shares the claim called `together`. `wanted` are its claims that have
    no devices yet, `demands` what all of them ask for.
    """

    free: Shape
    counts: Mapping[str, Mapping[str, int]]
    pinned: Shape | None = None
    together: str = ""
    wanted: tuple[AskedClaim, ...] = ()
    demands: frozenset[DeviceDemand] = frozenset()


class _Need(NamedTuple):
    """One claim of a pod: what it is called, what it asks for and was given, and whether it was made for the pod."""

    key: str
    spec: ClaimSpec
    allocation: ClaimAllocation | None
    own: bool


class DeviceBooks:
    """Keep devices, classes, claims and templates, and what follows for nodes and pods.

    Attributes:
        columns: the devices of each node, by what is asked for.
        is_followed: whether there are, or were, claims.
        is_outdated: whether pods are to be read again, because devices are asked for in other words than before.
        mapped: the names by which Queues have quota for the devices of some classes, by class.
        is_reading: whether there are devices that have not been looked at for what is asked for.
    """

    def __init__(self, table: NodeTable, pods: Mapping[str, Pod], mapped: Mapping[str, str]) -> None:
        """Start without any; `pods` are those of the model, by UID, as they were resolved last."""
        self._table = table
        self.mapped = mapped
        self._known = pods
        self._selectors = Selectors()
        inventory = Inventory()
        self._trials = DeviceTrials(table, inventory, self._selectors, self._labels_of)
        self.columns = DeviceColumns(self._trials.provide, inventory, self._matches)
        self._claims: dict[str, ResourceClaim] = {}  # by namespace/name
        self._templates: dict[str, ResourceClaimTemplate] = {}
        self._nodes: dict[str, Node] = {}  # as they were told
        self._pods: dict[str, Pod] = {}  # those with claims, as they were told
        self._asked: dict[str, _Asked] = {}
        self._users: dict[str, dict[str, None]] = {}  # claim, or template, by namespace/name -> UIDs of pods
        self._owned: dict[str, dict[str, None]] = {}  # UID of a pod -> the claims that were made for it
        self._allocated: set[str] = set()  # claims that hold devices of a node
        self.is_outdated = self.is_followed = self.is_reading = False
        self._domains: dict[str, ComputeDomain] = {}  # by the namespace and name of their template
        self._cliques: set[str] = set()  # nodes that are in one

    def _labels_of(self, node: str) -> Mapping[str, str]:
        known = self._nodes.get(node)
        return {} if known is None else known.labels

    def _matches(self, driver: str, device: PoolDevice, expressions: tuple[str, ...]) -> bool:
        """Tell whether a device matches; for kube-scheduler an expression that fails does not say so either."""
        return self._selectors.all_match(expressions, driver, device) is True

    # Nodes.

    def node(self, node: Node) -> Node:
        """Return a node that was added or changed with what its devices add to it.

        That is extended resources which stand for them, and what their drivers say of its GPUs.
        """
        self._nodes[node.name] = node
        self._follow_clique(node.name, there=bool(clique_of(node.labels)))
        self.is_outdated |= self.columns.put_node(node.name, node.allocatable, node.labels).relations
        return self._with_devices(node)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)
        self._follow_clique(name, there=False)
        self.columns.drop_node(name)

    def _follow_clique(self, name: str, *, there: bool) -> None:
        """Note whether a node is in a clique: without any, pods of a ComputeDomain need not share one."""
        any_before = bool(self._cliques)
        (self._cliques.add if there else self._cliques.discard)(name)
        self.is_outdated |= bool(self._cliques) != any_before

    def _with_devices(self, node: Node) -> Node:
        there = self.columns.extended(node.name)
        described = describe_gpus(self.columns.on_node(node.name))
        if not there and described == node.described:
            return node
        return replace(node, allocatable={**node.allocatable, **there}, described=described)

    # Objects that describe devices.

    def put_class(self, device_class: DeviceClass) -> Touched:
        """Take in a DeviceClass."""
        known = self.columns.has_class(device_class.name) and not self.mapped
        return self._touched(self.columns.put_class(device_class), {} if known else self._pods)

    def drop_class(self, name: str) -> Touched:
        """Forget a DeviceClass."""
        return self._touched(self.columns.drop_class(name), self._pods)

    def put_slice(self, item: ResourceSlice) -> Touched:
        """Take in a ResourceSlice."""
        return self._touched(self.columns.put_slice(item))

    def drop_slice(self, name: str) -> Touched:
        """Forget a ResourceSlice."""
        return self._touched(self.columns.drop_slice(name))

    def put_rule(self, rule: DeviceTaintRule) -> Touched:
        """Take in a DeviceTaintRule."""
        return self._touched(self.columns.put_rule(rule))

    def drop_rule(self, name: str) -> Touched:
        """Forget a DeviceTaintRule."""
        return self._touched(self.columns.drop_rule(name))

    def _touched(self, change: ColumnChange, pods: Iterable[str] = ()) -> Touched:
        """Say what is to be read again after a change of columns, and count again what is allocated."""
        if change.moved:
            for key, claim in self._claims.items():
                if claim.allocation is not None:
                    self._count(key)
        self._trials.refresh()
        found = self._changed(self._pods if change.relations else pods)
        nodes = tuple(self._nodes[name] for name in sorted(change.nodes) if name in self._nodes)
        return Touched(nodes, found, change.moved or bool(found))

    # ComputeDomains.

    def put_domain(self, domain: ComputeDomain) -> list[Pod]:
        """Take in a ComputeDomain; return the pods that join it."""
        self.drop_domain(domain.key)
        self._domains[domain.template_key] = domain
        return self._joining(domain)

    def drop_domain(self, key: str) -> None:
        """Forget the ComputeDomain called `key`, its namespace and name."""
        for template in [each for each, domain in self._domains.items() if domain.key == key]:
            del self._domains[template]

    def domain_problems(self, pod: Pod, min_member: int) -> tuple[Problem, ...]:
        """Return why ComputeDomains that a pod joins may never be complete: its gang starts with `min_member` pods."""
        found = []
        for domain in self._domains_of(pod):
            pods = sum(each.group == pod.group and not each.done for each in self._joining(domain))
            found.append(domain.problem(pods, min(pods, min_member)))
        return tuple(each for each in found if each is not None)

    def _domains_of(self, pod: Pod) -> Iterator[ComputeDomain]:
        for each in pod.claims.claims if self._domains else ():
            domain = self._domains.get(f"{pod.namespace}/{each.template}") if each.template else None
            if domain is not None and domain.nodes:
                yield domain

    def _joining(self, domain: ComputeDomain) -> list[Pod]:
        return [self._pods[uid] for uid in self._users.get(_template(domain.template_key), ())]

    # Claims.

    def put_template(self, template: ResourceClaimTemplate) -> Touched:
        """Take in a ResourceClaimTemplate."""
        before, self._templates[template.key] = self._templates.get(template.key), template
        return Touched.nothing() if before == template else self._reread(_template(template.key))

    def drop_template(self, key: str) -> Touched:
        """Forget the ResourceClaimTemplate called `key`, its namespace and name."""
        self._templates.pop(key, None)
        return self._reread(_template(key))

    def put_claim(self, claim: ResourceClaim) -> Touched:
        """Take in a ResourceClaim."""
        before = self._claims.get(claim.key)
        if before == claim:
            return Touched.nothing()
        if before is not None and before.controller != claim.controller:
            self._owned.get(before.controller, {}).pop(claim.key, None)
        self._claims[claim.key] = claim
        self.is_followed = True
        if claim.controller:
            self._owned.setdefault(claim.controller, {})[claim.key] = None
        return self._claim_changed(claim.key, claim.controller)

    def drop_claim(self, key: str) -> Touched:
        """Forget the ResourceClaim called `key`, its namespace and name."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return Touched.nothing()
        owned = self._owned.get(claim.controller)
        if owned is not None:
            owned.pop(key, None)
            if not owned:
                del self._owned[claim.controller]
        return self._claim_changed(key, claim.controller)

    def _claim_changed(self, key: str, owner: str) -> Touched:
        moved = self._count(key)
        users = {**self._users.get(key, {}), **({owner: None} if owner in self._pods else {})}
        found = self._changed(users)
        return Touched((), found, moved or bool(found))

    def _reread(self, key: str) -> Touched:
        found = self._changed(self._users.get(key, {}))
        return Touched((), found, bool(found))

    # Pods.

    def pod(self, pod: Pod) -> Pod:
        """Return a pod that was added or changed with what its claims, and twins of its resources, take of columns."""
        before = self._pods.get(pod.uid)
        if before is None or before.claims != pod.claims:
            self._forget_uses(before)
            if pod.claims.claims or self.mapped:
                self._pods[pod.uid] = pod
                for key in _names(pod):
                    self._users.setdefault(key, {})[pod.uid] = None
        elif pod.uid in self._pods:
            self._pods[pod.uid] = pod
        return self._resolve(pod)

    def read_on(self, most: float = DEVICES_PER_STEP) -> None:
        """Look at some more devices for what is asked for in new words."""
        self.is_outdated |= self.columns.read_on(most).relations
        self.is_reading = self.columns.is_reading

    def outdated(self) -> Touched:
        """Return what is to be read again because devices are asked for in other words than before."""
        if not self.is_outdated:
            return Touched.nothing()
        self.is_outdated = False
        return self._touched(ColumnChange(relations=True, moved=True))

    def drop_pod(self, uid: str) -> None:
        """Forget a pod that was deleted; what its claims hold they hold until they are gone themselves."""
        self._forget_uses(self._pods.pop(uid, None))
        asked = self._asked.pop(uid, None)
        if asked is not None:
            self.columns.use((), before=asked.demands)
            self._trials.promise(uid, "", ())
        self.follow([uid])

    def follow(self, uids: Iterable[str]) -> Touched:
        """Count claims again of pods that were promised a node, or bound, or have none any more."""
        found: dict[str, None] = {}
        for uid in uids:
            if uid in self._asked:
                self._follow_promise(uid)
            held = self._held(uid)
            for key in held:
                self._count(key)
            if held:
                found |= dict.fromkeys((uid, *self._users.get(held[0], ())))
        self._trials.refresh()
        return Touched((), self._changed(found))

    def _held(self, uid: str) -> list[str]:
        """Return the claims of a pod that hold devices of a node."""
        keys = (*self._owned.get(uid, ()), *(_names(self._pods[uid]) if uid in self._pods else ()))
        return [key for key in keys if key in self._allocated]

    def gpus_beside(self, uids: Iterable[str]) -> int:
        """Return how many GPUs claims of pods hold beyond what is counted for the pods themselves."""
        keys = {key for uid in uids for key in self._held(uid)} if self._allocated else ()
        held = (self._table.claim_of(f"{CLAIM_PREFIX}{key}") for key in keys)
        return sum(each.shape.whole_gpus for each in held if each is not None)

    def beside(self, node: str) -> Iterator[tuple[str, int]]:
        """Yield who holds how many GPUs of a node beyond what is counted for pods.

        That is the gang of a pod that the claim is for, or the claim itself where none is known.
        """
        for uid, held in self._table.claims_on(node) if self._allocated else ():
            claim = self._claims.get(uid.removeprefix(CLAIM_PREFIX))
            if claim is not None and held.shape.whole_gpus:
                users = (claim.controller, *(each.uid for each in claim.reserved_for), *self._users.get(claim.key, ()))
                pod = next((self._known[each] for each in users if each in self._known), None)
                yield uid if pod is None else str(pod.group), held.shape.whole_gpus

    def _follow_promise(self, uid: str) -> None:
        """Let trials know where a pod is that has claims without devices."""
        there = self._table.claim_of(uid)
        self._trials.promise(uid, "" if there is None else there.node, self._asked[uid].wanted)

    def _forget_uses(self, pod: Pod | None) -> None:
        for key in () if pod is None else _names(pod):
            users = self._users.get(key, {})
            users.pop(pod.uid if pod is not None else "", None)
            if not users:
                self._users.pop(key, None)

    def _changed(self, uids: Iterable[str]) -> tuple[Pod, ...]:
        """Return those pods, as they were told, of which something else is resolved now."""
        found = []
        for uid in list(uids):
            told, known = self._pods.get(uid), self._known.get(uid)
            if told is not None and known is not None:
                now = self._resolve(told)
                if _resolved(now) != _resolved(known):
                    found.append(told)
        return tuple(found)

    def _holding(self, pod: Pod) -> DeviceHolding | None:
        """Return which GPUs of its node a pod has been given by claims, or was observed to have; None if unknown."""
        if pod.observed is not None:
            return pod.observed
        given = [each.device for pin in self._pins(pod) for each in pin.devices if not each.admin]
        node = self.columns.node_of(given) if given else ""
        gpus = describe_gpus(self.columns.on_node(node)).indices(given) if node else ()
        return DeviceHolding(gpus) if gpus else None

    def _resolve(self, pod: Pod) -> Pod:
        pod = replace(pod, observed=self._holding(pod)) if pod.claims.names else pod
        twins = self._twins(pod)
        if not pod.claims.claims:
            return replace(pod, shape=_with(pod.shape, twins)) if twins else pod
        needs, channel = [], ""
        for index, each in enumerate(pod.claims.claims):
            if each.needless:
                continue
            key = f"{pod.namespace}/{each.claim}" if each.claim else ""
            claim = self._claims.get(key)
            source = claim or self._templates.get(f"{pod.namespace}/{each.template}")
            if source is None:
                kind, name = (
                    ("ResourceClaimTemplate", each.template) if each.template else ("ResourceClaim", each.claim)
                )
                return self._lacking(pod, index, f"{kind} {pod.namespace}/{name} does not exist")
            if (problem := self._unusable(source.spec, pod.namespace)) is not None:
                return self._lacking(pod, index, problem)
            allocation = None if claim is None else claim.allocation
            if each.template and asks_for_channel(source.spec):
                channel = each.template
            own = bool(each.template) and (claim is None or claim.controller == pod.uid)  # else of its PodGroup
            needs.append(_Need(key, source.spec, allocation, own))
        self.is_followed = True
        before = self._asked.get(pod.uid)
        asked = self._asked[pod.uid] = self._ask(pod, needs, twins)
        self.columns.use(asked.demands, before=() if before is None else before.demands)
        self._follow_promise(pod.uid)
        options = joined(pod.options, channel) if channel and self._cliques else pod.options
        labels = share_labels({**pod.labels, SHARED_CLAIM: asked.together}) if asked.together else pod.labels
        kept = not pod.node_name and any(need.allocation is not None and not self._is_used(need.key) for need in needs)
        return replace(pod, shape=self._stance(pod, asked), labels=labels, options=options, keeps_devices=kept)

    @staticmethod
    def _lacking(pod: Pod, index: int, why: str) -> Pod:
        if pod.node_name or pod.problem is not None:
            return pod
        return replace(pod, problem=Problem(f"spec.resourceClaims[{index}]", why))

    def _unusable(self, spec: ClaimSpec, namespace: str) -> str | None:
        """Return why devices cannot be counted for a claim, None if they can."""
        if spec.problem is not None:
            return str(spec.problem)
        for request in spec.requests:
            for option in request.options:
                if not self.columns.has_class(option.device_class):
                    return f"DeviceClass {option.device_class} does not exist"
                for expression in option.selectors:
                    if (problem := self._selectors.problem(expression)) is not None:
                        return str(problem)
        for demand in demands_of(spec):
            self.is_outdated |= self.columns.want(demand, namespace).relations
            if not self.columns.is_read(demand):
                self.is_reading = True
                return f"the devices of DeviceClass {demand.device_class} are still being compared with its selectors"
        return None

    def _ask(self, pod: Pod, needs: list[_Need], twins: Mapping[str, int]) -> _Asked:
        """Return what a pod asks for because of its claims."""
        total, held = Counter(twins), Counter(twins)
        counts: dict[str, Mapping[str, int]] = {}
        pins: list[ClaimAllocation] = []
        together: list[str] = []
        for need in needs:
            amounts = self._amounts(need.spec)
            charged = self._charged(need.spec) if need.own or self._is_first(need.key, pod) else _NOTHING
            if need.allocation is not None:
                pins.append(need.allocation)
                held.update(self._charges(charged))
            else:
                held.update(amounts + self._charges(charged, amounts))
            if need.own:
                counts[need.key] = amounts
                total.update(amounts + self._charges(charged, amounts))
            elif need.allocation is None and not pod.node_name:
                if charged:
                    total.update(amounts + self._charges(charged, amounts))
                if amounts:
                    together.append(need.key)
            else:
                total.update(self._charges(charged))
        own = tuple(need.spec for need in needs if need.own)
        if own and not all(map(self._is_plain, own)) and (column := self._trials.column(own)):
            total[column] += 1
        free = _with(pod.shape, total)
        pinned = _pinned(_with(pod.shape, held), pins) if pins else None
        wanted = tuple(AskedClaim(need.key, need.spec) for need in needs if need.allocation is None and need.own)
        demands = frozenset(demand for need in needs for demand in demands_of(need.spec))
        return _Asked(free, counts, pinned, min(together, default=""), wanted, demands)

    def _is_plain(self, spec: ClaimSpec) -> bool:
        """Tell whether the devices that a claim asks for can be counted."""
        return is_counted(spec) and all(map(self.columns.is_plain, demands_of(spec)))

    def _amounts(self, spec: ClaimSpec) -> Counter[str]:
        amounts: Counter[str] = Counter()
        for demand, count in demands_of(spec).items():
            for column in self.columns.takes(demand):
                amounts[column] += count
        return amounts

    def _charged(self, spec: ClaimSpec) -> Counter[str]:
        """Return what a Queue is charged for a claim, by each name of its classes; of alternatives the most."""
        stands = {name: resource for resource, name in self.columns.resources.items()}
        charged = Counter[str]()
        for request in spec.requests:
            most = Counter[str]()
            for option in request.options:
                count = 0 if option.admin else 1 if option.count is None else option.count
                own, named = DeviceDemand(option.device_class).column, option.device_class
                most |= Counter(dict.fromkeys(filter(None, (own, stands.get(named), self.mapped.get(named))), count))
            charged += most
        return charged

    def _charges(self, charged: Counter[str], amounts: Counter[str] = _NOTHING) -> Counter[str]:
        """Return what is charged to the Queue alone of what is `charged`: that which no column has of a pod."""
        found = Counter({f"{name}{CHARGED}": amount - amounts[name] for name, amount in charged.items()})
        for resource in found:
            self._table.leave_to_others(resource)
        return +found

    def _is_first(self, key: str, pod: Pod) -> bool:
        """Tell whether a pod is the first of its gang that shares a claim, of those that have not ended."""
        users = (self._pods[each] for each in self._users.get(key, ()))
        alike = [each for each in users if each.group == pod.group and not each.done]
        return min(alike, default=pod, key=lambda each: (each.created, each.uid)).uid == pod.uid

    def _twins(self, pod: Pod) -> Counter[str]:
        """Return what a pod takes besides because it asks for extended resources."""
        found: Counter[str] = Counter()
        if self.columns.twins_of:
            for resource, amount in pod.shape.requests:
                for twin in self.columns.twins_of.get(resource, ()):
                    found[twin] += amount
        for resource, amount in pod.shape.requests if self.mapped else ():
            name = self.mapped.get(self.columns.resources.get(resource, ""))
            if name and name != resource:
                found.update(self._charges(Counter({name: amount})))
        return found

    def _stance(self, pod: Pod, asked: _Asked) -> Shape:
        """Return what a pod asks for as it stands: one with a node stays as it was promised, whatever is allocated."""
        if asked.pinned is None or pod.node_name:
            return asked.free
        promised = self._table.claim_of(pod.uid)
        if promised is not None and promised.shape in (asked.free, asked.pinned):
            node = self._nodes.get(promised.node)
            if node is not None and all(each.reachable_from(node.name, node.labels) for each in self._pins(pod)):
                return promised.shape
        return asked.pinned

    def _pins(self, pod: Pod) -> Iterator[ClaimAllocation]:
        for name in pod.claims.names:
            claim = self._claims.get(f"{pod.namespace}/{name}")
            if claim is not None and claim.allocation is not None:
                yield claim.allocation

    # What is allocated.

    def _count(self, key: str) -> bool:
        """Count what a claim holds that no pod is counted for; return whether that moves anything."""
        claim = self._claims.get(key)
        uid = f"{CLAIM_PREFIX}{key}"
        self._trials.hold(key, "", None)
        if claim is None or claim.allocation is None:
            self._allocated.discard(key)
            return self._table.release(uid)
        devices = [each.device for each in claim.allocation.devices if not each.admin]
        node = self.columns.node_of(devices) if devices else ""
        if not node:
            self._allocated.discard(key)
            return self._table.release(uid)
        self._allocated.add(key)
        self._trials.hold(key, node, claim.allocation)
        left = self.columns.taken_by(node, devices) - Counter(self._counted(claim, node))
        if not left:
            return self._table.release(uid)
        return self._table.claim(uid, node, Shape(tuple(sorted(left.items()))), lasting=self._is_lasting(claim))

    def _counted(self, claim: ResourceClaim, node: str) -> Mapping[str, int]:
        """Return for how much of what a claim holds on a node a pod is counted there."""
        if not claim.controller:
            return {}
        there = self._table.claim_of(claim.controller)
        if there is None or there.node != node:
            return {}
        if claim.extended:
            return self._of_extended(claim, there.shape)
        asked = self._asked.get(claim.controller)
        if asked is None or there.shape != asked.free:
            return {}
        counted = asked.counts.get(claim.key)
        if counted is None and self._pods[claim.controller].claims.awaited:
            return self._amounts(claim.spec)  # the pod does not say yet that it is its own
        return counted or {}

    def _of_extended(self, claim: ResourceClaim, shape: Shape) -> Mapping[str, int]:
        """Return what a pod is counted for whose extended resources are those that a claim was made for."""
        classes = {option.device_class for request in claim.spec.requests for option in request.options}
        found: Counter[str] = Counter()
        for resource, name in self.columns.resources.items():
            if name in classes:
                for column in (resource, *self.columns.twins_of.get(resource, ())):
                    found[column] = shape.request(column)
        return found

    def _is_used(self, key: str) -> bool:
        """Tell whether any pod that has a node uses a claim."""
        users = (self._known.get(each.uid) for each in self._claims[key].reserved_for)
        return any(each is not None and each.bound for each in users)

    def _is_lasting(self, claim: ResourceClaim) -> bool:
        """Tell whether pods use a claim that Muster cannot expect to end."""
        held = (self._table.claim_of(each.uid) for each in claim.reserved_for)
        return any(each is not None and each.lasting for each in held)


def _resolved(pod: Pod) -> tuple[object, ...]:
    """Return all of a pod that its claims may make another."""
    return (pod.shape, pod.problem, pod.labels, pod.options, pod.observed, pod.keeps_devices)


def _template(key: str) -> str:
    """Return under what the users of a template are found; claims are under their own names."""
    return f"template {key}"


def _names(pod: Pod) -> list[str]:
    """Return under what names a pod is found as a user of claims and templates."""
    names = [f"{pod.namespace}/{each.claim}" for each in pod.claims.claims if each.claim]
    return names + [_template(f"{pod.namespace}/{each.template}") for each in pod.claims.claims if each.template]


def _with(shape: Shape, amounts: Mapping[str, int]) -> Shape:
    """Return a shape that asks for more."""
    more = {column: amount for column, amount in amounts.items() if amount}
    if not more:
        return shape
    requests = Counter(dict(shape.requests))
    requests.update(more)
    return _shared(replace(shape, requests=tuple(sorted(requests.items()))))


def _pinned(shape: Shape, pins: Iterable[ClaimAllocation]) -> Shape:
    """Return a shape for the nodes alone from which all of some allocations can be used."""
    terms = shape.selector.terms
    for pin in pins:
        if pin.nodes is not None:
            own = (SelectorTerm(),) if terms is None else terms
            pairs = product(own, pin.nodes)
            terms = tuple(SelectorTerm((*a.labels, *b.labels), (*a.fields, *b.fields)) for a, b in pairs)
    return _shared(replace(shape, selector=replace(shape.selector, terms=terms)))
