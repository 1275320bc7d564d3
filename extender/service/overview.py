"""What people ask about the whole cluster: gangs, Queues, nodes, free capacity, demand, and what was decided lately."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

import msgspec
from fastapi import HTTPException, Request, Response

from extender.control.controller import Controller
from extender.control.decisions import MOST_ENTRIES
from extender.explain.demand import demand_row
from extender.explain.documents import ApiDocument, DemandDocument, GangPhase, QueuesDocument
from extender.objects.labelselector import LabelSelectorError, parse_selector
from extender.objects.meta import LabelSelector
from extender.objects.reason import Reason
from extender.service.board.board import Board, BoardPicture
from extender.service.board.documents import (
    BoardDocument,
    CapacityDocument,
    EventsDocument,
    GangRow,
    GangsDocument,
    NodesDocument,
    StatusDocument,
)
from extender.service.routes import (
    BAD_PARAMETER,
    BAD_REQUEST,
    NOT_READ_YET,
    UNAVAILABLE,
    ApiRoute,
    Schema,
    fresh,
    fresh_json,
    query_parameter,
    refuse_other_parameters,
    require_ready,
)
from extender.service.stream import board_document, capacity_document, gang_rows, nodes_document

_FAILURES: Final = {BAD_REQUEST: BAD_PARAMETER, UNAVAILABLE: NOT_READ_YET}
#: Parameter of `gangs` -> the part of a row that it compares with, and what it may be, None for anything.
_FILTERS: Final[dict[str, tuple[Callable[[GangRow], str | None], frozenset[str] | None]]] = {
    "phase": (lambda row: row.phase, frozenset(GangPhase)),
    "reason": (lambda row: None if row.reason is None else row.reason.code, frozenset(Reason)),
    "queue": (lambda row: row.queue, None),
    "namespace": (lambda row: row.namespace, None),
}
#: Parameter of `gangs` that is a selector of labels, called as the API server's.
_LABELS: Final = "labelSelector"
_LABELS_ARE: Final = "Only gangs whose PodGroup, else first pod, has such labels, as for `kubectl get -l`."
_EVENT_PARAMETERS: Final[dict[str, Schema]] = {
    "after": {"type": "integer", "minimum": 0},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ENTRIES},
    "gang": {"type": "string"},
}


class OverviewRoutes:
    """Answer questions about the whole cluster; lists are written in a thread."""

    def __init__(self, controller: Controller, board: Board) -> None:
        """Ask `controller`, and `board` for what it shows."""
        self._controller = controller
        self._board = board

    def routes(self) -> list[ApiRoute]:
        """Return the routes."""
        filters = [query_parameter(name, _values(known)) for name, (_, known) in _FILTERS.items()]
        filters.append(
            query_parameter(_LABELS, {"type": "string"}, "Labels as for `kubectl get -l`, of the PodGroup or pod.")
        )
        paging = [query_parameter(name, schema) for name, schema in _EVENT_PARAMETERS.items()]
        return [
            ApiRoute(
                "/api/v1/status",
                self.status,
                "Say how Muster and the cluster are, in numbers; also while not ready.",
                answers=StatusDocument,
            ),
            ApiRoute(
                "/api/v1/gangs",
                self.gangs,
                "List the gangs: those that wait in the order in which they are evaluated, then the others by age.",
                answers=GangsDocument,
                fails=_FAILURES,
                parameters=filters,
            ),
            ApiRoute(
                "/api/v1/demand",
                self.demand,
                "List what waiting gangs lack that more nodes would give them.",
                answers=DemandDocument,
                fails={UNAVAILABLE: "No gang is evaluated here; `detail` says why."},
            ),
            ApiRoute(
                "/api/v1/queues",
                self.queues,
                "Say how every Queue stands: quota, usage (milli-CPU, bytes, counts), share, gangs.",
                answers=QueuesDocument,
                fails={UNAVAILABLE: NOT_READ_YET},
            ),
            ApiRoute(
                "/api/v1/nodes",
                self.nodes,
                "List the nodes: who holds which GPU, and what is reserved.",
                answers=NodesDocument,
                fails=_FAILURES,
            ),
            ApiRoute(
                "/api/v1/capacity",
                self.capacity,
                "Say how many free GPUs there are, and in pieces of what size, level by level.",
                answers=CapacityDocument,
                fails=_FAILURES,
            ),
            ApiRoute(
                "/api/v1/board",
                self.board,
                "Show everything that the dashboard shows, nodes in columns.",
                answers=BoardDocument,
                fails=_FAILURES,
            ),
            ApiRoute(
                "/api/v1/events",
                self.events,
                "List what was decided lately, oldest first: reservations, starts, releases, evictions, notes.",
                answers=EventsDocument,
                fails=_FAILURES,
                parameters=paging,
            ),
        ]

    async def status(self) -> Response:
        """Answer with a StatusDocument."""
        return fresh((await self._board.look()).status)

    async def gangs(self, request: Request) -> Response:
        """Answer with a GangsDocument."""
        wanted, picks = _wanted(request), _selector(request)
        require_ready(self._controller)
        labels = None if picks is None else self._controller.inspection.labels()

        def write(picture: BoardPicture) -> GangsDocument:
            rows = (row for row in gang_rows(picture) if _matches(row, wanted))
            if picks is None or labels is None:
                return GangsDocument(tuple(rows))
            keyed = ((row, labels.get((row.api, row.namespace, row.name))) for row in rows)
            return GangsDocument(tuple(row for row, said in keyed if said is not None and picks.matches(said)))

        return await self._written(write)

    async def demand(self) -> Response:
        """Answer with a DemandDocument.

        From a replica that evaluates no gang an empty list would read as "no gang lacks anything".
        """
        if not self._controller.leading:
            reasons = "; ".join(self._controller.health.unready_because()) or "another replica leads"
            raise HTTPException(UNAVAILABLE, f"no gang is evaluated here: {reasons}")
        return fresh(DemandDocument(tuple(map(demand_row, self._controller.inspection.demand()))))

    async def queues(self) -> Response:
        """Answer with a QueuesDocument."""
        require_ready(self._controller)
        return fresh(QueuesDocument(tuple(report.row for report in self._controller.inspection.queues())))

    async def nodes(self, request: Request) -> Response:
        """Answer with a NodesDocument."""
        refuse_other_parameters(request, ())
        resources = self._board.resources()
        return await self._written(lambda picture: nodes_document(picture, resources))

    async def capacity(self, request: Request) -> Response:
        """Answer with a CapacityDocument."""
        refuse_other_parameters(request, ())
        return await self._written(lambda picture: capacity_document(picture.levels, picture.nodes))

    async def board(self, request: Request) -> Response:
        """Answer with a BoardDocument."""
        refuse_other_parameters(request, ())
        return await self._written(board_document)

    async def events(self, request: Request) -> Response:
        """Answer with an EventsDocument."""
        refuse_other_parameters(request, _EVENT_PARAMETERS)
        after, limit = _number(request, "after", 0, 0), _number(request, "limit", MOST_ENTRIES, 1)
        gang = request.query_params.get("gang")
        decisions = self._controller.decisions
        rows = [row for row in decisions.since(after) if gang is None or row.gang == gang]
        return fresh(EventsDocument(decisions.last, tuple(rows[-limit:])))

    async def _written(self, write: Callable[[BoardPicture], ApiDocument]) -> Response:
        """Answer with what a thread writes of the board as it is now."""
        require_ready(self._controller)
        picture = await self._board.look()
        return fresh_json(await asyncio.to_thread(lambda: msgspec.json.encode(write(picture))))


def _values(known: Iterable[str] | None) -> Schema:
    return {"type": "string"} if known is None else {"type": "string", "enum": sorted(known)}


def _wanted(request: Request) -> dict[str, str]:
    """Return what rows are asked for."""
    refuse_other_parameters(request, (*_FILTERS, _LABELS))
    wanted = {name: value for name, value in request.query_params.items() if name != _LABELS}
    for name, value in wanted.items():
        known = _FILTERS[name][1]
        if known is not None and value not in known:
            close = get_close_matches(value[:100], known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known))}"
            raise HTTPException(BAD_REQUEST, f"{name} cannot be {value[:100]!r}; {hint}")
    return wanted


def _selector(request: Request) -> LabelSelector | None:
    """Return which labels are asked for, None for any."""
    text = request.query_params.get(_LABELS)
    try:
        return None if text is None else parse_selector(text)
    except LabelSelectorError as error:
        raise HTTPException(BAD_REQUEST, str(error)) from error


def _matches(row: GangRow, wanted: dict[str, str]) -> bool:
    return all(_FILTERS[name][0](row) == value for name, value in wanted.items())


def _number(request: Request, name: str, default: int, least: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):  # noqa: PLR2004 - int64
        raise HTTPException(BAD_REQUEST, f"{name} is {text[:100]!r}, not a number from {least} on")
    return int(text)
