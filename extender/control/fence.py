"""Nothing is written by a Muster that does not lead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from extender.clock import Clock
from extender.control.leadership import Leadership, leads
from extender.control.ports import NO_ANNOTATIONS, ApiError, ClusterApi, ClusterEvent, GroupStatus, PodKey, QueueStatus
from extender.control.window import Rank, WriteWindow
from extender.domain.membership import GroupRef


class FencedError(ApiError):
    """A write that was not sent because this Muster does not lead (any more)."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__(0, "Fenced", "not leading: this replica's kube-scheduler does not hold the Lease")

    def __str__(self) -> str:
        """Render the message alone: no answer was asked for."""
        return self.message

    @property
    def transient(self) -> bool:
        """Tell that it is pointless to try again: whoever leads decides anew."""
        return False


class Fence:
    """Let writes through to `api` while this Muster leads; each one is checked in the moment in which it is sent.

    They take turns at `window`. It has fewer places than there are connections to the API server, so that no write
    waits for a connection after its check.

    A request that is on its way when the leadership ends is bounded by the margin of the Lease (see `leadership`). A
    process that is stopped between check and sending sends when it goes on, however late: then the API server decides,
    which binds no pod twice and none of another UID. Implements `extender.control.ports.ClusterApi`.
    """

    def __init__(self, api: ClusterApi, leadership: Leadership, clock: Clock, window: WriteWindow) -> None:
        """Guard `api`."""
        self._api = api
        self._leadership = leadership
        self._clock = clock
        self._window = window

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Set or clear a nomination; raise FencedError when not leading."""
        await self._send(Rank.NOMINATION, lambda: self._api.nominate(pod, node))

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Create a Binding; raise FencedError when not leading."""
        await self._send(Rank.BINDING, lambda: self._api.bind(pod, node, annotations))

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Evict a pod; raise FencedError when not leading."""
        await self._send(Rank.NOMINATION, lambda: self._api.evict(pod, dry_run=dry_run))

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take a scheduling gate off a pod; raise FencedError when not leading."""
        await self._send(Rank.NOMINATION, lambda: self._api.ungate(pod, gate))

    async def update_queue_status(self, name: str, uid: str, status: QueueStatus) -> None:
        """Write a Queue's status; raise FencedError when not leading."""
        await self._send(Rank.REPORT, lambda: self._api.update_queue_status(name, uid, status))

    async def record_event(self, event: ClusterEvent) -> None:
        """Write an Event; raise FencedError when not leading."""
        await self._send(Rank.REPORT, lambda: self._api.record_event(event))

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a PodGroup's status; raise FencedError when not leading."""
        await self._send(Rank.REPORT, lambda: self._api.update_group_status(group, uid, status))

    async def _send(self, rank: Rank, write: Callable[[], Awaitable[None]]) -> None:
        async with self._window.turn(rank):
            if not leads(self._leadership, self._clock):
                raise FencedError
            await write()
