"""Which devices the claims of a pod get on a node: those that kube-scheduler would choose, in its order.

It is a search, first fit with backtracking: claim after claim, request after request, device after device in order of
pools, slices and their devices; the first solution counts. For example, two requests for one GPU each with the
constraint that they have the same PCIe root, where gpu-0 and gpu-1 have root A and gpu-1 is in use: gpu-0 is tried for
the first, nothing fits the second, gpu-0 is given back, and gpu-2 with gpu-3 of root B is found.

Source: dynamic-resource-allocation/structured/internal/incubating allocator_incubating.go, release 1.37, which is used
with the feature gates that are on by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from extender.devices.capacity import CapacityError, consumption, fits
from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import Candidate, NodePool
from extender.devices.selectors import SelectorError, Selectors
from extender.devices.together import AttributeConstraint, CounterBook
from extender.objects.deviceclass import DeviceClass
from extender.objects.dradevices import Amount, DeviceKey
from extender.objects.meta import Requirement, SelectorTerm
from extender.objects.podspec import first_untolerated
from extender.objects.resourceclaim import (
    MOST_DEVICES,
    ClaimAllocation,
    ClaimRequest,
    ClaimSpec,
    DeviceRequest,
    GivenDevice,
)

#: The share of a device that is planned: kube-scheduler gives it an ID of its own.
PLANNED_SHARE = "planned"

#: How many devices a search tries before it gives up, some 50 ms; kube-scheduler goes on for up to ten seconds a node.
MOST_STEPS = 2_000

#: What the claims of one pod may ask for together: each device is one call deeper.
_MOST_DEEP = 200


class DeviceCause(StrEnum):
    """Why claims get no devices on a node; the value is what explanations call it."""

    UNREADABLE = "UnreadableClaim"
    UNKNOWN_CLASS = "UnknownDeviceClass"
    SELECTOR_FAILED = "SelectorFailed"
    AMOUNT_FAILED = "CapacityRequestFailed"
    POOL_UNFINISHED = "PoolUnfinished"
    TOO_MANY = "TooManyDevices"
    NEVER_ALL = "ConstraintExcludesAll"
    LACKING = "DevicesLacking"
    NOT_TOGETHER = "NotTogether"
    SEARCH_GAVE_UP = "DeviceSearchGaveUp"


#: Causes for which kube-scheduler gives up on all nodes: a claim or class is at fault, or a pool is in the making.
_EVERYWHERE = frozenset(DeviceCause) - {DeviceCause.LACKING, DeviceCause.NOT_TOGETHER, DeviceCause.SEARCH_GAVE_UP}


_MESSAGES = {
    DeviceCause.UNREADABLE: "cannot be read",
    DeviceCause.UNKNOWN_CLASS: "its class does not exist",
    DeviceCause.SELECTOR_FAILED: "a selector failed",
    DeviceCause.AMOUNT_FAILED: "the capacity that is asked for is out of range",
    DeviceCause.POOL_UNFINISHED: "asks for all devices, which are not known",
    DeviceCause.TOO_MANY: f"asks for more than {MOST_DEVICES} devices",
    DeviceCause.NEVER_ALL: "asks for all devices, of which a constraint excludes one",
    DeviceCause.LACKING: "there are not enough devices",
    DeviceCause.NOT_TOGETHER: "there are devices for each request, but not for all together",
    DeviceCause.SEARCH_GAVE_UP: "the search for devices gave up",
}


@dataclass(frozen=True, slots=True)
class DeviceTally:
    """How many devices of a node are what one request asks for.

    Of `matching` ones, `free` could be had by this request alone; `in_use`, `tainted` and `drained` (their counters or
    capacity are given out) could not. `unready` pools are incomplete or invalid, and not counted.
    """

    wanted: int
    matching: int = 0
    free: int = 0
    in_use: int = 0
    tainted: int = 0
    drained: int = 0
    unready: int = 0


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """Why the claims of a pod get no devices on a node.

    `claim` and `request` are at fault, "" if it is none in particular; `tally` says what there is for it.
    """

    cause: DeviceCause
    claim: str = ""
    request: str = ""
    detail: str = ""
    tally: DeviceTally | None = None

    @property
    def everywhere(self) -> bool:
        """Tell whether kube-scheduler places the pod nowhere because of it, though other nodes have devices."""
        return self.cause in _EVERYWHERE

    def __str__(self) -> str:
        """Render as one sentence, with what there is for the request at fault."""
        where = " of ".join(part for part in (f"request {self.request}" * bool(self.request), self.claim) if part)
        if self.tally is None:
            return ": ".join(part for part in (where, _MESSAGES[self.cause], self.detail) if part)
        told = self.tally
        beyond = (("in use", told.in_use), ("tainted", told.tainted), ("without counters or capacity", told.drained))
        kept = "".join(f", {count} {what}" for what, count in beyond if count)
        pools = f"; {told.unready} pools are being updated or invalid" if told.unready else ""
        return f"{where} wants {told.wanted}: {told.matching} devices match, {told.free} free{kept}{pools}"


class AskedClaim(NamedTuple):
    """A claim without devices, and what it is called."""

    key: str
    spec: ClaimSpec


@dataclass(frozen=True, slots=True)
class DeviceView:
    """All that decides which devices claims get on a node."""

    node: str
    pools: Sequence[NodePool]
    in_use: DevicesInUse
    classes: Mapping[str, DeviceClass]
    selectors: Selectors


def allocate(
    claims: Sequence[AskedClaim], view: DeviceView, most_steps: int = MOST_STEPS
) -> tuple[ClaimAllocation, ...] | DeviceRefusal:
    """Return what each of the claims of one pod gets, in their order, or why they get nothing.

    Pure but for what `view.selectors` remembers. Complexity: devices of the node for claims without constraints,
    exponential at worst, and then it gives up after `most_steps`.
    """
    try:
        return _Search(claims, view, most_steps).run()
    except _StopError as stop:
        return stop.refusal


class _StopError(Exception):
    """Nothing else needs to be tried."""

    def __init__(self, refusal: DeviceRefusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.cause)


class _Result(Enum):
    """What became of a part of the search; EXCEEDED: its claim would have more devices than fit into its status."""

    FOUND = 0
    FAILED = 1
    EXCEEDED = 2


@dataclass(slots=True)
class _Option:
    """One request as it is searched for: `number` of devices, those in `all_of_them` for a request for all."""

    request: DeviceRequest
    device_class: DeviceClass
    asked: Mapping[str, int]
    number: int = 0
    all_of_them: list[tuple[int, int]] | None = None
    known: dict[tuple[int, int], bool] = field(default_factory=dict)


class _Depth(NamedTuple):
    """Which device is looked for: of which claim, request and option, and whether that option has been decided on."""

    claim: int = 0
    request: int = 0
    option: int = 0
    device: int = 0
    decided: bool = False


_FIRST_PLACE = (0, 0)


class _Search:
    """One search; what is tried is done and undone here."""

    def __init__(self, claims: Sequence[AskedClaim], view: DeviceView, most_steps: int) -> None:
        self._claims = claims
        self._view = view
        self._pools = view.pools
        self._options: list[list[tuple[ClaimRequest, list[_Option]]]] = []
        self._constraints: list[list[AttributeConstraint]] = []
        self._given: list[list[tuple[GivenDevice, Candidate]]] = [[] for _ in claims]
        self._taken: dict[DeviceKey, set[int]] = {}
        self._shares: dict[DeviceKey, list[Mapping[str, int]]] = {}
        self._counters = CounterBook(view.in_use)
        self._steps_left = most_steps

    def run(self) -> tuple[ClaimAllocation, ...] | DeviceRefusal:
        """Search; raise _StopError for what no other device can change."""
        for claim in self._claims:
            self._prepare(claim)
        if sum(option.number for claim in self._options for _, options in claim for option in options[:1]) > _MOST_DEEP:
            raise _StopError(DeviceRefusal(DeviceCause.SEARCH_GAVE_UP))
        match self._search(_Depth(), _FIRST_PLACE):
            case _Result.FOUND:
                return tuple(map(self._allocation, self._given))
            case _Result.EXCEEDED:
                raise _StopError(DeviceRefusal(DeviceCause.TOO_MANY))
        return self._lacking()

    # ------------------------------------------------------------------------------------------------------ preparing

    def _prepare(self, claim: AskedClaim) -> None:
        if claim.spec.problem is not None:
            raise _StopError(DeviceRefusal(DeviceCause.UNREADABLE, claim.key, detail=str(claim.spec.problem)))
        requests, least = [], 0
        for request in claim.spec.requests:
            options = [self._prepare_option(claim, option) for option in request.options]
            requests.append((request, options))
            least += min(option.number for option in options)
        if least > MOST_DEVICES:
            raise _StopError(DeviceRefusal(DeviceCause.TOO_MANY, claim.key))
        self._options.append(requests)
        self._constraints.append([AttributeConstraint(each) for each in claim.spec.constraints])

    def _prepare_option(self, claim: AskedClaim, request: DeviceRequest) -> _Option:
        device_class = self._view.classes.get(request.device_class)
        if device_class is None:
            raise _StopError(
                DeviceRefusal(
                    DeviceCause.UNKNOWN_CLASS, claim.key, request.name, f"no DeviceClass {request.device_class}"
                )
            )
        if device_class.problem is not None:
            detail = f"DeviceClass {device_class.name}: {device_class.problem}"
            raise _StopError(DeviceRefusal(DeviceCause.UNREADABLE, claim.key, request.name, detail))
        option = _Option(request, device_class, dict(request.capacity))
        if request.count is not None:
            option.number = request.count
            return option
        option.all_of_them = []
        for index, pool in enumerate(self._pools):
            if not pool.usable:
                detail = f"pool {pool.key} is {'being updated' if pool.incomplete else f'invalid: {pool.invalid}'}"
                raise _StopError(DeviceRefusal(DeviceCause.POOL_UNFINISHED, claim.key, request.name, detail))
            for number, candidate in enumerate(pool.candidates):
                if self._is_selectable(claim, option, (index, number), candidate):
                    taken = self._consumption(claim, option, candidate)
                    if taken is not None and fits(taken, candidate.device.capacity):
                        option.all_of_them.append((index, number))
        option.number = len(option.all_of_them)
        return option

    # ------------------------------------------------------------------------------------------------------ searching

    def _search(self, at: _Depth, start: tuple[int, int]) -> _Result:
        """Find the device `at`, from place `start` on, and all that come after it."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise _StopError(DeviceRefusal(DeviceCause.SEARCH_GAVE_UP))
        if at.claim >= len(self._claims):
            return _Result.FOUND
        if at.request >= len(self._options[at.claim]):
            # A claim before this one may leave room when it takes another option.
            result = self._search(_Depth(at.claim + 1), _FIRST_PLACE)
            return _Result.FAILED if result is _Result.EXCEEDED else result
        request, options = self._options[at.claim][at.request]
        if request.prioritized and not at.decided:
            return self._first_available(at, len(options))
        option = options[at.option]
        if option.all_of_them is not None and not option.all_of_them:
            return _Result.FAILED
        if at.device >= option.number:
            return self._search(_Depth(at.claim, at.request + 1), _FIRST_PLACE)
        if len(self._given[at.claim]) + option.number - at.device > MOST_DEVICES:
            return _Result.EXCEEDED
        if option.all_of_them is not None:
            return self._take_given(at, option, option.all_of_them[at.device])
        return self._take_any(at, option, start)

    def _first_available(self, at: _Depth, options: int) -> _Result:
        exceeded = True
        for number in range(options):
            result = self._search(at._replace(option=number, decided=True), _FIRST_PLACE)
            if result is _Result.FOUND:
                return result
            exceeded = exceeded and result is _Result.EXCEEDED
        return _Result.EXCEEDED if exceeded else _Result.FAILED

    def _take_given(self, at: _Depth, option: _Option, place: tuple[int, int]) -> _Result:
        """Take one device of a request for all: this one and no other."""
        pool = self._pools[place[0]]
        undo = self._take(at, option, pool, pool.candidates[place[1]])
        if undo is None:
            return _Result.FAILED
        result = self._search(at._replace(device=at.device + 1), _FIRST_PLACE)
        if result is not _Result.FOUND:
            undo()
        return result

    def _take_any(self, at: _Depth, option: _Option, start: tuple[int, int]) -> _Result:
        claim = self._claims[at.claim]
        for index in range(start[0], len(self._pools)):
            pool = self._pools[index]
            if not pool.usable:
                continue
            for number in range(start[1] if index == start[0] else 0, len(pool.candidates)):
                candidate = pool.candidates[number]
                if self._is_taken(option, candidate.key, at.claim):
                    continue
                if not self._is_selectable(claim, option, (index, number), candidate):
                    continue
                if self._room(claim, option, candidate) is None:
                    continue
                undo = self._take(at, option, pool, candidate)
                if undo is None:
                    continue
                result = self._search(at._replace(device=at.device + 1), (index, number + 1))
                if result is _Result.FOUND:
                    return result
                undo()
                if result is _Result.EXCEEDED:
                    return result
        return _Result.FAILED

    # -------------------------------------------------------------------------------------------------- one candidate

    def _is_taken(self, option: _Option, key: DeviceKey, claim: int) -> bool:
        """Tell whether a device is taken: for administrators only by the same claim."""
        taken = self._taken.get(key)
        if option.request.admin:
            return taken is not None and claim in taken
        return bool(taken) or self._view.in_use.is_whole(key)

    def _is_selectable(self, claim: AskedClaim, option: _Option, place: tuple[int, int], candidate: Candidate) -> bool:
        known = option.known.get(place)
        if known is None:
            known = option.known[place] = self._selects(claim, option, candidate)
        return known

    def _selects(self, claim: AskedClaim, option: _Option, candidate: Candidate) -> bool:
        for expressions in (option.device_class.selectors, option.request.selectors):
            answer = self._view.selectors.all_match(expressions, candidate.key.driver, candidate.device)
            if isinstance(answer, SelectorError):
                detail = f"device {candidate.key}: {answer}"
                raise _StopError(DeviceRefusal(DeviceCause.SELECTOR_FAILED, claim.key, option.request.name, detail))
            if not answer:
                return False
        return candidate.reachable

    def _consumption(self, claim: AskedClaim, option: _Option, candidate: Candidate) -> dict[str, int] | None:
        try:
            return consumption(option.asked, candidate.device.capacity)
        except CapacityError as error:
            detail = f"device {candidate.key}: {error}"
            raise _StopError(
                DeviceRefusal(DeviceCause.AMOUNT_FAILED, claim.key, option.request.name, detail)
            ) from error

    def _room(self, claim: AskedClaim, option: _Option, candidate: Candidate) -> dict[str, int] | None:
        """Return what the request takes of a device's capacity, None if there is not enough."""
        taken = self._consumption(claim, option, candidate)
        if taken is None:
            return None
        key, shares = candidate.key, self._shares.get(candidate.key, ())

        def in_use(name: str) -> int:
            return self._view.in_use.consumed(key, name) + sum(share[name] for share in shares)

        return taken if fits(taken, candidate.device.capacity, in_use) else None

    def _take(self, at: _Depth, option: _Option, pool: NodePool, candidate: Candidate) -> Callable[[], None] | None:
        """Take a device, and return what gives it back; None if it cannot be had."""
        device, key, request = candidate.device, candidate.key, option.request
        in_parts = device.shared and (self._view.in_use.is_shared(key) or key in self._shares)
        counted = bool(device.counters.uses) and not in_parts
        if not self._may_have(at, option, pool, candidate, counted=counted):
            return None
        room = self._room(self._claims[at.claim], option, candidate)
        if room is None:
            self._unconstrain(at, request)
            return None
        if counted:
            self._counters.take(pool, device)
        if device.shared:
            self._shares.setdefault(key, []).append(room)
            given = GivenDevice(
                request.name,
                key,
                request.admin,
                PLANNED_SHARE,
                tuple((name, Amount(room[name])) for name in sorted(room)),
            )
        else:
            self._taken.setdefault(key, set()).add(at.claim)
            given = GivenDevice(request.name, key, request.admin)
        self._given[at.claim].append((given, candidate))

        def undo() -> None:
            self._given[at.claim].pop()
            if device.shared:
                self._shares[key].pop()
                if not self._shares[key]:
                    del self._shares[key]
            else:
                self._taken[key].discard(at.claim)
            self._unconstrain(at, request)
            if counted:
                self._counters.give_back(pool, device)

        return undo

    def _may_have(self, at: _Depth, option: _Option, pool: NodePool, candidate: Candidate, *, counted: bool) -> bool:
        """Tell whether a device may be had, its capacity aside, and add it to the constraints if so."""
        device, request = candidate.device, option.request
        if not (request.admin and device.shared) and self._is_taken(option, candidate.key, at.claim):
            return False
        if counted and not self._counters.covers(pool, device):
            return False
        untainted = first_untolerated(device.taints, request.tolerations) is None
        return untainted and self._constrain(at, option, candidate)

    def _constrain(self, at: _Depth, option: _Option, candidate: Candidate) -> bool:
        """Add a device to all constraints of its claim, or to none if it violates one."""
        constraints, request = self._constraints[at.claim], option.request
        for number, constraint in enumerate(constraints):
            if constraint.add(request.name, candidate.device):
                continue
            for added in constraints[:number]:
                added.remove(request.name)
            if option.all_of_them is not None:
                claim, detail = self._claims[at.claim].key, f"device {candidate.key}"
                raise _StopError(DeviceRefusal(DeviceCause.NEVER_ALL, claim, request.name, detail))
            return False
        return True

    def _unconstrain(self, at: _Depth, request: DeviceRequest) -> None:
        for constraint in self._constraints[at.claim]:
            constraint.remove(request.name)

    # -------------------------------------------------------------------------------------------------------- outcome

    def _allocation(self, given: list[tuple[GivenDevice, Candidate]]) -> ClaimAllocation:
        devices = tuple(each for each, _ in given)
        return ClaimAllocation(devices, _nodes([candidate for _, candidate in given], self._view.node))

    def _lacking(self) -> DeviceRefusal:
        """Say which request lacks devices on its own, or that they are not to be had together."""
        for claim, requests in zip(self._claims, self._options, strict=True):
            for _, options in requests:
                tallies = [self._tally(claim, option) for option in options]
                if all(tally.free < max(tally.wanted, 1) for tally in tallies):
                    return DeviceRefusal(DeviceCause.LACKING, claim.key, options[0].request.name, "", tallies[0])
        return DeviceRefusal(DeviceCause.NOT_TOGETHER)

    def _is_countable(self, claim: AskedClaim, option: _Option, place: tuple[int, int], candidate: Candidate) -> bool:
        """Tell whether a device is one that a request asks for; those for which that cannot be told are none."""
        try:
            return self._is_selectable(claim, option, place, candidate) and (
                self._consumption(claim, option, candidate) is not None
            )
        except _StopError:
            return False

    def _tally(self, claim: AskedClaim, option: _Option) -> DeviceTally:
        matching = free = in_use = tainted = drained = 0
        for index, pool in enumerate(self._pools):
            for number, candidate in enumerate(pool.candidates if pool.usable else ()):
                if not self._is_countable(claim, option, (index, number), candidate):
                    continue
                matching += 1
                if not option.request.admin and self._view.in_use.is_whole(candidate.key):
                    in_use += 1
                elif first_untolerated(candidate.device.taints, option.request.tolerations) is not None:
                    tainted += 1
                elif self._room(claim, option, candidate) is None or not self._counters.covers(pool, candidate.device):
                    drained += 1
                else:
                    free += 1
        unready = sum(not pool.usable for pool in self._pools)
        return DeviceTally(option.number, matching, free, in_use, tainted, drained, unready)


def _nodes(candidates: Sequence[Candidate], node: str) -> tuple[SelectorTerm, ...] | None:
    """Return the nodes from which all of these devices can be used, None for all nodes."""
    labels: dict[Requirement, None] = {}
    fields: dict[Requirement, None] = {}
    for candidate in candidates:
        if candidate.node or candidate.device.binds_to_node:
            return (SelectorTerm(fields=(Requirement("metadata.name", "In", (node,)),)),)
        for term in () if candidate.scope is None else candidate.scope.terms:
            labels |= dict.fromkeys(term.labels)
            fields |= dict.fromkeys(term.fields)
    return (SelectorTerm(tuple(labels), tuple(fields)),) if labels or fields else None
