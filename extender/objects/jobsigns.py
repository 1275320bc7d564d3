"""What a running job and Muster tell each other by annotations: checkpoints, planned evictions, acknowledgements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from extender.objects.meta import read_timestamp, time_text
from extender.objects.reason import Problem, quoted

LAST_CHECKPOINT: Final = "muster.dev/last-checkpoint"
EVICTION_PLANNED: Final = "muster.dev/eviction-planned"
EVICTION_ACKNOWLEDGED: Final = "muster.dev/eviction-acknowledged"

#: Those that are read of pods apart from what they ask for: they change while a pod runs, and change no placement.
SIGN_KEYS: Final = frozenset({LAST_CHECKPOINT, EVICTION_PLANNED, EVICTION_ACKNOWLEDGED})

#: By how much the clock of a job may be ahead (seconds): NTP keeps machines within milliseconds, and a time that is
#: further ahead is a mistake of units or zones.
CLOCK_SKEW: Final = 30.0

#: Source: RFC 3339, section 5.6, in capitals as Kubernetes writes it.
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_TIME_EXPECTED = "a time such as 2026-11-26T09:30:00Z (RFC 3339)"

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class NoticePeriod:
    """When a gang was told that it is to be evicted, and when it is at the latest (epoch seconds)."""

    given: float
    until: float

    @classmethod
    def from_now(cls, now: float, seconds: float) -> NoticePeriod:
        """Return a period of so many seconds from now (epoch seconds), in whole ones as it is written.

        What a job did in the second before it was told is no answer, so it is given with the next. It ends no later
        than those seconds: no job is evicted before the time that it was told.
        """
        given = math.ceil(now)
        return cls(given, max(given, math.floor(now + seconds)))

    def __str__(self) -> str:
        """Render as an interval: `2026-11-26T09:30:00Z/2026-11-26T09:40:00Z`."""
        return "/".join(time_text(each) for each in (self.given, self.until))


@dataclass(frozen=True, slots=True)
class JobSigns:
    """What annotations of a job say while it runs; None for nothing.

    `last_checkpoint` is when it last saved its work (epoch seconds). `planned` is what Muster has written of an
    eviction, `acknowledged` which of these the job is ready for.
    """

    last_checkpoint: float | None = None
    planned: NoticePeriod | None = None
    acknowledged: NoticePeriod | None = None
    problems: tuple[Problem, ...] = field(default=(), compare=False)

    def is_ahead(self, now: float) -> bool:
        """Tell whether the last checkpoint is in the future (`now` in epoch seconds), so that it does not count."""
        return self.last_checkpoint is not None and self.last_checkpoint > now + CLOCK_SKEW

    def checkpoint(self, now: float) -> float | None:
        """Return when the job last saved its work (epoch seconds), None if it does not say or cannot know."""
        return None if self.last_checkpoint is None or self.is_ahead(now) else min(self.last_checkpoint, now)

    def future_problem(self) -> Problem:
        """Return what is wrong with a checkpoint that is ahead."""
        message = "is in the future, and does not count; is it in seconds, and in UTC?"
        return Problem(f"metadata.annotations[{LAST_CHECKPOINT}]", message)


#: The signs of a job that says nothing, as of most.
NO_SIGNS: Final = JobSigns()


def read_signs(annotations: Mapping[str, str]) -> JobSigns:
    """Read what annotations say of a running job; what cannot be read becomes a problem and says nothing."""
    if SIGN_KEYS.isdisjoint(annotations):
        return NO_SIGNS
    problems: list[Problem] = []

    def read(key: str, parse: Callable[[str], _Read | None], expected: str) -> _Read | None:
        text = annotations.get(key, "")
        value = parse(text) if text else None
        if text and value is None:
            problems.append(Problem(f"metadata.annotations[{key}]", f"{quoted(text)} is not {expected}"))
        return value

    return JobSigns(
        last_checkpoint=read(LAST_CHECKPOINT, _time, _TIME_EXPECTED),
        planned=read(EVICTION_PLANNED, _period, "two such times, as Muster writes them"),
        acknowledged=read(EVICTION_ACKNOWLEDGED, _period, f"the value of {EVICTION_PLANNED}"),
        problems=tuple(problems),
    )


def _time(text: str) -> float | None:
    return read_timestamp(text) if _RFC_3339.fullmatch(text) else None


def _period(text: str) -> NoticePeriod | None:
    given, _, until = text.strip().partition("/")
    first, last = _time(given), _time(until)
    return None if first is None or last is None else NoticePeriod(first, last)
