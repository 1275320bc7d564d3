"""How many like pods a node has devices for, claim by claim as the allocator gives them out.

Requests for so many devices of one class are a column of the node table. Alternatives, constraints, parts of GPUs and
shared devices are not: there each pod is given what kube-scheduler would give it, until one gets nothing. Nodes that
look alike to the claims share one answer: they have the same board, and the same devices of it are in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from extender.caches import SizedDict
from extender.devices.allocator import AskedClaim, DeviceCause, DeviceRefusal, DeviceView, allocate
from extender.devices.inventory import Candidate, NodePool
from extender.objects.deviceclass import DeviceClass
from extender.objects.resourceclaim import ClaimSpec, DeviceRequest
from extender.objects.resourceslice import typed_value

#: What may be remembered of nodes that look alike to claims (bytes).
_FITS_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """How many pods a node has devices for, of those that were asked about.

    `refusal` is why there are not more, None if there may be. Of nodes that look alike it is that of one of them.
    """

    pods: int
    refusal: DeviceRefusal | None = None

    @property
    def certain(self) -> bool:
        """Tell whether that is all; a search that gave up knows only what it has found."""
        return self.refusal is None or self.refusal.cause is not DeviceCause.SEARCH_GAVE_UP


def is_counted(spec: ClaimSpec) -> bool:
    """Tell whether a claim asks for so many devices and nothing else: these can be counted."""
    return not spec.constraints and all(
        not request.prioritized and option.count is not None and not option.admin and not option.capacity
        for request in spec.requests
        for option in request.options
    )


class DeviceFits:
    """Count pods by their claims, once for nodes that look alike."""

    def __init__(self) -> None:
        """Know no answer yet."""
        self._known: SizedDict[tuple[object, ...], DeviceFit] = SizedDict(_FITS_BYTES)

    def fit(self, claims: Sequence[AskedClaim], view: DeviceView, most: int) -> DeviceFit:
        """Return how many of `most` pods have devices on a node if each has claims like these of its own."""
        if not any(each.spec.requests for each in claims):
            return DeviceFit(most)
        key = _looks(claims, view, most)
        if key is None:
            return fit_pods(claims, view, most)
        known = self._known.get(key)
        if known is None:
            size = 500 + 300 * sum(len(pool.candidates) for pool in view.pools)
            known = self._known.keep(key, fit_pods(claims, view, most), size)
        return known


def fit_pods(claims: Sequence[AskedClaim], view: DeviceView, most: int) -> DeviceFit:
    """Give devices to one pod after the other; return how many got theirs."""
    in_use = view.in_use.copied()
    trial = replace(view, in_use=in_use)
    for pods in range(most):
        given = allocate(claims, trial)
        if isinstance(given, DeviceRefusal):
            return DeviceFit(pods, given)
        for allocation in given:
            in_use.take(allocation)
    return DeviceFit(most)


def _looks(claims: Sequence[AskedClaim], view: DeviceView, most: int) -> tuple[object, ...] | None:
    """Return all of a node that matters to claims, without names; None if other nodes have a say."""
    if any(pool.elsewhere for pool in view.pools):
        return None
    options = [option for each in claims for request in each.spec.requests for option in request.options]
    classes = [view.classes.get(option.device_class) for option in options]
    named = sorted({constraint.attribute for each in claims for constraint in each.spec.constraints})
    pools = tuple(
        (pool.incomplete, bool(pool.invalid), pool.counter_sets, _devices(pool, options, classes, named, view))
        for pool in view.pools
    )
    return (tuple(each.spec for each in claims), tuple(classes), most, pools)


def _devices(
    pool: NodePool,
    options: Sequence[DeviceRequest],
    classes: Sequence[DeviceClass | None],
    named: Iterable[str],
    view: DeviceView,
) -> tuple[object, ...]:
    return tuple(
        (
            tuple(
                known is not None
                and view.selectors.all_match((*known.selectors, *option.selectors), each.key.driver, each.device)
                for option, known in zip(options, classes, strict=True)
            ),
            tuple(
                None if (value := each.device.attributes.value(name)) is None else typed_value(value) for name in named
            ),
            _state(each, view),
        )
        for each in pool.candidates
    )


def _state(candidate: Candidate, view: DeviceView) -> tuple[object, ...]:
    """Return what of a device matters whatever is asked for, and what of it is in use."""
    device, in_use = candidate.device, view.in_use
    consumed = tuple(in_use.consumed(candidate.key, name) for name, _ in device.capacity.items) if device.shared else ()
    used = (in_use.is_whole(candidate.key), in_use.is_shared(candidate.key), consumed)
    return (candidate.reachable, device.taints, device.shared, device.capacity, device.counters, used)
