"""When running work is expected to end, and what is believed of work that has run beyond that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

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


def expected_release(
    name: str, uids: Iterable[str], started_at: float | None, duration: float | None, now: float
) -> Release | None:
    """Return when work with a declared runtime (seconds) gives back what its pods claim; None without such a runtime.

    What has not started yet, `started_at` None, is taken to do so right after `now`. Times are epoch seconds.
    """
    if duration is None:
        return None
    began = now + STARTING_SECONDS if started_at is None else started_at
    return Release(began + duration, tuple(uids), name)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time at which something is expected to end (epoch seconds), and everything that is."""

    at: float
    releases: tuple[Release, ...]


class Calendar:
    """All that is expected to end, in the order in which it will.

    Work without declared runtime does not stand in it: nobody knows that it ends. Nor does work that is overdue by
    more than the last of `OVERRUNS`: its runtime means nothing.

    Attributes:
        now: when this was so (epoch seconds).
        moments: times after `now`, ascending, each with what is expected to end then.
        overdue: the releases that should have happened, by when they are expected now.
    """

    def __init__(self, releases: Iterable[Release], now: float) -> None:
        """Sort releases by time; those that should have happened by `now` get a new time."""
        coming = (release if release.at > now else _extended(release, now) for release in releases)
        ordered = sorted((release for release in coming if release.at < inf), key=lambda each: (each.at, each.name))
        self.now = now
        self.moments: list[Moment] = []
        for release in ordered:
            if self.moments and self.moments[-1].at == release.at:
                self.moments[-1] = replace(self.moments[-1], releases=(*self.moments[-1].releases, release))
            else:
                self.moments.append(Moment(release.at, (release,)))
        self.overdue = tuple(release for release in ordered if release.overdue)

    def count(self, at: float) -> int:
        """Count the moments that have come at a time, that time included."""
        return bisect_right(self.moments, at, key=lambda moment: moment.at)


def _extended(release: Release, now: float) -> Release:
    over = now - release.at
    ends = next((release.at + extension for extension in OVERRUNS if extension > over), inf)
    return replace(release, at=ends, overdue=True)
