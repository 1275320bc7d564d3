"""The JSON that `muster study --output json` and `python -m bench.study run` write, read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec


class StudyFileError(Exception):
    """Report a file that holds no study; the message names it, and the field."""


class _Struct(msgspec.Struct, frozen=True, rename="camel"):
    """What all parts of a study have in common: keys as JSON has them."""


class Waits(_Struct, frozen=True):
    """How long some jobs waited (seconds)."""

    jobs: int
    mean: float
    median: float
    p95: float
    longest: float


class SizeWaits(Waits, frozen=True):
    """The same of a tenth of the jobs, with `gpus` from least to most."""

    gpus: tuple[int, int]


class Slowdown(_Struct, frozen=True):
    """Bounded slowdown."""

    mean: float
    p95: float


class Point(_Struct, frozen=True):
    """How things stood around a moment (seconds): GPUs that were free, stranded, and waited for."""

    at: float
    free: float
    stranded: float
    wanted: float


class PolicyResult(_Struct, frozen=True):
    """How one policy fared."""

    name: str
    jobs: int
    ended: int
    wait: Waits
    wait_by_size: list[SizeWaits]
    slowdown: Slowdown
    utilisation: float
    utilisation_of_bound: float
    idle_while_waiting: float
    fragmentation: float
    jain: float
    evictions: int
    wasted_gpu_hours: float
    makespan: float
    timeline: list[Point]


class TraceSummary(_Struct, frozen=True):
    """What was played."""

    jobs: int
    span: float
    load: float


class StudyResult(_Struct, frozen=True):
    """One trace under several policies."""

    trace: TraceSummary
    policies: list[PolicyResult]


def load(files: Sequence[Path]) -> list[StudyResult]:
    """Read studies, lowest load first; raise StudyFileError."""
    studies = []
    for file in files:
        try:
            studies.append(msgspec.json.decode(file.read_bytes(), type=StudyResult))
        except OSError as error:
            raise StudyFileError(f"{file} cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StudyFileError(f"{file} is not what `muster study --output json` prints: {error}") from error
    return sorted(studies, key=lambda study: study.trace.load)


def by_name(study: StudyResult) -> Mapping[str, PolicyResult]:
    """Return the policies of a study by name."""
    return {policy.name: policy for policy in study.policies}
