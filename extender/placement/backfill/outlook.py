"""When running work is expected to end, and what will be free at each moment to come."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.objects.pod import Pod, Shape
from extender.objects.requests import is_extended

_MINUTE, _HOUR = 60.0, 3_600.0

#: Seconds beyond its declared end by which overdue work is expected to end: the first of them that has not passed yet.
#: Source: Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime
#: Estimates", IEEE TPDS 18(6), 2007: prediction correction. What has run longer is expected to run longer still, and an
#: end that moves in few steps, not with every second, leaves starts that rest on it as they are meanwhile.
OVERRUNS = (
    *(minutes * _MINUTE for minutes in (1, 5, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 5, 10, 20, 50, 100)),
)

#: Seconds from a decision until the pods run: nominations and Bindings of 1,000 pods take 5 s, and a call to bind may
#: be held for `bind_hold_seconds` (20 s by default). Runtimes count from when kubelets have taken the pods on, so that
#: pulling images is part of them (`activeDeadlineSeconds` counts from `status.startTime` too).
STARTING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Release:
    """Work that will give back what it claims.

    `at` is when it is expected to have ended (epoch seconds), `uids` are the pods that claim, each in no other release,
    `name` is whose they are, for people. `overdue` says that it should have ended already.
    """

    at: float
    uids: tuple[str, ...]
    name: str
    overdue: bool = False


def expected_release(name: str, uids: Iterable[str], started_at: float | None, duration: float, now: float) -> Release:
    """Return when work with a declared runtime of `duration` (seconds) gives back what its pods claim.

    What has not started yet, `started_at` None, is taken to do so right after `now`. Times are epoch seconds.
    """
    began = now + STARTING_SECONDS if started_at is None else started_at
    return Release(began + duration, tuple(uids), name)


class CapacityChange(NamedTuple):
    """A time at which something is expected to end (epoch seconds), and everything that is."""

    at: float
    releases: tuple[Release, ...]


class Calendar:
    """All that is expected to end, in the order in which it will.

    Work without declared runtime does not stand in it: its end is unknown. Nor does work that is overdue by
    more than the last of `OVERRUNS`: its runtime means nothing.

    Attributes:
        now: when this was so (epoch seconds).
        moments: times after `now`, ascending, each with what is expected to end then.
        overdue: the releases that should have happened, by when they are expected now.
    """

    def __init__(self, releases: Iterable[Release], now: float) -> None:
        """Sort releases by time; those that should have happened by `now` get a new time."""
        coming = (release if release.at > now else _extended(release, now) for release in releases)
        ordered = sorted([release for release in coming if release.at < inf], key=attrgetter("at", "name"))
        self.now = now
        self.moments: list[CapacityChange] = []
        for release in ordered:
            if self.moments and self.moments[-1].at == release.at:
                self.moments[-1] = CapacityChange(release.at, (*self.moments[-1].releases, release))
            else:
                self.moments.append(CapacityChange(release.at, (release,)))
        self.overdue = tuple(release for release in ordered if release.overdue)

    def count(self, at: float) -> int:
        """Count the moments that have come at a time, that time included."""
        return bisect_right(self.moments, at, key=lambda moment: moment.at)


def _extended(release: Release, now: float) -> Release:
    over = now - release.at
    ends = next((release.at + extension for extension in OVERRUNS if extension > over), inf)
    return replace(release, at=ends, overdue=True)


#: Numbers of moments of which it is remembered what they give back: 200 KB each for 5 resources on 5,000 nodes.
_MOST_REMEMBERED = 128


class Seats(NamedTuple):
    """Pods of one shape on nodes: `counts[i]` of them at `rows[i]`; no row occurs twice."""

    shape: Shape
    rows: NDArray[np.intp]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedEnd:
    """Room that one gang has from `at` until `until` (epoch seconds, inf: for good): `takes` is (resources, rows)."""

    name: str
    at: float
    until: float
    takes: NDArray[np.int64]
    seats: tuple[Seats, ...]

    def overlaps(self, at: float, until: float) -> bool:
        """Tell whether it holds anything between two times."""
        return self.at < until and at < self.until


class Outlook:
    """Follow free capacity through the moments of a calendar, reservations aside.

    The snapshot that it looks ahead from goes forward with `at`, and back to now with `rewind`; its owner must
    not change it between. Claims are read in the order of time, and only as far as they are needed.

    Attributes:
        free: what is free at the moment that is looked at.
        calendar: what ends when.
        reservations: what is promised to others.
    """

    def __init__(self, free: WhatIf, calendar: Calendar) -> None:
        """Look ahead from `free`, what is free now."""
        self.free = free
        self.calendar = calendar
        self.reservations: list[ExpectedEnd] = []
        self._now = free.free.copy()
        self._mark = free.mark()
        self._reached = 0
        self._read = 0
        self._rows: dict[Shape, list[int]] = {}
        self._moments: dict[Shape, list[int]] = {}
        self._gained: dict[int, NDArray[np.int64]] = {}

    @property
    def now(self) -> float:
        """Return the time from which it looks ahead (epoch seconds)."""
        return self.calendar.now

    @property
    def free_now(self) -> NDArray[np.int64]:
        """Return (resources, rows) what is free now."""
        return self._now

    def gained(self, moments: int) -> NDArray[np.int64]:
        """Return (resources, rows) what the first so many moments give back; read-only."""
        known = self._gained.get(moments)
        if known is not None:
            return known
        self._read_until(moments)
        table, gained = self.free.table, np.zeros_like(self._now)
        for shape, rows in self._rows.items():
            ended = rows[: bisect_left(self._moments[shape], moments)]
            vector = table.vector(shape.requests)
            gained[vector.columns] += vector.amounts[:, None] * np.bincount(ended, minlength=gained.shape[1])
        gained.flags.writeable = False
        if len(self._gained) < _MOST_REMEMBERED:
            self._gained[moments] = gained
        return gained

    def withheld(self, reservations: Sequence[ExpectedEnd], at: float, until: float) -> NDArray[np.int64]:
        """Return (resources, rows) what of the room that is free at `at` work must leave that stays until `until`.

        It is the most that the reservations hold at any moment between, less what ends before that moment. Room only
        becomes scarce when a reservation starts, so those are the moments to look at.
        """
        most = np.zeros_like(self._now)
        concerned = [each for each in reservations if each.overlaps(at, until)]
        if not concerned:
            return most
        base = self.gained(self.calendar.count(at))
        for moment in sorted({max(each.at, at) for each in concerned}):
            held = base - self.gained(self.calendar.count(moment))
            for each in concerned:
                if each.at <= moment < each.until:
                    held += each.takes
            np.maximum(most, held, out=most)
        return most

    def numbers(self, at: float, until: float) -> WhatIf:
        """Return what work may have from `at` until `until`, columns alone."""
        gained = self.gained(self.calendar.count(at))
        return WhatIf(self.free.table, self._now + gained - self.withheld(self.reservations, at, until))

    @contextmanager
    def at(self, at: float, until: float, rows: NDArray[np.bool_] | None = None) -> Iterator[WhatIf]:
        """Make `free` what work may have from `at` until `until`, for as long as the context lasts.

        Afterwards it is what is free at `at`. With `rows`, (rows,), only those nodes are right, and afterwards it is
        what is free now: that costs less.
        """
        moments = self.calendar.count(at)
        if rows is not None or moments < self._reached:
            self.rewind()
        if rows is None:
            self.free.vacate(uid for moment in self._between(self._reached, moments) for uid in moment)
            self._reached = moments
        mark = self.free.mark()
        if rows is not None:
            self.free.vacate(uid for moment in self._between(0, moments) for uid in self._on(rows, moment))
        withheld = self.withheld(self.reservations, at, until)
        self.free.withhold(withheld)
        self._withhold_gpus(withheld, [each for each in self.reservations if each.overlaps(at, until)])
        try:
            yield self.free
        finally:
            self.free.undo(mark)
            self.free.withhold(-withheld)

    def rewind(self) -> None:
        """Make `free` what is free now."""
        self.free.undo(self._mark)
        self._reached = 0

    def latest(self, at: float, nodes: Mapping[str, str]) -> Release | None:
        """Return the last release until `at` that gives back anything of `nodes`' values, None if nothing does."""
        wanted, table = set(nodes.values()), self.free.table
        for moment in reversed(self.calendar.moments[: self.calendar.count(at)]):
            for release in moment.releases:
                claims = map(table.claim_of, release.uids)
                if any(claim is not None and claim.node in wanted for claim in claims):
                    return release
        return None

    def aligned(self, reservations: Sequence[ExpectedEnd]) -> NDArray[np.bool_]:
        """Return (rows,) on which nodes with something reserved the kubelet aligns pods with NUMA zones."""
        table, mask = self.free.table, np.zeros(self._now.shape[1], dtype=np.bool_)
        rows = {row for each in reservations for seats in each.seats for row in seats.rows.tolist()}
        mask[[row for row in rows if table.occupancy.topology(table.node(row).name) is not None]] = True
        return mask

    def _withhold_gpus(self, withheld: NDArray[np.int64], reservations: Sequence[ExpectedEnd]) -> None:
        """Take from GPUs and zones what is withheld by numbers.

        Where pods are aligned it is everything that is ever reserved: a later pod may need the same zone.
        """
        if not reservations:
            return
        aligned = self.aligned(reservations)
        for column, resource in enumerate(self.free.table.resources):
            amounts = np.where(aligned, 0, withheld[column])
            for amount in np.unique(amounts[amounts > 0]).tolist() if is_extended(resource) else ():
                rows = np.flatnonzero(amounts == amount)
                self.free.settle(rows, Shape(((resource, amount),)), np.ones_like(rows))
        for reservation in reservations:
            for seats in reservation.seats:
                inside = aligned[seats.rows]
                if inside.any():
                    self.free.settle(seats.rows[inside], seats.shape, seats.counts[inside])

    def _between(self, first: int, end: int) -> Iterator[Iterator[str]]:
        """Yield whose claims end at each moment from `first` up to `end`, that one excluded."""
        for moment in self.calendar.moments[first:end]:
            yield (uid for release in moment.releases for uid in release.uids)

    def _on(self, rows: NDArray[np.bool_], uids: Iterator[str]) -> Iterator[str]:
        """Yield those of the pods that claim something on `rows`."""
        for uid in uids:
            row = self._row_of(uid)
            if row is not None and rows[row]:
                yield uid

    def _row_of(self, uid: str) -> int | None:
        claim = self.free.table.claim_of(uid)
        return None if claim is None else self.free.table.row(claim.node)

    def _read_until(self, moments: int) -> None:
        """Read the claims that end in the first so many moments, as far as they have not been read."""
        table = self.free.table
        for index in range(self._read, moments):
            for release in self.calendar.moments[index].releases:
                for uid in release.uids:
                    claim = table.claim_of(uid)
                    row = None if claim is None else table.row(claim.node)
                    if claim is not None and row is not None:
                        self._rows.setdefault(claim.shape, []).append(row)
                        self._moments.setdefault(claim.shape, []).append(index)
        self._read = max(self._read, moments)


def seats_of(pods: Sequence[Pod], nodes: Mapping[str, str], rows: Mapping[str, int]) -> tuple[Seats, ...]:
    """Return the places of pods, shapes as they first come.

    `nodes` is pod UID -> node name, `rows` node name -> row.
    """
    counts: dict[Shape, dict[int, int]] = {}
    for pod in pods:
        by_row = counts.setdefault(pod.shape, {})
        row = rows[nodes[pod.uid]]
        by_row[row] = by_row.get(row, 0) + 1
    return tuple(
        Seats(shape, np.array(list(by_row), np.intp), np.array(list(by_row.values()), np.int64))
        for shape, by_row in counts.items()
    )
