"""`muster replay`: the decisions of a snapshot again, offline, and what is different first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from extender.cli.output import json_text
from extender.cli.printing import OutputFormat, console, one_line, say
from extender.cli.snapshot import UnpackMegabytes

if TYPE_CHECKING:
    from extender.journal.archive import Snapshot
    from muster_lab.replay.verdict import ReplayVerdict

EXIT_DIFFERENT = 1
EXIT_UNREADABLE = 2

_EPILOG = (
    "Examples: `muster replay muster-snapshot.tar.gz`; `muster replay bug.tar.gz --until 800`; "
    "`muster replay bug.tar.gz -o json | jq .difference`."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(replay)


def replay(
    file: Annotated[Path, typer.Argument(help="What `muster snapshot save` wrote.")],
    *,
    until: Annotated[int | None, typer.Option(min=1, help="Play only so many inputs.")] = None,
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print it.")] = OutputFormat.TABLE,
    unpack_megabytes: UnpackMegabytes = None,
) -> None:
    """Play a snapshot: every input again at the same times, each answer compared with the recorded one.

    Stops at the first difference and shows it. Needs no cluster and no running Muster, and writes nothing.

    Exit codes: 0 all the same, 1 something is different, 2 the file cannot be read, or refused arguments.
    """
    from extender import __version__
    from extender.journal.archive import USUAL_MEGABYTES, SnapshotError, unpack

    try:
        snapshot = unpack(file.read_bytes(), unpack_megabytes or USUAL_MEGABYTES)
        verdict = _played(snapshot, until)
    except OSError as error:
        _fail(f"{file}: {error.strerror or error}")
    except SnapshotError as error:
        _fail(f"{file}: {error}")
    except MemoryError:
        _fail(f"{file}: it needs more memory than there is")
    warnings = []
    if snapshot.header.muster != __version__:
        warnings.append(
            f"recorded by Muster {snapshot.header.muster}, played by {__version__}: what was changed in between may be "
            "why something is different"
        )
    if output is OutputFormat.JSON:
        say(json_text(_document(snapshot, verdict, warnings)))
    else:
        for warning in warnings:
            say(f"muster replay: {warning}", err=True)
        _show(snapshot, verdict)
    if not verdict.same:
        raise typer.Exit(EXIT_DIFFERENT)


def _fail(message: str) -> NoReturn:
    say(f"muster replay: {' '.join(message.splitlines())}", err=True)
    raise typer.Exit(EXIT_UNREADABLE)


def _played(snapshot: Snapshot, until: int | None) -> ReplayVerdict:
    """Play it, with a bar on a terminal."""
    from rich.progress import Progress

    from muster_lab.replay.verdict import judge

    shown = console(stderr=True)
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("playing", total=min(until or snapshot.header.inputs, snapshot.header.inputs))
        return judge(snapshot, until, lambda played: progress.update(task, completed=played))


def _show(snapshot: Snapshot, verdict: ReplayVerdict) -> None:
    from muster_lab.replay.verdict import describe, outcome

    total = f"{verdict.played:,} of {snapshot.header.inputs:,} inputs, {verdict.passes:,} passes"
    if verdict.difference is None:
        if verdict.state:
            say(f"different: {total}; all answers are the same, and yet the state at the end is not\n")
            say(f"  state.json {verdict.state}")
        else:
            end = ", and the state at the end" if verdict.whole else ""
            say(f"same: {total}{end}")
        return
    difference = verdict.difference
    say(f"different at input {difference.seq:,} of {snapshot.header.inputs:,}\n")
    for place, noted in enumerate(verdict.before, difference.seq - len(verdict.before)):
        say(f"  before    {place:,} {one_line(describe(noted))} -> {outcome(noted.came)[:200]}")
    say(f"  input     {difference.seq:,} {one_line(describe(difference.noted))}")
    say(f"  expected  {outcome(difference.expected)}")
    say(f"  got       {outcome(difference.got)}")
    if difference.clock:
        say(f"  clock     {difference.clock}")


def _document(snapshot: Snapshot, verdict: ReplayVerdict, warnings: list[str]) -> dict[str, Any]:
    from muster_lab.replay.verdict import describe, details, outcome

    found = verdict.difference
    return {
        "same": verdict.same,
        "played": verdict.played,
        "inputs": snapshot.header.inputs,
        "passes": verdict.passes,
        "muster": snapshot.header.muster,
        "anonymised": snapshot.header.anonymised,
        "warnings": warnings,
        "state": verdict.state or None,
        "difference": None
        if found is None
        else {
            "seq": found.seq,
            "input": found.noted.name,
            "summary": describe(found.noted),
            "arguments": details(found.noted),
            "expected": outcome(found.expected),
            "got": outcome(found.got),
            "clock": found.clock or None,
            "before": [describe(noted) for noted in verdict.before],
        },
    }
