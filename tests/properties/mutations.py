"""Deliberate bugs, one or more for each promise: what the faults and the judge together must find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from extender.admission import attempts
from extender.admission.admission import Admission
from extender.admission.verbs import Verbs
from extender.control.evictions import Evictions
from extender.control.ports import PodKey
from extender.eviction import policies as victims
from extender.eviction.policies import QuotaRights
from extender.eviction.preemptions import Preemptions
from extender.judge import Case, NoFit, judge
from extender.kube.writer import KubeClusterApi
from extender.ledger.effects import Evict
from extender.ledger.reservations import Backoff, Pause, Reservations
from extender.ledger.slots import Reservation
from extender.objects.pod import Pod
from extender.objects.reason import Reason, Wait
from extender.placement.plan import Plan
from extender.queues.sharing import Option, Sharing
from extender.queues.tree import QueueTree
from tests.properties.faults.client import Client


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug: what it is, the promise that it breaks, and how it is put in.

    `says` is in what the judge says of it, for promises that several rules watch; it is looked for from `seed` on.
    """

    bug: str
    promise: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    says: str = ""
    seed: str = "bug"

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


def _what_is_held_is_never_given_back(patch: pytest.MonkeyPatch) -> None:
    def expire(self: Reservations) -> bool:
        self.ledger.expire(self._clock.monotonic())
        return False

    patch.setattr(Reservations, "expire", expire)
    patch.setattr(Reservations, "drop_refused", lambda *_: None)


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
    def preempt(_self: Verbs, _pod: Pod, candidates: Mapping[str, Sequence[str]]) -> list[str]:
        return list(candidates)

    patch.setattr(Verbs, "preempt", preempt)


def _half_of_a_gang_is_evicted(patch: pytest.MonkeyPatch) -> None:
    put = Evictions.put

    def half(self: Evictions, evict: Evict) -> None:
        if not evict.pod.name.endswith("-1"):
            put(self, evict)

    patch.setattr(Evictions, "put", half)


def _those_that_others_left_for_never_start(patch: pytest.MonkeyPatch) -> None:
    attempt = Preemptions.attempt
    cleared: set[str] = set()

    def remember(self: Preemptions, case: Case, option: Option, *larger: Iterable[Case] | None) -> bool:
        clears = attempt(self, case, option, *larger)
        if clears:
            cleared.add(case.gang.uid)
        return clears

    def refuse(case: Case) -> Plan | NoFit:
        if case.gang.uid in cleared:
            return NoFit(Wait(Reason.BACKING_OFF, {"attempts": 1}))
        return judge(case)

    patch.setattr(Preemptions, "attempt", remember)
    patch.setattr(attempts, "judge", refuse)


def _rank_does_not_matter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(victims, "_is_below", lambda *_, **__: True)


def _everybody_gives_back(patch: pytest.MonkeyPatch) -> None:
    def everybody(tree: QueueTree, preemptor: str, _flavor: str, _amounts: Mapping[str, int]) -> tuple[str, ...]:
        return tuple(name for name in tree if name != preemptor)

    patch.setattr(victims, "reclaimable", everybody)
    patch.setattr(QuotaRights, "allow", lambda *_: True)
    patch.setattr(QuotaRights, "entitle", lambda *_: True)


def _quota_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sharing, "shortage", lambda *_, **__: None)


MUTATIONS = (
    Mutation("the barrier opens one short", "P1", _barrier_opens_one_short),
    Mutation("Bindings go to another node than was asked for", "P2", _bindings_go_elsewhere),
    Mutation("what is held is never given back", "P3", _what_is_held_is_never_given_back),
    Mutation("pauses never end", "P4", _pauses_never_end),
    Mutation("writes go by name", "P5", _writes_go_by_name, seed="b"),
    Mutation(
        *("who was bound before a restart does not count", "P6", _who_was_bound_before_a_restart_does_not_count),
        seed="4",
    ),
    Mutation("preempt allows everything", "P7", _preempt_allows_everything),
    Mutation("half of a gang is evicted", "P7", _half_of_a_gang_is_evicted, "without its minimum, but", "4"),
    Mutation(
        *("those that others left for never start", "P7", _those_that_others_left_for_never_start),
        says="had not started",
        seed="10",
    ),
    Mutation("rank does not matter", "P7", _rank_does_not_matter, "in the same queue", "89"),
    Mutation("everybody gives back", "P7", _everybody_gives_back, "no more than its own quota", "10"),
    Mutation("quota is not looked at", "quota", _quota_is_not_looked_at, "more than it may"),
)
