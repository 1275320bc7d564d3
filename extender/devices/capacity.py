"""How much of a device's capacity a request takes, and whether the device has that.

Source: dynamic-resource-allocation/structured/internal/incubating consumable_capacity.go, release 1.37, in whole
steps (those of fractions are off by default). A device that is not shared must have enough, and is taken whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extender.objects.requests import MAX_AMOUNT
from extender.objects.resourceslice import CapacityPolicy, CapacitySet, DeviceCapacity

_BILLION = 10**9


class CapacityError(ValueError):
    """A request that no device can make sense of: kube-scheduler then places the pod nowhere."""


def consumption(asked: Mapping[str, int], capacity: CapacitySet) -> dict[str, int] | None:
    """Return how much of each capacity a request takes (billionths), None if the device lacks one that is asked for.

    Raises CapacityError for an amount that cannot be rounded to the steps of the device, or a negative one.
    """
    offered = dict(capacity.items)
    if any(name not in offered for name in asked):
        return None
    taken = {name: _consumed(asked.get(name), each) for name, each in capacity.items}
    for name, amount in taken.items():
        if amount < 0:
            raise CapacityError(f"capacity {name}: the amount is negative")
    return taken


def fits(taken: Mapping[str, int], capacity: CapacitySet, in_use: Callable[[str], int] | None = None) -> bool:
    """Tell whether a device may give out what a request takes, besides what is `in_use` of each (billionths)."""
    for name, each in capacity.items:
        amount = taken[name]
        if each.policy is not None and _violates(amount, each.policy):
            return False
        if amount + (0 if in_use is None else in_use(name)) > each.value:
            return False
    return True


def _consumed(asked: int | None, capacity: DeviceCapacity) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.ranged and policy.lowest is not None:
        return _rounded(asked, policy.lowest, policy.step)
    return next((value for value in policy.values if asked <= value), asked)


def _rounded(asked: int, lowest: int, step: int | None) -> int:
    """Round up to a whole number of steps above the lowest amount."""
    if asked < lowest:
        return lowest
    if step is None:
        return asked
    if asked > MAX_AMOUNT * _BILLION:
        raise CapacityError("the amount exceeds 2^63 - 1")
    start, width = _whole(lowest), _whole(step)
    steps = -((start - _whole(asked)) // width)
    if start + width * steps > MAX_AMOUNT:
        raise CapacityError("the amount exceeds 2^63 - 1 when it is rounded up to the next step")
    return (start + width * steps) * _BILLION


def _violates(amount: int, policy: CapacityPolicy) -> bool:
    if amount == policy.default:
        return False
    if policy.ranged:
        if policy.highest is not None and amount > policy.highest:
            return True
        return policy.step is not None and (_whole(amount) - _whole(policy.lowest or 0)) % _whole(policy.step) != 0
    return bool(policy.values) and amount not in policy.values


def _whole(amount: int) -> int:
    """Round up to whole units, as Go's Value() does."""
    return -(-amount // _BILLION)
