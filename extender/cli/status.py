"""`muster status`: how the cluster and Muster itself are, asked of a running Muster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.connecting import Connection, asking, connected
from extender.cli.printing import Report, console, print_document

if TYPE_CHECKING:
    from rich.text import Text

EXIT_NOT_READY = 3

_EPILOG = (
    "Examples: `muster status`; with `make demo` running, `muster status --server http://127.0.0.1:8085`; "
    "`muster status -o json | jq .gpus.free`."
)
_BAR_CELLS = 24


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(status))


def status(
    *,
    output: Annotated[Report, typer.Option("--output", "-o", help="How to print it.")] = Report.TABLE,
    connection: Connection,
) -> None:
    """Say how Muster and the cluster are: leading or not, nodes, GPUs, gangs, who waits for what, latencies.

    Exit codes: 0 Muster is ready, 1 it cannot be asked, 2 refused arguments, 3 it answers but is not ready.
    """
    from extender.cli.documents import document

    with asking("status", connection) as muster:
        answer = document(muster, muster.get("/api/v1/status"), "ready", "gpus", "gangs")
    if not print_document(answer, output):
        shown = console()
        for line in describe(answer, wide=output is Report.WIDE):
            shown.print(line)
    if not answer["ready"]:
        raise typer.Exit(EXIT_NOT_READY)


def describe(answer: Mapping[str, Any], *, wide: bool) -> Iterator[Text]:
    """Yield the lines that say how things are; `wide` adds the latency of each verb."""
    from rich.text import Text

    from extender.cli.amounts import read_time
    from extender.cli.tables import bar, cleaned

    now = read_time(answer.get("time")) or dt.datetime.fromtimestamp(0, dt.UTC)
    yield _headline(answer)
    for reason in answer.get("unready", ()):
        yield Text("  ") + cleaned(reason)
    nodes, gpus = answer["nodes"], answer["gpus"]
    yield _line("nodes", f"{nodes['total']}, {nodes['schedulable']} take pods, {nodes['withGpus']} have GPUs")
    whole = gpus["allocatable"]
    parts = [(gpus["used"], "\u2588", "green"), (gpus["reserved"], "\u2592", "cyan")]
    text = f"{whole}: {gpus['used']} used, {gpus['reserved']} reserved, {gpus['free']} free  "
    yield _line("GPUs", text) + bar(parts, whole, _BAR_CELLS)
    gangs = [f"{count} {phase}" for phase, count in answer["gangs"].items() if count]
    yield _line("gangs", ", ".join(gangs) or "none")
    waiting = [f"{count} {reason}" for reason, count in answer.get("waiting", {}).items()]
    yield _line("waiting", ", ".join(waiting) or "none")
    yield from _longest(answer, now)
    if answer.get("queues"):
        yield _line("queues", str(answer["queues"]))
    yield from _latencies(answer, wide=wide)
    yield from _recording(answer, now)


def _headline(answer: Mapping[str, Any]) -> Text:
    from rich.text import Text

    state, style = ("ready, leading", "green") if answer.get("leading") else ("ready, standing by", "cyan")
    if not answer["ready"]:
        state, style = "not ready", "red"
    return Text.assemble((f"Muster {answer.get('version', '')}: ", "bold"), (state, f"bold {style}"))


def _longest(answer: Mapping[str, Any], now: dt.datetime) -> Iterator[Text]:
    from extender.cli.amounts import age

    oldest = answer.get("oldestWait")
    if oldest:
        yield _line("longest", f"{oldest['gang']} waits for {age(oldest['since'], now)}")


def _latencies(answer: Mapping[str, Any], *, wide: bool) -> Iterator[Text]:
    """Yield what passes and verbs took within the last minute."""
    from extender.cli.amounts import milliseconds

    passes = answer.get("pass") or {}
    timed = [("pass", passes)] + [(one["verb"], one) for one in answer.get("verbs", ())]
    for name, found in timed:
        calls = found.get("calls", found.get("count", 0))
        if calls and (wide or name in {"pass", "filter", "bind"}):
            halves = f"p50 {milliseconds(found['p50Ms'])}, p99 {milliseconds(found['p99Ms'])}"
            yield _line(name, f"{calls} in the last minute, {halves}")


def _recording(answer: Mapping[str, Any], now: dt.datetime) -> Iterator[Text]:
    from extender.cli.amounts import age, size

    recording = answer.get("recording")
    if recording and recording["on"]:
        since = f" of the last {age(recording['since'], now)}" if recording.get("since") else ""
        yield _line("recorded", f"{recording['inputs']} inputs, {size(recording['bytes'])}B{since}")
    elif recording:
        yield _line("recorded", "nothing: recording is off")


def _line(name: str, text: str) -> Text:
    from rich.text import Text

    from extender.cli.tables import cleaned

    return Text.assemble((f"  {name:<9}", "dim"), cleaned(text))
