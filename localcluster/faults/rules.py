"""Which request meets which fault."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from localcluster.faults.fault import WATCH_ONLY_FAULTS, Fault
from localcluster.faults.request import Request, check_kind

#: `Rule(times=FOREVER)`: every request that matches.
FOREVER: Final = None


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests a rule is about; what is not given does not matter.

    `kind` is one of `request.KINDS` or such as `watch pods`; `path` is a regular expression searched for in the path.
    """

    kind: str | None = None
    method: str | None = None
    path: str | None = None
    where: Callable[[Request], bool] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a kind that no request is of: the rule would never fire."""
        if self.kind is not None:
            check_kind(self.kind)

    def __call__(self, request: Request) -> bool:
        """Return whether the request is meant."""
        return (
            (self.kind is None or self.kind in request.kinds)
            and (self.method is None or self.method == request.method)
            and (self.path is None or re.search(self.path, request.path) is not None)
            and (self.where is None or self.where(request))
        )


ANYTHING = Match()


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault, or several in order, for the requests that match.

    The first `after` of them are spared, then `times` meet it (FOREVER: all), each with `probability`.
    """

    match: Match
    fault: Fault | tuple[Fault, ...]
    times: int | None = 1
    after: int = 0
    probability: float = 1.0

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return the faults in order."""
        return self.fault if isinstance(self.fault, tuple) else (self.fault,)


@dataclass(slots=True)
class _Entry:
    """A rule, and how far it has got."""

    rule: Rule
    random: Random
    matched: int = 0
    met: int = 0

    def fires(self, request: Request) -> bool:
        """Count the request in, and return whether it meets the rule's faults."""
        rule = self.rule
        if not all(applicable(fault, request) for fault in rule.faults) or not rule.match(request):
            return False
        if rule.times is not None and self.met >= rule.times:
            return False
        self.matched += 1
        if self.matched <= rule.after or self.random.random() >= rule.probability:
            return False
        self.met += 1
        return True


@dataclass(slots=True)
class _Storm:
    """A seeded mix of faults: of each kind of request, the nth draws the same whatever comes in between."""

    seed: int
    rates: Mapping[Fault, float]
    match: Match
    drawn: Counter[str] = field(default_factory=Counter)

    def draw(self, request: Request) -> Iterator[Fault]:
        """Yield the fault that the request meets, if any."""
        if not self.match(request):
            return
        kind = " ".join(sorted(request.kinds))
        self.drawn[kind] += 1
        number = Random(f"{self.seed}/{kind}/{self.drawn[kind]}").random()
        for fault, rate in self.rates.items():
            if not applicable(fault, request):
                continue
            number -= rate
            if number < 0:
                yield fault
                return


class RuleBook:
    """The rules in force. Safe to use from several threads."""

    def __init__(self) -> None:
        """Start without rules: everything passes."""
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._storms: list[_Storm] = []

    def add(self, rule: Rule) -> None:
        """Put a rule in force, behind those there are."""
        with self._lock:
            self._entries.append(_Entry(rule, Random(f"rule {len(self._entries)}")))

    def storm(self, seed: int, rates: Mapping[Fault, float], match: Match) -> None:
        """Put a seeded mix in force: a request that matches meets each fault with its rate, one at most."""
        if sum(rates.values()) > 1.0:
            raise ValueError(f"the rates of a storm add up to {sum(rates.values()):g}, more than every request")
        with self._lock:
            self._storms.append(_Storm(seed, dict(rates), match))

    def clear(self) -> None:
        """Take all rules back."""
        with self._lock:
            self._entries.clear()
            self._storms.clear()

    def faults(self, request: Request) -> list[Fault]:
        """Count a request in and return the faults that it meets, in the rules' order."""
        with self._lock:
            met = [fault for entry in self._entries if entry.fires(request) for fault in entry.rule.faults]
            return met + [fault for storm in self._storms for fault in storm.draw(request)]

    def newest(self, request: Request) -> list[Fault]:
        """Count a watch that is open already in for the newest rule alone, and return the faults that it meets."""
        with self._lock:
            entry = self._entries[-1]
            return list(entry.rule.faults) if entry.fires(request) else []


def applicable(fault: Fault, request: Request) -> bool:
    """Return whether the request can meet the fault: only a watch has a stream."""
    return request.is_watch or not isinstance(fault, WATCH_ONLY_FAULTS)
