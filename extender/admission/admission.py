"""The state that decisions stand on, the pass that is run on it, and problems found in objects that people wrote."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from extender.admission.admission_pass import AdmissionPass
from extender.admission.attempts import Attempts
from extender.admission.cycle import line_up
from extender.admission.defragment import Defragmentation, Defragmenter
from extender.admission.headearmarks import HeadEarmarks
from extender.admission.noderequests import KnownNodeRequests, NodeRequests
from extender.clock import Clock
from extender.cluster.gangs import Gang, core_size
from extender.cluster.model import ClusterModel
from extender.cluster.nodehealth import HealthPolicy, NodeHealth
from extender.eviction.consolidation import Consolidation
from extender.eviction.losses import Losses
from extender.eviction.pending import PendingEvictions
from extender.eviction.preemptions import Preemptions
from extender.eviction.repairs import Repairs
from extender.eviction.runtimes import Runtimes
from extender.eviction.sent import AllowedEvictions
from extender.eviction.spares import Spares
from extender.judge import Case, joined, rank
from extender.ledger.earmark import Earmark
from extender.ledger.effects import CollectedEffects, Note
from extender.ledger.rejections import Refusals, Rejections, Vetoes
from extender.ledger.reservations import Reservations
from extender.ledger.slots import Reservation, Slot
from extender.objects.budget import Budgets
from extender.objects.hami import HAMI_PARTS
from extender.objects.jobsigns import JobSigns
from extender.objects.levels import Level
from extender.objects.meta import ObjectRef
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.priority import PriorityClasses
from extender.objects.reason import Problem, Reason, Wait
from extender.placement.candidates import Eligibility, Ranking
from extender.placement.capacityview import CapacityViews, PodSet, PodSetRequest, settled_on
from extender.placement.placement import Better, Placement, describe, next_better
from extender.queues.ageing import Ageing
from extender.queues.order import position
from extender.queues.sharing import Sharing
from extender.settings import Settings

#: Gangs for which conservative backfill keeps room: each costs as many plans as there are before it in every pass that
#: changes anything, and what is kept beyond the first few lies hours ahead.
_MOST_STARTS = 8

#: Steps of a pass in which the turn of a gang may come that is asked about.
_STEPS = 4

#: What is said of members that a gang could have besides, where nothing else is known.
NO_ROOM_BEYOND = "no room for members beyond minMember"

#: Why no room is looked for, for members beyond minMember.
_NOT_ASKED = frozenset({Reason.MAX_MEMBER_REACHED, Reason.HELD, Reason.BACKING_OFF, Reason.WRITES_BACKLOGGED})


class Tenure:
    """Decide from when this process is the one that does until another one is.

    Attributes:
        reservations: the ledger and what changes it.
        vetoes: nodes that kube-scheduler refused.
        clearances: whose place is being cleared.
        preemptions: the search for those who have to leave.
        consolidation: the search for those who may move.
        repairs: running gangs that lack members.
        runtimes: gangs that may only run for so long.
        losses: members on lost nodes.
        spares: the nodes that Queues keep for these.
        heads: for whom room is kept.
        asking: what autoscalers are asked for.
        decider: the pass.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it finds, and leaves to the next one
        self,
        model: ClusterModel,
        sharing: Sharing,
        budgets: Budgets,
        evictions: AllowedEvictions,
        settings: Settings,
        clock: Clock,
        effects: CollectedEffects,
        refusals: Refusals,
        health: NodeHealth,
        node_requests: KnownNodeRequests,
    ) -> None:
        """Begin with nothing decided."""
        self._ageing = Ageing(settings.ageing_seconds, clock)
        self.reservations = Reservations(model, settings, clock, effects, refusals)
        self.vetoes = Vetoes(settings.veto_seconds, clock.monotonic)
        self.pending_evictions = PendingEvictions(model, sharing, self.reservations, evictions, clock, effects)
        self.preemptions = Preemptions(model, sharing, budgets, self.pending_evictions, clock)
        parts = (model, sharing, budgets, self.pending_evictions, self.preemptions.look_at)
        self.consolidation = Consolidation(*parts, clock, effects)
        grace = settings.below_minimum_grace_seconds
        self.repairs = Repairs(model, self.reservations, self.pending_evictions, grace, clock)
        self.runtimes = Runtimes(model, sharing, self.pending_evictions, clock)
        means = (self.reservations, self.pending_evictions, self.preemptions, grace, clock, effects)
        self.losses = Losses(model, sharing, health, budgets, *means)
        self.spares = Spares(model, sharing, self.pending_evictions)
        most = _MOST_STARTS if settings.backfill == "conservative" else 1
        self.heads = HeadEarmarks(model, clock, foresight=settings.backfill != "none", most=most)
        self.asking = NodeRequests(model, node_requests, self.reservations, settings, clock, effects)
        attempts = Attempts(
            model,
            sharing,
            self.reservations,
            self.pending_evictions,
            self.preemptions,
            self.consolidation,
            self.vetoes,
            self.repairs,
            self.heads,
            self.asking,
            effects,
        )
        self.decider = AdmissionPass(
            model,
            sharing,
            self.reservations,
            self.pending_evictions,
            self.preemptions,
            attempts,
            self.vetoes,
            self.repairs,
            self.runtimes,
            self.losses,
            self.spares,
            self.heads,
            self.asking,
            self._ageing,
            clock,
            effects,
        )

    @property
    def keeps(self) -> list[Earmark]:
        """Return all that is kept for gangs that wait."""
        return [*self.heads.keeps, *self.decider.firm.values()]

    def end(self) -> None:
        """Give back in the model what was promised, and nothing in the cluster."""
        self.reservations.ledger.clear()
        self.pending_evictions.stand_down()

    def pass_time(self) -> bool:
        """Do what time alone asks for; return whether a pass is due for it."""
        due = self.reservations.expire() | self.decider.changes.pass_time() | self.preemptions.pass_time()
        if self.heads.due is not None:
            due |= self.heads.pass_time()
        if self.repairs.wounds:
            due |= self.repairs.pass_time()
        if self.losses.open or self.losses.leaving:
            due |= self.losses.pass_time()
        if self.runtimes.runs:
            due |= self.runtimes.pass_time()
        if self.asking.is_on:
            due |= self.asking.pass_time()
        return due

    def next_turn(self) -> float | None:
        """Return when time alone asks for something (seconds, monotonic), or None."""
        reservations = self.reservations
        times = [
            reservations.ledger.next_deadline(),
            reservations.nudges.next(),
            reservations.backoff.next_end(),
            self._ageing.next_end(),
            self.preemptions.next_turn(),
            self.heads.due,
        ]
        if self.vetoes.ends:
            times.append(self.vetoes.next_end())
        if self.repairs.wounds:
            times.append(self.repairs.next_end())
        if self.losses.open or self.losses.leaving:
            times.append(self.losses.next_turn())
        if self.runtimes.runs:
            times.append(self.runtimes.next_turn())
        if self.asking.is_on:
            times.append(self.asking.next_turn())
        return min((time for time in times if time is not None), default=None)


class Problems:
    """Note the problems of objects, each problem of one object once."""

    def __init__(self, model: ClusterModel, clock: Clock, effects: CollectedEffects) -> None:
        """Look at the objects of `model`; nothing has been told of them yet."""
        self._model = model
        self._clock = clock
        self._effects = effects
        self._told: dict[str, tuple[Problem, ...]] = {}  # UID -> what was told
        self._of_hardware: Mapping[ObjectRef, tuple[Problem, ...]] = {}

    def forget_all(self) -> None:
        """Forget what was told: another replica may say other things meanwhile."""
        self._told.clear()
        self._of_hardware = {}

    def forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._told.pop(uid, None)

    def about_everybody(self) -> None:
        """Note the problems of all pods and PodGroups that there are."""
        for pod in self._model.pods.values():
            if pod.options.problems or pod.problem is not None or pod.claims.claims or pod.signs.last_checkpoint:
                self.about_pod(pod)
        for gang in self._model.gangs:
            if gang.group is not None and (gang.group.options.problems or gang.group.options.signs.last_checkpoint):
                self.about_group(gang)

    def about_pod(self, pod: Pod) -> None:
        """Note odd keys of a pod that is for Muster; and of a pod that holds a node, that its request is not usable.

        Of a pod without a node the latter is the reason why its gang waits.
        """
        if pod.claims.claims:
            self.about_domains(pod)
        odd = self._with_future(pod.options.problems, pod.signs)
        if pod.bound and pod.problem is not None:
            self._tell(pod, pod.uid, (pod.problem, *(odd if self._model.manages(pod) else ())))
        elif odd and self._model.manages(pod):
            self._tell(pod, pod.uid, odd)

    def _with_future(self, problems: tuple[Problem, ...], signs: JobSigns) -> tuple[Problem, ...]:
        """Return problems with that of a checkpoint which says to be in the future."""
        if signs.last_checkpoint is None or not signs.is_ahead(self._clock.now().timestamp()):
            return problems
        return (*problems, signs.future_problem())

    def about_domains(self, pod: Pod) -> None:
        """Note why ComputeDomains that a pod joins may never be complete with its gang."""
        gang = self._model.gang_of(pod)
        if gang is not None and self._model.manages(pod) and len(gang.members) >= gang.min_member:
            found = self._model.devices.domain_problems(pod, gang.min_member)
            self._tell(gang.ref, f"{gang.uid}/domains", found)

    def about_group(self, gang: Gang) -> None:
        """Note odd keys of a PodGroup once it is known to be for Muster; a wrong field is the reason why it waits."""
        group = gang.group
        if group is not None and self._model.concerns(gang):
            self._tell(group.ref, group.uid, self._with_future(group.options.problems, group.options.signs))

    def about_hardware(self) -> None:
        """Note what is wrong with objects that describe network and hardware; one that was mended may break again."""
        problems = self._model.problems()
        if problems == self._of_hardware:
            return
        for about in self._of_hardware.keys() - problems.keys():  # in whatever order: it is only forgotten
            self.forget(about.uid)
        for about, found in problems.items():
            self._tell(about, about.uid, found)
        self._of_hardware = problems

    def _tell(self, about: GroupRef | Pod | ObjectRef, uid: str, problems: tuple[Problem, ...]) -> None:
        known = self._told.get(uid, ())
        if problems is known:
            return
        self._effects.notes += (
            Note(about, warning=True, reason="InvalidField", message=str(problem))
            for problem in problems
            if problem not in known
        )
        if problems:
            self._told[uid] = problems


class Admission:
    """Hold what is known of the cluster and what has been decided, and run the pass when something changed.

    `Engine` alone changes it, event by event; everything else reads it. Nothing is decided before `rebuild` has read
    the ledger back from the cluster.

    Attributes:
        settings: the settings.
        clock: the time.
        model: the cluster as the watches last told of it.
        health: which nodes are lost.
        rejections: nodes whose kubelet rejected pods.
        refusals: members that kube-scheduler refuses by itself.
        evictions: the pods that kube-scheduler was allowed to evict lately, or that Muster evicted.
        sharing: the queues, and what is charged to them.
        budgets: how many pods may be evicted.
        node_requests: what autoscalers have been asked for.
        eligibility: which nodes admit a shape by their taints and labels.
        problems: what is wrong with objects that people wrote.
        priorities: the PriorityClasses.
        tenure: what is remembered for as long as this replica decides.
        rebuilt: whether decisions are being made.
        passes: how many passes have run.
        obstacle: why no gang is placed, whatever is free; None where gangs are.
        deciding: whether a pass is under way, of which more steps are to be run.
        unjudged: the gangs that have themselves changed since the last pass.
    """

    def __init__(self, settings: Settings, clock: Clock, effects: CollectedEffects) -> None:
        """Start with an empty cluster; what each event calls for is added to `effects`."""
        self.clock = clock
        self.settings = settings
        self._effects = effects
        self.model = ClusterModel(
            settings.scheduler_names,
            _levels(settings),
            settings.topology_preset,
            settings.placement_goal,
            HAMI_PARTS.union(settings.ignored_resources),
            mapped={each: one.name for one in settings.device_class_mappings for each in one.device_class_names},
        )
        self.health = NodeHealth(_health_policy(settings), clock)
        self.rejections = Rejections(settings.veto_seconds, clock.monotonic)
        self.refusals = Refusals(self.model)
        self.evictions = AllowedEvictions(clock)
        self.sharing = Sharing(self.model, clock, settings.fair_share_half_life_seconds)
        self.budgets = Budgets()
        self.node_requests = KnownNodeRequests()
        self.problems = Problems(self.model, clock, effects)
        self.priorities = PriorityClasses()
        self.tenure = self._begin()
        self.rebuilt = False
        self.passes = 0
        self.eligibility = Eligibility(self.model.table)
        self.unjudged: set[GroupRef] = set()
        self._pending = self.deciding = False
        self._live: CapacityViews | None = None
        self.obstacle: Wait | None = None

    @property
    def reservations(self) -> Reservations:
        """Return the ledger and what changes it."""
        return self.tenure.reservations

    @property
    def vetoes(self) -> Vetoes:
        """Return the nodes that kube-scheduler refused."""
        return self.tenure.vetoes

    @property
    def heads(self) -> tuple[Earmark, ...]:
        """Return for whom room is kept because it does not fit yet, first in the queue first, after the last pass."""
        return self.tenure.heads.keeps

    @property
    def pending(self) -> bool:
        """Tell whether something changed since the last pass began that could change a decision, or it goes on."""
        return (self._pending or self.deciding) and self.rebuilt

    @property
    def is_busy(self) -> bool:
        """Tell whether a pass is under way, or devices are looked at for what is asked for in new words."""
        return self.deciding or self.model.devices.is_reading

    def reconsider(self, ref: GroupRef | None = None) -> None:
        """Ask for a pass, because something about the gang called `ref` changed if one is named."""
        self._pending = True
        if not self.rebuilt:
            self.tenure.decider.changes.nothing()  # a replica that takes up deciding evaluates all
        elif ref is not None:
            self.unjudged.add(ref)

    def waiting_order(self) -> list[GroupRef]:
        """Return the gangs that wait, and have no nodes promised, in the order in which they are evaluated."""
        decider = self.tenure.decider
        line, awaiting = line_up(decider.queues.in_turn(self.sharing.turn)), self.reservations.awaiting
        return [entry.gang.ref for entry in line if entry.gang.uid not in awaiting]

    def rebuild(self) -> None:
        """Take up deciding, once everything has been listed: read the ledger back from the cluster, then judge."""
        self.reservations.rebuild(self._views().admitted)
        self.tenure.pending_evictions.notices.recover()
        self.tenure.decider.forget()
        self.deciding = False
        self.unjudged = {gang.ref for gang in self.model.gangs}
        self.rebuilt = True
        self._pending = True
        self.problems.about_everybody()

    def stand_down(self) -> None:
        """Give up deciding: forget every reservation, pause and veto.

        Nothing is taken back in the cluster: the replica that decides next reads the nominations.
        """
        self.tenure.end()
        self.tenure = self._begin()
        self.rebuilt = self.deciding = False
        self.problems.forget_all()
        self.unjudged.clear()

    def defragment(self, ref: GroupRef, *, apply: bool) -> Defragmentation:
        """Return which moves of others would make a gang fit; with `apply` have them made.

        Raises KeyError if there is no such gang.
        """
        gang = self.model.gangs.get(ref)
        if gang is None:
            raise KeyError(ref)
        request = PodSetRequest.of_gang(gang, core_size(gang, 0))
        pod_set = PodSet(gang, request, settled_on(gang, self.model.table))
        pod_set = joined(pod_set, self.model.table, self.model.tree)
        case = self.case(pod_set, now=self.clock.now().timestamp())
        parts = (self.model, self.sharing, self.budgets, self.tenure.pending_evictions, self.clock)
        found = Defragmenter(*parts).run(case, apply=apply)
        self._pending |= apply
        return found

    def wait_of(self, gang: Gang) -> Wait | None:
        """Return why members of a gang have no node: what it waits for, or else why no more of them have one."""
        wait = self.reservations.waits.get(gang.uid)
        placed = wait is None or gang.uid in self.reservations.awaiting
        if placed and gang.unplaced_count and not gang.spaces:
            return Wait(Reason.MAX_MEMBER_REACHED, {"beyond": gang.unplaced_count})
        entry = self.tenure.decider.queues.get(gang.ref) if placed and gang.unplaced_count else None
        if entry is None and wait is None and gang.unplaced_count and gang.has_minimum:
            return self._pausing(gang)
        return wait if entry is None else entry.short or wait

    def _pausing(self, gang: Gang) -> Wait | None:
        """Return why a gang that runs stands in no queue for its members beyond the minimum."""
        if gang.is_held:
            return Wait(Reason.HELD)
        pause = self.reservations.backoff.pause(gang.uid, self.clock.monotonic())
        return None if pause is None else Wait(Reason.BACKING_OFF, {"attempts": pause.attempts})

    def said_of(self, gang: Gang) -> str:
        """Return what kube-scheduler is told of members of a gang that have no node, without numbers that change."""
        wait = self.wait_of(gang)
        if wait is None:
            return NO_ROOM_BEYOND
        if wait.reason in _NOT_ASKED or wait is self.reservations.waits.get(gang.uid):
            return f"{wait.reason}: {wait.steady_message}"
        more = "" if wait.reason is Reason.INSUFFICIENT_CAPACITY else f": {wait.reason}: {wait.steady_message}"
        return f"{NO_ROOM_BEYOND}{more}"

    def case(self, pod_set: PodSet, *, now: float) -> Case:
        """Return the case of members of a gang as things stand at `now` (epoch seconds).

        It rests on what the verdict about the gang does. One that is not known has no past: it is as if it came now.
        """
        gang, cycle = pod_set.gang, self.tenure.decider.cycle
        known, queue = self.model.gangs.get(gang.ref) is gang, self.sharing.queue_of(gang)
        entry = self.tenure.decider.queues.get(gang.ref) if known else None
        key = None if entry is None else entry.judged_on
        if key is None:
            key = cycle.key_for_newcomer(queue, position(gang) if entry is None else entry.position)
        case = cycle.case(pod_set, queue, key, known=known, now=now)
        case.views = self._views()
        case.obstacle = self.sharing.unusable(queue, gang.ref.namespace) or case.obstacle
        return case

    def rank(self, pod: Pod) -> Ranking | None:
        """Return where a gang of one could go instead of the node that it is promised, as its case stands now.

        None if there is nothing to choose.
        """
        gang = self.model.gangs.get(pod.group)
        if gang is None:
            return None
        request = PodSetRequest.of_members(gang, [pod])
        pod_set = PodSet(gang, request, _pods=[pod])
        case = self.case(pod_set, now=self.clock.now().timestamp())
        case.views = self._live_views()
        return rank(case, pod.uid)

    def _views(self) -> CapacityViews:
        """Return the nodes as a cycle that begins now finds them."""
        table = self.model.table
        rejected = self.rejections.rejected(table) if self.rejections.ends else None
        return CapacityViews(table, self.model.tree, self.eligibility, rejected)

    def _live_views(self) -> CapacityViews:
        """Return the views that passes share as long as no node changes; what is taken of them is put back."""
        live, model = self._live, self.model
        if live is None or live.nodes != model.table.last_node_change or live.tree is not model.tree:
            live = self._live = self._views()
        return live

    def placement_of(self, ref: GroupRef) -> Placement | None:
        """Return where a gang is, or is promised to be, and what is predicted of that; None while it holds no node."""
        gang = self.model.gangs.get(ref)
        if gang is None:
            return None
        return describe(self._places(gang), self.model.table, self.model.tree, gang.topology.objective)

    def next_better(self, gang: Gang, placement: Placement) -> Better | None:
        """Return what a faster placement of a gang than the one it has would take; None if there is none."""
        return next_better(self._places(gang), placement, self.model.table, self.model.tree, gang.topology.objective)

    def _places(self, gang: Gang) -> dict[str, str]:
        """Return pod UID -> node of the members that have a node, or one promised."""
        claim_of = self.model.table.claim_of
        return {uid: claim.node for uid in gang.members if (claim := claim_of(uid)) is not None}

    def hold_off(self, obstacle: Wait | None) -> None:
        """Place no gang from now on: one that could be placed waits for that reason. None lifts it."""
        self._pending |= obstacle != self.obstacle
        self.obstacle = obstacle

    def decide(self) -> bool:
        """Run a step of the pass, if one is under way or anything asks for one; return whether it ran."""
        if not self.pending:
            return False
        decider = self.tenure.decider
        if self.deciding and self._pending and decider.is_telling:
            decider.break_off()  # who waits is told later
            self.deciding = False
        if not self.deciding:
            self._pending = False
            self.unjudged.clear()
            self.passes += 1
            if self._live is not None and self._live.is_crowded:
                self._live = None
        try:
            self.deciding = not decider.run(self._live_views, self.obstacle)
        except Exception:
            self._live = None  # something may be left taken
            raise
        if not self.deciding:
            self._pending |= decider.cycle.again
            self.problems.about_hardware()
        return True

    def decide_on(self, pod: Pod) -> None:
        """Run the pass if the gang of `pod` itself has changed since the last one.

        Whatever else has changed is evaluated when the owner next calls `decide`, a moment later: a refused member is
        asked about again after every change in the cluster, and each answer would cost a pass over all gangs.
        """
        if pod.group in self.unjudged:
            self.give_turn(pod)

    def give_turn(self, pod: Pod) -> None:
        """Go on with the pass until a pod has a node or its gang had its turn: a refused pod comes a second later."""
        for _ in self.steps_to(pod):
            self.decide()

    def steps_to(self, pod: Pod) -> Iterator[None]:
        """Yield for each step of the pass that is to run before a question about a pod is answered: a few at most."""
        for _ in range(_STEPS):
            if not self.pending:
                return
            yield
            entry = self.tenure.decider.queues.get(pod.group)
            had_its_turn = pod.group not in self.model.gangs.changed and (entry is None or entry.is_judged)
            if had_its_turn or self.reservations.ledger.of_pod(pod.uid) is not None:
                return

    def refused(self, reservation: Reservation, slot: Slot, offered: Collection[str]) -> None:
        """Take in that kube-scheduler refuses the planned node for reasons of its own.

        The member changes places with one that is alike and has an offered node, or is placed again.
        """
        if self.reservations.trade(reservation, slot, offered):
            return
        self.vetoes.add(reservation.gang_uid, slot.pod.shape, slot.node)
        self.model.table.touch(slot.node)
        self.reservations.drop(slot.pod.uid, f"kube-scheduler refused node {slot.node}")
        self.reconsider()

    def asked(self, pod: Pod) -> None:
        """Take in that kube-scheduler asks about a pod: it refuses it no longer by itself."""
        if pod.refusal and self.refusals.asked(pod):
            self.follow_refusal(pod)

    def follow_refusal(self, pod: Pod) -> None:
        """Take in that kube-scheduler refuses a pod by itself, or does so no longer."""
        gang = self.model.gangs.get(pod.group)
        if gang is not None and pod.uid not in gang.refused:
            self.reservations.tried_again(gang.uid)
        self.reconsider(pod.group)

    def passed(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member passes kube-scheduler's own filters."""
        self.refusals.let_pass(slot.pod.uid)
        if self.vetoes.of_gangs and self.vetoes.passed(reservation.gang_uid):
            self.model.gangs.touch(reservation.gang_uid)

    def tick(self) -> None:
        """Do what time alone asks for: deadlines, lost nominations, pauses and vetoes that ended."""
        if not self.rebuilt:
            return
        self._pending |= self.tenure.pass_time()
        if self.rejections.ends:
            tried_again = self.rejections.ended(self.clock.monotonic())
            for node in tried_again:
                self.model.table.reassess(node)
            self._pending |= bool(tried_again)
        self._pending |= self.reservations.nudge()

    def next_tick(self) -> float | None:
        """Return when `tick` has something to do next (seconds, monotonic), or None."""
        rejected = self.rejections.next_end() if self.rejections.ends else None
        unwell = self.health.next_turn() if self.health.watched else None
        times = (self.tenure.next_turn(), unwell, rejected)
        return min((time for time in times if time is not None), default=None)

    def _begin(self) -> Tenure:
        """Begin to remember what lasts for as long as this replica decides."""
        parts = (self.model, self.sharing, self.budgets, self.evictions, self.settings, self.clock)
        return Tenure(*parts, self._effects, self.refusals, self.health, self.node_requests)


def _health_policy(settings: Settings) -> HealthPolicy:
    conditions, taints = frozenset(settings.node_lost_conditions), frozenset(settings.node_lost_taints)
    return HealthPolicy(settings.node_lost_seconds, conditions, taints)


def _levels(settings: Settings) -> tuple[Level, ...]:
    return tuple(
        Level(each.name, each.node_label, each.allreduce_factor, each.alltoall_factor)
        for each in settings.topology_levels
    )
