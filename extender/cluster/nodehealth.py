"""Which nodes count as lost: those that do not answer for too long, or that say of themselves that they are broken.

A lost node takes no pods; `extender.eviction.losses` has its members replaced elsewhere. Nothing is written to it:
it is taken to have a taint of its own, which all who place pods see.

    what the node says                            for `seconds`     counts as
    Ready is not True, or a taint says so         not yet           not ready: takes no pods, keeps those that it has
    the same                                      yes               lost
    a condition or taint that is listed           at once           lost
    the taint muster.dev/drain                    at once           lost, until it is taken off; that is no failure
    nothing, after it was lost                    not yet           lost
    the same                                      yes               well; after several losses used last, for a while

A node that fails and comes back in turn is lost once: it is well again only when it has been for as long as it takes to
be lost. Each further loss within a day doubles for how long it is used last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from extender.clock import Clock
from extender.objects.node import NOT_READY_TAINT, READY, UNREACHABLE_TAINT, Node
from extender.objects.podspec import DRAIN, LOST, Taint

#: How long a node is used last that was lost for the second time within a day (seconds), doubled with each further
#: loss, and at most. Reports of large clusters tell of single nodes that fail again and again within hours, until they
#: are taken out. Source: Kokolis et al., Revisiting Reliability in Large-Scale ML Research Clusters, "lemon nodes".
_PENALTY_SECONDS: Final = 600.0
_LONGEST_PENALTY_SECONDS: Final = 4 * 3600.0

#: After how long a loss is forgotten (seconds).
_REMEMBERED_SECONDS: Final = 24 * 3600.0

#: What a node is taken to be tainted with that is used last because it was lost again and again.
OFTEN_LOST: Final = "muster.dev/often-lost"

_SILENT: Final = {NOT_READY_TAINT.key: "not ready", UNREACHABLE_TAINT.key: "unreachable"}


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When a node counts as lost.

    Not ready or unreachable for `seconds`, or with one of some `conditions` (types) or `taints` (keys) at once. With 0
    seconds none does but those that people have drained.
    """

    seconds: float = 0.0
    conditions: frozenset[str] = frozenset()
    taints: frozenset[str] = frozenset()


class Symptom(NamedTuple):
    """What is wrong with a node, and since when (epoch seconds), None for now; `fatal` says that it is lost at once.

    One that is `planned` is not wrong at all: people have it drained.
    """

    why: str
    since: float | None
    fatal: bool
    planned: bool = False


_DRAINED: Final = Symptom("drained", None, fatal=True, planned=True)


def symptom(node: Node, policy: HealthPolicy) -> Symptom | None:
    """Return what is wrong with a node, the worst first; None for one that is well."""
    drained = next((_DRAINED for taint in node.taints if taint.key == DRAIN), None)
    if not policy.seconds:
        return drained
    for ailment in node.ailments:
        if ailment.type in policy.conditions:
            return Symptom(f"condition {ailment.type}", ailment.since, fatal=True)
    for taint in (*node.taints, *node.soft_taints):
        if taint.key in policy.taints:
            return Symptom(f"taint {taint.key}", None, fatal=True)
    words = next((_SILENT[taint.key] for taint in node.taints if taint.key in _SILENT), None)
    if words is None or drained is not None:
        return drained
    since = next((ailment.since for ailment in node.ailments if ailment.type == READY), None)
    return Symptom(words, since, fatal=False)


@dataclass(slots=True)
class _Record:
    """What is remembered of a node that is not well, or was not (times in seconds, monotonic).

    `unwell` is since when something is wrong, `well` since when nothing is, after it was `lost`: that since `lost`. It
    is to be `avoided` until then. One that was never seen well is `new`: it may only be starting. One that is
    lost because it is drained is `planned`.
    """

    node: Node
    new: bool
    symptom: Symptom | None = None
    unwell: float = 0.0
    well: float = 0.0
    lost: float | None = None
    avoided: float = 0.0
    planned: bool = False
    failures: list[float] = field(default_factory=list)


class NodeHealth:
    """Follow nodes that are not well. Nothing is remembered of all others.

    Attributes:
        lost: which nodes count as lost, and since when (seconds, monotonic).
        watched: what is remembered of nodes that are not well, or were not, by their names.
    """

    def __init__(self, policy: HealthPolicy, clock: Clock) -> None:
        """Start without any node."""
        self._policy = policy
        self._clock = clock
        self.watched: dict[str, _Record] = {}
        self.lost: dict[str, float] = {}

    def is_failing(self, name: str) -> bool:
        """Tell whether a node is lost and not on its way back: what it has is not coming back by itself."""
        record = self.watched.get(name)
        return record is not None and record.lost is not None and record.symptom is not None

    def seen(self, node: Node, *, known: bool) -> Node:
        """Take in a node, which was `known` before or not; return it as it counts now."""
        found = symptom(node, self._policy)
        record = self.watched.get(node.name)
        if record is None:
            if found is None:
                return node
            record = self.watched[node.name] = _Record(node, new=not known)
        now, before = self._clock.monotonic(), record.symptom
        record.node, record.symptom = node, found
        record.planned = record.planned and (found is None or found.planned)
        if found is not None:
            since = self._moment(found.since)
            record.unwell = since if before is None else min(record.unwell, since)
        elif before is not None:
            record.well = now
        return self._judge(record)

    def is_drained(self, name: str) -> bool:
        """Tell whether a node is lost because people have it drained, and for nothing else."""
        record = self.watched.get(name)
        return record is not None and record.lost is not None and record.planned

    def gone(self, name: str) -> None:
        """Forget a node, but not how often it was lost: it may come back under its name."""
        record = self.watched.get(name)
        self.lost.pop(name, None)
        if record is None:
            return
        record.symptom, record.lost, record.planned = None, None, False
        if not record.failures:
            del self.watched[name]

    def ended(self) -> list[Node]:
        """Return the nodes that time alone has made something else, as they count now."""
        now = self._clock.monotonic()
        due = [record for record in self.watched.values() if (turn := self._turn(record)) is not None and turn <= now]
        return [self._judge(record) for record in due]

    def next_turn(self) -> float | None:
        """Return when time alone makes the next node something else (seconds, monotonic), or None."""
        turns = map(self._turn, self.watched.values())
        return min((turn for turn in turns if turn is not None), default=None)

    def _moment(self, since: float | None) -> float:
        """Return when something began (seconds, monotonic) that began at `since` (epoch seconds), None for now."""
        now = self._clock.monotonic()
        return now if since is None else now - max(self._clock.now().timestamp() - since, 0.0)

    def _turn(self, record: _Record) -> float | None:
        """Return when time alone changes how a node counts (seconds, monotonic), None for never."""
        if record.lost is None and record.symptom is not None:
            return record.unwell + (0.0 if record.symptom.fatal else self._policy.seconds)
        if record.lost is not None:
            at_once = record.new or record.planned
            return None if record.symptom is not None else record.well + (0.0 if at_once else self._policy.seconds)
        return record.avoided or (record.failures[-1] + _REMEMBERED_SECONDS if record.failures else None)

    def _judge(self, record: _Record) -> Node:
        """Return a node as it counts now."""
        name, now = record.node.name, self._clock.monotonic()
        while (turn := self._turn(record)) is not None and turn <= now:
            if record.lost is None and record.symptom is not None:
                record.lost = self.lost[name] = turn
                record.planned = record.symptom.planned
                if not (record.new or record.planned):
                    record.failures = [*_recent(record.failures, now), now]
            elif record.lost is not None:
                record.avoided = 0.0 if record.planned else _until(len(record.failures), now)
                record.lost, record.new, record.planned = None, False, False
                self.lost.pop(name, None)
            elif record.avoided:
                record.avoided = 0.0
            else:
                record.failures = _recent(record.failures, now)
        if record.symptom is None and record.lost is None and not record.failures:
            self.watched.pop(name, None)
        return _as_it_counts(record)


def _recent(failures: Iterable[float], now: float) -> list[float]:
    return [each for each in failures if each + _REMEMBERED_SECONDS > now]


def _until(failures: int, now: float) -> float:
    """Return until when a node is used last that was lost so often, 0 for not at all."""
    if failures <= 1:
        return 0.0
    return now + min(_PENALTY_SECONDS * 2.0 ** (failures - 2), _LONGEST_PENALTY_SECONDS)


def _as_it_counts(record: _Record) -> Node:
    """Return a node with what it is taken to be tainted with."""
    node = record.node
    if record.lost is not None:
        why = "well again, but not for long enough" if record.symptom is None else record.symptom.why
        return replace(node, taints=(*node.taints, Taint(LOST, why, "NoExecute")))
    if record.avoided:
        times = Taint(OFTEN_LOST, f"lost {len(record.failures)} times within a day", "PreferNoSchedule")
        return replace(node, soft_taints=(*node.soft_taints, times))
    return node
