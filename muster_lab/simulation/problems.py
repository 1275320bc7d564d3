"""What is wrong with a scenario file: collected, each with its path and value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extender.objects.requests import QuantityError, amount, parse_quantity
from muster_lab.simulation.scenario_document import Document

_D = TypeVar("_D", bound=Document)


class DocumentProblems:
    """Collect problems instead of stopping at the first.

    Attributes:
        lines: one line each, `path: what is wrong`, in the order in which they were found.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Add one."""
        self.lines.append(f"{path}: {message}")

    def parse(self, kind: type[_D], item: object, path: str) -> _D | None:
        """Check one mapping against the grammar; return it, or None with everything that is wrong added."""
        try:
            return kind.model_validate(item)
        except ValidationError as error:
            self.lines += [_describe(kind, detail, path) for detail in error.errors(include_url=False)]
            return None

    def unique(self, path: str, kind: str, names: Iterable[str]) -> None:
        """Add a problem for each name that is there more than once."""
        for name, times in Counter(names).items():
            if times > 1:
                self.add(path, f"{kind} '{name}' is defined {times} times")

    def amounts(self, resources: Mapping[str, str], path: str) -> None:
        """Add what only resource and quantity together tell: size, and that what is counted is whole."""
        for resource, text in resources.items():
            try:
                amount(resource, text)
            except QuantityError:
                self.add(f"{path}.{resource}", f"'{text}' exceeds 2^63 - 1")
                continue
            value = parse_quantity(text)
            if ("/" in resource or resource == "pods") and value != value.to_integral_value():
                self.add(f"{path}.{resource}", f"'{text}' is not a whole number")


def _describe(kind: type[Document], error: ErrorDetails, prefix: str) -> str:
    """Write one of pydantic's errors as `path: what is wrong`."""
    loc = tuple(part for part in error["loc"] if part != "[key]")
    path = _path(prefix, loc)
    match error["type"]:
        case "scenario":
            return f"{path}: {error['msg']}"
        case "missing":
            return f"{path}: is missing"
        case "extra_forbidden":
            known = f"; known here: {_known_keys(kind)}" if len(loc) == 1 else ""
            return f"{path}: unknown key{known}"
        case "model_type" | "model_attributes_type":
            return f"{path or 'scenario'}: {error['input']!r} is not a mapping"
        case _:
            message = error["msg"].removeprefix("Input ").removeprefix("String ")
            return f"{path}: {_shown(error['input'])} {message}"


def _path(prefix: str, loc: Iterable[int | str]) -> str:
    path = prefix
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")


def _known_keys(kind: type[Document]) -> str:
    return ", ".join(field.alias or name for name, field in kind.model_fields.items())


def _shown(value: object) -> str:
    """Return the value as it may stand in a message of one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - the width of a line, not a rule
