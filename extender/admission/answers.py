"""What the scheduler's questions are answered with, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a verb call ended; the value is the metric label."""

    PASSED = "passed"  # a pod that Muster does not manage
    PINNED = "pinned"  # a member, to its planned node
    FITS = "fits"  # a pod without gang, to every node with room
    REFUSED = "refused"
    RANKED = "ranked"
    BOUND = "bound"
    VETOED = "vetoed"
    ALLOWED = "allowed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Offered nodes that a pod may not go to, for one reason.

    `resolvable` tells kube-scheduler whether evicting somebody could help.
    """

    names: Sequence[str]
    text: str
    resolvable: bool = False


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer to filter: the offered nodes that the pod may go to, and why not to the others.

    Names in neither were left out without a word.
    """

    outcome: Outcome
    accepted: list[str]
    refusals: tuple[Refusal, ...] = ()
    decision: str = ""

    @property
    def text(self) -> str:
        """Return why nodes were refused, for people."""
        return "; ".join(refusal.text for refusal in self.refusals)


class BindVerdict(StrEnum):
    """What is to become of a bind call."""

    WRITE = "write"
    HOLD = "hold"
    ALREADY = "already"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The answer to bind: what to do now, why not, and the decision that this belongs to."""

    verdict: BindVerdict
    message: str = ""
    decision: str = ""
