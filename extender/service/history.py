"""What people ask about the past: gangs that ended or run, and GPU-hours by period and payer, read in a thread."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from fastapi import HTTPException, Request, Response

from extender.control.controller import Controller
from extender.explain.documents import ApiDocument
from extender.history.curves import curves, time_grid
from extender.history.documents import CurvesDocument, HistoryDocument, ReportDocument, history_document
from extender.history.records import HOUR, GangOutcome, GangQuery, Payer, StoreError
from extender.history.reporting import Per, ReportBy, report
from extender.objects.meta import read_timestamp
from extender.service.routes import (
    BAD_PARAMETER,
    BAD_REQUEST,
    NOT_FOUND,
    UNAVAILABLE,
    ApiRoute,
    Schema,
    fresh_json,
    query_parameter,
    refuse_other_parameters,
)
from extender.service.sight import sight_of

if TYPE_CHECKING:
    from extender.history.store import HistoryStore

R = TypeVar("R")
E = TypeVar("E", bound=StrEnum)

_MOST_GANGS: Final = 1000
_MOST_CURVES: Final = 100
_DAY: Final = 86_400.0
#: The year 9999 (epoch seconds): periods that begin before it end in a year of four digits.
_LATEST: Final = 253_370_764_800.0
#: Hours of one report: ten years.
_MOST_HOURS: Final = 10 * 366 * 24
_PAGE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?),([0-9]{1,18})", re.ASCII)
_TEXT: Final[Schema] = {"type": "string"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time", "description": "From 1970 to 9998."}
_RUNNING: Final = "Running"

_HISTORY: Final[Mapping[str, tuple[Schema, str]]] = {
    "namespace": (_TEXT, "Only gangs of this namespace."),
    "name": (_TEXT, "Only gangs of this name."),
    "prefix": (_TEXT, "Only gangs whose name begins so."),
    "node": (
        _TEXT,
        "Only gangs that were on this node; an answer may have fewer than `limit`, and go on by its `next`.",
    ),
    "queue": (_TEXT, "Only gangs of this Queue."),
    "user": (_TEXT, "Only gangs of this user."),
    "outcome": (
        {"type": "string", "enum": [*GangOutcome, _RUNNING]},
        "Only gangs that ended so; Running: those that have not ended.",
    ),
    "since": (_TIME, "Only gangs that ended at this time or later; of those that have not, that were created then."),
    "until": (_TIME, "Only gangs that ended before this time; of those that have not, that were created then."),
    "limit": ({"type": "integer", "minimum": 1, "maximum": _MOST_GANGS}, "How many at most; 100 unless it says so."),
    "after": (_TEXT, "The `next` of the answer before."),
}
_REPORT: Final[Mapping[str, tuple[Schema, str]]] = {
    "by": ({"type": "string", "enum": list(ReportBy)}, "What to tell apart: queue unless it says so."),
    "per": ({"type": "string", "enum": list(Per)}, "How long the periods are: day unless it says so."),
    "since": (_TIME, "From the hour of this time on; 30 days ago unless it says so."),
    "until": (_TIME, "Up to this time; now unless it says so."),
    "zone": (_TEXT, "In which time zone days begin, by its IANA name; UTC unless it says so."),
    "price": ({"type": "number", "minimum": 0}, "What a GPU-hour costs."),
    "namespace": (_TEXT, "Only what gangs of this namespace used."),
    "queue": (_TEXT, "Only what gangs of this Queue used."),
    "user": (_TEXT, "Only what gangs of this user used."),
}
_CURVES: Final[Mapping[str, tuple[Schema, str]]] = {
    "by": _REPORT["by"],
    "since": (
        _TIME,
        "From this time on; 7 days ago unless it says so. The longer it is, the longer are the stretches.",
    ),
    "until": _REPORT["until"],
    "most": (
        {"type": "integer", "minimum": 1, "maximum": _MOST_CURVES},
        "How many to tell apart; 8 unless it says so.",
    ),
    "namespace": (_TEXT, "Only what gangs of this namespace used and waited for."),
    "queue": (_TEXT, "Only what gangs of this Queue used and waited for."),
    "user": (_TEXT, "Only what gangs of this user used and waited for."),
}
_FAILURES: Final = {
    BAD_REQUEST: BAD_PARAMETER,
    NOT_FOUND: "No history is kept; `detail` names the setting.",
    UNAVAILABLE: "The store of the history cannot be read now; `detail` says why.",
}


class HistoryRoutes:
    """Answer questions about the past, from the store."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def routes(self) -> list[ApiRoute]:
        """Return the routes."""
        return [
            ApiRoute(
                "/api/v1/history",
                self.history,
                "List the gangs that ended, the latest first, or those that have not ended yet.",
                answers=HistoryDocument,
                fails=_FAILURES,
                parameters=[query_parameter(name, *said) for name, said in _HISTORY.items()],
            ),
            ApiRoute(
                "/api/v1/report",
                self.report,
                "Say how many GPU-hours were used, reserved and lost, by period and by queue, namespace or user.",
                answers=ReportDocument,
                fails=_FAILURES,
                parameters=[query_parameter(name, *said) for name, said in _REPORT.items()],
            ),
            ApiRoute(
                "/api/v1/curves",
                self.curves,
                "Say how many GPUs were used, reserved and waited for, on average in each stretch of time, by payer.",
                answers=CurvesDocument,
                fails=_FAILURES,
                parameters=[query_parameter(name, *said) for name, said in _CURVES.items()],
            ),
        ]

    async def curves(self, request: Request) -> Response:
        """Answer with a CurvesDocument."""
        refuse_other_parameters(request, _CURVES)
        given = request.query_params
        until = _time(given, "until") or self._controller.clock.now().timestamp()
        since = _time(given, "since")
        try:
            grid = time_grid(until - 7 * _DAY if since is None else since, until)
        except ValueError as error:
            raise HTTPException(BAD_REQUEST, str(error)) from error
        by, most, only = (
            _choice(ReportBy, given, "by", ReportBy.QUEUE),
            _number(given, "most", 8, _MOST_CURVES),
            _payer(given),
        )
        within = sight_of(request.scope).namespaces
        course = await self._read(lambda store: store.course(grid, by, only, most, within))
        return await _written(lambda: curves(grid, course, by))

    async def history(self, request: Request) -> Response:
        """Answer with a HistoryDocument."""
        refuse_other_parameters(request, _HISTORY)
        given = request.query_params
        outcome = given.get("outcome", "")
        if outcome not in {"", _RUNNING, *GangOutcome}:
            raise _refusal("outcome", outcome, ", ".join((*GangOutcome, _RUNNING)))
        names = {name: given.get(name, "") for name in ("namespace", "name", "queue", "user", "prefix", "node")}
        query = GangQuery(
            **names,
            outcome="" if outcome == _RUNNING else outcome,
            since=_time(given, "since"),
            until=_time(given, "until"),
            running=outcome == _RUNNING,
            limit=_number(given, "limit", 100, _MOST_GANGS),
            after=_page(given.get("after")),
            within=sight_of(request.scope).namespaces,
        )
        page = await self._read(lambda store: store.gangs(query))
        return await _written(lambda: history_document(page))

    async def report(self, request: Request) -> Response:
        """Answer with a ReportDocument."""
        refuse_other_parameters(request, _REPORT)
        given = request.query_params
        now = self._controller.clock.now().timestamp()
        until = _time(given, "until") or now
        since = _time(given, "since")
        since = until - 30 * _DAY if since is None else since
        first, last = math.floor(since / HOUR), math.ceil(until / HOUR)
        if last - first > _MOST_HOURS:
            raise HTTPException(BAD_REQUEST, f"{last - first} hours are more than one report may be about")
        within = sight_of(request.scope).namespaces
        by, per = _choice(ReportBy, given, "by", ReportBy.QUEUE), _choice(Per, given, "per", Per.DAY)
        zone, price = _zone(given.get("zone")), _price(given.get("price"))
        only = _payer(given)
        hours = await self._read(lambda store: store.usage(first, last, by, only, within))
        return await _written(lambda: report(hours, (since, until), zone, by=by, per=per, price=price))

    async def _read(self, call: Callable[[HistoryStore], R]) -> R:
        """Return what a call finds in the store; raise HTTPException if there is none, or it cannot be asked."""
        keeper = self._controller.history
        if keeper is None:
            raise HTTPException(NOT_FOUND, "no history is kept: the setting history_store says where, and is empty")
        try:
            return await keeper.read(call)
        except StoreError as error:
            raise HTTPException(UNAVAILABLE, f"the history cannot be read: {error}") from error


async def _written(document: Callable[[], ApiDocument]) -> Response:
    """Return a document that a thread makes and writes."""
    return fresh_json(await asyncio.to_thread(lambda: msgspec.json.encode(document())))


def _refusal(name: str, value: str, expected: str) -> HTTPException:
    return HTTPException(BAD_REQUEST, f"{name} cannot be {value[:100]!r}; expected: {expected}")


def _time(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name)
    found = None if text is None else read_timestamp(text)
    if text is not None and (found is None or not 0 <= found < _LATEST):
        raise _refusal(name, text, "a time such as 2026-11-26T09:30:00Z (RFC 3339), from 1970 to 9998")
    return found


def _number(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= most):  # noqa: PLR2004 - four digits
        raise _refusal(name, text, f"a number from 1 to {most}")
    return int(text)


def _payer(given: Mapping[str, str]) -> Payer:
    return Payer(given.get("queue", ""), given.get("namespace", ""), given.get("user", ""))


def _page(text: str | None) -> tuple[float, int] | None:
    if text is None:
        return None
    found = _PAGE.fullmatch(text)
    if found is None:
        raise _refusal("after", text, "the `next` of an answer")
    return float(found[1]), int(found[2])


def _choice(kinds: type[E], given: Mapping[str, str], name: str, default: E) -> E:
    text = given.get(name, default)
    try:
        return kinds(text)
    except ValueError:
        raise _refusal(name, text, ", ".join(kinds)) from None


def _zone(name: str | None) -> dt.tzinfo:
    if name is None or name == "UTC":
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise _refusal("zone", name, "the IANA name of a time zone, such as Europe/Berlin") from None


def _price(text: str | None) -> float | None:
    try:
        price = None if text is None else float(text)
    except ValueError:
        price = math.nan
    if price is not None and not 0 <= price < math.inf:
        raise _refusal("price", text or "", "a number from 0 on")
    return price
