"""What happened, as numbers over time: who did what from when to when, and what became of all GPUs."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from muster_lab.simulation.accounting import Activity
from muster_lab.simulation.simulate import Playback

#: Decimals of times: microseconds.
_TIME_DECIMALS = 6


class Stretch(NamedTuple):
    """What one gang did from `start` to `end` (seconds): `waits`, an activity or `finished`, with so many GPUs."""

    gang: str
    state: str
    gpus: int
    start: float
    end: float


class Use(NamedTuple):
    """What became of all GPUs from `start` to `end` (seconds): how many did what, and how many were free."""

    start: float
    end: float
    productive: int
    init: int
    idle: int
    free: int


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A simulation over time.

    Attributes:
        until: when it ended (seconds since the start).
        capacity: how many GPUs there are.
        stretches: by gang, in order of arrival, what it did, one stretch after the other.
        uses: what became of the GPUs, one stretch after the other.
    """

    until: float
    capacity: int
    stretches: Mapping[str, tuple[Stretch, ...]]
    uses: tuple[Use, ...]


def telemetry(played: Playback, until: float) -> Telemetry:
    """Read a playback that ended at `until` (seconds since the start)."""
    capacity = sum(played.capacity.values())
    stretches: dict[str, list[Stretch]] = {}
    uses: list[Use] = []
    for start, end, doing, held in _moments(played, until):
        by_state: Counter[str] = Counter()
        for gang, state in doing.items():
            by_state[state] += held.get(gang, 0)
            _go_on(stretches.setdefault(gang, []), Stretch(gang, state, held.get(gang, 0), start, end))
        spent = {activity: by_state[activity.value] for activity in Activity}
        free = capacity - sum(spent.values())
        uses.append(Use(start, end, spent[Activity.PRODUCTIVE], spent[Activity.INIT], spent[Activity.IDLE], free))
    return Telemetry(until, capacity, {gang: tuple(found) for gang, found in stretches.items()}, tuple(uses))


def waited(stretches: tuple[Stretch, ...]) -> float:
    """Return how long a gang waited without any GPU (seconds)."""
    return sum(stretch.end - stretch.start for stretch in stretches if stretch.state == "waits")


def telemetry_csv(found: Telemetry) -> str:
    """Return the table: one row per stretch of a gang, in order of time; times in seconds since the start."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("start_seconds", "end_seconds", "gang", "state", "gpus"))
    rows = sorted((stretch.start, stretch.end, *stretch[:3]) for own in found.stretches.values() for stretch in own)
    for start, end, gang, state, gpus in rows:
        table.writerow((round(start, _TIME_DECIMALS), round(end, _TIME_DECIMALS), gang, state, gpus))
    return text.getvalue()


def _moments(played: Playback, until: float) -> Iterator[tuple[float, float, Mapping[str, str], Mapping[str, int]]]:
    """Yield from when to when, what each gang did, and how many GPUs it held."""
    ends = [*(moment.at for moment in played.moments), max(until, played.moments[-1].at)]
    for moment, (start, end) in zip(played.moments, pairwise(ends), strict=True):
        if end <= start:
            continue
        held: Counter[str] = Counter()
        for gangs in moment.held.values():
            held.update(gangs)
        yield start, end, moment.doing, held


def _go_on(stretches: list[Stretch], new: Stretch) -> None:
    """Add a stretch, or lengthen the last one where the gang goes on as before."""
    if stretches and stretches[-1][:3] == new[:3] and stretches[-1].end == new.start:
        stretches[-1] = stretches[-1]._replace(end=new.end)
    else:
        stretches.append(new)
