"""Deliberate bugs, one for each promise: what the faults and the judge together must find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from extender.admission.admission import Admission
from extender.admission.backoff import Backoff, Pause
from extender.admission.ledger import Reservation
from extender.admission.reservations import Reservations
from extender.admission.verbs import Verbs
from extender.control.ports import PodKey
from extender.domain.pod import Pod
from extender.kube.writer import KubeClusterApi
from tests.properties.faults.client import Client


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug: what it is, the promise that it breaks, and how it is put in."""

    bug: str
    promise: str
    put_in: Callable[[pytest.MonkeyPatch], None]

    def __str__(self) -> str:
        """Name it in the report of tests."""
        return f"{self.promise}-{self.bug.replace(' ', '-')}"


def _barrier_opens_one_short(patch: pytest.MonkeyPatch) -> None:
    arrived = Reservation.arrived
    patch.setattr(Reservation, "arrived", lambda self, now: arrived(self, now) + 1)


def _bindings_go_elsewhere(patch: pytest.MonkeyPatch) -> None:
    bind = KubeClusterApi.bind

    async def astray(self: KubeClusterApi, pod: PodKey, _node: str, annotations: Mapping[str, str]) -> None:
        await bind(self, pod, "node-0", annotations)

    patch.setattr(KubeClusterApi, "bind", astray)


def _nothing_expires(patch: pytest.MonkeyPatch) -> None:
    def expire(self: Reservations) -> bool:
        self.ledger.expire(self._clock.monotonic())
        return False

    patch.setattr(Reservations, "expire", expire)


def _pauses_never_end(patch: pytest.MonkeyPatch) -> None:
    def pause(self: Backoff, gang_uid: str, _now: float) -> Pause | None:
        attempts = self.attempts(gang_uid)
        return Pause(attempts, float("inf")) if attempts else None

    patch.setattr(Backoff, "pause", pause)


def _writes_go_by_name(patch: pytest.MonkeyPatch) -> None:
    send = {"post": Client.post, "patch": Client.patch}

    def without_uid(verb: str) -> Callable[..., object]:
        async def write(self: Client, path: str, body: dict[str, object]) -> bytes:
            metadata = body.get("metadata")
            if "/pods/" in path and isinstance(metadata, dict):
                body = body | {"metadata": {key: value for key, value in metadata.items() if key != "uid"}}
            return await send[verb](self, path, body)

        return write

    for verb in send:
        patch.setattr(Client, verb, without_uid(verb))


def _who_was_bound_before_a_restart_does_not_count(patch: pytest.MonkeyPatch) -> None:
    rebuild = Admission.rebuild

    def forgetful(self: Admission) -> None:
        for gang in self.model.gangs:
            for pod in list(gang.members.values()):
                if pod.bound:
                    gang.leave(pod.uid)
        rebuild(self)

    patch.setattr(Admission, "rebuild", forgetful)


def _preempt_allows_everything(patch: pytest.MonkeyPatch) -> None:
    def preempt(_self: Verbs, _pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        return list(victims)

    patch.setattr(Verbs, "preempt", preempt)


MUTATIONS = (
    Mutation("the barrier opens one short", "P1", _barrier_opens_one_short),
    Mutation("Bindings go to another node than was asked for", "P2", _bindings_go_elsewhere),
    Mutation("nothing expires", "P3", _nothing_expires),
    Mutation("pauses never end", "P4", _pauses_never_end),
    Mutation("writes go by name", "P5", _writes_go_by_name),
    Mutation("who was bound before a restart does not count", "P6", _who_was_bound_before_a_restart_does_not_count),
    Mutation("preempt allows everything", "P7", _preempt_allows_everything),
)
