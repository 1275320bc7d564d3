"""What is judged of devices beside P1 to P7 of pods: nobody has what another has, or holds it for long in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from tests.controlplane.holding import Holding, hands_changed
from tests.judge import Tolerance, Violation

#: How long devices may be allocated to a pod that is not bound (seconds): its bind call is held for 20, and
#: kube-scheduler ends the allocation when it next tries the pod, at most ten seconds later, if it sees another node.
_IN_VAIN = 60.0


def device_violations(
    holdings: Sequence[Holding],
    bound_at: Mapping[str, Sequence[float]],
    counted: Callable[[float, float], float],
    tolerance: Tolerance,
    end: float,
) -> Iterator[Violation]:
    """Yield what allocations show of P2 and P3 broken; `bound_at` says when each pod was put on a node (seconds).

    `counted` returns for how much of the time between two moments kube-scheduler ends allocations in vain (seconds).
    """
    for one, other in hands_changed(holdings):
        yield Violation(max(one.at, other.at), "P2", f"{one.claim} and {other.claim} had a device at a time")
    for held in holdings:
        until = min([held.at + held.seconds, end, *(at for at in bound_at.get(held.owner, ()) if at >= held.at)])
        if counted(held.at, until) > _IN_VAIN + tolerance.news + tolerance.write:
            text = f"{held.claim} had {len(held.devices)} devices for {until - held.at:.1f} s before its pod was bound"
            yield Violation(until, "P3", text)


def leaks(holdings: Sequence[Holding], end: float) -> Iterator[Violation]:
    """Yield the allocations that are left when all gangs have ended."""
    for held in holdings:
        if held.until == inf:
            yield Violation(end, "P6", f"{held.claim} has {len(held.devices)} devices though its pod has ended")
