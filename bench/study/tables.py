"""Tables of studies, in Markdown, as docs/studies.md shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.study.documents import PolicyResult, StudyResult

_COLUMNS: Sequence[tuple[str, Callable[[PolicyResult], str]]] = (
    ("policy", lambda policy: f"`{policy.name}`"),
    ("wait: mean", lambda policy: _hours(policy.wait.mean)),
    ("p95", lambda policy: _hours(policy.wait.p95)),
    ("largest tenth: mean", lambda policy: _hours(policy.wait_by_size[-1].mean)),
    ("p95", lambda policy: _hours(policy.wait_by_size[-1].p95)),
    ("slowdown", lambda policy: f"{policy.slowdown.mean:.1f}"),
    ("utilisation", lambda policy: f"{policy.utilisation:.1%}"),
    ("of the bound", lambda policy: f"{policy.utilisation_of_bound:.1%}"),
    ("idle while waiting", lambda policy: f"{policy.idle_while_waiting:.1%}"),
    ("fragmentation", lambda policy: f"{policy.fragmentation:.1%}"),
    ("Jain", lambda policy: f"{policy.jain:.3f}"),
    ("evictions", lambda policy: f"{policy.evictions:,}"),
    ("wasted GPU-hours", lambda policy: f"{policy.wasted_gpu_hours:,.0f}"),
)


def tables(studies: Sequence[StudyResult]) -> str:
    """Return one table for each load."""
    return "\n".join(line for study in studies for line in _table(study))


def _table(study: StudyResult) -> Iterator[str]:
    yield f"Load {study.trace.load:.2f}: {study.trace.jobs:,} gangs over {_hours(study.trace.span)}"
    yield ""
    yield "| " + " | ".join(title for title, _ in _COLUMNS) + " |"
    yield "|---|" + "---:|" * (len(_COLUMNS) - 1)
    for policy in study.policies:
        yield "| " + " | ".join(cell(policy) for _, cell in _COLUMNS) + " |"
    yield ""


def _hours(seconds: float) -> str:
    """Write a time for people: minutes below an hour, hours with one decimal above."""
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004 - an hour
