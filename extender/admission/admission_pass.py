"""The pass: walk the waiting gangs in queue order, and give each a reservation or a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.admission.diagnosis import Misfit, Site, examine, explain, unmet_min_resources
from extender.admission.judgement import Candidates, judge
from extender.admission.queue import Position, position
from extender.admission.reservations import Reservations
from extender.admission.vetoes import Vetoed, Vetoes, leave_out
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.pod import Pod, Shape
from extender.domain.reason import Reason, Wait
from extender.placement.earmark import earmark
from extender.placement.plan import Eligible, Plan, group_by_shape, plan

_Profile: TypeAlias = tuple[Packing, frozenset[tuple[Shape, int]]]


@dataclass(frozen=True, slots=True)
class Head:
    """The first gang in the queue that does not fit, and what is kept for it.

    `kept` is (resources, rows); nobody behind `position` may use it.
    """

    gang: Gang
    position: Position
    kept: NDArray[np.int64]


@dataclass(slots=True)
class _Ground:
    """What a pass works on: what is free for whoever is judged next, and what it has found out so far."""

    whatif: WhatIf
    admitted: Eligible
    vetoed: Vetoed
    obstacle: Wait | None
    head: Head | None = None
    misfits: dict[_Profile, Misfit] = field(default_factory=dict)


class AdmissionPass:
    """Judge all waiting gangs against one snapshot.

    Order: gangs that hold nodes already, priority, creation, UID. The first that does not fit keeps what it waits for;
    those behind it may use the rest. Members beyond minMember are placed after everybody's minimum.
    Complexity: O(gangs log gangs + distinct failing profiles x plan + placed gangs x plan).
    """

    def __init__(self, model: ClusterModel, reservations: Reservations, vetoes: Vetoes, clock: Clock) -> None:
        """Decide about the gangs of `model`, minding `vetoes`, and act on `reservations`."""
        self._model = model
        self._reservations = reservations
        self._vetoes = vetoes
        self._clock = clock

    def run(self, admitted: Eligible, obstacle: Wait | None = None) -> Head | None:
        """Judge everybody once; return the head of the queue if there is one that waits for capacity.

        `admitted` says which nodes admit a shape. With an `obstacle` nobody is placed: that is then the reason of
        every gang that could have been.
        """
        vetoed = self._vetoes.by_gang(self._model.table)
        self._reservations.drop_invalid(admitted, vetoed)
        ground = _Ground(WhatIf(self._model.table), admitted, vetoed, obstacle)
        extras: list[tuple[Gang, tuple[Pod, ...]]] = []
        waiting = ((gang, self._waiting(gang)) for gang in self._model.gangs)
        queue = sorted(
            ((position(gang), gang, pods) for gang, pods in waiting if pods is not None), key=lambda entry: entry[0]
        )
        self._forget_settled({gang.uid for _, gang, _ in queue})
        for place, gang, pods in queue:
            beyond = self._judge(gang, place, pods, ground)
            if beyond:
                extras.append((gang, beyond))
        for gang, beyond in extras:
            self._place_extras(gang, beyond, ground)
        return ground.head

    def _forget_settled(self, queued: set[str]) -> None:
        """Drop the reasons of gangs of which nothing waits any more."""
        for gang in self._model.gangs:
            if gang.uid not in queued:
                self._wait(gang, None)

    def _waiting(self, gang: Gang) -> list[Pod] | None:
        """Return the members that want a slot, in member order; None if nothing of the gang is waiting at all."""
        # Members of several schedulers wait with a reason; a gang of another scheduler alone is not ours to judge.
        if not any(self._model.manages(pod) for pod in gang.unbound()):
            return None
        return [p for p in gang.unbound() if p.placeable and self._reservations.ledger.of_pod(p.uid) is None]

    def _judge(self, gang: Gang, place: Position, pods: list[Pod], ground: _Ground) -> tuple[Pod, ...]:
        """Give one gang its reservation or its reason; return the members beyond minMember still to be placed."""
        reservations = self._reservations
        reservation = reservations.ledger.of_gang(gang.uid)
        slotted = 0 if reservation is None else len(reservation.slots)
        verdict = judge(gang, slotted, pods)
        if isinstance(verdict, Wait):
            if reservations.drop_gang(gang.uid, verdict.message):
                self._refresh(ground)
            self._wait(gang, verdict)
            return ()
        if not verdict.core:
            if gang.has_minimum:
                self._wait(gang, None)
            elif reservation is not None and not reservations.open_barrier(gang):
                self._wait(gang, Wait(Reason.AWAITING_MEMBERS, {"minMember": gang.min_member}))
            return () if ground.obstacle is not None else verdict.extras
        pause = reservations.backoff.pause(gang.uid, self._clock.monotonic())
        if pause is not None:
            before = reservations.waits.get(gang.uid)
            refused = before is not None and before.reason is Reason.REFUSED_BY_SCHEDULER
            self._wait(gang, before if refused else Wait(Reason.BACKING_OFF, {"attempts": pause.attempts}))
            return ()
        if ground.obstacle is not None:
            self._wait(gang, ground.obstacle)
            return ()
        return self._place_core(gang, place, verdict, ground)

    def _place_core(self, gang: Gang, place: Position, verdict: Candidates, ground: _Ground) -> tuple[Pod, ...]:
        """Place what the gang cannot start without; a reservation that cannot be completed is made anew or given up."""
        reservations = self._reservations
        core, extras = verdict.core, verdict.extras
        result = self._fit(gang, core, ground)
        if not isinstance(result, Plan) and self._vetoes.lift_outdated(gang.uid):
            ground.vetoed = self._vetoes.by_gang(self._model.table)
            result = self._fit(gang, core, ground)
        if not isinstance(result, Plan) and reservations.drop_gang(gang.uid, "the gang is being placed anew"):
            self._refresh(ground)
            pods = self._waiting(gang) or []
            missing = max(gang.min_member - gang.census().secured, 0)
            core, extras = tuple(pods[:missing]), tuple(pods[missing:])
            result = self._fit(gang, core, ground)
        if isinstance(result, Plan):
            reservations.reserve(gang, {pod.uid: pod for pod in core}, result.nodes)
            if not reservations.open_barrier(gang):
                self._wait(gang, Wait(Reason.AWAITING_MEMBERS, {"minMember": gang.min_member}))
            return extras
        self._wait(gang, result)
        if ground.head is None:
            self._become_head(gang, place, core, ground)
        return ()

    def _fit(self, gang: Gang, pods: Sequence[Pod], ground: _Ground) -> Plan | Wait:
        """Plan the pods, or say why they do not fit. Of gangs of the same shapes that fail only one is examined."""
        site = self._site(gang, ground)
        if (unmet := unmet_min_resources(gang, site)) is not None:
            return unmet
        profile = (gang.packing, frozenset((shape, len(alike)) for shape, alike in group_by_shape(pods).items()))
        misfit = ground.misfits.get(profile) if site.eligible is site.admitted else None
        if misfit is None:
            began = self._clock.monotonic()
            result = plan(pods, ground.whatif, site.eligible, gang.packing)
            self._reservations.effects.plan_seconds.append(self._clock.monotonic() - began)
            if isinstance(result, Plan):
                return result
            misfit = examine(gang, pods, result.fits, site)
            if site.eligible is site.admitted:
                ground.misfits[profile] = misfit
        return explain(gang, pods, misfit, site, "" if ground.head is None else str(ground.head.gang.ref))

    def _site(self, gang: Gang, ground: _Ground) -> Site:
        """Return where the gang's pods could go."""
        kept = None if ground.head is None else ground.head.kept
        eligible = leave_out(ground.admitted, ground.vetoed.get(gang.uid))
        return Site(self._model.table, ground.whatif.free, kept, ground.admitted, eligible)

    def _become_head(self, gang: Gang, place: Position, core: Sequence[Pod], ground: _Ground) -> None:
        """Keep for the gang what it waits for, if waiting can help at all."""
        table = self._model.table
        eligible = self._site(gang, ground).eligible
        kept = earmark(core, WhatIf(table, ground.whatif.free), WhatIf(table, table.potential()), eligible)
        if kept is not None:
            ground.head = Head(gang, place, kept)
            ground.whatif = WhatIf(table, ground.whatif.free - kept)

    def _place_extras(self, gang: Gang, pods: Sequence[Pod], ground: _Ground) -> None:
        """Place members beyond minMember one by one, as far as there is room."""
        if self._reservations.backoff.pause(gang.uid, self._clock.monotonic()) is not None:
            return
        for pod in pods:
            result = self._fit(gang, [pod], ground)
            if isinstance(result, Plan):
                self._reservations.reserve(gang, {pod.uid: pod}, result.nodes)

    def _refresh(self, ground: _Ground) -> None:
        """Take back into the snapshot what a dropped reservation gave up."""
        free = self._model.table.free()
        ground.whatif = WhatIf(self._model.table, free if ground.head is None else free - ground.head.kept)
        ground.misfits.clear()

    def _wait(self, gang: Gang, wait: Wait | None) -> None:
        """Record a gang's reason (None: it does not wait) and note when it changed."""
        waits = self._reservations.waits
        if waits.get(gang.uid) == wait:
            return
        if wait is None:
            waits.pop(gang.uid, None)
        else:
            waits[gang.uid] = wait
        self._reservations.effects.changed[gang.ref] = None
