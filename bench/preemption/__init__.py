"""Whom to evict: what a search takes on a full cluster, and how far what it finds is from the best there is.

Here live full clusters drawn from a seed (`occupied`), searches on large ones against their budget (`scale`), and
small ones on which every choice is tried (`everychoice`), by a way of counting that shares nothing with the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bench.cases import measure_cases
from bench.figures import Figure
from bench.options import Options, Say

#: Case -> the module that measures it, in the order in which they run.
_MODULES: Mapping[str, str] = MappingProxyType(
    {"search": "bench.preemption.scale", "every-choice": "bench.preemption.everychoice"}
)

#: What each case measures.
CASES: Mapping[str, str] = MappingProxyType(
    {
        "search": "what a search for victims takes on a large full cluster",
        "every-choice": "what is found against every choice that there is, on small clusters",
    }
)


def measure(options: Options, say: Say) -> list[Figure]:
    """Run the cases that the options name, all of them without a name."""
    return measure_cases(_MODULES, options, say)
