"""Values said with other names, in the same order: what is decided by comparing names stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, Final, cast

import yaml

from extender.admission import events
from extender.admission.events import Event
from extender.hardware.calibration import DATA_KEY, LIST_KEY
from extender.hardware.links import POLICY_LABEL
from extender.hardware.products import ACCELERATOR_LABEL, INSTANCE_LABEL, PRODUCT_LABELS, REPLICAS_LABEL
from extender.objects.branches import Branch, LabelParts
from extender.objects.budget import DisruptionBudget
from extender.objects.computedomain import ComputeDomain
from extender.objects.devices import DeviceReport
from extender.objects.devicetaintrule import DeviceTaintRule
from extender.objects.dradevices import DeviceKey, NodeScope, PoolKey
from extender.objects.hypernodes import HyperNode
from extender.objects.keys import ADMISSION_GATE
from extender.objects.levels import LEVEL_NAMES, RESERVED_NAMES, Level, tier_bound
from extender.objects.meta import ObjectRef, Requirement, SelectorTerm
from extender.objects.node import CLIQUE_LABEL, READY, Ailment, Node
from extender.objects.noderequest import NodeRequest
from extender.objects.pod import Pod
from extender.objects.podclaims import PodClaim, PodClaims
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.podoptions import LEADING_ROLES
from extender.objects.podspec import DOOM, Taint, Toleration
from extender.objects.queue import Flavor, Queue
from extender.objects.reason import Problem, Wait
from extender.objects.refusal import OWN_WORDS, SKELETONS, refusal_kind
from extender.objects.resourceclaim import ClaimConsumer, ResourceClaim, ResourceClaimTemplate
from extender.objects.resourceslice import ResourceSlice
from extender.objects.sources.table import SOURCES
from extender.objects.text import natural_key, parse_int64
from extender.objects.topology import LabelGroup, TopologyTerms
from extender.objects.workload import MANAGE_JOBS, ExpectedPods, Suspendable
from extender.settings import LOST_CONDITIONS, LOST_TAINTS, Settings

_DIGITS: Final = 6
_TOKEN: Final = re.compile(r"\b(?:pod|gang|namespace|queue|role|flavor|object|place|key|level|set|text)-[0-9]{6,}\b")


class Space(Enum):
    """Names that are compared with each other. Each has pseudonyms of its own; the value is how these begin.

    Nodes, domains and values of labels are one: a label may name the node or the domain.
    """

    POD = "pod"
    GANG = "gang"
    NAMESPACE = "namespace"
    QUEUE = "queue"
    ROLE = "role"
    FLAVOR = "flavor"
    OBJECT = "object"
    PLACE = "place"
    KEY = "key"
    LEVEL = "level"
    SET = "set"
    TEXT = "text"


#: In which order decisions compare the names of a space, where that is not the order of texts.
_ORDERS: Final[Mapping[Space, Callable[[str], Any]]] = {Space.POD: natural_key, Space.PLACE: natural_key}


class Pseudonyms:
    """Hear all names first, then give each its pseudonym."""

    def __init__(self) -> None:
        self._heard: dict[Space, dict[str, None]] = {space: {} for space in Space}
        self._given: dict[Space, dict[str, str]] = {}
        self._meant: dict[str, str] = {}

    def name(self, space: Space, name: str) -> str:
        """Return the pseudonym of a name, before `settle` the name itself; what is empty stays so."""
        if not name:
            return name
        if not self._given:
            self._heard[space][name] = None
            return name
        return self._given[space][name]

    def settle(self) -> None:
        """Give pseudonyms to all names that were heard, in their order."""
        for space, heard in self._heard.items():
            ordered = sorted(heard, key=_ORDERS.get(space))
            width = max(_DIGITS, len(str(len(ordered))))
            self._given[space] = {name: f"{space.value}-{place:0{width}d}" for place, name in enumerate(ordered)}
            self._meant |= {given: name for name, given in self._given[space].items()}

    def heard(self, space: Space) -> Mapping[str, None]:
        """Return the names of a space."""
        return self._heard[space]

    def restored(self, value: Any) -> Any:  # noqa: ANN401 - a document
        """Return plain values with the names again that pseudonyms stand for, in texts too."""
        if isinstance(value, str):
            return _TOKEN.sub(lambda found: self._meant.get(found[0], found[0]), value)
        if isinstance(value, list):
            return [self.restored(each) for each in value]
        if isinstance(value, dict):
            return {self.restored(key): self.restored(each) for key, each in value.items()}
        return value


#: Domains of label keys that are in general use: such keys say nothing about whose cluster it is.
_KNOWN_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "nvidia.com",
    "amd.com",
    "google.com",
    "muster.dev",
    "volcano.sh",
    "koordinator.sh",
    "hami.io",
    *{
        key.partition("/")[0]
        for source in SOURCES
        for key in (source.label, *source.gang_keys, *source.role_keys)
        if key
    },
)
#: Labels whose values say what a node is, not which.
_TELLING: Final = frozenset(
    {
        *PRODUCT_LABELS,
        ACCELERATOR_LABEL,
        INSTANCE_LABEL,
        REPLICAS_LABEL,
        POLICY_LABEL,
        MANAGE_JOBS,
        "kubernetes.io/arch",
        "kubernetes.io/os",
    }
)
_KNOWN_KEYS: Final = frozenset({*LEVEL_NAMES, *_TELLING, *DOOM, ADMISSION_GATE, READY, *LOST_CONDITIONS, *LOST_TAINTS})
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
        kept = {name: Settings.model_fields[name].default for name in ("scheduler_lease", "calibration_config_map")}
        for name in ("node_lost_conditions", "node_lost_taints"):
            kept[name] = tuple(map(self.key, getattr(settings, name)))
        return settings.model_copy(update={"topology_levels": levels, **kept})

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
        domain, slash, _ = key.rpartition("/")
        known = slash and any(domain == each or domain.endswith(f".{each}") for each in _KNOWN_DOMAINS)
        return key if known or key in _KNOWN_KEYS else self.names.name(Space.KEY, key)

    def label_value(self, key: str, value: str) -> str:
        """Return the value of a label: itself where it tells what a node is, or is compared as a number."""
        if key in _TELLING or (key == CLIQUE_LABEL and value.startswith(_NO_CLUSTER)):
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
        return GroupRef(ref.api, self.names.name(Space.NAMESPACE, ref.namespace), name, ref.uid)

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
        return tuple(replace(wanted, values=places(self, wanted.values)) for wanted in requirements)

    def taint(self, taint: Taint | Toleration) -> Taint | Toleration:
        """Return a taint, or what tolerates one."""
        return replace(taint, key=taint.key and self.key(taint.key), value=self.label_value(taint.key, taint.value))

    def device_report(self, report: DeviceReport) -> DeviceReport:
        """Return a report of a node's GPUs."""
        return replace(report, about=self._place(report.about))

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
        return replace(about, name=self.names.name(Space.PLACE, about.name))


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

#: What a field of that name holds, in whichever class.
_OF_FIELD: Final[Mapping[str, _Word]] = {
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
    Pod: {"name": _named(Space.POD), "owner": _TEXT},
    Node: {"name": _PLACE},
    Queue: {"name": _QUEUE},
    Flavor: {"name": _named(Space.FLAVOR)},
    DisruptionBudget: {"name": _OBJECT},
    ObjectRef: {"name": _OBJECT},
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
    DeviceKey: {"pool": _PLACE},
    ResourceSlice: {"name": _OBJECT},
    ResourceClaim: {"name": _OBJECT},
    ResourceClaimTemplate: {"name": _OBJECT},
    ClaimConsumer: {"name": _named(Space.POD)},
    PodClaim: {"claim": _OBJECT, "template": _OBJECT},
    PodClaims: {"extended": _OBJECT},
    DeviceTaintRule: {"name": _OBJECT, "pool": _PLACE},
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
    Requirement: Anonymiser.requirement,
    Taint: Anonymiser.taint,
    Toleration: Anonymiser.taint,
    DeviceReport: Anonymiser.device_report,
    HyperNode: Anonymiser.hyper_node,
    Wait: lambda _renamer, wait: wait,
}
