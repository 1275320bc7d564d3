"""Whether an answer keeps to the extender protocol and to the OpenAPI document, whatever was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.fuzz.messages import Answer, Request

_FILTERED = {"NodeNames", "Nodes", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
#: How what is not documented is answered: by method, by path.
_NO_METHOD, _NO_PATH = 405, frozenset({404, 307})
#: Pages, which are for browsers: not in the document, and answered with what they are, or not at all.
_PAGES = re.compile(r"/(openapi\.json|dashboard/[^/]+/[^/]+)?")
_PAGE_STATUSES = frozenset({200, 404, 405})
_JSON, _OK = "application/json", 200


class Judge:
    """Judge answers by an OpenAPI document, and those of the verbs by the extender protocol besides."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the document's paths."""
        self._paths = [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)), re.DOTALL), path, operations)
            for path, operations in document["paths"].items()
        ]

    def template(self, path: str) -> str:
        """Return what the document calls a path, "" for one that it does not have."""
        return self._find(path)[0]

    def complaint(self, request: Request, answer: Answer) -> str:
        """Return what is wrong with an answer, "" if nothing is."""
        template, operations = self._find(request.path)
        if not template:
            known = _PAGE_STATUSES if _PAGES.fullmatch(request.path) else _NO_PATH
            return "" if answer.status in known else f"status {answer.status} for a path that does not exist"
        operation = operations.get(request.method.lower()) if request.method.isupper() else None
        if operation is None:
            expected = answer.status == _NO_METHOD
            return "" if expected else f"status {answer.status} for {request.method} {template}"
        said = operation["responses"].get(str(answer.status))
        if said is None:
            return f"status {answer.status} for {request.method} {template}"
        if answer.content_type.partition(";")[0] not in said.get("content", {}):
            return f"content type {answer.content_type} for {template}"
        if answer.content_type != _JSON:
            return ""
        try:
            told = json.loads(answer.body)
        except ValueError as error:
            return f"no JSON: {error}"
        if "internal error" in str(told.get("Error", told.get("detail", "")) if isinstance(told, dict) else ""):
            return f"internal error at {template}"
        judge = _JUDGES.get(template)
        return "" if judge is None else judge(_read(request.body) if answer.status == _OK else {}, told)

    def _find(self, path: str) -> tuple[str, Mapping[str, Any]]:
        for pattern, template, operations in self._paths:
            if pattern.fullmatch(path):
                return template, operations
        return "", {}


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
