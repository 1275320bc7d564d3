"""Which of several replicas decides and writes: the one whose kube-scheduler holds the scheduler's Lease.

Muster never takes a Lease of its own. kube-scheduler has leader election already, each replica is a pod with a
kube-scheduler and a Muster that it calls over loopback, and a second election could only disagree with the first.
"""

from __future__ import annotations

import math
from typing import Protocol

from extender.clock import Clock
from extender.objects.lease import Lease

#: How much sooner than after the whole duration a successor may act (seconds): client-go compares renewals by the whole
#: second, so that it counts from the first of those within one. Source: LeaderElectionRecord, whose RenewTime is a
#: metav1.Time; seen in failovers after 4.4 of 5 s (docs/reliability.md).
COARSENESS = 1.0
#: Part of the time after a renewal in which no other replica acts for which Muster takes it as held. The last third is
#: for writes that are on their way, and for whatever delays this process.
FENCE = 2 / 3
#: Seconds. A renewal from further in the future was written by another clock, or this one was set back: not believed.
_CLOCK_TOLERANCE = 1.0


class Leadership(Protocol):
    """Whether this process may decide and write."""

    def held_until(self) -> float:
        """Return until when it leads, as far as is known now (seconds, monotonic); in the past if it does not."""

    def lease_seen(self, lease: Lease) -> None:
        """Take in the Lease as it is now."""

    def lease_gone(self) -> None:
        """Take in that there is no Lease."""


def leads(leadership: Leadership, clock: Clock) -> bool:
    """Tell whether this process may decide and write at this moment."""
    return clock.monotonic() < leadership.held_until()


class OnlyReplica:
    """Leadership of the only replica: always held."""

    def held_until(self) -> float:
        return math.inf

    def lease_seen(self, lease: Lease) -> None:
        """Ignore it."""

    def lease_gone(self) -> None:
        """Ignore it."""


class LeaseHolder:
    """Leadership by the Lease of the kube-scheduler in the same pod.

    kube-scheduler calls itself `<hostname>_<UUID>` there, and the containers of a pod share their hostname. They also
    share the wall clock, so the age of a renewal is known exactly, however late the watch delivers it: a process that
    was stopped and finds an old renewal in its buffers does not lead. Wall clocks of different machines are never
    compared: the Leases of others only end one's own.
    """

    def __init__(self, identity: str, clock: Clock) -> None:
        """Lead while the Lease is held by `identity`, which is the hostname of the kube-scheduler."""
        self._prefix = f"{identity}_"
        self._clock = clock
        self._until = -math.inf

    def held_until(self) -> float:
        return self._until

    def lease_seen(self, lease: Lease) -> None:
        self._until = -math.inf
        if not lease.holder.startswith(self._prefix) or lease.renewed is None:
            return
        age = (self._clock.now() - lease.renewed).total_seconds()
        if age >= -_CLOCK_TOLERANCE:
            self._until = self._clock.monotonic() + FENCE * (lease.duration - COARSENESS) - max(age, 0.0)

    def lease_gone(self) -> None:
        """Lead no longer: the replica that creates the Lease again is the next."""
        self._until = -math.inf
