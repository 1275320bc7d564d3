"""What devices of several requests of a claim must have in common: matchAttribute and distinctAttribute.

Source: dynamic-resource-allocation/structured/internal/incubating constraint.go and matchAttributeConstraint.
"""

from __future__ import annotations

from typing import TypeAlias

from extender.objects.resourceclaim import DeviceConstraint
from extender.objects.resourceslice import AttributeValue, PoolDevice, typed_value

_Typed: TypeAlias = tuple[type, AttributeValue]


class AttributeConstraint:
    """One constraint, and the values that the devices chosen so far have."""

    __slots__ = ("_constraint", "_values")

    def __init__(self, constraint: DeviceConstraint) -> None:
        """Start without devices."""
        self._constraint = constraint
        self._values: list[_Typed] = []

    def add(self, request: str, device: PoolDevice) -> bool:
        """Count a device in that is to be given to `request`, unless it violates the constraint."""
        if not self._concerns(request):
            return True
        value = device.attributes.value(self._constraint.attribute)
        if value is None:
            return False
        typed = typed_value(value)
        if self._values and not self._agrees(typed):
            return False
        self._values.append(typed)
        return True

    def remove(self, request: str) -> None:
        """Count the last device out again that was given to `request`."""
        if self._concerns(request):
            self._values.pop()

    def _agrees(self, typed: _Typed) -> bool:
        if isinstance(typed[1], tuple):  # lists are alpha: kube-scheduler compares none
            return False
        if self._constraint.distinct:
            return typed not in self._values
        return typed == self._values[0]

    def _concerns(self, request: str) -> bool:
        """Tell whether a request, named whole, is one of those that the constraint names, all without any."""
        requests = self._constraint.requests
        return not requests or request in requests or request.partition("/")[0] in requests
