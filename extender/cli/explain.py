"""`muster explain`: how a gang stands, or what would become of one that is not submitted yet."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from extender.cli.asking import ServerError, gang_path
from extender.cli.completing import gang_names
from extender.cli.connecting import Connection, NamespaceOption, asking, found, refusals
from extender.cli.output import DOCUMENT, DocumentFormat, Output, print_answer
from extender.cli.printing import (
    Cell,
    Column,
    bar,
    cleaned,
    console,
    lines,
    local_time,
    with_local_times,
)
from extender.explain.documents import (
    Explanation,
    HolderRow,
    MemberRow,
    NodeWaterfall,
    PartRow,
    WhatIfDocument,
    WhatIfExplanation,
)

#: Members that are listed at most; the JSON has all.
_MOST_MEMBERS = 40
#: Parts of a gang that are listed at most.
_MOST_PARTS = 40
#: What leads to a part that has others below it, and down to these; and to the last one.
_FORKS = (("\u251c\u2500", "\u2502"), ("\u2514\u2500", " "))
#: Shapes of pods whose nodes are counted off at most.
_MOST_SHAPES = 3
_BAR_CELLS = 24


def show_explanation(console: Console, answer: Explanation, *, wide: bool = False) -> None:
    """Print what the service says of a gang; `wide` lists everything, however long."""
    heading = f"{answer.namespace}/{answer.name}: {_state(answer)}"
    console.print(cleaned(heading), style="bold")
    assumptions = answer.assumptions if isinstance(answer, WhatIfExplanation) else ()
    for line in (*assumptions, *answer.remarks):
        console.print(_indented(line), highlight=False)
    _show_parts(console, answer, wide=wide)
    falls = answer.waterfall
    for fall in falls if wide else falls[:_MOST_SHAPES]:
        _show_waterfall(console, fall)
    if not wide and len(falls) > _MOST_SHAPES:
        console.print(f"and {len(falls) - _MOST_SHAPES} kinds of pods more (-o wide has all)", highlight=False)
    _show_holders(console, answer.holders)
    _show_lines(console, "why there", () if answer.choice is None else answer.choice.lines)
    for later, then in ((False, "it would start now with one of these changes"), (True, "it would start later")):
        _show_lines(console, then, [each.message for each in answer.suggestions or () if each.later is later])
    _show_members(console, answer.pods, wide=wide)


def show_verdict(console: Console, gangs: Sequence[WhatIfExplanation]) -> None:
    """Print in one line what would become of several gangs that were asked about."""
    starting = sum(1 for gang in gangs if gang.would_start)
    if len(gangs) > 1:
        console.print(f"{starting} of {len(gangs)} gangs would start now, each evaluated by itself", highlight=False)


def _state(answer: Explanation) -> str:
    """Return what matters most: of a gang that is only asked about, whether it would start."""
    if not isinstance(answer, WhatIfExplanation):
        return answer.headline
    if not answer.would_start:
        return "would wait"
    nodes = {pod.node for pod in answer.pods if pod.node}
    count = f"on {len(nodes)} node{'s' if len(nodes) != 1 else ''}"
    said = "" if answer.placement is None else answer.headline.partition(", ")[2]
    return f"would start now {count}{f', {said}' if said else ''}"


def _show_parts(console: Console, answer: Explanation, *, wide: bool) -> None:
    """Print the parts of a gang as a tree, those that it does without as extras."""
    if answer.parts is None:
        return
    rows = list(_part_cells(answer.parts, answer.parts.name or answer.name))
    shown = rows if wide else rows[:_MOST_PARTS]
    numbers = (Column(heading, right=True) for heading in ("BOUND", "RUNNING", "EXIST", "LACKS"))
    columns = [Column("PART"), Column("STATE"), *numbers, Column("LEVEL"), Column("WITHIN"), Column("REASON")]
    console.print()
    for line in lines(columns, shown):
        console.print(Text("  ") + line, highlight=False)
    if len(rows) > len(shown):
        console.print(f"and {len(rows) - len(shown)} parts more (-o wide has all)", highlight=False)


def _part_cells(part: PartRow, name: str, inside: str = "") -> Iterator[list[Cell]]:
    """Yield the cells of a part and of those inside it, whose lines begin with `inside`."""
    counts = (f"{part.bound}/{part.minimum}", str(part.running), str(part.exist), str(part.lacks or "-"))
    level = part.required or (f"{part.preferred} (preferred)" if part.preferred else "-")
    within = " ".join(filter(None, (part.level, part.domain))) or "-"
    yield [name, part.state if part.needed else f"{part.state} (extra)", *counts, level, within, part.reason or ""]
    for index, each in enumerate(part.parts, start=1):
        fork, line = _FORKS[index == len(part.parts)]
        yield from _part_cells(each, f"{inside}{fork} {each.name or 'all'}", f"{inside}{line}  ")


def _show_waterfall(console: Console, fall: NodeWaterfall) -> None:
    """Print how many nodes are left to pods of one kind after each constraint, with bars."""
    request = ", ".join(f"{amount} {resource}" for resource, amount in fall.request.items()) or "nothing"
    whole, left = fall.nodes, fall.nodes
    console.print()
    console.print(_indented(f"{fall.pods} pod{'s' if fall.pods != 1 else ''} asking for {request}:", 0))
    rows: list[list[Cell]] = [["all nodes", "", str(whole), bar([(whole, "\u2588", "green")], whole, _BAR_CELLS), ""]]
    for step in fall.steps:
        if not step.nodes:
            continue
        drawn = bar([(step.left, "\u2588", "green"), (left - step.left, "\u2591", "red")], whole, _BAR_CELLS)
        rows.append([step.cause, f"-{step.nodes}", str(step.left), drawn, step.detail])
        left = step.left
    columns = [Column(""), Column("", right=True), Column("", right=True), Column(""), Column("")]
    for line in lines(columns, rows, headers=False):
        console.print(Text("  ") + line, highlight=False)
    usable = f"{fall.usable} node{'s' if fall.usable != 1 else ''} left, with room for {fall.fits}"
    console.print(_indented(f"{usable} of {fall.pods}"), highlight=False)


def _show_holders(console: Console, holders: Sequence[HolderRow]) -> None:
    if not holders:
        return
    columns = [Column("HELD BY"), Column("GPUS", right=True), Column("NODES", right=True)]
    columns += [Column("PRIORITY", right=True), Column("QUEUE"), Column("UNTIL")]
    rows: list[list[Cell]] = [
        [
            *(each.gang, str(each.gpus), str(each.nodes), str(each.priority), each.queue or "-"),
            f"{local_time(each.ends_at) if each.ends_at else 'not known'}{' (overdue)' if each.overdue else ''}",
        ]
        for each in holders
    ]
    console.print()
    for line in lines(columns, rows):
        console.print(Text("  ") + line, highlight=False)


def _show_lines(console: Console, heading: str, lines: Sequence[str]) -> None:
    if lines:
        console.print()
        console.print(f"{heading}:", highlight=False)
    for line in lines:
        console.print(_indented(line), highlight=False)


def _show_members(console: Console, pods: Sequence[MemberRow], *, wide: bool) -> None:
    shown = pods if wide else pods[:_MOST_MEMBERS]
    rows = [list(_member(pod)) for pod in shown]
    headings = ("POD", "ROLE", "STATE", "NODE", "GPUS", "NUMA ZONES")
    used = [place for place in range(len(headings)) if any(row[place].plain for row in rows)]
    if rows:
        console.print()
    for line in lines([Column(headings[place]) for place in used], [[row[place] for place in used] for row in rows]):
        console.print(Text("  ") + line, highlight=False)
    if len(pods) > len(shown):
        rest = len(pods) - len(shown)
        console.print(f"and {rest} members more (-o wide has all)", highlight=False)


def _member(pod: MemberRow) -> Iterator[Text]:
    known = "" if pod.observed or not (pod.gpus or pod.zones) else " (predicted)"
    gpus = _numbers(pod.gpus) + known if pod.gpus else ""
    zones = _numbers(pod.zones) + known if pod.zones else ""
    for text in (pod.name, pod.role or "", pod.state, pod.node or "", gpus, zones):
        yield cleaned(text)


def _indented(line: str, by: int = 2) -> Text:
    return cleaned(f"{' ' * by}{with_local_times(line)}")


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


__all__ = ["register", "show_explanation"]

EXIT_WOULD_WAIT = 4

_STDIN = "-"
#: How long Muster may take for a question about objects that are not there (seconds): a second for each large gang.
_WHAT_IF_SECONDS = 120.0

_EPILOG = (
    "Examples: `muster explain team/train`; `muster explain train --picture train.svg`; "
    "`muster explain -f job.yaml --dry-run` says whether it would start now, where, and if not, what would help; "
    "`helm template . | muster explain -f - --dry-run -o json | jq '.gangs[].suggestions'`."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(explain)


def explain(  # noqa: PLR0913 - one parameter per option
    gang: Annotated[
        str | None,
        typer.Argument(metavar="[NAMESPACE/]GANG", help="The gang.", show_default=False, autocompletion=gang_names),
    ] = None,
    *,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Ask about objects that are not submitted: YAML or JSON, - for standard input; repeat for several.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Goes with -f. Nothing is ever submitted, with or without it.")
    ] = False,
    namespace: NamespaceOption,
    output: DocumentFormat = "table",
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a picture of the cluster with the gang on it (SVG).")
    ] = None,
    connection: Connection,
) -> None:
    """Say how a gang stands: why it waits and what would help, or where it is and what is predicted there.

    With -f FILE --dry-run: what would become of the gangs of that file, if they were submitted now.

    Exit codes: 0 said, and with -f all would start; 1 Muster cannot be asked; 2 refused arguments or objects;
    3 no such gang; 4 with -f: a gang would wait.
    """
    with refusals("explain"):
        _check(gang, file, dry_run=dry_run, picture=picture)
        how = Output.read(output, DOCUMENT)
    if file:
        with refusals("explain"):
            body = _question(file, namespace.own(connection))
        with asking("explain", connection) as muster:
            body = muster.post("/api/v1/explain", _WHAT_IF_SECONDS, body)
            document = muster.read(body, WhatIfDocument)
        _show_whatif(document, body, how)
        return
    with refusals("explain"):
        [key] = namespace.keys([gang or ""], connection)
    with asking("explain", connection) as muster:
        with found("explain", muster, key):
            body = muster.get(f"{gang_path(key)}/explain?suggestions=true")
            answer = muster.read(body, Explanation)
            drawn = b"" if picture is None else muster.get(f"{gang_path(key)}/picture.svg")
        if picture is not None:
            try:
                picture.write_bytes(drawn)
            except OSError as error:
                raise ServerError(f"--picture {picture}: {error.strerror or error}") from error
    if not print_answer(body, how):
        show_explanation(console(), answer, wide=how.wide)


def _check(gang: str | None, file: Sequence[str] | None, *, dry_run: bool, picture: Path | None) -> None:
    """Raise ServerError for options that do not go together."""
    if (gang is None) == (not file):
        raise ServerError("give the name of a gang, or -f FILE with objects that are not submitted yet")
    if dry_run and not file:
        raise ServerError("--dry-run goes with -f FILE; a gang that exists is explained as it is")
    if picture is not None and file:
        raise ServerError("--picture draws gangs that exist; leave it out with -f")
    if file and file.count(_STDIN) > 1:
        raise ServerError("-f -: standard input can be read once")


def _question(files: Sequence[str], namespace: str) -> bytes:
    """Return the body of the question about the objects in files; raise ServerError naming file and place."""
    import orjson

    from extender.strictyaml import DocumentError, load_documents

    objects: list[Any] = []
    for file in files:
        name = "standard input" if file == _STDIN else file
        try:
            documents = load_documents(_text(file))
        except DocumentError as error:
            raise ServerError(f"{name}: {error}") from error
        if any(isinstance(each, dict) and "kind" not in each and "nodes" in each for each in documents):
            raise ServerError(f"{name} is a scenario, not Kubernetes objects: play it with muster simulate {file}")
        objects += [_placed(document, namespace) for document in documents if document is not None]
        if not all(isinstance(document, dict) for document in objects):
            raise ServerError(f"{name}: a document is no Kubernetes object")
    if not objects:
        raise ServerError(f"{', '.join(files)}: there is no object")
    try:
        return orjson.dumps({"objects": objects}, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        raise ServerError(f"{', '.join(files)}: cannot be sent as JSON: {error}") from error


def _placed(document: object, namespace: str) -> object:
    """Return an object in its namespace, or in `namespace` if it names none; those of a list likewise."""
    if not isinstance(document, dict):
        return document
    if isinstance(items := document.get("items"), list):
        return {**document, "items": [_placed(item, namespace) for item in items]}
    meta = document.get("metadata")
    if not isinstance(meta, dict) or meta.get("namespace"):
        return document
    return {**document, "metadata": {**meta, "namespace": namespace}}


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ServerError(f"-f {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ServerError(f"-f {file}: {error}") from error


def _show_whatif(document: WhatIfDocument, body: bytes, how: Output) -> None:
    """Print what would become of gangs, and end with the exit code that says so."""
    gangs = document.gangs
    if not print_answer(body, how):
        shown = console()
        for number, each in enumerate(gangs):
            if number:
                shown.print()
            show_explanation(shown, each, wide=how.wide)
        show_verdict(shown, gangs)
        if document.passed_over:
            if gangs:
                shown.print()
            shown.print(_indented(f"passed over, no pods come of: {', '.join(document.passed_over)}", 0))
    if not all(gang.would_start for gang in gangs):
        raise typer.Exit(EXIT_WOULD_WAIT)
