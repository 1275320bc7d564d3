"""What would become of gangs that do not exist: evaluated beside those that do, without any trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from msgspec.structs import asdict

from extender.admission.admission import Admission
from extender.admission.intake import wanted
from extender.cluster.gangs import Gang, core_size, needs_object
from extender.cluster.occupancy import Held
from extender.eviction.search.search import FoundPreemption
from extender.explain.account import explain_gang, name_holders, places_of, with_places
from extender.explain.documents import SuggestedChange, WhatIfDocument, WhatIfExplanation
from extender.explain.evictable import Evictable, in_words
from extender.explain.explanation import GangFacts, explanation
from extender.explain.inquiry import Inquiry, copying, inquire
from extender.explain.parts import part_tree
from extender.explain.quotas import quota_standing
from extender.explain.runtimes import LearnedRuntimes
from extender.explain.suggestions import suggest
from extender.explain.views import view
from extender.judge import CLEARABLE, judge
from extender.objects.levels import Levels
from extender.objects.podgroup import HYPOTHETICAL, PodGroup
from extender.objects.reason import Wait
from extender.objects.submission import Submitted
from extender.placement.capacityview import PodSetRequest
from extender.placement.placement import Placement, describe
from extender.placement.plan import Plan


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A gang that is not submitted, put together outside the state, and what was assumed for it.

    `demand` is what the members ask for that it needs first, None if there are none.
    """

    gang: Gang
    demand: PodSetRequest | None = None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIfCase:
    """What the answer about one newcomer is worked out from: values and copies, for whatever thread."""

    newcomer: Newcomer
    managed: bool
    levels: Levels
    inquiry: Inquiry
    evictable: Evictable


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What would become of a gang: a node for each member that it needs, by UID, or why it would wait.

    `placement` is what is predicted there, `held` which GPUs and zones the members would have. `evictions` are
    those that would be evicted for it now, of those that may be.
    """

    wait: Wait | None = None
    nodes: Mapping[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    held: Mapping[str, Held] = field(default_factory=dict)
    evictions: FoundPreemption | None = None


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """What would become of a newcomer."""

    facts: GangFacts
    outcome: TrialOutcome
    suggestions: tuple[SuggestedChange, ...]
    assumptions: tuple[str, ...]


def newcomers(submitted: Iterable[Submitted], now: float) -> list[Newcomer]:
    """Put gangs together that come at `now` (seconds, monotonic), in whatever thread. Complexity: O(pods)."""
    return [_newcomer(each, now) for each in submitted]


def _newcomer(submitted: Submitted, now: float) -> Newcomer:
    ref, pods = submitted.ref, {pod.uid: pod for pod in submitted.pods}
    oldest = min((pod.created for pod in submitted.pods), default="")
    gang = Gang(ref, f"{HYPOTHETICAL}{ref.api}/{ref}", now, None, pods, oldest)
    _describe(gang, submitted.group)
    # Of a gang whose PodGroup is in the cluster it is not known yet how many of its pods start together.
    needed = 0 if gang.group is None and needs_object(ref) else core_size(gang, 0)
    return Newcomer(gang, PodSetRequest.of_gang(gang, needed) if needed else None, submitted.remarks)


def _describe(gang: Gang, group: PodGroup | None) -> None:
    """Let a gang be described by an object; its members are of the parts that this tells apart."""
    gang.group = group
    if group is not None and group.label_parts:
        for pod in list(gang.members.values()):
            gang.join(replace(pod, role=group.role_of(pod.role, pod.labels)))


def ask(admission: Admission, newcomer: Newcomer, now: float, runtimes: LearnedRuntimes | None = None) -> WhatIfCase:
    """Gather on the event loop what the answer at `now` (epoch seconds) rests on. No decision depends on it.

    How long others run that do not say is learned from `runtimes`.
    A PodGroup that the newcomer's pods name and that was not submitted is the one in the cluster.
    """
    gang, model = newcomer.gang, admission.model
    assumptions = list(newcomer.assumptions)
    namesake = model.gangs.get(gang.ref)
    if namesake is not None:
        assumptions.append(f"{gang.ref} exists; this is evaluated as another gang beside it")
        if gang.group is None and namesake.group is not None:
            _describe(gang, replace(namesake.group, uid=gang.uid, created=gang.oldest_member))
            assumptions.append(f"it is described by the {namesake.group.kind} {gang.ref} of the cluster")
    managed = model.concerns(gang)
    if gang.members and not managed:
        names = " or ".join(sorted(admission.settings.scheduler_names))
        assumptions.append(f"no pod has schedulerName {names}: Muster would leave it alone; evaluated as if it did not")
    inquiry = inquire(admission, gang, now, newcomer.demand)
    stated = replace(newcomer, assumptions=tuple(assumptions))
    evictable = Evictable(admission, inquiry.live.queue, now, runtimes)
    return WhatIfCase(stated, managed, model.tree.levels, inquiry, evictable)


def study(question: WhatIfCase) -> WhatIfAnswer:
    """Work out what would become of a newcomer, in whatever thread, on copies.

    Complexity: that of an explanation, of a plan if it fits, and else of `MOST_TRIALS` trials.
    """
    inquiry, gang = question.inquiry, question.newcomer.gang
    account = explain_gang(inquiry)
    suggestions = suggest(inquiry, question.evictable, account.holdings)
    quota = quota_standing(inquiry, question.evictable)
    outcome = attempt(inquiry, question.evictable)
    if outcome.placement is not None:
        there = replace(inquiry)  # what was counted on the first one is outdated
        there.gang.weighed = inquiry.gang.weighed
        account = with_places(account, there, outcome.placement)
    seen = view(gang, 0, outcome.wait, managed=question.managed)
    facts = GangFacts(
        view=seen,
        levels=question.levels,
        members=tuple(gang.members.values()),
        account=account,
        promised=outcome.nodes,
        held=outcome.held,
        quota=quota,
        hypothetical=True,
        parts=part_tree(copying(gang, outcome.nodes)(), outcome.nodes, inquiry.views, outcome.wait),
    )
    assumptions = question.newcomer.assumptions
    if outcome.evictions is not None:
        who = in_words(outcome.evictions)
        assumptions = (*assumptions, f"{who} would be evicted for it, as policies and disruption budgets allow now")
    return WhatIfAnswer(facts, outcome, suggestions, assumptions)


def attempt(inquiry: Inquiry, evictable: Evictable) -> TrialOutcome:
    """Judge a gang as the cycle would. If it fits, the copy has it from then on: ask what else there is before."""
    case = inquiry.case
    lacking = wanted(case.gang, len(inquiry.promised))
    if isinstance(lacking, Wait):
        return TrialOutcome(lacking)
    if not case.pod_set.demand.pods:
        return TrialOutcome(case.obstacle)
    found = judge(case)
    if isinstance(found, Plan):
        return _placed(inquiry, found)
    if found.wait.reason not in CLEARABLE:
        return TrialOutcome(found.wait)
    own = case.gang.priority
    tried = (evictable.search(case, option, own, math.inf) for option in (*found.nodes, *found.quota))
    return TrialOutcome(found.wait, evictions=next(filter(None, tried), None))


def _placed(inquiry: Inquiry, found: Plan) -> TrialOutcome:
    """Return what is predicted of a plan, by making it true on the copy."""
    table, gang = inquiry.table, inquiry.gang
    for uid, node in found.nodes.items():
        table.claim(uid, node, gang.members[uid].shape)
    table.occupancy.refresh()
    gang.weighed = found.weighed
    places = places_of(inquiry)
    placement = describe(places, table, inquiry.tree, gang.topology.objective)
    held = {uid: had for uid in places if (had := table.occupancy.held(uid)) is not None}
    return TrialOutcome(None, found.nodes, placement, held)


def complete(admission: Admission, answer: WhatIfAnswer, now: float) -> WhatIfAnswer:
    """Say on the event loop who holds what a newcomer lacks, at `now` (epoch seconds)."""
    account = name_holders(admission, answer.facts.account, now)
    return replace(answer, facts=replace(answer.facts, account=account))


def whatif_document(answers: Iterable[WhatIfAnswer], passed_over: tuple[str, ...] = ()) -> WhatIfDocument:
    """Write answers down: whether each gang would start, what was assumed, and which objects make no pods."""
    return WhatIfDocument(tuple(map(_explanation, answers)), passed_over)


def _explanation(answer: WhatIfAnswer) -> WhatIfExplanation:
    facts = replace(answer.facts, suggestions=answer.suggestions)
    return WhatIfExplanation(
        **asdict(explanation(facts)), would_start=bool(answer.outcome.nodes), assumptions=answer.assumptions
    )
