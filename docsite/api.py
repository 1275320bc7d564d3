"""The reference of HTTP: every path that is served, with what it takes and answers, from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from docsite.markdown import anchor, cell, code, codes, page, table
from extender.clock import ManualClock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import ClusterApi
from extender.objects.reason import Reason
from extender.service.app import create_app
from extender.settings import Settings

_INTRO = """
All paths of the listener of the verbs. The one for people (`--view-port`) has those of `/api` without `defrag`, and the
one for metrics has none of them. `GET /openapi.json` answers the same for programs. Who may reach which listener:
[security](../security.md#who-may-call). Refusals of `/api` are JSON, `{"detail": "..."}`, and say what to do. Times are
RFC 3339 in UTC; amounts of resources are milli-CPU, bytes and counts.
"""
_VERBS = """
The bodies of the verbs are those of the [extender protocol](https://pkg.go.dev/k8s.io/kube-scheduler/extender/v1), with
Go's field names; kube-scheduler is who calls them.
"""
#: What cannot be seen from the form of an answer.
_NOTES = {
    "/api/v1/board": """
Nodes are columns, one entry for each node in the order of `names`. `domains` of `nodes` has a list for each level, of
positions in the top `domains` (-1: none). `cells` has a number for each GPU: 0 is free, k is held by the k-th of
`holders`, -k is reserved for it.
""",
    "/api/v1/stream": """
Server-sent events; each has the document's `seq` as its id. `board` has the form of `GET /api/v1/board` and is the
first message of every connection. `change` has `seq`, `status`, new `events`, and `put` and `gone` for `gangs` and
`nodes`; `gangs.order` (those that wait, in order) and `queues` are there when they have changed. Changes have names
where the board has positions. At most one comes in 0.3 s, none while nothing changes; a comment every 10 s keeps the
connection.
""",
}
_VERB_PREFIX = "/v1/"
_METHODS = ("get", "post", "put", "patch", "delete")
#: How deep an outline of a body goes, for schemas that contain themselves.
_DEEPEST = 12
#: Values that an outline names; of an enumeration with more of them it says that it is text.
_MOST_VALUES = 8
#: What FastAPI says where nobody has said anything.
_WORDS = {"Successful Response": "answered", "Validation Error": "a parameter is of the wrong type"}

Json = Mapping[str, Any]


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the application with everything; nothing runs for that."""
    clock, metrics, settings = ManualClock(), Metrics(), Settings()
    nobody = cast("ClusterApi", None)  # only a running controller writes
    return create_app(Controller(settings, clock, nobody, metrics), settings, metrics, clock).openapi()


def render() -> str:
    """Return the page."""
    document = openapi_document()
    schemas = document.get("components", {}).get("schemas", {})
    operations = [
        (method, path, item[method])
        for path, item in sorted(document["paths"].items())
        for method in _METHODS
        if method in item
    ]
    verbs = [each for each in operations if each[1].startswith(_VERB_PREFIX)]
    others = [each for each in operations if each not in verbs]
    rows = [
        (f"[{code(_title(method, path))}](#{anchor(_title(method, path))})", cell(operation.get("summary", "")))
        for method, path, operation in [*others, *verbs]
    ]
    return page(
        "HTTP",
        _INTRO,
        table(("path", "does"), rows),
        *(_section(*each, schemas) for each in others),
        *_verb_sections(verbs),
    )


def _title(method: str, path: str) -> str:
    return f"{method.upper()} {path}"


def _section(method: str, path: str, operation: Json, schemas: Json) -> str:
    parts = [f"## {_title(method, path)}", cell(operation.get("summary", ""))]
    parts += [text.strip() for text in (operation.get("description"), _NOTES.get(path)) if text]
    if parameters := operation.get("parameters"):
        rows = [_parameter(each, schemas) for each in parameters]
        parts.append(table(("parameter", "in", "type", "meaning"), rows))
    if body := operation.get("requestBody"):
        parts += ["Body:", *_content(body, schemas)]
    parts.append(_answers(operation))
    for status, answer in sorted(operation["responses"].items()):
        if status.startswith("2"):
            parts += _content(answer, schemas)
    return "\n\n".join(part for part in parts if part)


def _verb_sections(verbs: list[tuple[str, str, Any]]) -> Iterator[str]:
    for number, (method, path, operation) in enumerate(verbs):
        yield f"## {_title(method, path)}"
        yield cell(operation.get("summary", ""))
        if not number:
            yield _VERBS
        yield _answers(operation)


def _parameter(parameter: Json, schemas: Json) -> tuple[str, str, str, str]:
    needed = "" if parameter.get("required") else " (optional)"
    schema = parameter.get("schema", {})
    is_reason = set(schema.get("enum", ())) == set(Reason)
    kind = "a [reason](reasons.md)" if is_reason else cell(shape(schema, schemas))
    return code(parameter["name"]), parameter["in"] + needed, kind, cell(parameter.get("description", ""))


def _answers(operation: Json) -> str:
    rows = [
        (status, codes(answer.get("content", {})), cell(_WORDS.get(text := answer.get("description", ""), text)))
        for status, answer in sorted(operation["responses"].items())
    ]
    return table(("status", "body", "when"), rows)


def _content(holder: Json, schemas: Json) -> Iterator[str]:
    """Yield what JSON a body is."""
    for kind, content in holder.get("content", {}).items():
        schema = content.get("schema", {})
        if kind == "application/json":
            yield f"```text\n{shape(schema, schemas)}\n```"


def shape(schema: Json, schemas: Json, depth: int = 0) -> str:
    """Return a JSON schema as the outline of a value: `{"name": text, "gpus": integer or null}`."""
    if depth > _DEEPEST:
        return "..."
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        others = {other: each for other, each in schemas.items() if other != name}
        return shape(schemas[name], others, depth) if name in schemas else "{the same}"  # inside itself
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if 0 < len(values) <= _MOST_VALUES:
        return " or ".join(json.dumps(value) for value in values)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(shape(each, schemas, depth) for each in several)
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(shape({**schema, "type": each}, schemas, depth) for each in kind)
    if kind == "array":
        return f"[{shape(schema.get('items', {}), schemas, depth)}, ...]"
    if kind == "object":
        return _object(schema, schemas, depth)
    names = {"string": schema.get("format", "text"), "integer": "integer", "number": "number", "null": "null"}
    return str(names.get(kind, kind))


def _object(schema: Json, schemas: Json, depth: int) -> str:
    properties = schema.get("properties")
    if not properties:
        values = schema.get("additionalProperties")
        return f"{{text: {shape(values, schemas, depth + 1)}, ...}}" if isinstance(values, dict) else "object"
    inner = "  " * (depth + 1)
    lines = [f"{inner}{json.dumps(name)}: {shape(each, schemas, depth + 1)}" for name, each in properties.items()]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
