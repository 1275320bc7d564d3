"""What was found, as tables that people read: one for each case, a row for each contender, bounds below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from bench.controlplane.cases import Case, Comparison
from bench.controlplane.contenders import Contender
from bench.controlplane.growthcases import Growth
from bench.controlplane.mixedcases import KINDS, RANKS, Arrivals
from bench.figures import Figure

#: Characters of a line.
WIDTH = 140
#: Processor time of each, in the order of the table: what is shown in one column is added up.
_PROCESSES: Mapping[str, tuple[str, ...]] = {
    "API server + etcd": ("apiserver", "etcd"),
    "kube-scheduler": ("scheduler",),
    "Muster": ("muster",),
}
_COSTS = tuple(f"{name}, CPU ms a pod" for name in _PROCESSES)


def summaries(cases: Sequence[Case], figures: Mapping[str, Figure]) -> Iterator[Table]:
    """Yield the table of each case that has one, from its figures by name."""
    for case in cases:
        match case:
            case Comparison():
                table = _comparison(case, figures)
            case Arrivals():
                table = _arrivals(case, figures)
            case Growth():
                table = _growth(case, figures)
            case _:
                continue
        bounded = (figure for name, figure in figures.items() if name.startswith(f"{case.name}_") and figure.verdict)
        table.caption = "\n".join(f"{figure.name} {_spread(figure)} {figure.verdict}" for figure in bounded)
        yield table


def _comparison(case: Comparison, figures: Mapping[str, Figure]) -> Table:
    table = _table(
        case.title, "all bound, s", *_COSTS, "writes a pod", "answered 429", "Muster / this", "others, processors"
    )
    for contender in case.contenders:
        prefix = f"{case.name}_{contender}"
        ratio = figures.get(f"{case.name}_vs_{contender}")
        table.add_row(
            contender.label,
            _spread(figures[f"{prefix}_s"]),
            *_costs(prefix, figures),
            *_writes(prefix, figures),
            "" if ratio is None else _spread(ratio),
            _others(prefix, figures),
        )
    return table


def _arrivals(case: Arrivals, figures: Mapping[str, Figure]) -> Table:
    waits = [(kind, rank) for kind in KINDS for rank in RANKS]
    titles = [f"{kind} p{rank}, ms" for kind, rank in waits]
    table = _table(case.title, *titles, *_COSTS, "writes a pod", "answered 429", "others, processors")
    for contender in case.contenders:
        prefix = f"{case.name}_{contender}"
        table.add_row(
            contender.label,
            *(_spread(figures[f"{prefix}_{kind}_p{rank}_ms"], 0) for kind, rank in waits),
            *_costs(prefix, figures),
            *_writes(prefix, figures),
            _others(prefix, figures),
        )
    return table


def _growth(case: Growth, figures: Mapping[str, Figure]) -> Table:
    titles = (
        "all bound, s",
        *_COSTS,
        "writes a pod",
        "answered 429",
        "given up",
        "turns over 10 ms",
        "longest turn, ms",
    )
    table = _table(case.title, *titles, "others, processors", first="pods")
    for size in case.sizes:
        prefix = f"{case.name}_{size}"
        of_muster = f"{prefix}_{Contender.MUSTER}"
        table.add_row(
            f"{size:,}",
            _spread(figures[f"{of_muster}_s"]),
            *_costs(of_muster, figures),
            *_writes(of_muster, figures),
            f"{figures[f'{prefix}_given_up'].value:.0f}",
            _spread(figures[f"{prefix}_busy_turns"], 0),
            _spread(figures[f"{prefix}_longest_turn_ms"]),
            _others(of_muster, figures),
        )
    return table


def _table(title: str, *columns: str, first: str = "") -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _costs(prefix: str, figures: Mapping[str, Figure]) -> Iterator[str]:
    """Yield the processor time of each column, empty where a contender has no such process."""
    for processes in _PROCESSES.values():
        found = [figures[name] for process in processes if (name := f"{prefix}_cpu_{process}_ms") in figures]
        yield f"{sum(figure.value for figure in found):.2f}" if found else ""


def _writes(prefix: str, figures: Mapping[str, Figure]) -> Iterator[str]:
    """Yield the writes by pod, and how many in all were answered 429."""
    yield f"{figures[f'{prefix}_writes'].value:.2f}"
    yield _spread(figures[f"{prefix}_writes_refused"], 0)


def _others(prefix: str, figures: Mapping[str, Figure]) -> str:
    """Return how many processors others kept busy, in the run in which it was most."""
    return f"{figures[f'{prefix}_elsewhere'].high:.2f}"


def _spread(figure: Figure, digits: int = 2) -> str:
    """Return the median, and the least and the most of several repeats."""
    value, low, high = (f"{number:.{digits}f}" for number in (figure.value, figure.low, figure.high))
    return value if figure.low == figure.high else f"{value} ({low} to {high})"
