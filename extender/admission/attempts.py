"""What becomes of one gang in a pass: a reservation, or the reason why it waits, with others evicted for it or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from extender.admission.cycle import Cycle, Entry
from extender.admission.extras import Growth
from extender.admission.headearmarks import HeadEarmarks
from extender.admission.noderequests import NodeRequests
from extender.admission.verdicts import TRUE_OF_KINDS, VerdictKey
from extender.cluster.gangs import Gang, core_size
from extender.cluster.model import ClusterModel
from extender.eviction.consolidation import Consolidation
from extender.eviction.pending import PendingEvictions
from extender.eviction.preemptions import Preemptions
from extender.eviction.repairs import Repairs
from extender.judge import CLEARABLE, Case, NoFit, joined, judge, judge_quota
from extender.ledger.earmark import Earmark
from extender.ledger.effects import CollectedEffects, Note, Ungate
from extender.ledger.rejections import Vetoes
from extender.ledger.reservations import Reservations
from extender.objects.keys import ADMISSION_GATE
from extender.objects.reason import Reason, Wait
from extender.placement.capacityview import PodSet, settled_on
from extender.placement.plan import Plan
from extender.queues.sharing import NAMELESS, Sharing

#: Passes in which a search for one gang goes on while nothing changes: some 0.7 s of work.
MOST_SEARCHES: Final = 64
#: For whatever one of these is waited, it keeps no other gang of its queue from starting.
_PASSED_BY: Final = frozenset({Reason.AWAITING_MEMBERS, Reason.BEHIND_IN_QUEUE, Reason.RUNNING_LIMIT})


class Attempts:
    """Try to place one gang after the other, each on the state of the cycle that its turn comes in."""

    def __init__(  # noqa: PLR0913, PLR0917 - what may be done for a gang, and what keeps it from being placed
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        pending_evictions: PendingEvictions,
        preemptions: Preemptions,
        consolidation: Consolidation,
        vetoes: Vetoes,
        repairs: Repairs,
        heads: HeadEarmarks,
        asking: NodeRequests,
        effects: CollectedEffects,
    ) -> None:
        """Reserve for the gangs of `model`, minding `sharing` and `vetoes`; no gang has had an attempt yet."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._pending_evictions = pending_evictions
        self._preemptions = preemptions
        self._consolidation = consolidation
        self._vetoes = vetoes
        self._repairs = repairs
        self._heads = heads
        self._asking = asking
        self._effects = effects
        self._doubted: dict[str, str] = {}

    def forget(self, gang: Gang) -> None:
        """Forget a gang that is gone."""
        self._doubted.pop(gang.uid, None)
        self._preemptions.forget(gang.uid)
        self._consolidation.forget(gang.uid)
        self._asking.forget(gang)
        self._heads.forget(gang.ref)
        self._reservations.wait(gang, None)

    def visit(self, entry: Entry, core: PodSet, key: VerdictKey, cycle: Cycle) -> bool:
        """Judge a gang if its verdict does not stand; let it stand in the way of others if it does that.

        Return whether it has been placed and has members beyond that.
        """
        more = False
        if entry.judged_on != key:
            entry.judged_on, entry.head = key, None
            more = self._decide(entry, core, key, cycle)
        elif entry.head is not None:
            cycle.heads += (entry.head,)
        if entry.blocks:
            self._hold_up(entry, cycle)
        return more

    def _hold_up(self, entry: Entry, cycle: Cycle) -> None:
        """Let those wait that may not pass a gang which has not been placed."""
        gang = entry.gang
        wait = self._reservations.waits.get(gang.uid)
        if wait is None or gang.has_minimum or wait.reason in _PASSED_BY:
            return
        if self._sharing.is_strict(entry.queue):
            cycle.ahead.setdefault(entry.queue, (entry.position, str(gang.ref)))
        if not entry.position.not_aged and wait.reason is Reason.QUOTA_EXCEEDED:
            cycle.frugal.setdefault(self._sharing.root(entry.queue), str(gang.ref))

    def _decide(self, entry: Entry, core: PodSet, key: VerdictKey, cycle: Cycle) -> bool:
        """Give a gang its reservation or its reason; return whether it has members beyond it to place."""
        gang = entry.gang
        if entry.gated:
            self._ask_quota(cycle.case(core, entry.queue, key))
            return False
        core.settled = settled_on(gang, self._model.table)
        if core.settled:
            core = joined(core, self._model.table, self._model.tree)
        if core.demand.topology.preferred:
            self._doubt_preference(gang, core.demand.topology.preferred)
        core, case, result = self._judged(entry, core, key, cycle)
        if isinstance(result, Plan):
            self._reservations.reserve(gang, {uid: gang.members[uid] for uid in result.nodes}, result.nodes)
            gang.weighed = gang.weighed if core.settled else result.weighed
            self._preemptions.placed(gang)
            if gang.uid in cycle.firm:
                self._pending_evictions.moved.follow(gang)
                cycle.firm = self.firm()
            self._reservations.await_members(gang)
            return gang.spaces > 0
        barred = key.obstacle is not None or (key.ahead and not cycle.has_had_its_turn(gang))
        instead = None if barred else self._make_room(entry, case, result, cycle)
        gave_up = result.wait.reason is Reason.SEARCH_GAVE_UP
        entry.searches += gave_up
        if gave_up and entry.searches % MOST_SEARCHES:
            entry.judged_on, cycle.again = None, True  # the next pass goes on; other events are taken in before
        else:
            core.memory.clear()  # thousands of gangs may wait for which nothing is searched any more
        if instead is None and self._asking.is_on:
            instead = self._asking.ask(case, result.wait)
        self._reservations.wait(gang, instead or result.wait)
        counted = gang.group is not None and gang.group.min_resources  # told by what is free, also where nothing helps
        hopeless = result.hopeless and entry.queue == NAMELESS and not counted
        if entry.kind is None:
            entry.shared.verdict_on = None  # one that was given before on the same is not what it was told now
        else:
            hopeless &= self._generalize(entry, case, result, cycle, key)
        entry.shared.hopeless_since = self._model.table.last_node_change if hopeless else -1
        return False

    def _judged(self, entry: Entry, core: PodSet, key: VerdictKey, cycle: Cycle) -> tuple[PodSet, Case, Plan | NoFit]:
        """Judge what a gang lacks; where that has no place so, without vetoes that are outdated, or all of it again."""
        gang = entry.gang
        case = cycle.case(core, entry.queue, key)
        result = judge(case)
        if isinstance(result, NoFit) and self._vetoes.lift_outdated(gang.uid):
            case = cycle.case(core, entry.queue, key)
            result = judge(case)
        if isinstance(result, NoFit) and self._reservations.drop_gang(gang.uid, "the gang is being placed again"):
            cycle.again = True
            self._sharing.charges.refresh()
            core = PodSet.of_core(gang, core_size(gang, 0), settled_on(gang, self._model.table))
            core = joined(core, self._model.table, self._model.tree)
            case = cycle.case(core, entry.queue, key)
            result = judge(case)
        if isinstance(result, NoFit) and gang.uid in self._vetoes.of_gangs and self._may_rearrange(gang):
            case = cycle.case(core, entry.queue, key)
            result = judge(case)
        return core, case, result

    def _may_rearrange(self, gang: Gang) -> bool:
        """Let a gang have the nodes that some of its members were refused on, if others of them may do better there."""
        return self._reservations.misfits.may_do_better(gang) and self._vetoes.lift(gang.uid)

    def _generalize(self, entry: Entry, case: Case, no_fit: NoFit, cycle: Cycle, key: VerdictKey) -> bool:
        """Let a verdict be that of all that are of a gang's kind; return whether it is."""
        shared, gang = entry.shared, entry.gang
        shared.untold[gang.ref] = None
        if gang.uid in self._pending_evictions.under_way:
            self._model.gangs.touch(gang.uid)  # from now on it is like no other
        elif self._is_for_all(entry, case, no_fit, cycle):
            shared.verdict_on, shared.wait = key, no_fit.wait
            return True
        return False

    def _is_for_all(self, entry: Entry, case: Case, no_fit: NoFit, cycle: Cycle) -> bool:
        """Tell whether all that are of a gang's kind wait for the same, and no more can be done for any of them."""
        reason = no_fit.wait.reason
        if reason not in TRUE_OF_KINDS or entry.head is not None or (entry.blocks and reason not in _PASSED_BY):
            return False
        if case.obstacle is not None:
            return True
        if self._asking.is_on or self._sharing.consolidating:
            return False
        if no_fit.nodes and self._heads.may_differ(entry.gang, cycle):
            return False
        return reason not in CLEARABLE or all(
            self._preemptions.is_in_vain(case, option) for option in (*no_fit.nodes, *no_fit.quota)
        )

    def _make_room(
        self, entry: Entry, case: Case, no_fit: NoFit, cycle: Cycle, larger: Iterable[Case] | None = None
    ) -> Wait | None:
        """Have others evicted for a gang, or keep for it what it waits for; return another reason if that gives one.

        For a gang that has started nothing is kept, and `larger` are cases with more of its members.
        """
        gang = entry.gang
        if gang.uid in self._pending_evictions.under_way:
            if (underway := self._pending_evictions.progress(gang)) is not None:
                return underway
            self._pending_evictions.end(gang.uid, "others have taken the place that was cleared")
            cycle.firm = self.firm()
            case = cycle.case(case.pod_set, case.queue, cycle.verdict_key(case.queue))
        if no_fit.wait.reason in CLEARABLE:
            for option in (*no_fit.nodes, *no_fit.quota):
                if self._preemptions.attempt(case, option, larger):
                    self._clears(cycle)
                    return self._pending_evictions.progress(gang)
        if no_fit.nodes and larger is None and len(cycle.heads) < self._heads.most:
            entry.head = self._heads.head(entry.position, case, case.view(no_fit.nodes[0]), cycle)
        if larger is None and self._sharing.consolidating and self._consolidate(entry, case, no_fit):
            entry.head = None
            self._clears(cycle)
            return self._pending_evictions.progress(gang)
        if entry.head is not None:
            cycle.heads += (entry.head,)
        return None

    def _clears(self, cycle: Cycle) -> None:
        """Let a cycle know that a place is being cleared, and have those who leave for it wait until they have left."""
        cycle.firm, cycle.again = self.firm(), True
        cycle.changed |= self._model.gangs.changed

    def _consolidate(self, entry: Entry, case: Case, no_fit: NoFit) -> bool:
        """Have others moved out of the way of a gang; return whether its place is being cleared now."""
        if no_fit.wait.reason not in CLEARABLE:
            return False
        start = None if entry.head is None else entry.head.start
        return self._consolidation.attempt(case, no_fit.nodes, start)

    def make_room_for_more(self, growth: Growth, cycle: Cycle) -> None:
        """Have others evicted for the members of a gang that have started without those beyond its minimum."""
        entry, gang = growth.entry, growth.entry.gang
        if gang.uid in self._pending_evictions.under_way:
            if growth.short is not None and self._pending_evictions.progress(gang) is not None:
                return
            if growth.placed or growth.short is None:
                self._preemptions.placed(gang)
            else:
                self._pending_evictions.end(gang.uid, "others have taken the place that was cleared")
            cycle.firm = self.firm()
        if growth.short is None or not self._preemptions.may_help(gang, entry.queue):
            return
        if self._pending_evictions.leaving_for(gang.ref) is not None:
            return  # what it has cleared now it would need for those that leave themselves
        case, *larger = (growth.case(each, cycle) for each in (growth.short, *growth.larger))
        result = judge(case)
        if isinstance(result, NoFit):
            self._make_room(entry, case, result, cycle, larger)
        else:
            entry.extras_judged_on, cycle.again = None, True

    def _ask_quota(self, case: Case) -> None:
        """Open the gates of a gang for which there is quota; of others autoscalers are not to think that nodes lack."""
        gang, pods = case.gang, case.pod_set.pods
        wait = judge_quota(case)
        if wait is None:
            self._effects.ungates |= {pod.uid: Ungate(pod, ADMISSION_GATE) for pod in pods}
            numbers = {"gated": len(pods), "exist": gang.census().exist, "minMember": gang.min_member}
            wait = Wait(Reason.MEMBERS_GATED, numbers)
        self._reservations.wait(gang, wait)

    def _doubt_preference(self, gang: Gang, preferred: str) -> None:
        """Tell the owner of a gang once that the level it prefers is not known."""
        if self._model.tree.levels.find(preferred) is None and self._doubted.get(gang.uid) != preferred:
            self._doubted[gang.uid] = preferred
            message = f"no topology level is called {preferred}, which is preferred; the gang is placed without it"
            note = Note(gang.ref, warning=True, reason=Reason.UNKNOWN_LEVEL.value, message=message)
            self._effects.notes.append(note)

    def firm(self) -> dict[str, Earmark]:
        """Return what is kept for one gang alone: places of lost members, and those that are being cleared."""
        lost = self._repairs.keeps() if self._repairs.wounds else {}
        moved = self._pending_evictions.moved.keeps() if self._pending_evictions.moved.places else {}
        return lost | moved | (self._pending_evictions.keeps() if self._pending_evictions.under_way else {})
