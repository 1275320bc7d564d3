"""What became of plans when Muster changed hands: read from the logs of all replicas, and from the recorded history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from localcluster.history import Recorder
from localcluster.processes import Server


class Step(NamedTuple):
    """One line of a Muster's log about a gang's plan."""

    at: str
    muster: str
    gang: str
    what: str
    why: str


def steps(musters: Iterable[Server]) -> list[Step]:
    """Return every step of every gang's plan, in the order of their times."""
    found = []
    for muster in musters:
        for line in muster.command.log_path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            if "decision" in entry and "gang" in entry:
                where = (entry["timestamp"], muster.command.name, entry["gang"])
                found.append(Step(*where, entry["event"], entry.get("why", "")))
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Plans:
    """How often gangs were planned: by one Muster after the other, or for no reason that the log tells."""

    gangs: int
    made: int
    needless: Sequence[str]


def count_plans(musters: Iterable[Server]) -> Plans:
    """Count the plans, and name those that were made although the same Muster had one, or the gang had started."""
    standing: dict[str, set[str]] = {}
    started: set[str] = set()
    needless, made = [], 0
    for step in steps(musters):
        holders = standing.setdefault(step.gang, set())
        match step.what:
            case "gang placed":
                made += 1
                if step.muster in holders or step.gang in started:
                    needless.append(f"{step.gang} by {step.muster} at {step.at}")
                holders.add(step.muster)
            case "gang started":
                started.add(step.gang)
            case "gang released" | "reservation expired":
                holders.discard(step.muster)
    return Plans(len(standing), made, needless)


def left_plan(recorder: Recorder, hand_overs: Sequence[float]) -> list[str]:
    """Return the pods that had a nomination when Muster changed hands, and were bound to another node."""
    nominated: dict[str, tuple[str, str]] = {}
    handed: dict[str, tuple[str, str]] = {}
    moved, times = [], sorted(hand_overs)
    for change in recorder.changes():
        if change.object["kind"] != "Pod":
            continue
        while times and change.at >= times[0]:
            times.pop(0)
            handed |= nominated
        name, uid = change.object["metadata"]["name"], change.object["metadata"]["uid"]
        bound = change.object["spec"].get("nodeName")
        if bound:
            nominated.pop(uid, None)
            if uid in handed and handed.pop(uid)[1] != bound:
                moved.append(name)
        elif node := change.object["status"].get("nominatedNodeName"):
            nominated[uid] = (name, node)
    return moved
