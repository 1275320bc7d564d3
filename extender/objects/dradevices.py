"""What the kinds of Dynamic Resource Allocation share: names of devices and classes' selectors, amounts, taints, nodes.

Source: k8s.io/api/resource/v1, release 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from extender.caches import Shared
from extender.objects.meta import Int64, NodeSelector, SelectorTerm, read_node_terms
from extender.objects.podspec import Taint, TaintObject, Toleration, TolerationObject
from extender.objects.reason import Problem
from extender.objects.requests import QuantityError, signed_billionths

#: Group and version of every kind of Dynamic Resource Allocation.
RESOURCE_API = "resource.k8s.io/v1"

QuantityText: TypeAlias = str | int | float
"""A quantity as the API server (a string) or people (a bare number) write it."""

#: Quantities with a binary suffix are capped here (billionths). Source: resource.ParseQuantity.
_MOST_BINARY = (2**63 - 1) * 10**9


class Amount(int):
    """An exact quantity in billionths, the finest that Kubernetes has: counters and capacities are compared so.

    A type of its own, since 18 GB are more than the 64 bits of a recording's integers hold.
    """

    __slots__ = ()


class PoolKey(NamedTuple):
    """A pool of devices: its driver and its name, which are unique together."""

    driver: str
    pool: str

    def __str__(self) -> str:
        """Render as `driver/pool`."""
        return f"{self.driver}/{self.pool}"


class DeviceKey(NamedTuple):
    """One device of the cluster."""

    driver: str
    pool: str
    device: str

    @property
    def pool_key(self) -> PoolKey:
        """Return the pool that it is in."""
        return PoolKey(self.driver, self.pool)

    def __str__(self) -> str:
        """Render as `driver/pool/device`, as kube-scheduler does."""
        return f"{self.driver}/{self.pool}/{self.device}"


class UnreadableError(ValueError):
    """A part of an object that cannot be read; `problem` says where and why."""

    def __init__(self, field: str, message: str) -> None:
        self.problem = Problem(field, message)
        super().__init__(str(self.problem))


@lru_cache(maxsize=4096)
def _billionths(text: str) -> Amount:
    value = signed_billionths(text)
    return Amount(max(-_MOST_BINARY, min(value, _MOST_BINARY)) if text.endswith("i") else value)


def read_amount(quantity: QuantityText | None, field: str) -> Amount:
    """Return a quantity exactly; raise UnreadableError naming `field` for what is none."""
    if quantity is None:
        raise UnreadableError(field, "is missing")
    try:
        return _billionths(str(quantity))
    except QuantityError as error:
        raise UnreadableError(field, str(error)) from error


def read_name(name: str | None, field: str) -> str:
    """Return a name; raise UnreadableError naming `field` where there is none."""
    if not name:
        raise UnreadableError(field, "is missing")
    return name


# ------------------------------------------------------------------------------------------------------------ selectors


class CelSelectorObject(Struct, gc=False, frozen=True):
    """A selector in the Common Expression Language."""

    expression: str | None = None


class DeviceSelectorObject(Struct, gc=False, frozen=True):
    """A selector of devices; CEL is the only kind there is."""

    cel: CelSelectorObject | None = None


def read_device_selectors(selectors: Iterable[DeviceSelectorObject] | None, field: str) -> tuple[str, ...]:
    """Return the CEL expressions that a device must all match; raise UnreadableError for another kind of selector."""
    expressions = []
    for index, selector in enumerate(selectors or ()):
        place = f"{field}[{index}].cel"
        if selector.cel is None:
            raise UnreadableError(place, "is missing: no other kind of selector is known")
        expressions.append(read_name(selector.cel.expression, f"{place}.expression"))
    return tuple(expressions)


# --------------------------------------------------------------------------------------------------------------- taints

#: Effects that keep devices from being allocated. Source: taintPreventsAllocation; the others are for people.
_KEPT_BACK = frozenset({"NoSchedule", "NoExecute"})

#: A device toleration knows no others. Source: dynamic-resource-allocation/resourceclaim.ToleratesTaint.
_OPERATORS = frozenset({"", "Equal", "Exists"})


def read_device_taints(taints: Iterable[TaintObject] | None) -> tuple[Taint, ...]:
    """Return those taints of a device that keep it from being allocated."""
    return tuple(
        Taint(taint.key or "", taint.value or "", taint.effect) for taint in taints or () if taint.effect in _KEPT_BACK
    )


def read_device_tolerations(tolerations: Iterable[TolerationObject] | None) -> tuple[Toleration, ...]:
    """Return the tolerations of a request; one with an operator that devices do not know tolerates nothing."""
    return tuple(
        Toleration(each.key or "", each.operator or "", each.value or "", each.effect or "")
        for each in tolerations or ()
        if (each.operator or "") in _OPERATORS
    )


# ---------------------------------------------------------------------------------------------------------------- nodes


@dataclass(frozen=True, slots=True, weakref_slot=True)
class NodeScope:
    """The nodes from which devices can be used: the one called `name`, all, or those that `terms` match.

    Without any of them there is no such node. Source: dynamic-resource-allocation/structured NodeMatches.
    """

    name: str = ""
    everywhere: bool = False
    terms: tuple[SelectorTerm, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the devices can be used from the node called `name` with `labels`."""
        if self.name:
            return name == self.name
        return self.everywhere or any(term.matches(name, labels) for term in self.terms)


_shared_scopes = Shared[NodeScope]()


class NodeChoiceFields(Struct, gc=False, frozen=True, rename="camel"):
    """From which nodes devices can be used: one of these is set."""

    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None


def read_node_scope(choice: NodeChoiceFields, field: str) -> NodeScope | None:
    """Read where devices can be used; None where nothing says so.

    Raises UnreadableError for a selector that kube-scheduler cannot parse, or one of several terms, `field` being the
    place of all three.
    """
    selector = choice.node_selector
    if choice.node_name:
        return _shared_scopes(NodeScope(name=intern(choice.node_name)))
    if choice.all_nodes:
        return _shared_scopes(NodeScope(everywhere=True))
    if selector is None:
        return None
    written = selector.node_selector_terms or ()
    if len(written) != 1:
        raise UnreadableError(f"{field}.nodeSelector", f"has {len(written)} terms instead of one")
    terms = read_node_terms(selector)
    if not terms:
        raise UnreadableError(f"{field}.nodeSelector", "has a requirement that cannot be used")
    return _shared_scopes(NodeScope(terms=terms))


def counted(number: Int64 | None, default: int, field: str) -> int:
    """Return a number of at least 0; raise UnreadableError naming `field` for a negative one."""
    value = default if number is None else number
    if value < 0:
        raise UnreadableError(field, f"{value} is negative")
    return value
