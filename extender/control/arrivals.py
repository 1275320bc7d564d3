"""Gangs whose members are being created just now."""

from __future__ import annotations

from cachetools import TTLCache

from extender.clock import Clock
from extender.control.expectation import Expectation
from extender.domain.membership import GroupRef

#: Gangs remembered at most. Of one that falls out a member is answered at once, and asked about again later.
_GANGS = 10_000


class Arrivals:
    """Let filter wait a moment for the rest of a gang that is being created.

    kube-scheduler begins with the first pod of a gang while its controller is still creating the others. A refusal then
    costs it a look at every node, an event and a status, and the pod is set aside. A moment later the gang is complete,
    and one attempt for each member is all it takes. Nobody is delayed for long by that: a gang counts as being created
    for `seconds` after its newest member, and no call waits longer.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        """Wait up to `seconds`; with 0, never."""
        self._seconds = seconds
        self._incomplete: TTLCache[GroupRef, None] = TTLCache(_GANGS, seconds, timer=clock.monotonic)
        self._complete: Expectation[GroupRef] = Expectation()

    def joined(self, ref: GroupRef) -> None:
        """Take in that a gang has a new member, and lacks others."""
        self._incomplete[ref] = None

    def completed(self, ref: GroupRef) -> None:
        """Take in that a gang lacks no member."""
        self._incomplete.pop(ref, None)
        self._complete.met(ref)

    async def rest_of(self, ref: GroupRef) -> None:
        """Wait until the gang is complete, but only a moment, and only if it is being created."""
        if ref in self._incomplete:
            await self._complete.wait(ref, self._seconds)
