"""How good placements are, in predicted GB/s, and what finding them costs: all in one process, without a server.

Here live random clusters and gangs for them (`clusters`), the reference that Muster is compared with (`bestfit`), and
the comparisons: with the reference, with every placement that there is, and of plans and passes with their budget at
full scale. Figures are means over clusters that anybody can draw again: the numbers are seeded. Nothing here knows how
Muster searches; what a placement is worth is asked of `placement.describe` alone, whoever chose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bench.cases import measure_cases
from bench.figures import Figure
from bench.options import Options, Say

#: Case -> the module that measures it, in the order in which they run.
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "best-fit": "bench.fabric.comparison",
        "every-placement": "bench.fabric.exhaustive",
        "goals": "bench.fabric.goals",
        "plan": "bench.fabric.scale",
        "pass": "bench.fabric.scale",
    }
)

#: What each case measures.
CASES: Mapping[str, str] = MappingProxyType(
    {
        "best-fit": "bandwidth, whole nodes and refusals against best fit by count, on random clusters",
        "every-placement": "plans against every placement that there is, on small clusters",
        "goals": "what each placement goal gains in bandwidth and costs in whole nodes",
        "plan": "what a plan takes where the network has three tiers",
        "pass": "what a pass over waiting gangs takes where the network has three tiers",
    }
)


def measure(options: Options, say: Say) -> list[Figure]:
    """Run the cases that the options name, all of them without a name."""
    return measure_cases(_MODULES, options, say)
