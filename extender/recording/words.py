"""Which words are names, wherever they stand: labels, selectors, levels, roles, which gang and which object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from extender.admission.reservations import OWN_WORDS
from extender.domain.clique import CLIQUE_LABEL
from extender.domain.integer import parse_int64
from extender.domain.keys import ADMISSION_GATE
from extender.domain.labelselector import LabelSelector
from extender.domain.levels import RESERVED_NAMES, Level
from extender.domain.membership import GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Shape
from extender.domain.presets import LEVEL_NAMES
from extender.domain.reason import Problem
from extender.domain.roles import LEADING_ROLES
from extender.domain.selectors import Requirement, Selector, Term
from extender.domain.taints import DOOM, Toleration
from extender.fabric.partitions import POLICY_LABEL
from extender.fabric.products import ACCELERATOR_LABEL, INSTANCE_LABEL, PRODUCT_LABELS, REPLICAS_LABEL
from extender.recording.pseudonyms import Pseudonyms, Space

#: Domains of label keys that everybody knows: such keys say nothing about whose cluster it is.
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
    "kubeflow.org",
    "ray.io",
    "hami.io",
)
#: Labels whose values say what a node is, not which.
_TELLING: Final = frozenset(
    {
        *PRODUCT_LABELS,
        ACCELERATOR_LABEL,
        INSTANCE_LABEL,
        REPLICAS_LABEL,
        POLICY_LABEL,
        "kubernetes.io/arch",
        "kubernetes.io/os",
    }
)
_TIER: Final = re.compile(r"tier-[0-9]+")
_NO_CLUSTER: Final = "00000000-0000-0000-0000-000000000000"
_COMPARING: Final = frozenset({"Gt", "Lt"})


class Words:
    """Say parts of values with other names; the first time, before `Pseudonyms.settle`, this only hears them."""

    def __init__(self, names: Pseudonyms) -> None:
        """Take names from `names`."""
        self.names = names
        self._compared: set[str] = set()  # label keys whose values are compared as numbers

    def place(self, name: str) -> str:
        """Return what stands for a node or a domain."""
        return self.names.name(Space.PLACE, name)

    def places(self, names: Sequence[str]) -> list[str]:
        """Return what stands for nodes."""
        return [self.place(name) for name in names]

    def text(self, text: str) -> str:
        """Return what stands for a text of whatever content; whether it repeats Muster's own words is kept."""
        own = OWN_WORDS if OWN_WORDS in text else ""
        return own + self.names.name(Space.TEXT, text)

    def key(self, key: str) -> str:
        """Return a label key: itself where everybody knows it, else what stands for it."""
        domain, slash, _ = key.rpartition("/")
        known = slash and any(domain == each or domain.endswith(f".{each}") for each in _KNOWN_DOMAINS)
        if known or key in LEVEL_NAMES or key in _TELLING or key in DOOM or key == ADMISSION_GATE:
            return key
        return self.names.name(Space.KEY, key)

    def level(self, name: str) -> str:
        """Return the name of a level, or the label key that stands for one."""
        if not name or name in RESERVED_NAMES or name in LEVEL_NAMES.values() or _TIER.fullmatch(name):
            return name
        if "/" in name:
            return self.key(name)
        return self.names.name(Space.LEVEL, name)

    def tier(self, level: Level) -> Level:
        """Return a level."""
        return replace(level, name=self.level(level.name), label=self.key(level.label))

    def ref(self, ref: GroupRef) -> GroupRef:
        """Return which gang."""
        return replace(ref, namespace=self.namespace(ref.namespace), name=self.names.name(Space.GANG, ref.name))

    def namespace(self, name: str) -> str:
        """Return what stands for a namespace."""
        return self.names.name(Space.NAMESPACE, name)

    def queue(self, name: str) -> str:
        """Return what stands for a Queue."""
        return self.names.name(Space.QUEUE, name)

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return labels."""
        return {self.key(key): self.label_value(key, value) for key, value in labels.items()}

    def label_value(self, key: str, value: str) -> str:
        """Return the value of a label: itself where it tells what a node is, or is compared as a number."""
        if key in _TELLING or (key == CLIQUE_LABEL and value.startswith(_NO_CLUSTER)):
            return value
        if key in self._compared and parse_int64(value) is not None:
            return value
        return self.place(value)

    def role(self, role: str) -> str:
        """Return what stands for a role; leading ones stay."""
        return role if role in LEADING_ROLES else self.names.name(Space.ROLE, role)

    def roles(self, roles: frozenset[str]) -> frozenset[str]:
        """Return what stands for roles."""
        return frozenset(map(self.role, roles))

    def problem(self, problem: Problem | None) -> Problem | None:
        """Return a problem without its words."""
        return None if problem is None else Problem(self.text(problem.field), self.text(problem.message))

    def problems(self, problems: Sequence[Problem]) -> tuple[Problem, ...]:
        """Return problems without their words."""
        return tuple(Problem(self.text(each.field), self.text(each.message)) for each in problems)

    def object(self, about: ObjectRef) -> ObjectRef:
        """Return an object by what stands for its name."""
        name = self.names.name(Space.OBJECT, about.name)
        return replace(about, namespace=self.namespace(about.namespace), name=name)

    def shape(self, shape: Shape) -> Shape:
        """Return a shape."""
        tolerations = tuple(
            Toleration(
                each.key and self.key(each.key), each.operator, self.label_value(each.key, each.value), each.effect
            )
            for each in shape.tolerations
        )
        return replace(shape, selector=self.selector(shape.selector), tolerations=tolerations)

    def selector(self, selector: Selector) -> Selector:
        """Return a selector."""
        terms = selector.terms
        return replace(
            selector,
            equals=self.pairs(selector.equals),
            terms=None
            if terms is None
            else tuple(
                Term(tuple(map(self.requirement, each.labels)), tuple(map(self.field, each.fields))) for each in terms
            ),
        )

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return labels with their values."""
        return tuple((self.key(key), self.label_value(key, value)) for key, value in pairs)

    def requirement(self, wanted: Requirement) -> Requirement:
        """Return a requirement on a label."""
        if wanted.operator in _COMPARING:
            self._compared.add(wanted.key)
        values = tuple(self.label_value(wanted.key, value) for value in wanted.values)
        return Requirement(self.key(wanted.key), wanted.operator, values)

    def field(self, wanted: Requirement) -> Requirement:
        """Return a requirement on the name of a node."""
        return replace(wanted, values=tuple(map(self.place, wanted.values)))

    def label_selector(self, selector: LabelSelector) -> LabelSelector:
        """Return a selector of labels."""
        return LabelSelector(tuple(map(self.requirement, selector.requirements)))
