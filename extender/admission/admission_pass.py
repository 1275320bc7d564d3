"""The pass: walk the waiting gangs in the order of their queues, and give each a reservation or a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from extender.admission.ageing import Ageing
from extender.admission.changes import Changes
from extender.admission.clearances import Clearances
from extender.admission.contender import Contender
from extender.admission.effects import Note, Ungate
from extender.admission.fitting import Fitting, Unfit
from extender.admission.ground import Footing, PassGround
from extender.admission.heads import Heads
from extender.admission.intake import Intake
from extender.admission.keep import Keep
from extender.admission.preemptions import Preemptions
from extender.admission.queue import Queues, Walk
from extender.admission.repairs import Repairs
from extender.admission.reservations import Reservations
from extender.admission.sharing import NAMELESS, Option, Sharing
from extender.admission.site import Capacity, Demand, Party
from extender.admission.vetoes import Vetoes
from extender.admission.victims import Claimant
from extender.clock import Clock
from extender.cluster.core import core_size
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.domain.keys import ADMISSION_GATE
from extender.domain.pod import Shape
from extender.domain.reason import Reason, Wait
from extender.placement.ground import Eligible
from extender.placement.plan import Plan

#: Why a gang waits that others could make room for by leaving.
_CLEARABLE: Final = frozenset(
    {
        *(Reason.QUOTA_EXCEEDED, Reason.INSUFFICIENT_CAPACITY, Reason.DOMAIN_FULL, Reason.ZONES_FULL),
        *(Reason.BEHIND_HEAD, Reason.MIN_RESOURCES_UNMET),
    }
)


class AdmissionPass:
    """Judge the waiting gangs that a change can affect; every other verdict stands, by the rule of `Changes`.

    Order: gangs that hold nodes already, those that have waited for very long, then the queues by what they have of
    their share, and in each priority, creation, UID. The first that does not fit keeps what it waits for; those behind
    it may use the rest. A gang that may have others evicted for it keeps the place that is being cleared. Members
    beyond minMember are placed after everybody's minimum.
    Complexity: O(changed gangs + gangs that want nodes); if capacity changed, besides it
    O(their shapes x nodes + demands of several shapes x plan + placed gangs x plan).

    Attributes:
        changes: what the next pass looks at anew.
        queues: who waits in which queue.
        firm: what was kept for one gang alone after the last pass, by the UID of that gang.
        again: whether the last pass gave back room behind gangs that it had judged already: another is due.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the pass is where the parts meet
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        clearances: Clearances,
        preemptions: Preemptions,
        vetoes: Vetoes,
        repairs: Repairs,
        heads: Heads,
        ageing: Ageing,
        clock: Clock,
    ) -> None:
        """Decide about the gangs of `model`, minding `sharing` and `vetoes`, and act on the others."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._clearances = clearances
        self._preemptions = preemptions
        self._vetoes = vetoes
        self._repairs = repairs
        self._heads = heads
        self._ageing = ageing
        self._clock = clock
        self._fitting = Fitting(model, sharing, reservations, vetoes, clock)
        self._doubted: dict[str, str] = {}
        self.queues: Queues[Contender] = Queues()
        self._intake = Intake(model, sharing, reservations, clearances, ageing, self.queues, clock)
        self.changes = Changes(model, reservations, vetoes, ageing, clock)
        self.firm: dict[str, Keep] = {}
        self.again = False

    def forget(self) -> None:
        """Forget all verdicts: the next pass judges everybody."""
        self.queues.clear()
        self.changes.everything()

    def run(self, admitted: Eligible, possible: Eligible, obstacle: Wait | None = None) -> None:
        """Judge whom a change concerns.

        `admitted` says which nodes admit a shape now, `possible` which do whatever kubelets turned away lately; they
        are one object while that is nothing. With an `obstacle` nobody is placed: that is then the reason of
        every gang that could have been.
        """
        self.again = False
        self.changes.pass_time()
        self._model.table.occupancy.refresh()  # who gets which GPUs shall not depend on when somebody asks
        self._sharing.charges.refresh()
        self._sharing.remember()
        self._reservations.drop_invalid(self.changes.take_nodes(), admitted, self._vetoes)
        self._preemptions.begin_pass()
        self._repairs.begin_pass()
        for gang in self.changes.take_gangs():
            self.queues.remove(gang.ref)
            if self._model.gangs.get(gang.ref) is gang:
                self._sharing.follow(gang)
                self._repairs.follow(gang)
                self._intake.consider(gang)
            else:
                self._doubted.pop(gang.uid, None)
                self._sharing.forget(gang.ref)
                self._ageing.forget(gang.uid)
                self._repairs.forget(gang.uid)
                self._preemptions.forget(gang.uid)
                self._reservations.wait(gang, None)
        now = self._clock.now().timestamp()
        ground = PassGround(self._model, self._sharing, admitted, possible, obstacle, now)
        ground.firm = self._firm()
        extras = self._place_cores(ground)
        if obstacle is None:
            for contender in extras:
                self._place_extras(contender, ground)
            self._heads.settle(ground.heads)
        self.firm = ground.firm
        self._model.table.occupancy.refresh()  # before others go, whose GPUs the placed would be taken to have

    def _firm(self) -> dict[str, Keep]:
        """Return what is kept for one gang alone: places of lost members, and those that are being cleared."""
        return self._repairs.keeps() | self._clearances.keeps()

    def _place_cores(self, ground: PassGround) -> list[Contender]:
        """Give each contender its reservation or its reason; return those that have members beyond minMember to place.

        Those whose verdict stands cost a comparison, since there may be a thousand.
        """
        extras: list[Contender] = []
        walk = self.queues.in_turn(self._sharing.turn)
        while stretch := walk.stretch():
            footings: dict[str, Footing] = {}
            for index, contender in enumerate(stretch):
                if contender.core is None:
                    extras.append(contender)
                    continue
                footing = footings.get(contender.queue)
                if footing is None:
                    footing = footings[contender.queue] = ground.footing(contender.queue)
                if contender.judged_on == footing and contender.head is None and not contender.blocks:
                    continue
                if contender.queue and self._goes_later(contender, contender.core, footing, walk):
                    continue
                generation = self._model.table.generation
                if self._visit(contender, contender.core, footing, ground):
                    extras.append(contender)
                if ground.stirred():
                    footings.clear()
                if generation != self._model.table.generation and self._turns_changed(walk, stretch[index + 1 :]):
                    break
        return extras

    def _goes_later(self, contender: Contender, party: Party, footing: Footing, walk: Walk[Contender]) -> bool:
        """Let a contender that would borrow come after all that would not, and those behind it in its queue too.

        Otherwise what it borrows could be reclaimed from it at once. Return whether it comes later.
        """
        if walk.is_last or contender.is_urgent:
            return False
        if contender.judged_on != footing:
            contender.borrows = self._fitting.borrows(party, contender.queue)
        if contender.borrows or walk.defers(contender.queue):
            walk.defer(contender)
            return True
        return False

    def _turns_changed(self, walk: Walk[Contender], rest: list[Contender]) -> bool:
        self._sharing.charges.refresh()
        return walk.turns_changed(rest)

    def _visit(self, contender: Contender, party: Party, footing: Footing, ground: PassGround) -> bool:
        """Judge a contender if its verdict does not stand; let it stand in the way of others if it does that.

        Return whether it has been placed and has members beyond that.
        """
        more = False
        if contender.judged_on != footing:
            more = self._judge(contender, party, footing, ground)
        elif contender.head is not None:
            ground.heads += (contender.head,)
        if contender.blocks:
            self._hold_up(contender, ground)
        return more

    def _judge(self, contender: Contender, party: Party, footing: Footing, ground: PassGround) -> bool:
        """Give a contender its reservation or its reason; return whether it has members beyond it to place."""
        contender.judged_on, contender.head = footing, None
        if footing.obstacle is not None:
            self._reservations.wait(contender.gang, footing.obstacle)
        elif footing.ahead:
            names = {"queue": contender.queue, "head": footing.ahead}
            self._reservations.wait(contender.gang, Wait(Reason.BEHIND_IN_QUEUE, names=names))
        elif contender.gated:
            self._ask_quota(contender, party)
        else:
            return self._place_core(contender, party, ground)
        return False

    def _hold_up(self, contender: Contender, ground: PassGround) -> None:
        """Let those wait that may not pass a gang which has not been placed."""
        gang = contender.gang
        wait = self._reservations.waits.get(gang.uid)
        if wait is None or gang.has_minimum or wait.reason in {Reason.AWAITING_MEMBERS, Reason.BEHIND_IN_QUEUE}:
            return
        if self._sharing.is_strict(contender.queue):
            ground.ahead.setdefault(contender.queue, str(gang.ref))
        if not contender.position.not_aged and wait.reason is Reason.QUOTA_EXCEEDED:
            ground.frugal.setdefault(self._sharing.root(contender.queue), str(gang.ref))

    def _place_core(self, contender: Contender, party: Party, ground: PassGround) -> bool:
        """Place what the gang cannot start without; a reservation that cannot be completed is made anew or given up.

        Return whether there are members beyond it to place.
        """
        gang = contender.gang
        party.settled = self._fitting.settled(gang)
        if party.demand.topology.preferred:
            self._doubt_preference(gang, party.demand.topology.preferred)
        result = self._fitting.fit(party, contender.queue, ground)
        if isinstance(result, Unfit) and self._vetoes.lift_outdated(gang.uid):
            result = self._fitting.fit(party, contender.queue, ground)
        if isinstance(result, Unfit) and self._reservations.drop_gang(gang.uid, "the gang is being placed anew"):
            self.again = True
            party = Party(gang, Demand.of_gang(gang, core_size(gang, 0)), self._fitting.settled(gang))
            result = self._fitting.fit(party, contender.queue, ground)
        if isinstance(result, Plan):
            self._reservations.reserve(gang, {pod.uid: pod for pod in party.pods}, result.nodes)
            self._preemptions.placed(gang)
            if gang.uid in ground.firm:
                ground.firm = self._firm()
            self._reservations.await_members(gang)
            return gang.unplaced_count > 0
        self._reservations.wait(gang, self._clear(contender, party, result, ground) or result.wait)
        return False

    def _clear(self, contender: Contender, party: Party, unfit: Unfit, ground: PassGround) -> Wait | None:
        """Have others evicted for a gang, or keep for it what it waits for; return another reason if that gives one."""
        gang = contender.gang
        if gang.uid in self._clearances.under_way:
            if (underway := self._clearances.progress(gang)) is not None:
                return underway
            self._clearances.end(gang.uid, "others have taken the place that was cleared")
            ground.firm = self._firm()
        if unfit.wait.reason in _CLEARABLE:
            for option in (*unfit.nodes, *unfit.quota):
                if self._attempt(contender, party, option, ground):
                    ground.firm = self._firm()
                    return self._clearances.progress(gang)
        if unfit.nodes and len(ground.heads) < self._heads.most:
            site = ground.site(unfit.nodes[0], ground.kept_from(gang))
            eligible = self._fitting.eligible(gang, site)
            contender.head = self._heads.head(contender, party, site, eligible, ground)
            if contender.head is not None:
                ground.heads += (contender.head,)
        return None

    def _attempt(self, contender: Contender, party: Party, option: Option, ground: PassGround) -> bool:
        """Look for others that could be evicted for a gang, so that it fits in one option."""
        gang = contender.gang
        wanted = None if contender.queue == NAMELESS else party.demand  # what it may reclaim depends on that
        kind = (contender.queue, option.flavor, contender.position.minus_priority, wanted)
        if kind in self._preemptions.hopeless:
            return False
        if self._preemptions.is_busy:
            self._preemptions.want(gang.uid)
            return False
        site = ground.site(option, ground.kept_from(gang))
        eligible = self._fitting.eligible(gang, site)
        claimant = Claimant(gang, contender.queue, option.flavor, party.amounts, kind)
        return self._preemptions.attempt(
            party,
            claimant,
            lambda: WhatIf(self._model.table, site.snapshot(Capacity.FREE).free),
            site.ground(party, eligible),
        )

    def _ask_quota(self, contender: Contender, party: Party) -> None:
        """Open the gates of a gang for which there is quota; of others nobody shall think that nodes are missing."""
        gang = contender.gang
        unfit = self._fitting.quota(party, contender.queue)
        if unfit is not None:
            self._reservations.wait(gang, unfit)
            return
        effects = self._reservations.effects
        effects.ungates |= {pod.uid: Ungate(pod, ADMISSION_GATE) for pod in party.pods}
        self._reservations.wait(
            gang,
            Wait(
                Reason.MEMBERS_GATED,
                {"gated": len(party.pods), "exist": gang.census().exist, "minMember": gang.min_member},
            ),
        )

    def _doubt_preference(self, gang: Gang, preferred: str) -> None:
        """Tell the owner of a gang once that nobody knows the level it prefers."""
        if self._model.tree.levels.find(preferred) is None and self._doubted.get(gang.uid) != preferred:
            self._doubted[gang.uid] = preferred
            message = f"no topology level is called {preferred}, which is preferred; the gang is placed without it"
            note = Note(gang.ref, warning=True, reason=Reason.UNKNOWN_LEVEL.value, message=message)
            self._reservations.effects.notes.append(note)

    def _place_extras(self, contender: Contender, ground: PassGround) -> None:
        """Place members beyond minMember one by one, as far as there is room and quota."""
        gang = contender.gang
        misfits: set[Shape] = set()
        # One pod is no slice, and its role's others have their domain: it comes as near to all as there is room.
        alone = replace(gang.topology, slices=(), role_groups=())
        settled = self._fitting.settled(gang)
        footing = ground.footing(contender.queue)
        if contender.extras_judged_on != footing and self._any_room(gang, ground):
            for pod in gang.unplaced():
                if pod.shape in misfits:
                    continue
                demand = Demand(frozenset({(pod.shape, 1)}), gang.packing, 1, alone)
                result = self._fitting.fit(Party(gang, demand, settled, _pods=[pod]), contender.queue, ground)
                if isinstance(result, Plan):
                    self._reservations.reserve(gang, {pod.uid: pod}, result.nodes)
                    settled = self._fitting.settled(gang)
                else:
                    misfits.add(pod.shape)
        contender.extras_judged_on = ground.footing(contender.queue)

    def _any_room(self, gang: Gang, ground: PassGround) -> bool:
        """Tell whether any member without a place would find one: there may be thousands of no other shape."""
        site = ground.site(Option(), ground.kept_from(gang))
        eligible = self._fitting.eligible(gang, site)
        return any(site.room(Capacity.FREE, shape, eligible) for shape in gang.wanted)
