"""Run cases, each on a control plane of its own, and say at the end what was found in tables that people read."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from bench.controlplane.cases import Case, Comparison
from bench.controlplane.catalogue import FULL, SHORT
from bench.controlplane.contenders import Contender
from bench.controlplane.mixedcases import Arrivals
from bench.controlplane.progress import Progress, duration
from bench.controlplane.stage import Arena
from bench.controlplane.summary import WIDTH, summaries
from bench.controlplane.waitingcases import NextGang
from bench.figures import Figure
from bench.options import Options, Say
from localcluster.errors import LocalClusterError

_REPEATS, _SHORT_REPEATS = 3, 1

#: What each case measures, and about how long that takes.
CASES: Mapping[str, str] = {
    name: f"{case.title}; about {duration(case.seconds(_REPEATS))}" for name, case in FULL.items()
}


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure the cases that `options` names; raise LocalClusterError if a server fails or pods are not bound."""
    known = SHORT if options.short else FULL
    cases = [among(known[name], name, options.contenders) for name in options.cases or CASES]
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    progress = Progress(say, time.monotonic, expected=sum(case.seconds(repeats) for case in cases))
    figures: list[Figure] = []
    for case in cases:
        say(f"{case.title}: {case.nodes} nodes, {case.occupied} of them taken")
        with Arena(case.nodes, case.occupied) as arena:
            figures += case.measure(arena, repeats, progress)
    for table in summaries(cases, {figure.name: figure for figure in figures}):
        printed = io.StringIO()
        Console(file=printed, width=WIDTH).print(table)
        say(printed.getvalue())
    return figures


def among(case: Case, name: str, contenders: Sequence[str]) -> Case:
    """Return the case with only those of its contenders that are wanted, all if none is named.

    Cases that look at Muster alone stay as they are. Raises LocalClusterError if a case has none of them.
    """
    wanted = [Contender(contender) for contender in contenders]
    if not wanted or not isinstance(case, Comparison | Arrivals | NextGang):
        return case
    if not (kept := [contender for contender in case.contenders if contender in wanted]):
        raise LocalClusterError(f"{name} has no {', '.join(wanted)}; it has {', '.join(case.contenders)}")
    if isinstance(case, Comparison):
        return replace(case, contenders={contender: case.contenders[contender] for contender in kept})
    return replace(case, contenders=tuple(kept))
