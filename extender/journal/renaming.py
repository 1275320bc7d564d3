"""Values said with other names, in the same order: what is decided by comparing names stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, cast

import yaml

from extender.admission import events
from extender.admission.events import Event
from extender.hardware.calibration import DATA_KEY, LIST_KEY
from extender.journal import commonwords as common
from extender.journal.devicenames import DeviceNames
from extender.journal.pseudonyms import Pseudonyms, Space
from extender.objects.branches import Branch, LabelParts
from extender.objects.budget import DisruptionBudget
from extender.objects.computedomain import ComputeDomain
from extender.objects.deviceclass import DeviceClass
from extender.objects.devices import DeviceReport
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.dradevices import DeviceKey, NodeScope, PoolKey
from extender.objects.gpudescription import GpuDescription
from extender.objects.hypernodes import HyperNode
from extender.objects.levels import LEVEL_NAMES, RESERVED_NAMES, Level, tier_bound
from extender.objects.meta import ObjectRef, Requirement, SelectorTerm
from extender.objects.node import CLIQUE_LABEL, Ailment, Node
from extender.objects.noderequest import NodeRequest
from extender.objects.nodetopology import Zone
from extender.objects.pod import CHARGED, Pod, Shape
from extender.objects.podclaims import ContainerClaim, ExtendedRequest, PodClaim, PodClaims
from extender.objects.podgroup import HYPOTHETICAL, GroupRef, PodGroup
from extender.objects.podoptions import LEADING_ROLES
from extender.objects.podspec import Taint, Toleration
from extender.objects.queue import Flavor, Queue, RunningLimit
from extender.objects.reason import Problem, Wait
from extender.objects.refusal import OWN_WORDS, SKELETONS, refusal_kind
from extender.objects.requests import CLASS_RESOURCE_PREFIX, ContainerRequest
from extender.objects.resourceclaim import (
    ClaimConsumer,
    ClaimRequest,
    DeviceConstraint,
    DeviceRequest,
    GivenDevice,
    ResourceClaim,
    ResourceClaimTemplate,
)
from extender.objects.resourceslice import (
    CapacitySet,
    CounterSet,
    CounterUse,
    PoolDevice,
    ResourceSlice,
)
from extender.objects.text import parse_int64
from extender.objects.topology import LabelGroup, TopologyTerms
from extender.objects.workload import ExpectedPods, Suspendable
from extender.settings import Settings

_NODE_NAME: Final = "metadata.name"
_MOMENT: Final = re.compile(r"[-0-9TZ:.+]*")
_ZONE: Final = re.compile(r"node-[0-9]{1,4}")
#: Settings that name what is elsewhere, and by which nothing is decided.
_UNTOLD_SETTINGS: Final = ("scheduler_lease", "calibration_config_map", "history_store", "provisioning_parameters")
_COLLECTIONS: Final = (tuple, list, frozenset)
_TIER: Final = re.compile(r"tier-[0-9]+")
_NO_CLUSTER: Final = "00000000-0000-0000-0000-000000000000"


class Anonymiser:
    """Say values with other names; the first time, before `Pseudonyms.settle`, this only hears them.

    A value is walked through by its fields: `_OF_CLASS` and `_OF_FIELD` say what a field holds. Any other field is
    looked into, and texts there stay. What has no names is returned as the object that it is.
    """

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self._compared: set[str] = set()  # label keys whose values are compared as numbers
        self._uids: set[str] = set()  # those of objects, which the API server makes
        self.devices = DeviceNames(names)

    def value(self, value: Any) -> Any:  # noqa: ANN401 - any value
        """Return a value said with other names."""
        kind = type(value)
        if kind in _WHOLE:
            return _WHOLE[kind](self, value)
        said = {name: word(self, getattr(value, name)) for name, word in _fields(kind)}  # type: ignore[arg-type]  # a class is hashable
        said = {name: after for name, after in said.items() if after is not getattr(value, name)}
        if said:
            return value._replace(**said) if hasattr(value, "_replace") else replace(value, **said)
        if kind in _COLLECTIONS:
            after = [self.value(each) for each in value]
            return kind(after) if any(new is not old for new, old in zip(after, value, strict=True)) else value
        return value

    def event(self, event: Event[Any]) -> Event[Any]:
        """Return an event."""
        return cast("Event[Any]", self.value(event))

    def settings(self, settings: Settings) -> Settings:
        """Return settings without names."""
        levels = tuple(
            each.model_copy(update={"name": self.level(each.name), "node_label": self.key(each.node_label)})
            for each in settings.topology_levels
        )
        kept = {name: Settings.model_fields[name].default for name in _UNTOLD_SETTINGS}
        for name in ("node_lost_conditions", "node_lost_taints"):
            kept[name] = tuple(map(self.key, getattr(settings, name)))
        mappings = tuple(
            each.model_copy(
                update={
                    "name": self.resource(each.name),
                    "device_class_names": tuple(map(self.devices.device_class, each.device_class_names)),
                }
            )
            for each in settings.device_class_mappings
        )
        kept |= {
            "topology_levels": levels,
            "device_class_mappings": mappings,
            "ignored_resources": tuple(map(self.resource, settings.ignored_resources)),
            "scheduler_names": tuple(_SCHEDULER(self, each) for each in settings.scheduler_names),
            "provisioning_class": _CLASS(self, settings.provisioning_class),
            "history_user_label": settings.history_user_label and self.key(settings.history_user_label),
        }
        return settings.model_copy(update=kept)

    def measurements(self, data: Mapping[str, str]) -> dict[str, str]:
        """Return a calibration without where its figures come from; one that cannot be read becomes empty."""
        try:
            document = yaml.safe_load(data.get(DATA_KEY, ""))
            entries = [
                {**entry, "level": self.level(str(entry.get("level", ""))), "source": ""}
                for entry in document[LIST_KEY]
            ]
        except (yaml.YAMLError, TypeError, KeyError, ValueError):
            return {DATA_KEY: ""}
        return {DATA_KEY: yaml.safe_dump({LIST_KEY: entries})}

    # What fields hold.

    def text(self, text: str) -> str:
        """Return what stands for a text of any content; as a message of kube-scheduler's it says the same."""
        own = next((words for words in OWN_WORDS if words in text), "")
        return own + SKELETONS.get(refusal_kind(text), "") + self.names.name(Space.TEXT, text)

    def key(self, key: str) -> str:
        """Return a label key: itself where it is in general use, else what stands for it."""
        return key if key in common.KEYS else self.names.name(Space.KEY, key)

    def resource(self, name: str) -> str:
        """Return a resource: itself where it is in general use, else what stands for it."""
        if name.endswith(CHARGED):
            return self.resource(name.removesuffix(CHARGED)) + CHARGED
        if name.startswith(CLASS_RESOURCE_PREFIX):
            return CLASS_RESOURCE_PREFIX + self.devices.device_class(name.removeprefix(CLASS_RESOURCE_PREFIX))
        return name if common.is_common_resource(name) else self.names.name(Space.RESOURCE, name)

    def amounts(self, amounts: Any) -> Any:  # noqa: ANN401 - a mapping, or pairs
        """Return amounts of resources, by name."""
        if isinstance(amounts, tuple):
            return tuple((self.resource(name), amount) for name, amount in amounts)
        return {self.resource(name): amount for name, amount in amounts.items()}

    def requests(self, requests: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        """Return requests, in order of the names."""
        return tuple(sorted(self.amounts(requests)))

    def own_uid(self, uid: str) -> str:
        """Return the UID of an object: the API server's as it is, what stands for one that Muster made of names."""
        if uid.startswith(HYPOTHETICAL):
            return self.names.name(Space.TEXT, uid)
        self._uids.add(uid)
        return uid

    def uid(self, uid: str) -> str:
        """Return a UID that something else says: itself if it is an object's, or reads like one."""
        return uid if uid in self._uids or common.is_made(uid) else self.names.name(Space.TEXT, uid)

    def about(self, ref: ObjectRef) -> ObjectRef:
        """Return an object by version, kind and name."""
        version = ref.api_version if common.is_common_version(ref.api_version) else _OBJECT(self, ref.api_version)
        kind = ref.kind if common.is_common_kind(ref.kind) else _OBJECT(self, ref.kind)
        return ObjectRef(version, kind, _NAMESPACE(self, ref.namespace), _OBJECT(self, ref.name), self.uid(ref.uid))

    def label_value(self, key: str, value: str) -> str:
        """Return the value of a label: itself where it tells what a node is, or is compared as a number."""
        if key in common.TELLING or (key == CLIQUE_LABEL and value.startswith(_NO_CLUSTER)):
            return value
        if key in self._compared and parse_int64(value) is not None:
            return value
        return self.names.name(Space.PLACE, value)

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return labels."""
        return dict(self.pairs(labels.items()))

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return labels with their values."""
        return tuple((self.key(key), self.label_value(key, value)) for key, value in pairs)

    def level(self, name: str) -> str:
        """Return the name of a level, or the label key that stands for one."""
        known = name in RESERVED_NAMES or name in LEVEL_NAMES.values() or _TIER.fullmatch(name)
        if not name or known or tier_bound(name) is not None:
            return name
        return self.key(name) if "/" in name else self.names.name(Space.LEVEL, name)

    def role(self, role: str) -> str:
        """Return what stands for a role; leading ones stay."""
        return role if role in LEADING_ROLES else self.names.name(Space.ROLE, role)

    def ref(self, ref: GroupRef) -> GroupRef:
        """Return which gang."""
        name = self.names.name(Space.POD if ref.is_pod else Space.GANG, ref.name)
        return GroupRef(ref.api, self.names.name(Space.NAMESPACE, ref.namespace), name, self.uid(ref.uid))

    def place(self, place: str) -> str:
        """Return where the pods of an object were planned."""
        runs = (run.rpartition("*") for run in place.split(","))
        return ",".join(f"{self.names.name(Space.PLACE, node)}{star}{count}" for node, star, count in runs)

    def requirement(self, wanted: Requirement) -> Requirement:
        """Return a requirement on a label."""
        if wanted.operator in {"Gt", "Lt"}:
            self._compared.add(wanted.key)
        values = tuple(self.label_value(wanted.key, value) for value in wanted.values)
        return Requirement(self.key(wanted.key), wanted.operator, values)

    def field_requirements(self, requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
        """Return requirements on the name of a node."""
        places = _named(Space.PLACE)
        return tuple(
            replace(wanted, key=_FIELD(self, wanted.key), values=places(self, wanted.values)) for wanted in requirements
        )

    def taint(self, taint: Taint | Toleration) -> Taint | Toleration:
        """Return a taint, or what tolerates one."""
        said = replace(
            taint,
            key=taint.key and self.key(taint.key),
            value=self.label_value(taint.key, taint.value),
            effect=_EFFECT(self, taint.effect),
        )
        return replace(said, operator=_OPERATOR(self, said.operator)) if isinstance(said, Toleration) else said

    def device_report(self, report: DeviceReport) -> DeviceReport:
        """Return a report of a node's GPUs."""
        return replace(report, about=self._place(report.about), partitions=self.devices.link_table(report.partitions))

    def hyper_node(self, node: HyperNode) -> HyperNode:
        """Return a HyperNode with the nodes that its patterns match: no pseudonym does."""
        known = [name for name in self.names.heard(Space.PLACE) if any(_matches(each, name) for each in node.patterns)]
        places = _named(Space.PLACE)
        return replace(
            node,
            about=self._place(node.about),
            tier_name=self.level(node.tier_name),
            nodes=places(self, node.nodes.union(known)),
            patterns=(),
            selectors=self.value(node.selectors),
            children=places(self, node.children),
            problems=self.value(node.problems),
        )

    def _place(self, about: ObjectRef) -> ObjectRef:
        """Return an object that is called as its node or domain is."""
        return replace(self.about(about), name=self.names.name(Space.PLACE, about.name))


_Word = Callable[[Anonymiser, Any], Any]


def _named(space: Space) -> _Word:
    """Return what says a name of `space`, or several."""
    return _each(lambda renamer, name: renamer.names.name(space, name))


def _each(word: _Word) -> _Word:
    """Return what says one text, or each of several; any other value is looked into."""

    def said(renamer: Anonymiser, value: Any) -> Any:  # noqa: ANN401 - what a field holds
        if isinstance(value, str):
            return value and word(renamer, value)
        if type(value) in _COLLECTIONS:
            return type(value)(word(renamer, each) for each in value)
        return renamer.value(value)

    return said


def _unless(kept: frozenset[str], space: Space = Space.OBJECT) -> _Word:
    """Return what says a name of `space` but for some that stay."""
    return _each(lambda renamer, name: name if name in kept else renamer.names.name(space, name))


def _matching(pattern: re.Pattern[str]) -> _Word:
    """Return what says a text, and lets one be that is all of a pattern's."""
    return _each(lambda renamer, text: text if pattern.fullmatch(text) else renamer.names.name(Space.TEXT, text))


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, _Word], ...]:
    """Return the fields of a class, and what says each."""
    names = [each.name for each in fields(kind) if each.init] if is_dataclass(kind) else getattr(kind, "_fields", ())
    words = {**_OF_FIELD, **_OF_CLASS.get(kind, {})}
    return tuple((name, words.get(name, Anonymiser.value)) for name in names)


_PLACE, _OBJECT = _named(Space.PLACE), _named(Space.OBJECT)
_ROLE, _QUEUE, _NAMESPACE = _each(Anonymiser.role), _named(Space.QUEUE), _named(Space.NAMESPACE)
_LEVEL, _KEY, _TEXT = _each(Anonymiser.level), _each(Anonymiser.key), _each(Anonymiser.text)
_PARTS: _Word = lambda renamer, parts: renamer.devices.parts(parts)  # noqa: E731 - a word as the others
_DEVICE = _each(lambda renamer, word: renamer.devices.word(word))
_DEVICE_CLASS = _each(lambda renamer, name: renamer.devices.device_class(name))
_EXPRESSION = _each(lambda renamer, expression: renamer.devices.expression(expression))
_OWN_UID, _UID, _RESOURCE = _each(Anonymiser.own_uid), _each(Anonymiser.uid), _each(Anonymiser.resource)
_EFFECT, _OPERATOR, _FIELD = map(_unless, (common.EFFECTS, common.OPERATORS, frozenset({_NODE_NAME})))
_SCHEDULER, _CLASS, _METHOD, _PHASE = map(_unless, (common.SCHEDULERS, common.CLASSES, common.METHODS, common.PHASES))
_OF_PODS = _unless(frozenset({"pods"}))

#: What a field of that name holds, in whichever class.
_OF_FIELD: Final[Mapping[str, _Word]] = {
    "uid": _OWN_UID,
    "controller": _UID,
    "created": _matching(_MOMENT),
    "history_at": _matching(_MOMENT),
    "told": _PHASE,
    "scheduler_name": _SCHEDULER,
    "provisioning_class": _CLASS,
    "fingerprint_method": _METHOD,
    **dict.fromkeys(("min_resources", "history", "allocatable", "available", "capacity", "quotas"), Anonymiser.amounts),
    "packings": Anonymiser.amounts,
    "annotations": lambda renamer, tables: {key: renamer.devices.link_table(text) for key, text in tables.items()},
    "uuids": _DEVICE,
    "roots": _DEVICE,
    "driver": _DEVICE,
    "device_class": _DEVICE_CLASS,
    "selectors": _EXPRESSION,
    "namespace": _NAMESPACE,
    "node": _PLACE,
    "node_name": _PLACE,
    "nominated_node": _PLACE,
    "names": _PLACE,
    "victims": lambda renamer, victims: {_PLACE(renamer, node): uids for node, uids in victims.items()},
    "role": _ROLE,
    "roles": _ROLE,
    "role_minimums": lambda renamer, minimums: tuple((renamer.role(role), least) for role, least in minimums),
    "queue": _QUEUE,
    "peer_queue": _QUEUE,
    "parent": _QUEUE,
    "level": _LEVEL,
    "podset": _named(Space.SET),
    "labels": Anonymiser.labels,
    "gates": _KEY,
    "equals": Anonymiser.pairs,
    "node_selector": lambda renamer, pairs: None if pairs is None else tuple(sorted(renamer.pairs(pairs))),
    "refusal": _TEXT,
    "message": _TEXT,
    "why": _TEXT,
    "data": Anonymiser.measurements,
    "fingerprint": lambda _renamer, _value: "",  # a hash over names of pods
}
#: Where that depends on the class.
_OF_CLASS: Final[Mapping[type, Mapping[str, _Word]]] = {
    Pod: {"name": _named(Space.POD)},
    Shape: {"requests": Anonymiser.requests},
    ContainerRequest: {"requests": Anonymiser.amounts},
    GpuDescription: {"names": _DEVICE},
    RunningLimit: {"label": _KEY},
    Zone: {"name": _matching(_ZONE)},
    DeviceClass: {"name": _DEVICE_CLASS, "resource": _RESOURCE},
    events.DeviceClassGone: {"name": _DEVICE_CLASS},
    events.PartSeen: {"owner": _UID},
    PoolDevice: {
        "name": _DEVICE,
        "attributes": lambda renamer, attributes: renamer.devices.attributes(attributes),
        "capacity": Anonymiser.value,
        "conditions": _DEVICE,
        "failure_conditions": _DEVICE,
    },
    CapacitySet: {"items": _PARTS},
    CounterSet: {"name": _DEVICE, "counters": _PARTS},
    CounterUse: {"counter_set": _DEVICE, "counters": _PARTS},
    ClaimRequest: {"name": _DEVICE},
    DeviceRequest: {"name": _DEVICE, "capacity": _PARTS},
    DeviceConstraint: {"attribute": _DEVICE, "requests": _DEVICE},
    GivenDevice: {"request": _DEVICE, "device": Anonymiser.value, "share": _UID, "consumed": _PARTS},
    ContainerClaim: {"container": _OBJECT, "claim": _OBJECT, "request": _DEVICE},
    ExtendedRequest: {"container": _OBJECT, "resource": _RESOURCE, "request": _DEVICE},
    Node: {"name": _PLACE},
    Queue: {"name": _QUEUE},
    Flavor: {"name": _named(Space.FLAVOR)},
    DisruptionBudget: {"name": _OBJECT},
    NodeRequest: {"name": _OBJECT, "detail": _TEXT},
    Level: {"name": _LEVEL, "label": _KEY},
    Ailment: {"type": _KEY},
    Problem: {"field": _TEXT},
    ExpectedPods: {"priority_class": _OBJECT},
    Suspendable: {"place": Anonymiser.place},
    LabelGroup: {"keys": _KEY, "selector": Anonymiser.value},
    TopologyTerms: {"required": _LEVEL, "preferred": _LEVEL},
    PodGroup: {"parent": Anonymiser.value},
    LabelParts: {"name": _ROLE},
    Branch: {"name": _ROLE, "required": _LEVEL, "preferred": _LEVEL},
    SelectorTerm: {"labels": Anonymiser.value, "fields": Anonymiser.field_requirements},
    NodeScope: {"name": _PLACE},
    PoolKey: {"pool": _PLACE},
    DeviceKey: {"pool": _PLACE, "device": _DEVICE},
    ResourceSlice: {"name": _OBJECT},
    ResourceClaim: {"name": _OBJECT},
    ResourceClaimTemplate: {"name": _OBJECT},
    ClaimConsumer: {"group": _OBJECT, "resource": _OF_PODS, "name": _named(Space.POD), "uid": _UID},
    PodClaim: {"name": _OBJECT, "claim": _OBJECT, "template": _OBJECT},
    PodClaims: {"extended": _OBJECT},
    DeviceTaintRule: {"name": _OBJECT, "pool": _PLACE, "device": _DEVICE},
    events.TaintRuleGone: {"name": _OBJECT},
    events.SliceGone: {"name": _OBJECT},
    events.ClaimGone: {"name": _OBJECT},
    events.ClaimTemplateGone: {"name": _OBJECT},
    ComputeDomain: {"template": _OBJECT},
    events.ComputeDomainGone: {"name": _OBJECT},
    events.NodeGone: {"name": _PLACE},
    events.NodeTopologyGone: {"name": _PLACE},
    events.HyperNodeGone: {"name": _PLACE},
    events.DeviceGone: {"name": _PLACE},
    events.QueueGone: {"name": _QUEUE},
    events.NamespaceSeen: {"name": _NAMESPACE},
    events.NamespaceGone: {"name": _NAMESPACE},
    events.BudgetGone: {"name": _OBJECT},
    events.PriorityClassSeen: {"name": _OBJECT},
    events.PriorityClassGone: {"name": _OBJECT},
    events.LevelsGone: {"name": _OBJECT},
}
#: Values that are said as a whole.
_WHOLE: Final[Mapping[type, _Word]] = {
    GroupRef: Anonymiser.ref,
    ObjectRef: Anonymiser.about,
    Requirement: Anonymiser.requirement,
    Taint: Anonymiser.taint,
    Toleration: Anonymiser.taint,
    DeviceReport: Anonymiser.device_report,
    HyperNode: Anonymiser.hyper_node,
    Wait: lambda _renamer, wait: wait,
}
