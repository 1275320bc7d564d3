"""Run cases, each on a control plane of its own."""

from __future__ import annotations

import time

from bench.controlplane.catalogue import FULL, SHORT
from bench.controlplane.progress import Progress
from bench.controlplane.stage import Arena
from bench.figures import Figure
from bench.options import Options, Say

#: The names of the cases.
CASES = tuple(FULL)

_REPEATS, _SHORT_REPEATS = 3, 1


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure the cases that `options` names; raise LocalClusterError if a server fails or pods are not bound."""
    known = SHORT if options.short else FULL
    cases = [known[name] for name in options.cases or CASES]
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    progress = Progress(say, time.monotonic, expected=sum(case.seconds(repeats) for case in cases))
    figures: list[Figure] = []
    for case in cases:
        with Arena(case.nodes) as arena:
            figures += case.measure(arena, repeats, progress)
    return figures
