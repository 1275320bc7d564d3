"""What became of plans when Muster changed hands: read from the logs of all replicas, and from the recorded history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from localcluster.client import JsonObject
from localcluster.history import Recorder
from localcluster.processes import Server


class Step(NamedTuple):
    """One line of a Muster's log about a gang's plan, for so many of its members, in one of its terms as leader."""

    at: str
    term: str
    gang: str
    what: str
    members: int


def steps(musters: Iterable[Server]) -> list[Step]:
    """Return every step of every gang's plan, in the order of their times."""
    return sorted(step for muster in musters for step in _steps_of(muster))


def _steps_of(muster: Server) -> Iterator[Step]:
    """Iterate over the steps at one Muster; what it places before it says that it leads, it reads back."""
    leads, terms = False, 0
    for line in muster.command.log_path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        event = entry.get("event", "")
        if event == "leading":
            leads = True
            terms += 1
        elif event == "starting" or event.startswith("standing by"):
            leads = False
        elif "decision" in entry and "gang" in entry:
            what = "plan taken over" if event == "gang placed" and not leads else event
            term = f"{muster.command.name}, term {terms if leads else terms + 1}"
            yield Step(entry["timestamp"], term, entry["gang"], what, entry["members"])


@dataclass(frozen=True, slots=True)
class Plans:
    """How often each gang was planned, by whichever Muster, and of those plans the ones without a reason.

    What a Muster reads back when it begins to lead is `taken_over`: that is no plan.
    """

    made: Mapping[str, int]
    taken_over: Mapping[str, int]
    needless: Sequence[str]


def count_plans(musters: Iterable[Server], members: int) -> Plans:
    """Count the plans of gangs of so many members; needless is what places more of them than have no place there."""
    placed: Counter[tuple[str, str]] = Counter()
    made: Counter[str] = Counter()
    taken_over: Counter[str] = Counter()
    needless = []
    for step in steps(musters):
        there = step.gang, step.term
        match step.what:
            case "plan taken over":
                placed[there] += step.members
                taken_over[step.gang] += 1
            case "gang placed":
                made[step.gang] += 1
                placed[there] += step.members
                if placed[there] > members:
                    needless.append(f"{step.gang} by {step.term}, at {step.at}")
            case "gang released" | "reservation expired":
                placed[there] -= step.members
    return Plans(made, taken_over, needless)


def left_plan(recorder: Recorder, hand_overs: Sequence[float], *, whole: int = 0) -> list[str]:
    """Return the pods that had a nomination when Muster changed hands, and were bound to another node.

    A nomination that kube-scheduler took off meanwhile was not handed over. With `whole`, only pods of gangs count of
    which so many members had a nomination or a node: of others, older versions give up all nominations.
    """
    gangs: dict[str, str] = {}  # of pods with a nomination or a node, by UID
    nominated: dict[str, str] = {}
    handed: dict[str, str] = {}
    moved, times = [], sorted(hand_overs)
    for change in recorder.changes():
        if change.object["kind"] != "Pod":
            continue
        while times and change.at >= times[0]:
            times.pop(0)
            counts = Counter(gangs.values())
            handed |= {uid: node for uid, node in nominated.items() if counts[gangs[uid]] >= whole}
        about, status = change.object["metadata"], change.object["status"]
        uid, gang = about["uid"], about["name"].rpartition("-")[0]
        bound = change.object["spec"].get("nodeName")
        if bound:
            gangs[uid] = gang
            nominated.pop(uid, None)
            if handed.pop(uid, bound) != bound:
                moved.append(about["name"])
        elif node := status.get("nominatedNodeName"):
            gangs[uid] = gang
            nominated[uid] = node
        elif _attempt_broke(status):
            for other in [other for other, of in gangs.items() if of == gang and (whole or other == uid)]:
                handed.pop(other, None)
            gangs.pop(uid, None)
            nominated.pop(uid, None)
    return moved


def _attempt_broke(status: JsonObject) -> bool:
    """Tell whether kube-scheduler had no answer about a pod: it takes off the pod's nomination with that."""
    return any(each.get("reason") == "SchedulerError" for each in status.get("conditions") or ())
