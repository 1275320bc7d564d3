"""Why the kubelet's Topology Manager would turn a pod away, in numbers and in one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.domain.quantity import format_amount
from extender.numa.nodetopology import Policy


class Cause(StrEnum):
    """What is in the way."""

    SHORT = "short"
    TOO_WIDE = "too wide"
    SCATTERED = "scattered"
    WIDTHS_DIFFER = "widths differ"
    APART = "apart"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that the kubelet would not admit.

    `resource` is what stands in the way: `asked` of it, `free` in each zone in order of ids, in milli-CPU, bytes or a
    count. `width` is the number of zones that the request needs on the empty node. `other` is the resource that it
    cannot be reconciled with, of `other_width`.
    """

    cause: Cause
    policy: Policy
    resource: str
    asked: int
    free: tuple[int, ...]
    width: int = 0
    other: str = ""
    other_width: int = 0

    @property
    def message(self) -> str:
        """Render one line that names the resource, the policy and the numbers."""
        asked, resource, policy = format_amount(self.resource, self.asked), self.resource, self.policy
        parts = "+".join(format_amount(resource, amount) for amount in self.free)
        total = format_amount(resource, sum(self.free))
        match self.cause:
            case Cause.SHORT:
                return f"{asked} {resource} asked for, {total} free in the NUMA zones"
            case Cause.TOO_WIDE:
                return f"{asked} {resource} never fit into {_zones(1)}, as {policy} needs"
            case Cause.SCATTERED:
                return f"{total} {resource} free as {parts}, {policy} needs {asked} in {_zones(self.width)}"
            case Cause.WIDTHS_DIFFER:
                widths = f"{asked} {resource} take {_zones(self.width)} and {self.other} {_zones(self.other_width)}"
                return f"{widths}, {policy} needs the same zones for both"
        same = "zone" if self.width == 1 else _zones(self.width)
        return f"{asked} {resource} and {self.other} are not free in the same {same}, as {policy} needs"


def _zones(width: int) -> str:
    return "one zone" if width == 1 else f"{width} zones"
