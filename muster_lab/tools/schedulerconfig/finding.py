"""What is wrong with a configuration: findings, what it is held against, and how strictly its fields are read.

Every unknown field and wrong type is a finding, as kube-scheduler refuses them; msgspec alone stops at the first
mistake, and names no similar field.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar, get_args, get_origin

import msgspec


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Gangs break, or kube-scheduler refuses to start."""

    WARNING = "warning"
    """Gangs start, but slower, or something else suffers."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong at `path`: what happens because of it, and what to write instead."""

    severity: Severity
    path: str
    problem: str
    instead: str


def error(path: str, problem: str, instead: str) -> Finding:
    """Return a finding that breaks gangs."""
    return Finding(Severity.ERROR, path, problem, instead)


def warning(path: str, problem: str, instead: str) -> Finding:
    """Return a finding that does not break gangs."""
    return Finding(Severity.WARNING, path, problem, instead)


@dataclass(frozen=True, slots=True)
class Expectations:
    """What Muster is told, against which a configuration is held.

    `port` is where its verbs listen; times are seconds. `lease` is the Lease ("namespace/name") by which Muster knows
    the active kube-scheduler, None where it is not told one. `replicas` counts the kube-schedulers that run the file.
    """

    scheduler_names: tuple[str, ...]
    bind_hold_seconds: float
    http_timeout_seconds: float
    reservation_timeout_seconds: float
    port: int
    lease: str | None = None
    replicas: int = 1


_S = TypeVar("_S", bound=msgspec.Struct)

_NAMES = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", int: "a whole number"}
_WORDS = {float: "a number", type(None): "nothing"} | _NAMES


def read_struct(kind: type[_S], value: object, path: str, findings: list[Finding]) -> _S:
    """Return `value` as a `kind`; what does not fit is reported and left at its default."""
    if not isinstance(value, dict):
        findings.append(_wrong(path, value, "a mapping"))
        return kind()
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for key, item in value.items():
        place = f"{path}.{key}" if path else str(key)
        if key not in fields:
            findings.append(_unknown(place, str(key), list(fields)))
        elif item is not None:
            read = _read(fields[key].type, item, place, findings)
            if read is not msgspec.UNSET:
                given[fields[key].name] = read
    return kind(**given)


def _read(wanted: Any, value: object, path: str, findings: list[Finding]) -> Any:  # noqa: ANN401 - a type annotation in, a value of it out
    """Return `value` as `wanted`, or UNSET after reporting why not."""
    for kind in _alternatives(wanted):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return read_struct(kind, value, path, findings)
        if get_origin(kind) is list:
            return _read_list(get_args(kind)[0], value, path, findings)
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        expected = next(kind for kind in _alternatives(wanted) if kind is not type(None))
        findings.append(_wrong(path, value, _WORDS[expected]))
        return msgspec.UNSET


def _read_list(kind: type[msgspec.Struct], value: object, path: str, findings: list[Finding]) -> Any:  # noqa: ANN401 - a list of structs, or UNSET
    if not isinstance(value, list):
        findings.append(_wrong(path, value, "a list"))
        return msgspec.UNSET
    return [read_struct(kind, item, f"{path}[{index}]", findings) for index, item in enumerate(value)]


def _alternatives(wanted: Any) -> Iterator[Any]:  # noqa: ANN401 - a type annotation
    """Yield the members of a union, or the type itself."""
    if isinstance(wanted, types.UnionType):
        yield from get_args(wanted)
    else:
        yield wanted


def _unknown(path: str, key: str, known: list[str]) -> Finding:
    similar = get_close_matches(key, known, n=1)
    instead = f"{similar[0]}" if similar else f"one of: {', '.join(sorted(known))}"
    return error(path, "there is no such field; kube-scheduler refuses to start", instead)


def _wrong(path: str, value: object, wanted: str) -> Finding:
    found = _WORDS.get(type(value), type(value).__name__)
    hint = f', such as "{value}"' if wanted == "a string" and isinstance(value, int | float) else ""
    return error(path, f"is {found}; kube-scheduler refuses to start", f"{wanted}{hint}")
