"""The pass: walk the waiting gangs in queue order, and give each a reservation or a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from extender.admission.changes import Changes, Footing
from extender.admission.diagnosis import examine, explain, unknown_level, unmet_min_resources
from extender.admission.effects import Note
from extender.admission.head import Head
from extender.admission.judgement import judge
from extender.admission.queue import Position, Queue, position
from extender.admission.reservations import Reservations
from extender.admission.site import Capacity, Demand, Misfit, Party, Site
from extender.admission.vetoes import Vetoes, leave_out
from extender.clock import Clock
from extender.cluster.core import core_size
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.nodekinds import whole_gpus
from extender.cluster.occupancy import Holding
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Shape
from extender.domain.reason import Reason, Wait
from extender.placement.earmark import earmark
from extender.placement.ground import Eligible
from extender.placement.plan import Plan, Shortfall, plan


@dataclass(slots=True)
class _Contender:
    """A gang that wants nodes, as it stood when it last changed, and what was found out about it.

    `core` is what it cannot start without; None for a gang that only wants places for members beyond minMember. Its
    verdict was given on `judged_on`, which made it the `head` or not; that on the members beyond on `extras_judged_on`.
    """

    gang: Gang
    position: Position
    core: Party | None
    judged_on: Footing | None = None
    head: Head | None = None
    extras_judged_on: Footing | None = None


class _Ground:
    """What a pass has before it at one moment: the footing of the next verdict, and what is known of the site there."""

    def __init__(self, model: ClusterModel, admitted: Eligible, possible: Eligible, obstacle: Wait | None) -> None:
        """Begin with nobody waiting for room."""
        self._possible = possible
        self._model = model
        self._admitted = admitted
        self._obstacle = obstacle
        self._site: tuple[Footing, Site] | None = None
        self.head: Head | None = None

    @property
    def footing(self) -> Footing:
        """Return what a verdict given now rests on."""
        return Footing(self._model.table.generation, self.head, self._obstacle)

    @property
    def site(self) -> Site:
        """Return what is free now; the same as long as nobody takes or gives back anything."""
        footing = self.footing
        if self._site is None or self._site[0] != footing:
            kept = None if self.head is None else self.head.kept
            self._site = footing, Site(self._model, kept, self._admitted, self._possible)
        return self._site[1]


class AdmissionPass:
    """Judge the waiting gangs that a change can affect; every other verdict stands, by the rule of `Changes`.

    Order: gangs that hold nodes already, priority, creation, UID. The first that does not fit keeps what it waits for;
    those behind it may use the rest. Members beyond minMember are placed after everybody's minimum.
    Complexity: O(changed gangs + gangs that want nodes); if capacity changed, besides it
    O(their shapes x nodes + demands of several shapes x plan + placed gangs x plan).

    Attributes:
        changes: what the next pass looks at anew.
        again: whether the last pass gave back room behind gangs that it had judged already: another is due.
    """

    def __init__(self, model: ClusterModel, reservations: Reservations, vetoes: Vetoes, clock: Clock) -> None:
        """Decide about the gangs of `model`, minding `vetoes`, and act on `reservations`."""
        self._model = model
        self._reservations = reservations
        self._vetoes = vetoes
        self._clock = clock
        self._queue: Queue[_Contender] = Queue()
        self._head: Head | None = None
        self._doubted: dict[str, str] = {}
        self.changes = Changes(model, reservations, vetoes, clock)
        self.again = False

    def forget(self) -> None:
        """Forget all verdicts: the next pass judges everybody."""
        self._queue.clear()
        self._head = None
        self.changes.everything()

    def run(self, admitted: Eligible, possible: Eligible, obstacle: Wait | None = None) -> Head | None:
        """Judge whom a change concerns; return the head of the queue if there is one that waits for capacity.

        `admitted` says which nodes admit a shape now, `possible` which do whatever kubelets turned away lately; they
        are one object while that is nothing. With an `obstacle` nobody is placed: that is then the reason of
        every gang that could have been.
        """
        self.again = False
        self.changes.pass_time()
        self._model.table.occupancy.refresh()  # who gets which GPUs shall not depend on when somebody asks
        self._reservations.drop_invalid(self.changes.take_nodes(), admitted, self._vetoes)
        for gang in self.changes.take_gangs():
            self._queue.remove(gang.ref)
            if self._model.gangs.get(gang.ref) is gang:
                self._consider(gang)
            else:
                self._doubted.pop(gang.uid, None)
                self._wait(gang, None)
        ground = _Ground(self._model, admitted, possible, obstacle)
        extras = self._place_cores(ground)
        if obstacle is None:
            for contender in extras:
                self._place_extras(contender, ground)
            self._head = ground.head
        self._model.table.occupancy.refresh()  # before others go, whose GPUs the placed would be taken to have
        return ground.head

    def _consider(self, gang: Gang) -> None:
        """Say what a gang is that has changed: waiting for something of its own, or a contender for nodes."""
        reservations = self._reservations
        # Members of several schedulers wait with a reason; a gang of another scheduler alone is not ours to judge.
        if not self._model.looks_after(gang):
            self._wait(gang, None)
            return
        reservation = reservations.ledger.of_gang(gang.uid)
        verdict = judge(gang, 0 if reservation is None else len(reservation.slots))
        if isinstance(verdict, Wait):
            reservations.drop_gang(gang.uid, verdict.message)
            self._wait(gang, verdict)
            return
        pause = reservations.backoff.pause(gang.uid, self._clock.monotonic())
        if verdict.core:
            if pause is None:
                party = Party(gang, Demand.of_gang(gang, verdict.core))
                self._queue.put(gang.ref, _Contender(gang, position(gang), party))
                return
            before = reservations.waits.get(gang.uid)
            refused = before is not None and before.reason is Reason.REFUSED_BY_SCHEDULER
            self._wait(gang, before if refused else Wait(Reason.BACKING_OFF, {"attempts": pause.attempts}))
            return
        if gang.has_minimum:
            self._wait(gang, None)
        elif reservation is not None:
            self._await_members(gang)
        if verdict.extras and pause is None:
            self._queue.put(gang.ref, _Contender(gang, position(gang), None))

    def _place_cores(self, ground: _Ground) -> list[_Contender]:
        """Give each contender its reservation or its reason; return those that have members beyond minMember to place.

        Those whose verdict stands cost a comparison, since there may be a thousand.
        """
        extras = []
        footing = ground.footing
        for contender in self._queue:
            if contender.core is None:
                extras.append(contender)
                continue
            if contender.judged_on == footing:
                if contender.head is None:
                    continue
                ground.head = contender.head
            else:
                contender.judged_on, contender.head = footing, None
                if footing.obstacle is not None:
                    self._wait(contender.gang, footing.obstacle)
                elif self._place_core(contender, contender.core, ground):
                    extras.append(contender)
            footing = ground.footing
        return extras

    def _place_core(self, contender: _Contender, party: Party, ground: _Ground) -> bool:
        """Place what the gang cannot start without; a reservation that cannot be completed is made anew or given up.

        Return whether there are members beyond it to place.
        """
        gang = contender.gang
        party.settled = self._settled(gang)
        if party.demand.topology.preferred:
            self._doubt_preference(gang, party.demand.topology.preferred, ground.site)
        result = self._fit(party, ground)
        if not isinstance(result, Plan) and self._vetoes.lift_outdated(gang.uid):
            result = self._fit(party, ground)
        if not isinstance(result, Plan) and self._reservations.drop_gang(gang.uid, "the gang is being placed anew"):
            self.again = True
            party = Party(gang, Demand.of_gang(gang, core_size(gang, 0)), self._settled(gang))
            result = self._fit(party, ground)
        if isinstance(result, Plan):
            self._reservations.reserve(gang, {pod.uid: pod for pod in party.pods}, result.nodes)
            self._await_members(gang)
            return gang.unplaced_count > 0
        self._wait(gang, result)
        if ground.head is None:
            contender.head = ground.head = self._as_head(contender, party, ground.site)
        return False

    def _fit(self, party: Party, ground: _Ground) -> Plan | Wait:
        """Plan the party, or say why it does not fit. Of equal demands that fail only one is examined."""
        site = ground.site
        if (unmet := unmet_min_resources(party.gang, site)) is not None:
            return unmet
        eligible = self._eligible(party.gang, site)
        shared = eligible is site.admitted and not party.settled
        misfit = site.misfits.get(party.demand) if shared else None
        if misfit is None:
            result = self._plan(party, site, eligible)
            if isinstance(result, Plan):
                return result
            misfit = result if isinstance(result, Misfit) else examine(party, result, site, eligible)
            if shared:
                site.misfits[party.demand] = misfit
        return explain(party, misfit, site, "" if ground.head is None else str(ground.head.gang.ref))

    def _plan(self, party: Party, site: Site, eligible: Eligible) -> Plan | Shortfall | Misfit:
        """Plan the party, or say how far it falls short."""
        if unknown := unknown_level(party.demand.topology, site.tree.levels):
            return Misfit(Shortfall(party.demand.pods, 0), unknown=unknown)
        if (short := site.count(Capacity.FREE, party, eligible)) is not None:
            return short
        began = self._clock.monotonic()
        result = plan(party.pods, site.snapshot(Capacity.FREE), site.ground(party, eligible), party.demand.terms)
        self._reservations.effects.plan_seconds.append(self._clock.monotonic() - began)
        return result

    def _doubt_preference(self, gang: Gang, preferred: str, site: Site) -> None:
        """Tell the owner of a gang once that nobody knows the level it prefers."""
        if site.tree.levels.find(preferred) is None and self._doubted.get(gang.uid) != preferred:
            self._doubted[gang.uid] = preferred
            message = f"no topology level is called {preferred}, which is preferred; the gang is placed without it"
            note = Note(gang.ref, warning=True, reason=Reason.UNKNOWN_LEVEL.value, message=message)
            self._reservations.effects.notes.append(note)

    def _settled(self, gang: Gang) -> Mapping[int, int]:
        """Return how many GPUs members of the gang that have a node, or one promised, have on which row."""
        if gang.unplaced_count == len(gang.members):
            return {}
        table, settled = self._model.table, Counter[int]()
        for uid in gang.members:
            claim = table.claim_of(uid)
            row = None if claim is None else table.row(claim.node)
            if claim is not None and row is not None:
                settled[row] += whole_gpus(claim.shape)
        return settled

    def _eligible(self, gang: Gang, site: Site) -> Eligible:
        """Return which nodes admit a shape and were not refused to the gang by kube-scheduler."""
        return leave_out(site.admitted, self._vetoes.of_gang(gang.uid, self._model.table))

    def _as_head(self, contender: _Contender, party: Party, site: Site) -> Head | None:
        """Keep for the gang what it waits for, if waiting can help at all."""
        table = self._model.table
        now = WhatIf(table, site.snapshot(Capacity.FREE).free)
        later = WhatIf(table, table.potential(), Holding.LASTING)
        ground = site.ground(party, self._eligible(contender.gang, site))
        kept = earmark(party.pods, now, later, ground, party.demand.terms)
        if kept is None:
            return None
        head = Head(contender.gang, contender.position, kept)
        return self._head if self._head is not None and head.same_as(self._head) else head

    def _place_extras(self, contender: _Contender, ground: _Ground) -> None:
        """Place members beyond minMember one by one, as far as there is room."""
        gang = contender.gang
        misfits: set[Shape] = set()
        # One pod is no slice, and its role's others have their domain: it comes as near to all as there is room.
        alone = replace(gang.topology, slices=(), role_groups=())
        settled = self._settled(gang)
        if contender.extras_judged_on != ground.footing and self._any_room(gang, ground.site):
            for pod in gang.unplaced():
                if pod.shape in misfits:
                    continue
                demand = Demand(frozenset({(pod.shape, 1)}), gang.packing, 1, alone)
                result = self._fit(Party(gang, demand, settled, _pods=[pod]), ground)
                if isinstance(result, Plan):
                    self._reservations.reserve(gang, {pod.uid: pod}, result.nodes)
                    settled = self._settled(gang)
                else:
                    misfits.add(pod.shape)
        contender.extras_judged_on = ground.footing

    def _any_room(self, gang: Gang, site: Site) -> bool:
        """Tell whether any member without a place would find one: there may be thousands of no other shape."""
        eligible = self._eligible(gang, site)
        return any(site.room(Capacity.FREE, shape, eligible) for shape in gang.wanted)

    def _await_members(self, gang: Gang) -> None:
        """Open the barrier if it may be, or say that the gang is placed and waits for its members to arrive there."""
        if not self._reservations.open_barrier(gang):
            self._wait(gang, Wait(Reason.AWAITING_MEMBERS, {"minMember": gang.min_member}))

    def _wait(self, gang: Gang, wait: Wait | None) -> None:
        """Record a gang's reason (None: it does not wait) and note when it changed."""
        waits = self._reservations.waits
        before = waits.get(gang.uid)
        if before is wait or before == wait:
            return
        if wait is None:
            waits.pop(gang.uid, None)
        else:
            waits[gang.uid] = wait
        self._reservations.effects.changed[gang.ref] = None
