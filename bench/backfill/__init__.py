"""Backfill: what it costs to say when a gang will start, and what is gained by letting others use the gap.

Here live a line of gangs played event by event (`line`), what starts cost by the size of cluster and gang (`starts`),
and utilisation and waits with EASY, conservative and no backfill (`gains`). The gangs are random, from seeded numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.backfill.gains import measure_gains
from bench.backfill.starts import measure_starts
from bench.figures import Figure
from bench.options import Options, Say

#: What each case measures.
CASES: Mapping[str, str] = {
    "start": "what it takes to say when a waiting gang will start",
    "gain": "utilisation and waits with EASY, conservative and no backfill",
}

_REPEATS, _SHORT_REPEATS = 20, 3


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure the cases that the options name, both without a name."""
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    figures: list[Figure] = []
    cases = options.cases or CASES
    if "start" in cases:
        figures += measure_starts(repeats, say, short=options.short)
    if "gain" in cases:
        figures += measure_gains(say, short=options.short)
    return figures
