"""Cases of a benchmark family: each is a module, loaded when it is measured."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, cast

from bench.figures import Figure
from bench.options import Options, Say


class _Case(Protocol):
    def measure(self, options: Options, say: Say) -> list[Figure]: ...


def measure_cases(modules: Mapping[str, str], options: Options, say: Say) -> list[Figure]:
    """Run the cases that the options name, all of them without a name; `modules` has the module of each."""
    figures: list[Figure] = []
    for case in options.cases or modules:
        module = cast("_Case", importlib.import_module(modules[case]))
        figures += module.measure(replace(options, cases=(case,)), say)
    return figures
