"""Wider levels of the topology than the one that a gang requires: which there are, and when it would start with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from extender.explain.documents import SuggestedChange
from extender.explain.forecast import Forecast
from extender.explain.foresight import Foresight, Prospect
from extender.objects.levels import Levels
from extender.objects.meta import time_text
from extender.objects.topology import TopologyRequest

#: A start has to be earlier by so much to be worth a change: seconds, and a share of the time that it takes else.
_LEAST_SECONDS: Final = 60.0
_LEAST_SHARE: Final = 0.1
_MINUTES: Final = 60


class WiderLevel(NamedTuple):
    """What a gang might ask for instead; `name` is "" for no required level."""

    name: str
    topology: TopologyRequest


def wider_levels(asked: TopologyRequest, levels: Levels) -> Sequence[WiderLevel]:
    """Return the levels around the one that is required, the next one first, then none at all."""
    at = levels.find(asked.required) if asked.required else None
    outer = range((len(levels.levels) if at is None else at) - 1, -1, -1) if asked.required else ()
    wider = [WiderLevel(levels.name(index), replace(asked, required=levels.name(index))) for index in outer]
    freed = TopologyRequest(preferred=asked.preferred or asked.required, objective=asked.objective)
    return [*wider, WiderLevel("", freed)]


def start_of(scene: Foresight, uid: str, before: float, may_go_on: Callable[[], bool]) -> float | None:
    """Return when a gang starts (epoch seconds); None if not `before` a time, or not found while it `may_go_on`.

    Complexity: that of a forecast until then; what is gathered in `scene` is used up.
    """
    forecast = Forecast(scene)
    for _ in forecast.steps():
        if uid in forecast.prospects or forecast.reached >= before or not may_go_on():
            break
    found = forecast.prospects.get(uid)
    return None if found is None or found.at is None or found.at >= before else found.at


def latest_worth(expected: Prospect | None, now: float) -> float:
    """Return before when a start is worth a change (epoch seconds), given the one that is expected."""
    known = None if expected is None else expected.at or expected.after
    return float("inf") if known is None else known - max(_LEAST_SECONDS, _LEAST_SHARE * (known - now))


def earlier(before: str, level: WiderLevel, at: float, expected: Prospect | None, now: float) -> SuggestedChange:
    """Return the change to a wider level than `before`, with which a gang starts later than now but `at` a time."""
    what = f"{level.name} instead of {before} as the required" if level.name else f"no required ({before} is required)"
    instead = "" if expected is None or expected.at is None else f" instead of in {_span(expected.at - now)}"
    message = f"{what} topology level: it would start in {_span(at - now)}{instead}, if all goes as expected"
    return SuggestedChange("topologyLevel", before, level.name or None, message, later=True, starts_at=time_text(at))


def _span(seconds: float) -> str:
    """Return a time in words: `12 min`, `2 h 5 min`."""
    hours, minutes = divmod(max(-(-int(seconds) // 60), 1), _MINUTES)
    return " ".join(([f"{hours} h"] if hours else []) + ([f"{minutes} min"] if minutes else []))
