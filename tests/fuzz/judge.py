"""Whether an answer keeps to the extender protocol, whatever was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.fuzz.mutation import VERBS
from tests.fuzz.subject import Answer, Request

#: The paths that a request may name; every other one is 404.
_READS = ("/healthz", "/readyz", "/metrics", "/openapi.json")
_PATHS = {*(f"/v1/{verb}" for verb in VERBS), *_READS}
_FILTERED = {"NodeNames", "Nodes", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}


def complaint(request: Request, answer: Answer) -> str:
    """Return what is wrong with an answer, "" if nothing is."""
    if request.path not in _PATHS:
        return "" if answer.status in {404, 307} else f"status {answer.status} for a path that does not exist"
    if request.path in _READS or request.method != "POST":
        return "" if answer.status in {200, 405} else f"status {answer.status} for {request.method} {request.path}"
    if answer.status not in {200, 400, 413}:
        return f"status {answer.status}"
    if answer.content_type != "application/json":
        return f"content type {answer.content_type}"
    try:
        told = json.loads(answer.body)
    except ValueError as error:
        return f"no JSON: {error}"
    if isinstance(told, dict) and str(told.get("Error", "")).startswith("internal error"):
        return str(told["Error"])
    return _JUDGES[request.path](_read(request.body) if answer.status == 200 else {}, told)


def _read(body: bytes) -> Any:
    """Return what was asked, {} if only Muster can read it: it skips over what is wrong in fields that it ignores."""
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}


def _judge_bind(_asked: Any, told: Any) -> str:
    return "" if isinstance(told, dict) and [*told] == ["Error"] and isinstance(told["Error"], str) else "form"


def _judge_filter(asked: Any, told: Any) -> str:
    if not isinstance(told, dict) or set(told) != _FILTERED or not isinstance(told["Error"], str):
        return "form"
    offered = _offered(asked)
    kept = told["NodeNames"] if told["NodeNames"] is not None else _names(told["Nodes"])
    named: list[str] = [*kept, *(told["FailedNodes"] or {}), *(told["FailedAndUnresolvableNodes"] or {})]
    if strange := set(named) - set(offered):
        return f"nodes that were not offered: {sorted(strange)}"
    if told["Error"] and named:
        return "nodes beside an error"
    return ""


def _judge_scores(asked: Any, told: Any) -> str:
    if not isinstance(told, list):
        return "form"
    if any(set(score) != {"Host", "Score"} or not 0 < score["Score"] <= 10 for score in told):
        return "a score out of range"
    offered, hosts = iter(_offered(asked)), [score["Host"] for score in told]
    return "" if all(host in offered for host in hosts) else "hosts that were not asked about, or in another order"


def _judge_victims(asked: Any, told: Any) -> str:
    if not isinstance(told, dict) or [*told] != ["NodeNameToMetaVictims"]:
        return "form"
    allowed = told["NodeNameToMetaVictims"]
    offered = _field(asked, "NodeNameToMetaVictims") or _field(asked, "NodeNameToVictims") or {}
    if strange := set(allowed) - set(offered):
        return f"candidates that were not offered: {sorted(strange)}"
    text = json.dumps(offered)
    for victims in allowed.values():
        for victim in victims["Pods"] or ():
            if victim is not None and victim["UID"] is not None and json.dumps(victim["UID"]) not in text:
                return f"a victim that was not offered: {victim}"
    return ""


def _offered(asked: Any) -> list[str]:
    """Return the nodes that were offered, by name; a node without name is offered under the empty one."""
    names = _field(asked, "NodeNames")
    return _names(_field(asked, "Nodes")) if names is None else _strings(names)


def _names(nodes: Any) -> list[str]:
    items = _field(nodes, "items")
    return _strings(
        [_field(_field(item, "metadata"), "name") or "" for item in items] if isinstance(items, list) else []
    )


def _strings(values: Any) -> list[str]:
    """Return what of a list could be read as names; Muster refuses a list with anything else in it."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


_JUDGES: dict[str, Callable[[Any, Any], str]] = {
    "/v1/filter": _judge_filter,
    "/v1/prioritize": _judge_scores,
    "/v1/bind": _judge_bind,
    "/v1/preempt": _judge_victims,
}
