"""ResourceClaims and their templates: which devices are asked for, and which were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct
from msgspec import field as struct_field

from extender.objects.dradevices import (
    Amount,
    DeviceKey,
    DeviceSelectorObject,
    QuantityText,
    UnreadableError,
    read_amount,
    read_device_selectors,
    read_device_tolerations,
    read_name,
)
from extender.objects.meta import Decoder, Int64, NodeSelector, ObjectMeta, SelectorTerm, read_node_terms
from extender.objects.podspec import Toleration, TolerationObject
from extender.objects.reason import Problem, quoted

#: What one claim may be given. Source: k8s.io/api/resource/v1 AllocationResultsMaxSize.
MOST_DEVICES = 32

#: On claims that kube-scheduler makes for extended resources. Source: k8s.io/api/resource/v1.
EXTENDED_CLAIM_KEY = "resource.kubernetes.io/extended-resource-claim"


class CapacityRequestObject(Struct, gc=False, frozen=True):
    """How much of each capacity a request asks for."""

    requests: dict[str, QuantityText] | None = None


class DeviceRequestObject(Struct, gc=False, frozen=True, rename="camel"):
    """A request for devices of one class: `exactly`, or one of `firstAvailable`, which has a name."""

    name: str | None = None
    device_class_name: str | None = None
    selectors: list[DeviceSelectorObject] | None = None
    allocation_mode: str | None = None
    count: Int64 | None = None
    admin_access: bool | None = None
    tolerations: list[TolerationObject] | None = None
    capacity: CapacityRequestObject | None = None
    derived_attributes: list[dict[str, str]] | None = None


class ClaimRequestObject(Struct, gc=False, frozen=True, rename="camel"):
    """A request of a claim, under a name of its own."""

    name: str | None = None
    exactly: DeviceRequestObject | None = None
    first_available: list[DeviceRequestObject] | None = None


class ConstraintObject(Struct, gc=False, frozen=True, rename="camel"):
    """What devices of several requests must have in common, or not."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimObject(Struct, gc=False, frozen=True):
    """The devices that a claim asks for."""

    requests: list[ClaimRequestObject] | None = None
    constraints: list[ConstraintObject] | None = None


class ResourceClaimSpec(Struct, gc=False, frozen=True):
    """Spec of a ResourceClaim."""

    devices: DeviceClaimObject | None = None


class GivenDeviceObject(Struct, gc=False, frozen=True, rename="camel"):
    """One device that a claim was given."""

    request: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None
    share_id: str | None = struct_field(name="shareID", default=None)
    consumed_capacity: dict[str, QuantityText] | None = None


class GivenDevicesObject(Struct, gc=False, frozen=True):
    """The devices that a claim was given."""

    results: list[GivenDeviceObject] | None = None


class AllocationObject(Struct, gc=False, frozen=True, rename="camel"):
    """What a claim was given, and from which nodes that can be used."""

    devices: GivenDevicesObject | None = None
    node_selector: NodeSelector | None = None


class ClaimConsumerObject(Struct, gc=False, frozen=True, rename="camel"):
    """Who may use a claim."""

    api_group: str | None = None
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class ResourceClaimStatus(Struct, gc=False, frozen=True, rename="camel"):
    """Status of a ResourceClaim."""

    allocation: AllocationObject | None = None
    reserved_for: list[ClaimConsumerObject] | None = None


class ResourceClaimObject(Struct, gc=False, frozen=True):
    """A `resource.k8s.io/v1` ResourceClaim."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None
    status: ResourceClaimStatus | None = None


class ClaimTemplateSpec(Struct, gc=False, frozen=True):
    """What claims are made from."""

    spec: ResourceClaimSpec | None = None


class ResourceClaimTemplateObject(Struct, gc=False, frozen=True):
    """A `resource.k8s.io/v1` ResourceClaimTemplate."""

    metadata: ObjectMeta | None = None
    spec: ClaimTemplateSpec | None = None


decode_resource_claim = Decoder(ResourceClaimObject, "ResourceClaim")
decode_resource_claim_template = Decoder(ResourceClaimTemplateObject, "ResourceClaimTemplate")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices of one class that also match `selectors` (CEL): `count` of them, all that there are with None.

    `admin` asks for access to devices that others may have. `capacity` is how much of each is asked for (billionths),
    in order of the names. `name` is `request` or `request/subrequest`.
    """

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, Amount], ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request of a claim: the first of `options` that can be had; `exactly` is a list of one."""

    name: str
    options: tuple[DeviceRequest, ...]

    @property
    def prioritized(self) -> bool:
        """Tell whether it is a list of which the first that can be had counts, be it a list of one."""
        return any(option.name != self.name for option in self.options)


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """Devices of `requests` (all if there is none) have the same value of an attribute, or all different ones."""

    attribute: str
    requests: frozenset[str] = frozenset()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """The devices that a claim asks for; one with a problem can never be allocated."""

    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device that a claim has: `admin` beside others that have it; `share` is the ID of a part, "" for all of it.

    `consumed` is how much of each capacity the part has (billionths).
    """

    request: str
    device: DeviceKey
    admin: bool = False
    share: str = ""
    consumed: tuple[tuple[str, Amount], ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """What a claim was given; None in `nodes` means that it can be used from all nodes."""

    devices: tuple[GivenDevice, ...] = ()
    nodes: tuple[SelectorTerm, ...] | None = None

    def reachable_from(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether pods that use the claim can run on the node called `name` with `labels`."""
        return self.nodes is None or any(term.matches(name, labels) for term in self.nodes)


@dataclass(frozen=True, slots=True)
class ClaimConsumer:
    """Who may use a claim: a pod, of the resource `pods`, or a PodGroup, of `podgroups`."""

    group: str
    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim on devices.

    `controller` is the UID of the object that it was made for, "" for one that a user made. `extended` says that
    kube-scheduler made it for extended resources.
    """

    namespace: str
    name: str
    uid: str = ""
    spec: ClaimSpec = ClaimSpec()
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    controller: str = ""
    deleting: bool = False
    extended: bool = False
    problem: Problem | None = None

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """What the claims of pods are made from."""

    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()

    @property
    def key(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


def read_resource_claim(item: ResourceClaimObject) -> ResourceClaim:
    """Read a ResourceClaim; what it was given counts even where what it asks for cannot be read."""
    meta, status = item.metadata or ObjectMeta(), item.status or ResourceClaimStatus()
    allocation, problem = None, None
    try:
        allocation = None if status.allocation is None else _read_allocation(status.allocation)
    except UnreadableError as error:
        problem = error.problem
    return ResourceClaim(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        spec=_read_spec(item.spec, "spec"),
        allocation=allocation,
        reserved_for=tuple(
            ClaimConsumer(each.api_group or "", each.resource or "", each.name or "", each.uid or "")
            for each in status.reserved_for or ()
        ),
        controller=meta.controller,
        deleting=meta.deletion_timestamp is not None,
        extended=(meta.annotations or {}).get(EXTENDED_CLAIM_KEY) == "true",
        problem=problem,
    )


def read_resource_claim_template(item: ResourceClaimTemplateObject) -> ResourceClaimTemplate:
    """Read a ResourceClaimTemplate."""
    meta, spec = item.metadata or ObjectMeta(), item.spec or ClaimTemplateSpec()
    return ResourceClaimTemplate(meta.namespace or "", meta.name or "", _read_spec(spec.spec, "spec.spec"))


def _read_spec(spec: ResourceClaimSpec | None, field: str) -> ClaimSpec:
    devices = (spec or ResourceClaimSpec()).devices or DeviceClaimObject()
    place = f"{field}.devices"
    try:
        return ClaimSpec(
            tuple(
                _read_request(each, f"{place}.requests[{index}]") for index, each in enumerate(devices.requests or ())
            ),
            tuple(
                _read_constraint(each, f"{place}.constraints[{index}]")
                for index, each in enumerate(devices.constraints or ())
            ),
        )
    except UnreadableError as error:
        return ClaimSpec(problem=error.problem)


def _read_request(request: ClaimRequestObject, field: str) -> ClaimRequest:
    name = read_name(request.name, f"{field}.name")
    if request.first_available:
        options = tuple(
            _read_option(f"{name}/{read_name(each.name, f'{field}.firstAvailable[{index}].name')}", each, place)
            for index, each in enumerate(request.first_available)
            for place in (f"{field}.firstAvailable[{index}]",)
        )
        return ClaimRequest(name, options)
    if request.exactly is None:
        raise UnreadableError(field, "has neither exactly nor firstAvailable: no other kind of request is known")
    return ClaimRequest(name, (_read_option(name, request.exactly, f"{field}.exactly"),))


def _read_option(name: str, request: DeviceRequestObject, field: str) -> DeviceRequest:
    if request.derived_attributes:
        raise UnreadableError(f"{field}.derivedAttributes", "are not supported (alpha in Kubernetes 1.37)")
    mode = request.allocation_mode or "ExactCount"
    if mode not in ("ExactCount", "All"):
        raise UnreadableError(f"{field}.allocationMode", f"{quoted(mode)} is neither ExactCount nor All")
    count = 1 if request.count is None else request.count
    asked = (request.capacity or CapacityRequestObject()).requests or {}
    return DeviceRequest(
        name=name,
        device_class=read_name(request.device_class_name, f"{field}.deviceClassName"),
        selectors=read_device_selectors(request.selectors, f"{field}.selectors"),
        count=count if mode == "ExactCount" else None,
        admin=bool(request.admin_access),
        tolerations=read_device_tolerations(request.tolerations),
        capacity=_read_capacity_amounts(asked, f"{field}.capacity.requests"),
    )


def _read_capacity_amounts(amounts: Mapping[str, QuantityText], field: str) -> tuple[tuple[str, Amount], ...]:
    return tuple((name, read_amount(quantity, f"{field}[{name}]")) for name, quantity in sorted(amounts.items()))


def _read_constraint(constraint: ConstraintObject, field: str) -> DeviceConstraint:
    requests = frozenset(constraint.requests or ())
    if constraint.match_attribute is not None:
        return DeviceConstraint(constraint.match_attribute, requests)
    if constraint.distinct_attribute is not None:
        return DeviceConstraint(constraint.distinct_attribute, requests, distinct=True)
    raise UnreadableError(field, "has neither matchAttribute nor distinctAttribute: no other kind is known")


def _read_allocation(allocation: AllocationObject) -> ClaimAllocation:
    results = (allocation.devices or GivenDevicesObject()).results or ()
    place = "status.allocation.devices.results"
    devices = tuple(_read_given(each, f"{place}[{index}]") for index, each in enumerate(results))
    return ClaimAllocation(
        devices, None if allocation.node_selector is None else read_node_terms(allocation.node_selector)
    )


def _read_given(given: GivenDeviceObject, field: str) -> GivenDevice:
    device = DeviceKey(
        read_name(given.driver, f"{field}.driver"),
        read_name(given.pool, f"{field}.pool"),
        read_name(given.device, f"{field}.device"),
    )
    return GivenDevice(
        request=given.request or "",
        device=device,
        admin=bool(given.admin_access),
        share=given.share_id or "",
        consumed=_read_capacity_amounts(given.consumed_capacity or {}, f"{field}.consumedCapacity"),
    )
