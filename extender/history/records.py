"""What the history holds, as values: gangs, pods that hold GPUs, and GPU-seconds by the hour."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from extender.objects.text import natural_key

#: Seconds of the stretches by which GPU-seconds are kept.
HOUR: Final = 3600
#: What stands for all payers that are not told apart: no name has such a character.
OTHERS: Final = "\n"
#: Characters of a text that a record has room for: a million of them are to take less than 1 kB each.
MOST_TEXT: Final = 160


class GangOutcome(StrEnum):
    """How a gang ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    EVICTED = "Evicted"  # by Muster, and not created again
    DELETED = "Deleted"


class Purpose(IntEnum):
    """What GPUs were for: the place of an amount in `HourSums`."""

    USED = 0  # a pod was bound to a node that has them
    RESERVED = 1  # promised to a pod that was not bound yet
    LOST = 2  # used, and the work was lost with an eviction
    CAPACITY = 3  # there, whether used or not


class HourSums(NamedTuple):
    """Amounts in the order of `Purpose`."""

    used: float = 0.0
    reserved: float = 0.0
    lost: float = 0.0
    capacity: float = 0.0


class Payer(NamedTuple):
    """Whom GPU-seconds are charged to; each is "" where there is none, all are for the capacity of the cluster."""

    queue: str = ""
    namespace: str = ""
    user: str = ""


class PastRun(NamedTuple):
    """A stretch of time in which a gang had its minimum, until none of its members held a node (epoch seconds).

    `ended` is None while it runs. `nodes` are those it was on; `evicted` says why it was, if so, for the gang `by`.
    """

    began: float
    ended: float | None = None
    nodes: str = ""
    evicted: str = ""
    by: str = ""


class GangRecord(Struct, frozen=True):
    """A gang as the store has it; times are in epoch seconds, None for what has not happened.

    `api` is the API of its PodGroup, `pod` for a pod on its own; `owner` is what its pods were made by: `Job/train`.
    `members` and `gpus` are the most that held nodes at once, of one that never did how many wanted to; `resources`
    tells the GPUs by name: `nvidia.com/gpu=64`. `waited` are the seconds without its minimum until it last started,
    `reason` and `message` why it last waited. `evictions` counts how often Muster evicted members of it, the last time
    for `evicted` and for the gang `evicted_by`. `nodes` are those that it was on: `node-[1-8]`. `used`, `reserved` and
    `lost` are GPU-seconds up to `as_of`, since when so many GPUs are `using` and `reserving`. `runs` are its runs
    where it had several, as JSON of a list of `PastRun`: else it ran from `started` on.
    """

    uid: str
    namespace: str
    name: str
    api: str
    owner: str = ""
    queue: str = ""
    flavor: str = ""
    user: str = ""
    priority: int = 0
    members: int = 0
    gpus: int = 0
    resources: str = ""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    outcome: str = ""
    waited: float = 0.0
    reason: str = ""
    message: str = ""
    evictions: int = 0
    evicted: str = ""
    evicted_by: str = ""
    nodes: str = ""
    node_count: int = 0
    used: float = 0.0
    reserved: float = 0.0
    lost: float = 0.0
    using: int = 0
    reserving: int = 0
    as_of: float = 0.0
    runs: str = ""


def runs_of(record: GangRecord) -> list[PastRun]:
    """Return the runs of a gang, the first one first; of very many the latest."""
    if record.runs:
        return msgspec.json.decode(record.runs, type=list[PastRun])
    if record.started is None:
        return []
    over = record.ended is not None and record.outcome == GangOutcome.EVICTED
    return [PastRun(record.started, record.ended, record.nodes, *((record.evicted, record.evicted_by) if over else ()))]


class OpenPod(NamedTuple):
    """A pod that holds GPUs: of which gang (by UID), since when (epoch seconds), and why it is being evicted, if so."""

    uid: str
    gang: str
    gpus: int
    began: float
    evicting: str = ""
    evicting_for: str = ""


class Batch(NamedTuple):
    """All that has changed since the batch before, to be written as one: the state as of `at` (epoch seconds).

    `renamed` are gangs that go by another UID now, old -> new; `opened` are pods that hold GPUs since, or are being
    evicted now, `closed` the UIDs of those that do no more. `usage` is by hour (since 1970) and payer.
    """

    at: float
    gangs: Sequence[GangRecord] = ()
    renamed: Mapping[str, str] = {}
    opened: Sequence[OpenPod] = ()
    closed: Collection[str] = ()
    usage: Mapping[tuple[int, Payer], HourSums] = {}


class PastRuntime(NamedTuple):
    """How long a gang ran that succeeded and was never evicted (seconds), and whose it was."""

    queue: str
    namespace: str
    user: str
    seconds: float


class StoredState(NamedTuple):
    """What a store knows of what was going on as of `at` (epoch seconds), None if it knows nothing yet.

    `gangs` are those that have not ended, and those that were asked for, by UID. `runtimes` are the latest of each
    payer, the latest last.
    """

    at: float | None = None
    gangs: Mapping[str, GangRecord] = {}
    pods: Sequence[OpenPod] = ()
    runtimes: Sequence[PastRuntime] = ()


class StoreError(Exception):
    """A store that cannot be used; `lasting` if trying again what was tried cannot help."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class SupersededError(Exception):
    """Another writer has taken over the store."""


class TimeGrid(NamedTuple):
    """Stretches of `hours` each, the first from `first` on (hours since 1970), `steps` of them."""

    first: int
    hours: int
    steps: int

    @property
    def start(self) -> int:
        """Return when the first begins (epoch seconds)."""
        return self.first * HOUR

    @property
    def step(self) -> int:
        """Return how long each is (seconds)."""
        return self.hours * HOUR

    @property
    def end(self) -> int:
        """Return when the last ends (epoch seconds)."""
        return self.start + self.steps * self.step


class WaitEdges(NamedTuple):
    """Gangs of one payer that wait yet: those that began to in one stretch of time, less those that did up to `at`.

    `place` is the number of the stretch. `since` is the sum of when they did (seconds from the first stretch on),
    `gpus` how many they ask for, and `gpus_since` the sum of when times how many.
    """

    place: int
    key: str
    gangs: float
    since: float
    gpus: float
    gpus_since: float


class CourseHour(NamedTuple):
    """GPU-seconds of one payer in one stretch of time, and gang-seconds; waiting are those that wait no more."""

    place: int
    key: str
    used: float
    reserved: float
    waiting_gangs: float
    waiting_gpus: float


class Course(NamedTuple):
    """What was used and waited for, by stretch of time and payer, as of `at` (epoch seconds).

    `keys` are the payers that are told apart, who used or waited most first; `more` tells that there are others, which
    are under one key together. `capacity` are GPU-seconds by stretch.
    """

    at: float
    keys: Sequence[str]
    more: bool
    capacity: Mapping[int, float]
    usage: Sequence[CourseHour]
    waits: Sequence[WaitEdges]


class GangQuery(NamedTuple):
    """Which gangs are asked for: those of all that is given, "" for any, that ended from `since` to before `until`.

    Times are in epoch seconds. `running` asks for those that have not ended instead. `prefix` is how the name begins,
    `node` one of those that a gang was on. `after` is the last row of the page before: when it ended, or of one that
    has not was created, and its number. `within` are the only namespaces that are asked about, None for all.
    """

    namespace: str = ""
    name: str = ""
    queue: str = ""
    user: str = ""
    outcome: str = ""
    since: float | None = None
    until: float | None = None
    running: bool = False
    prefix: str = ""
    node: str = ""
    limit: int = 100
    after: tuple[float, int] | None = None
    within: Collection[str] | None = None


class GangPage(NamedTuple):
    """Gangs, the latest first, as of `at`; `last` is what the next page comes after, None if there is none."""

    gangs: Sequence[GangRecord]
    at: float
    last: tuple[float, int] | None


def fold_names(names: Iterable[str], most: int = MOST_TEXT) -> str:
    """Write names of nodes as Slurm does, in natural order: `a-[1-3,7],b`; what is too long ends in `,...`."""
    parts: list[tuple[str, str]] = []
    for name in sorted(names, key=natural_key):
        stem = name.rstrip("0123456789")
        parts.append((stem, name[len(stem) :]))
    texts: list[str] = []
    for (stem, _), group in groupby(parts, key=lambda part: (part[0], bool(part[1]))):
        numbers = [number for _, number in group]
        texts.append(stem + (numbers[0] if len(numbers) == 1 else f"[{','.join(_runs(numbers))}]"))
    text = ",".join(texts)
    return text if len(text) <= most else f"{text[: most - 4]},..."


def folded_with(name: str) -> re.Pattern[str]:
    """Return what finds the numbers that names of a stem have, in names that were folded; see `is_folded_in`."""
    stem = name.rstrip("0123456789")
    return re.compile(rf"(?:^|,){re.escape(stem)}(?:\[([0-9,-]+)\]|([0-9]*))(?=,|$)")


def is_folded_in(name: str, text: str, pattern: re.Pattern[str]) -> bool:
    """Tell whether a name is among names that `fold_names` wrote; of what it cut off nothing is known."""
    number = name[len(name.rstrip("0123456789")) :]
    for found in pattern.finditer(text):
        if found[1] is None:
            if found[2] == number:
                return True
            continue
        for run in found[1].split(","):
            first, _, last = run.partition("-")
            equal = number and int(first) <= int(number) <= int(last or first)
            if equal and number == number.lstrip("0").zfill(len(first)):
                return True
    return False


def _runs(numbers: Sequence[str]) -> Iterable[str]:
    """Return runs of consecutive numbers: `8-10`, `07`."""
    first = last = ""
    for number in (*numbers, ""):
        if last and number == str(int(last) + 1).zfill(len(last)):
            last = number
            continue
        if first:
            yield first if first == last else f"{first}-{last}"
        first = last = number
