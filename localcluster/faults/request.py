"""What a request is: of which kinds, about which object, and how it went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: What a rule may be about, besides `list`, `watch` and `get` of one resource, such as `watch pods`.
KINDS = frozenset(
    {
        "list",  # a GET of a collection, or a watch that begins with what exists
        "watch",
        "get",
        "write",  # whatever changes something
        "binding",
        "nomination",  # sets status.nominatedNodeName
        "withdrawal",  # clears status.nominatedNodeName
        "event",
        "group status",
        "lease",
        "verb",  # any of the four that follow
        "filter",
        "prioritize",
        "bind",
        "preempt",
    }
)

_VERBS = frozenset({"filter", "prioritize", "bind", "preempt"})
_READS = frozenset({"list", "watch", "get"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `kinds` are the words by which rules know it, `body` is its JSON, None if it has none.

    Of a request to the API server `resource`, `namespace`, `name` and `subresource` are read off the path; of a verb,
    `namespace` and `name` are its pod's.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    kinds: frozenset[str] = frozenset()
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_watch(self) -> bool:
        """Return whether the answer is a stream of events."""
        return "watch" in self.kinds

    def __str__(self) -> str:
        """Render as in `POST /api/v1/namespaces/default/pods/job-0/binding`."""
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Exchange:
    """A request as the proxy saw it pass, in `time.monotonic` seconds.

    `upstream_status` is what the server answered, None if it was not asked or did not answer; `status` is what the
    caller got, None if nothing. `ended` is when that was: None while it is under way; for a watch, its end.
    `faults` are those that it met, `events` counts a watch's events passed on.
    """

    at: float
    request: Request
    faults: list[str] = field(default_factory=list)
    upstream_status: int | None = None
    status: int | None = None
    ended: float | None = None
    events: int = 0

    def __str__(self) -> str:
        """Render as one line of a log."""
        met = f" [{', '.join(self.faults)}]" if self.faults else ""
        return f"{self.at:.3f} {self.request} -> {self.status or 'no answer'}{met}"


def check_kind(kind: str) -> None:
    """Raise ValueError unless `kind` is a word for requests."""
    verb, _, resource = kind.partition(" ")
    if kind not in KINDS and not (verb in _READS and resource):
        known = ", ".join(sorted(KINDS))
        raise ValueError(f"no request is of kind {kind!r}; one of {known}, or such as 'watch pods'")


def api_request(method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
    """Read a request to the API server."""
    body = _json(raw)
    resource, namespace, name, subresource = _object_of(path)
    verb = _api_verb(method, query, name)
    kinds: set[str] = {verb, f"{verb} {resource}"} if verb in _READS else {verb}
    if query.get("sendInitialEvents") == "true":
        kinds |= {"list", f"list {resource}"}
    if resource == "leases":
        kinds.add("lease")
    if verb == "write":
        kinds |= _written(resource, subresource, body)
    return Request(method, path, query, body, frozenset(kinds), resource, namespace, name, subresource)


def verb_request(method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
    """Read a call of kube-scheduler's."""
    body = _json(raw)
    verb = path.rpartition("/")[2]
    kinds = frozenset({"verb", verb}) if verb in _VERBS else frozenset()
    said: dict[str, Any] = body if isinstance(body, dict) else {}
    metadata = (said.get("Pod") or {}).get("metadata") or {}
    namespace = said.get("PodNamespace") or metadata.get("namespace") or ""
    name = said.get("PodName") or metadata.get("name") or ""
    return Request(method, path, query, body, kinds, "pods", namespace, name, verb)


def _api_verb(method: str, query: Mapping[str, str], name: str) -> Literal["list", "watch", "get", "write"]:
    if method not in {"GET", "HEAD"}:
        return "write"
    if query.get("watch") in {"true", "1"}:
        return "watch"
    return "get" if name else "list"


def _written(resource: str, subresource: str, body: Any) -> set[str]:  # noqa: ANN401 - any JSON
    """Return the kinds of a write."""
    match resource, subresource:
        case "pods", "binding":
            return {"binding"}
        case "pods", "status":
            status = body.get("status") if isinstance(body, dict) else None
            if not isinstance(status, dict) or "nominatedNodeName" not in status:
                return set()
            return {"nomination"} if status["nominatedNodeName"] else {"withdrawal"}
        case "podgroups", "status":
            return {"group status"}
        case "events", _:
            return {"event"}
    return set()


def _object_of(path: str) -> tuple[str, str, str, str]:
    """Return resource, namespace, name and subresource of a path of the API; empty where it names none."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":  # noqa: PLR2004 - more than the Namespace itself
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource, *_ = [*rest, "", "", ""]
    return resource, namespace, name, subresource


def _json(raw: bytes) -> Any:  # noqa: ANN401 - any JSON
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return None
