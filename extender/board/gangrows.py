"""How each gang stands, as a row of a list."""

from __future__ import annotations

from extender.admission.sharing import NAMELESS
from extender.backfill.start import Start
from extender.board.document import Json
from extender.cluster.gangs import Gang
from extender.cluster.nodekinds import whole_gpus
from extender.control.accounts import time_text
from extender.control.controller import Controller
from extender.control.explanation import start_json
from extender.control.views import GangPhase, GangView
from extender.domain.reason import Wait
from extender.placement.placement import Placement

#: Decimals of a bandwidth: megabytes per second, far below what the model knows.
_GBPS_DECIMALS = 3


class GangRows:
    """Write the rows of gangs.

    What is predicted of where a gang is takes a walk over its members, and is kept until it has others: of a gang of
    1,000 each step of each member changes the row.
    """

    def __init__(self, controller: Controller) -> None:
        """Look at the gangs of `controller`."""
        self._controller = controller
        self._predicted: dict[str, tuple[tuple[int, int], Placement | None]] = {}

    def row(self, gang: Gang) -> Json | None:
        """Return the row of a gang, None for one that another scheduler looks after."""
        view = self._controller.view(gang)
        if not view.managed:
            return None
        admission = self._controller.admission
        queue = admission.sharing.queue_of(gang)
        placement = self._placement(gang, view)
        start = next((keep.start for keep in admission.heads if keep.gang is gang), None)
        census = view.census
        return {
            "namespace": gang.ref.namespace,
            "name": gang.ref.name,
            "api": gang.ref.api.value,
            "phase": view.phase.value,
            "queue": None if queue == NAMELESS else queue,
            "priority": gang.priority,
            "minMember": view.min_member,
            "members": {
                "exist": census.exist,
                "gated": census.gated,
                "waiting": max(census.placeable - view.reserved, 0),
                "reserved": view.reserved,
                "bound": census.bound,
                "running": census.running,
                "succeeded": census.succeeded,
                "failed": census.failed,
            },
            "gpus": sum(whole_gpus(pod.shape) for pod in gang.members.values() if not pod.done),
            "reason": None if view.wait is None else _reason(view.wait),
            "since": gang.created or None,
            "startedAt": None if gang.started_at is None else time_text(gang.started_at),
            "expectedStart": _start(start),
            "busBandwidthGBps": _bandwidth(placement),
            "level": None if placement is None else placement.level,
            "domain": None if placement is None else placement.domain,
            "nodes": 0 if placement is None else len(placement.gpus_per_node),
            "evicted": view.evicted or None,
        }

    def forget(self, uids: set[str]) -> None:
        """Forget what was predicted of all gangs but those with these UIDs."""
        self._predicted = {uid: known for uid, known in self._predicted.items() if uid in uids}

    def _placement(self, gang: Gang, view: GangView) -> Placement | None:
        """Return where a gang is, once it has places for all that it needs."""
        placed = view.census.bound + view.reserved
        if not placed or (view.phase is GangPhase.SCHEDULING and placed < view.min_member):
            return None
        key = (view.census.bound + view.census.leaving + view.reserved, len(gang.members))
        known = self._predicted.get(gang.uid)
        if known is None or known[0] != key:
            known = self._predicted[gang.uid] = key, self._controller.placement_of(gang.ref)
        return known[1]


def _reason(wait: Wait) -> Json:
    return {"code": wait.reason.value, "message": wait.message, "numbers": dict(wait.numbers)}


def _start(start: Start | None) -> Json | None:
    return None if start is None else start_json(start)


def _bandwidth(placement: Placement | None) -> float | None:
    bandwidth = None if placement is None else placement.bus_bandwidth
    return None if bandwidth is None else round(bandwidth, _GBPS_DECIMALS)
