"""How long gangs run: as they say, or else as long as those like them took that have ended."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

from extender.cluster.gangs import Gang
from extender.queues.sharing import Sharing

#: Of so many gangs that were alike the runtimes are remembered, and so many are enough to go by.
MOST_SAMPLES: Final = 31
_LEAST_SAMPLES: Final = 3
#: Queues, and users in them, of which runtimes are remembered: some 1.5 kB each. The longest idle is forgotten.
MOST_KEYS: Final = 2_000


class RuntimeSource(StrEnum):
    """What a start goes by that is expected."""

    PROMISED = "promised"  # room is kept for it: it starts no later, if what runs ends as declared
    DECLARED = "declared"
    LEARNED = "learned"


class Runtime(NamedTuple):
    """How long a gang runs (seconds), and how that is known."""

    seconds: float
    source: RuntimeSource


class LearnedRuntimes:
    """Remember how long gangs ran that succeeded, by queue and user, in bounded memory.

    The user is told by the label that the history goes by, without one by the namespace.
    """

    def __init__(self, user_label: str = "") -> None:
        """Remember nothing yet; `user_label` is the label of pods that names their user."""
        self._user_label = user_label
        self._samples: OrderedDict[tuple[str, str, str], deque[float]] = OrderedDict()

    def __len__(self) -> int:
        """Count the users and queues of which runtimes are remembered."""
        return len(self._samples)

    def note(self, queue: str, namespace: str, user: str, seconds: float) -> None:
        """Take in that a gang has run to its end."""
        for key in _keys(queue, namespace, user):
            samples = self._samples.setdefault(key, deque(maxlen=MOST_SAMPLES))
            samples.append(seconds)
            self._samples.move_to_end(key)
        self._bound()

    def _bound(self) -> None:
        while len(self._samples) > MOST_KEYS:
            self._samples.popitem(last=False)

    def adopt(self, stored: LearnedRuntimes) -> None:
        """Take what a store knows, in the place of what was remembered of the same users and queues.

        Else what ended before the store was read would count twice. `stored` is used up.
        """
        for key, samples in self._samples.items():
            stored._samples.setdefault(key, samples)
        self._samples = stored._samples
        self._bound()

    def expect(self, gang: Gang, sharing: Sharing, elapsed: float = 0.0) -> Runtime | None:
        """Return how long a gang runs that has run for `elapsed` seconds; None if it does not say, and none tells.

        Of one that has run for longer than usual it is what those took that ran longer still. What a gang says itself
        counts however long ago it should have ended.
        """
        stated = gang.expected_duration
        if stated is not None:
            return Runtime(stated, RuntimeSource.DECLARED)
        queue, pod = sharing.queue_of(gang), next(iter(gang.members.values()), None)
        user = pod.labels.get(self._user_label, "") if pod is not None and self._user_label else ""
        learned = self._learned(queue, gang.ref.namespace, user, elapsed)
        if learned is not None:
            return Runtime(learned, RuntimeSource.LEARNED)
        limit = sharing.max_runtime(queue)
        return None if limit is None else Runtime(limit[0], RuntimeSource.DECLARED)

    def _learned(self, queue: str, namespace: str, user: str, elapsed: float) -> float | None:
        for key in _keys(queue, namespace, user):
            samples = tuple(self._samples.get(key, ()))  # in one step: an explanation asks in a thread of its own
            if len(samples) >= _LEAST_SAMPLES and (longer := [each for each in samples if each > elapsed]):
                return median(longer)
        return None


def _keys(queue: str, namespace: str, user: str) -> list[tuple[str, str, str]]:
    """Return what runtimes are remembered by: the user in the queue, then the queue, unless it has no name."""
    return [(queue, namespace, user), *([(queue, "", "")] if queue else ())]
