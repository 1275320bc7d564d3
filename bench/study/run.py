"""Play the study: which traces, which policies; one JSON for each load."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from muster_lab.study.fleet import Fleet
from muster_lab.study.player import Progress
from muster_lab.study.policy import POLICIES, StudyPolicy
from muster_lab.study.study import study, study_json
from muster_lab.traces.synthetic import Recipe, generate
from muster_lab.traces.trace import Trace

#: Loads that are played, and the policies in the order of the plots' legends.
LOADS = (0.9, 1.0, 1.1)
NAMES = ("fifo", "earmark", "easy", "conservative", "priority", "preemptive", "shares")
#: How often jobs save their progress (seconds): what an eviction loses at most.
CHECKPOINT = 1_800.0
#: Progress is told whenever so many more jobs have ended.
_EVERY = 500


def play(recipe: Recipe, loads: Sequence[float], names: Sequence[str], into: Path) -> None:
    """Play one trace for each load under each policy, and write `study-LOAD.json`, policies played before kept."""
    into.mkdir(parents=True, exist_ok=True)
    for load in loads:
        file = into / f"study-{round(load * 100):03d}.json"
        document = orjson.loads(file.read_bytes()) if file.exists() else None
        trace = generate(replace(recipe, load=load))
        trace = Trace.of(replace(job, checkpoint=CHECKPOINT) for job in trace.jobs)
        for name in names:
            result = study(trace, Fleet(recipe.nodes, recipe.gpus), [POLICIES[name]], _progress)
            spent = result.played[0].history.cpu_seconds
            sys.stderr.write(f"load {load:g}, {name}: {spent:.0f} CPU seconds\n")
            played = study_json(result)
            if document is not None:
                others = [policy for policy in document["policies"] if policy["name"] != name]
                ranked = sorted([*others, *played["policies"]], key=lambda policy: NAMES.index(policy["name"]))
                played["policies"] = ranked
            document = played
            file.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))


def _progress(policy: StudyPolicy) -> Progress:
    """Return what tells how far a policy has come, a line for every few hundred jobs."""
    told = 0

    def tell(ended: int, now: float, waiting: int) -> None:
        nonlocal told
        if ended >= told + _EVERY:
            told = ended
            sys.stderr.write(f"  {policy.name}: {ended} ended after {now / 3600:.1f} h, {waiting} are there\n")

    return tell
