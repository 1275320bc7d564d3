"""JSON documents for tests: those that Kubernetes wrote itself, and valid ones gone wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from hypothesis import reject
from hypothesis import strategies as st

from extender.objects.meta import DecodeError, Decoder

T = TypeVar("T")
_FOLDER = Path(__file__).parent.parent
_Place: TypeAlias = tuple[Any, Any]
"""A container, and the key or index of one of its values."""


def load(path: str) -> Any:
    """Read a JSON document at `path` below `tests/`."""
    return json.loads((_FOLDER / path).read_text())


#: Numbers and texts of every kind, and their edges.
ODD_AMOUNTS = (
    st.integers()
    | st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
)

#: Values that a field of any type may wrongly hold: every JSON type, and the edges of each.
ODD_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | ODD_AMOUNTS
    | st.sampled_from(["1e999", "9" * 5000, "-1", "8Ei", "Always", "True", "Gt", "Exists", "muster.dev/gang"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoiled(draw: st.DrawFn, document: object) -> Any:
    """Draw `document` with some of its values replaced, removed or doubled."""
    whole = {"": copy.deepcopy(document)}
    for _ in range(draw(st.integers(1, 4))):
        holder, key = draw(st.sampled_from(list(_places(whole))))
        match draw(st.sampled_from(["replace", "null", "remove", "double"])):
            case "replace":
                holder[key] = draw(ODD_VALUES)
            case "null":
                holder[key] = None
            case "remove" if holder is not whole:
                del holder[key]
            case _:
                if isinstance(holder, list):
                    holder.append(copy.deepcopy(holder[key]))
                else:
                    holder[f"{key}{key}"] = copy.deepcopy(holder[key])
    return whole[""]


@st.composite
def survivors(draw: st.DrawFn, decoder: Decoder[T], document: object) -> T:
    """Draw what `decoder` makes of spoiled versions of `document` that it takes all the same."""
    try:
        return decoder(json.dumps(draw(spoiled(document))).encode())
    except DecodeError:
        reject()


def _places(value: object) -> Iterator[_Place]:
    """Yield every value inside `value`, as the container and key where it can be replaced."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)
