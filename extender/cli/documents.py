"""What Muster answers, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode

from extender.cli.asking import Asker, AskError

Document: TypeAlias = dict[str, Any]


def document(muster: Asker, body: bytes, *keys: str) -> Document:
    """Return what an answer says; raise AskError if it is not what Muster answers: a JSON object with these keys."""
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise AskError(f"{muster.where} does not answer as Muster does; --server is where it serves the verbs")
    for key in keys:
        if key not in said:
            raise AskError(f"the answer of {muster.where} has no '{key}'; is it as new as this command?")
    return said


def with_query(path: str, query: Mapping[str, str | int | None]) -> str:
    """Return a path with the parameters that have a value."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
