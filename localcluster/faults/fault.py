"""What can go wrong with a request or with a watch, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from localcluster.client import JsonObject
from localcluster.faults.request import Exchange

#: The one-word reasons that the API server gives with these statuses. Source: k8s.io/apimachinery metav1.StatusReason.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Delay:
    """Forward the request so much later, in seconds; of a watch only its opening."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Forward the request, or open the watch, only when the proxy's rules are cleared."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection without forwarding the request and without an answer."""


@dataclass(frozen=True, slots=True)
class Lose:
    """Forward the request, then close the connection instead of passing the answer on: it took effect, unknown."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Forward the request twice, one after the other, and pass the second answer on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the server's place without forwarding, with a metav1.Status unless `body` is given."""

    status: int
    message: str = "a fault proxy says so"
    retry_after: int | None = None
    body: bytes | None = None

    def status_object(self) -> JsonObject:
        """Return the metav1.Status that goes with the answer."""
        reason = _REASONS.get(self.status, "InternalError")
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": reason,
            "code": self.status,
        }


@dataclass(frozen=True, slots=True)
class Call:
    """Call a function, in a thread of its own, before the request is forwarded or after its answer has come.

    A story's named point: kill Muster at its first Binding, say. The request waits meanwhile. `function` gets the
    exchange as recorded so far; what it raises is raised again by the proxy's `check`.
    """

    function: Callable[[Exchange], object]
    when: Literal["before", "after"] = "before"


@dataclass(frozen=True, slots=True)
class Truncate:
    """Pass half an answer on and break the connection; of a watch, half the event that follows `after_events`."""

    after_events: int = 0


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Stop passing bytes on, and keep the connection: as when a cable is cut.

    A request is not forwarded. A watch falls silent after further `after_events`. What the server has said meanwhile
    comes after `seconds`; never without `seconds`, or until the proxy's rules are cleared.
    """

    after_events: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CloseStream:
    """End a watch properly after further `after_events`, as the server does when its time is up."""

    after_events: int = 0


@dataclass(frozen=True, slots=True)
class ReplayOld:
    """After further `after_events`, send the last `events` of a watch once more: their resourceVersions go back.

    They end with the newest, as on a server that resumes from an earlier place.
    """

    after_events: int = 10
    events: int = 10


@dataclass(frozen=True, slots=True)
class DelayEvents:
    """Pass every event of a watch on so much later, in seconds, in order."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RewriteEvents:
    """Pass every event of a watch on with what `function` makes of its object, as if the server had said that."""

    function: Callable[[JsonObject], JsonObject]


#: What happens to a request and its answer; those of a watch concern its opening.
RequestFault: TypeAlias = Delay | Hold | Drop | Lose | Duplicate | Answer | Call | Truncate | HalfOpen
#: What happens to the stream of a watch that is open.
StreamFault: TypeAlias = Truncate | HalfOpen | CloseStream | ReplayOld | DelayEvents | RewriteEvents
Fault: TypeAlias = RequestFault | StreamFault

#: What a watch meets once it is open, rather than while it is opened.
STREAM_FAULTS = (Truncate, HalfOpen, CloseStream, ReplayOld, DelayEvents, RewriteEvents)
#: What only a watch can meet.
WATCH_ONLY_FAULTS = (CloseStream, ReplayOld, DelayEvents, RewriteEvents)
