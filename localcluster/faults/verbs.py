"""The proxy in front of Muster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localcluster.faults.proxy import Proxy
from localcluster.faults.request import Request, verb_request
from localcluster.faults.rules import Match
from localcluster.ports import LOOPBACK


@dataclass(frozen=True, slots=True)
class BindCall:
    """A call of the bind verb, as kube-scheduler made it; `ended` is None while it is held.

    Times in `time.monotonic` seconds; `status` is None as long as kube-scheduler has no answer.
    """

    at: float
    namespace: str
    name: str
    uid: str
    node: str
    status: int | None
    ended: float | None


class VerbProxy(Proxy):
    """Between kube-scheduler and the Muster on a port of loopback."""

    def __init__(self, upstream_port: int) -> None:
        """Prepare to forward to Muster."""
        super().__init__(f"http://{LOOPBACK}:{upstream_port}")

    def bind_calls(self) -> list[BindCall]:
        """Return every call of bind so far, in order, whether or not it reached Muster."""
        calls = self.matching(Match(kind="bind"))
        return [
            BindCall(
                call.at,
                call.request.namespace,
                call.request.name,
                call.request.body["PodUID"],
                call.request.body["Node"],
                call.status,
                call.ended,
            )
            for call in calls
        ]

    def read_request(self, method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
        """Say what a request is."""
        return verb_request(method, path, query, raw)
