"""What would become of gangs that do not exist: judged beside those that do, without any trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.admission.admission import Admission
from extender.admission.explaining.account import Account, explain_gang, name_holders
from extender.admission.explaining.choice import choice_of, places_of
from extender.admission.explaining.material import Material, gather
from extender.admission.explaining.rivals import Rivals, rivals_of
from extender.admission.explaining.scene import Scene
from extender.admission.explaining.suggestions import Suggestion, suggest
from extender.admission.explaining.trial import Outcome, attempt
from extender.admission.site import Demand
from extender.cluster.core import core_size
from extender.cluster.gangs import Gang, needs_object
from extender.control.explanation import Explanation, explanation_json
from extender.control.views import view
from extender.domain.levels import Levels
from extender.domain.submission.podsets import HYPOTHETICAL
from extender.domain.submission.submission import Submitted
from extender.placement.better import next_better

_MAY_EVICT: Final = (
    "there would be room if gangs of lower priority were evicted; which ones, and whether policies and disruption "
    "budgets allow it, is not searched for a question"
)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A gang that somebody thinks of submitting, put together and known to nobody, and what was assumed for it.

    `demand` is what the members ask for that it needs first, None if there are none.
    """

    gang: Gang
    demand: Demand | None = None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What the answer about one newcomer is worked out from: values and copies, for whatever thread."""

    newcomer: Newcomer
    managed: bool
    levels: Levels
    material: Material
    rivals: Rivals


@dataclass(frozen=True, slots=True)
class Answer:
    """What would become of a newcomer."""

    explanation: Explanation
    outcome: Outcome
    suggestions: tuple[Suggestion, ...]
    assumptions: tuple[str, ...]


def newcomers(submitted: Iterable[Submitted], now: float) -> list[Newcomer]:
    """Put gangs together that come at `now` (seconds, monotonic), in whatever thread. Complexity: O(pods)."""
    return [_newcomer(each, now) for each in submitted]


def _newcomer(submitted: Submitted, now: float) -> Newcomer:
    ref, pods = submitted.ref, {pod.uid: pod for pod in submitted.pods}
    oldest = min((pod.created for pod in submitted.pods), default="")
    gang = Gang(ref, f"{HYPOTHETICAL}{ref.api}/{ref}", now, submitted.group, pods, oldest)
    # Of a gang whose PodGroup is in the cluster it is not known yet how many of its pods start together.
    needed = 0 if gang.group is None and needs_object(ref) else core_size(gang, 0)
    return Newcomer(gang, Demand.of_gang(gang, needed) if needed else None, submitted.remarks)


def ask(admission: Admission, newcomer: Newcomer) -> Question:
    """Gather on the event loop what the answer rests on. Nothing that anybody decides by is changed.

    A PodGroup that the newcomer's pods name and nobody submitted is the one in the cluster.
    """
    gang, model = newcomer.gang, admission.model
    assumptions = list(newcomer.assumptions)
    namesake = model.gangs.get(gang.ref)
    if namesake is not None:
        assumptions.append(f"{gang.ref} exists; this is judged as another gang beside it")
        if gang.group is None and namesake.group is not None:
            gang.group = replace(namesake.group, uid=gang.uid, created=gang.oldest_member)
            assumptions.append(f"it is described by the {namesake.group.kind} {gang.ref} of the cluster")
    managed = model.concerns(gang)
    if gang.members and not managed:
        names = " or ".join(sorted(admission.settings.scheduler_names))
        assumptions.append(f"no pod has schedulerName {names}: Muster would leave it alone; judged as if it did not")
    material = gather(admission, gang, newcomer.demand)
    return Question(
        replace(newcomer, assumptions=tuple(assumptions)),
        managed,
        model.tree.levels,
        material,
        rivals_of(admission, gang, material),
    )


def study(question: Question) -> Answer:
    """Work out what would become of a newcomer, in whatever thread, on copies.

    Complexity: that of an explanation, of a plan if it fits, and else of `MOST_TRIALS` trials.
    """
    scene, gang = Scene(question.material), question.newcomer.gang
    account = explain_gang(scene)
    suggestions = suggest(scene, question.rivals)
    outcome = attempt(scene, question.rivals)
    if outcome.nodes:
        account = _with_places(account, scene, outcome)
    seen = view(gang, 0, outcome.wait, managed=question.managed)
    explanation = Explanation(
        view=seen,
        levels=question.levels,
        placement=outcome.placement,
        members=tuple(gang.members.values()),
        promised=outcome.nodes,
        held=outcome.held,
        better=account.better,
        account=account,
        hypothetical=True,
    )
    return Answer(explanation, outcome, suggestions, (*question.newcomer.assumptions, *_about_victims(outcome)))


def complete(admission: Admission, answer: Answer) -> Answer:
    """Say on the event loop who holds what a newcomer lacks."""
    account = answer.explanation.account
    if account is None:
        return answer
    return replace(answer, explanation=replace(answer.explanation, account=name_holders(admission, account)))


def answer_json(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return answers as JSON: explanations, with whether each gang would start and what was assumed."""
    return {
        "gangs": [
            explanation_json(answer.explanation)
            | {
                "wouldStart": bool(answer.outcome.nodes),
                "assumptions": list(answer.assumptions),
                "suggestions": [suggestion.json() for suggestion in answer.suggestions],
            }
            for answer in answers
        ]
    }


def _with_places(account: Account, scene: Scene, outcome: Outcome) -> Account:
    """Return an account of the gang where it would be: the scene's table has it there now."""
    if outcome.placement is None:
        return account
    there = Scene(scene.material)  # what was counted on the first one is outdated
    places, objective = places_of(there), scene.gang.topology.objective
    return replace(
        account,
        placement=outcome.placement,
        better=next_better(places, outcome.placement, there.table, there.tree, objective),
        choice=choice_of(there, outcome.placement),
    )


def _about_victims(outcome: Outcome) -> tuple[str, ...]:
    if not outcome.may_evict:
        return ()
    return (_MAY_EVICT,)
