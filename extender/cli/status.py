"""`muster status`: how the cluster and Muster itself are, asked of a running Muster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import typer
from rich.text import Text

from extender.cli.connecting import Connection, answered, refusals
from extender.cli.output import DOCUMENT, DocumentFormat, Output, print_answer
from extender.cli.printing import age, bar, cleaned, console, hidden_gangs, milliseconds, one_line, read_time, size
from extender.service.board.documents import StatusDocument

EXIT_NOT_READY = 3

_EPILOG = (
    "Examples: `muster status`; with `make demo` running, `muster status --server http://127.0.0.1:8085`; "
    "`muster status -o json | jq .gpus.free`."
)
_BAR_CELLS = 24


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(status)


def status(
    *,
    output: DocumentFormat = "table",
    connection: Connection,
) -> None:
    """Say how Muster and the cluster are: leading or not, nodes, GPUs, gangs, who waits for what, latencies.

    Exit codes: 0 Muster is ready, 1 it cannot be asked, 2 refused arguments, 3 it answers but is not ready.
    """
    with refusals("status"):
        how = Output.read(output, DOCUMENT)
    body, answer = answered("status", connection, "/api/v1/status", StatusDocument)
    if not print_answer(body, how):
        shown = console()
        for line in describe(answer, wide=how.wide):
            shown.print(line)
    if not answer.ready:
        raise typer.Exit(EXIT_NOT_READY)


def describe(answer: StatusDocument, *, wide: bool) -> Iterator[Text]:
    """Yield the lines that say how things are; `wide` adds the latency of each verb."""
    now = read_time(answer.time) or dt.datetime.fromtimestamp(0, dt.UTC)
    yield _headline(answer)
    for reason in answer.unready:
        yield Text("  ") + cleaned(reason)
    nodes, gpus = answer.nodes, answer.gpus
    if "nodes" in answer.hidden:
        yield _line("nodes", "not shown: you may not list nodes")
    else:
        yield _line("nodes", f"{nodes.total}, {nodes.schedulable} take pods, {nodes.with_gpus} have GPUs")
        whole = gpus.allocatable
        parts = [(gpus.used, "\u2588", "green"), (gpus.reserved, "\u2592", "cyan")]
        text = f"{whole}: {gpus.used} used, {gpus.reserved} reserved, {gpus.free} free  "
        yield _line("GPUs", text) + bar(parts, whole, _BAR_CELLS)
    gangs = [f"{count} {phase}" for phase, count in answer.gangs.items() if count]
    yield _line("gangs", ", ".join(gangs) or "none")
    if answer.hidden_gangs:
        yield _line("", hidden_gangs(answer.hidden_gangs))
    waiting = [f"{count} {reason}" for reason, count in answer.waiting.items()]
    yield _line("waiting", ", ".join(waiting) or "none")
    yield from _longest(answer, now)
    if answer.queues:
        yield _line("queues", str(answer.queues))
    yield from _latencies(answer, wide=wide)
    yield from _recording(answer, now)


def _headline(answer: StatusDocument) -> Text:
    state, style = ("ready, leading", "green") if answer.leading else ("ready, standing by", "cyan")
    if not answer.ready:
        state, style = "not ready", "red"
    return Text.assemble((f"Muster {one_line(answer.version)}: ", "bold"), (state, f"bold {style}"))


def _longest(answer: StatusDocument, now: dt.datetime) -> Iterator[Text]:
    oldest = answer.oldest_wait
    if oldest is not None:
        yield _line("longest", f"{oldest.gang} waits for {age(oldest.since, now)}")


def _latencies(answer: StatusDocument, *, wide: bool) -> Iterator[Text]:
    """Yield what passes and verbs took within the last minute."""
    for name, found in (("pass", answer.passes), *((each.verb, each) for each in answer.verbs)):
        if found.calls and (wide or name in {"pass", "filter", "bind"}):
            halves = f"p50 {milliseconds(found.p50)}, p99 {milliseconds(found.p99)}"
            yield _line(name, f"{found.calls} in the last minute, {halves}")


def _recording(answer: StatusDocument, now: dt.datetime) -> Iterator[Text]:
    recording = answer.recording
    if recording.on:
        since = f" of the last {age(recording.since, now)}" if recording.since else ""
        yield _line("recorded", f"{recording.inputs} inputs, {size(recording.size)}B{since}")
    else:
        yield _line("recorded", "nothing: recording is off")


def _line(name: str, text: str) -> Text:
    return Text.assemble((f"  {one_line(name):<9}", "dim"), cleaned(text))
