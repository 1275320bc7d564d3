"""What one caller may see, and answers without the rest: pure functions on the JSON that is about to be sent.

Rows about a namespace that the caller may not list are left out, and what they were counted in is counted again. What
is said of the caller's own gangs keeps its numbers, with a word in place of the names of others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.types import Scope

#: What stands in place of a name: of a gang or a pod of a namespace that the caller may not list.
OF_ANOTHER: Final = "another namespace's gang"
#: Under which name a request carries what its caller may see.
_KEY: Final = "muster.sight"
#: A namespace and a name in it, wherever they stand in a text.
_NAME = re.compile(
    r"(?<![A-Za-z0-9._/-])([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/[A-Za-z0-9](?:[-A-Za-z0-9_.…]*[-A-Za-z0-9_…])?"
)
_GONE: Final = object()
#: Fields that hold names of gangs or pods, one each or a list of them.
_LISTS: Final = frozenset({"ahead", "cells", "holders", "order"})
_NAMES: Final = frozenset({"about", "evictedBy", "gang", "waitsFor"})


@dataclass(frozen=True, slots=True)
class Sight:
    """What one caller may see.

    `namespaces` are those whose gangs it may list, None for all; `hidden` are the others that there are. `nodes` and
    `queues` say whether it may list those.
    """

    namespaces: frozenset[str] | None
    hidden: frozenset[str]
    nodes: bool
    queues: bool

    @property
    def whole(self) -> bool:
        """Tell whether nothing is hidden."""
        return self.namespaces is None and self.nodes and self.queues

    @property
    def lacking(self) -> list[str]:
        """Return the kinds of which not all are shown."""
        kinds = {"namespaces": self.namespaces is None, "nodes": self.nodes, "queues": self.queues}
        return [kind for kind, shown in kinds.items() if not shown]

    def shows(self, namespace: str) -> bool:
        """Tell whether the gangs of a namespace may be seen."""
        return self.namespaces is None or namespace in self.namespaces

    def shows_name(self, name: str) -> bool:
        """Tell whether `namespace/name` may be seen; "", which names no gang, may."""
        namespace, slash, _ = name.partition("/")
        return not slash or self.shows(namespace)

    def without_names(self, text: str) -> str:
        """Return a text with `OF_ANOTHER` in place of names in hidden namespaces."""
        if not self.hidden:
            return text
        return _NAME.sub(lambda found: OF_ANOTHER if found[1] in self.hidden else found[0], text)


EVERYTHING: Final = Sight(None, frozenset(), nodes=True, queues=True)


def sight_of(scope: Scope) -> Sight:
    """Return what the caller of a request may see: all, where the listener does not ask who calls."""
    found: Sight = scope.get(_KEY, EVERYTHING)
    return found


def give_sight(scope: Scope, sight: Sight) -> Scope:
    """Return a request that carries what its caller may see."""
    return {**scope, _KEY: sight}


def limited_text(body: bytes, sight: Sight) -> bytes:
    """Return a text without the names that are hidden."""
    return sight.without_names(body.decode()).encode()


def limited_document(body: bytes, sight: Sight, rows: Iterable[Mapping[str, Any]] | None = None) -> bytes:
    """Return a JSON document without what is hidden; a status in it counts `rows`, by default the gangs beside it."""
    whole = msgspec.json.decode(body)
    document = _kept(whole, sight)
    if document is _GONE:
        document = {}
    if isinstance(document, dict):
        if {"gangs", "hidden"} == document.keys():  # the list of gangs
            document["hidden"] = len(whole["gangs"]) - len(document["gangs"])
        _recount(document, sight, document.get("gangs") or () if rows is None else rows)
    return limited_text(msgspec.json.encode(document), sight)


class LimitedBoard:
    """The messages of one reader of the live board, without what it may not see; it knows which gangs these are."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._gangs: dict[str, Mapping[str, Any]] = {}

    def message(self, message: bytes) -> bytes:
        """Return one server-sent event as the reader may see it."""
        head, mark, data = message.partition(b"data: ")
        if not mark:
            return message
        document = msgspec.json.decode(data)
        gangs = document["gangs"]
        if isinstance(gangs, list):
            self._gangs = {_key(row): row for row in gangs if self._sight.shows(row["namespace"])}
        else:
            self._gangs |= {_key(row): row for row in gangs["put"] if self._sight.shows(row["namespace"])}
            for name in gangs["gone"]:
                self._gangs.pop(name, None)
            gangs["gone"] = [name for name in gangs["gone"] if self._sight.shows_name(name)]
        shown = limited_document(msgspec.json.encode(document), self._sight, self._gangs.values())
        return head + mark + shown + b"\n\n"


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['namespace']}/{row['name']}"


def _kept(value: Any, sight: Sight) -> Any:  # noqa: ANN401 - JSON
    """Return JSON without the rows about namespaces that are hidden; `_GONE` for such a row itself."""
    match value:
        case {"namespace": str(namespace)} if not sight.shows(namespace):
            return _GONE
        case {"seq": _, "kind": _, "gang": str(gang), "about": str(about)} if not (
            sight.shows_name(gang) and sight.shows_name(about)
        ):
            return _GONE
        case dict():
            kept = {key: found for key, each in value.items() if (found := _kept(each, sight)) is not _GONE}
            # Gangs may be named here whose namespaces are gone.
            named = {key: OF_ANOTHER for key in _NAMES & kept.keys() if not sight.shows_name(kept[key] or "")}
            listed = {key: _shown(kept[key], sight) for key in _LISTS & kept.keys() if isinstance(kept[key], list)}
            return kept | named | listed
        case list():
            return [kept for each in value if (kept := _kept(each, sight)) is not _GONE]
    return value


def _shown(names: list[Any], sight: Sight) -> list[Any]:
    return [OF_ANOTHER if isinstance(name, str) and not sight.shows_name(name) else name for name in names]


def _recount(document: dict[str, Any], sight: Sight, rows: Iterable[Mapping[str, Any]]) -> None:
    """Have a board, a change of one, or a status say only what `sight` shows; other documents are left alone."""
    status = document if "oldestWait" in document else document.get("status")
    if not isinstance(status, dict):
        return
    if document is not status:
        if not sight.queues and "queues" in document:
            document["queues"] = []
        if not sight.nodes:
            nodes = document["nodes"]
            document["nodes"] = {name: [] for name in nodes}
            document |= {name: [] for name in ("levels", "domains", "holders") if name in document}
    status["hidden"] = sight.lacking
    if sight.namespaces is not None:
        shown = list(rows)
        phases = Counter(row["phase"] for row in shown)
        waiting = [row for row in shown if row["reason"] is not None]
        oldest = min(((row["since"], _key(row)) for row in waiting if row["since"] is not None), default=None)
        status["hiddenGangs"] = max(sum(status["gangs"].values()) - len(shown), 0)
        status["gangs"] = {phase: phases[phase] for phase in status["gangs"]}
        status["waiting"] = dict(Counter(row["reason"]["code"] for row in waiting).most_common())
        status["oldestWait"] = None if oldest is None else {"gang": oldest[1], "since": oldest[0]}
    if not sight.queues:
        status["queues"] = 0
    if not sight.nodes:
        status["nodes"] = dict.fromkeys(status["nodes"], 0)
        status["gpus"] = dict.fromkeys(status["gpus"], 0)
