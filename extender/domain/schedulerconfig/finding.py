"""One thing that is wrong with a configuration, and what the configuration is held against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
