"""`muster snapshot`: the recording of a running Muster as one file, and what is in such a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from extender.cli.connecting import Connection, MusterPort, asking
from extender.cli.output import json_text
from extender.cli.printing import OutputFormat, local_time, one_line, say, with_local_times

if TYPE_CHECKING:
    from extender.journal.archive import Snapshot

UnpackMegabytes = Annotated[
    int | None,
    typer.Option(
        "--unpack-megabytes",
        min=1,
        max=5120,
        help="Refuse a file that unpacks to more: it may be small, and fill the memory. Default: 512.",
    ),
]

EXIT_FAILED = 1
EXIT_UNREADABLE = 2

#: How long Muster may take to put the file together (seconds): it does so beside its work.
_PATIENCE_SECONDS = 120.0
_MOST_SHOWN = 20
_MEGABYTE = 1_000_000

_EPILOG = "Example: `muster snapshot save --anonymise -o bug.tar.gz && muster replay bug.tar.gz`."


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    commands = typer.Typer(
        name="snapshot",
        help="Save all that a running Muster saw and decided as one file, or look into it.",
        no_args_is_help=True,
    )
    commands.command(epilog=_EPILOG)(save)
    commands.command()(anonymise)
    commands.command()(show)
    app.add_typer(commands)


def save(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("muster-snapshot.tar.gz"),
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Put pseudonyms in place of all names and labels.")
    ] = False,
    connection: Connection,
) -> None:
    """Save model, ledger and every decision since Muster started as one file, for a bug report and `muster replay`.

    It holds names, labels, requests and states of nodes, pods, gangs and Queues, and Muster's settings. It holds no
    Secrets, no environment variables, no images and no commands of pods: Muster does not read them.

    Exit codes: 0 saved, 1 Muster cannot be asked or records nothing, 2 refused arguments.
    """
    from extender.journal.archive import MOST_MEGABYTES, SnapshotError, unpack

    with asking("snapshot save", connection, MusterPort.VERBS) as muster:
        file = muster.get("/api/v1/snapshot", _PATIENCE_SECONDS)
    try:
        snapshot = unpack(file, MOST_MEGABYTES)
        if anonymise:
            snapshot, file = _anonymised(snapshot)
    except SnapshotError as error:
        _fail("save", f"what Muster sent cannot be read: {error}", EXIT_FAILED)
    _write("save", output, file)
    _tell(output, snapshot, file)


def anonymise(
    file: Annotated[Path, typer.Argument(help="What `muster snapshot save` wrote.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    unpack_megabytes: UnpackMegabytes = None,
) -> None:
    """Write a snapshot again with pseudonyms in place of all names and labels; it still plays.

    Exit codes: 0 written, 1 it cannot be written, 2 the file cannot be read, or refused arguments.
    """
    snapshot, packed = _anonymised(_read("anonymise", file, unpack_megabytes))
    _write("anonymise", output, packed)
    _tell(output, snapshot, packed)


def show(
    file: Annotated[Path, typer.Argument(help="What `muster snapshot save` wrote.")],
    *,
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print it; JSON has all of it.")] = (
        OutputFormat.TABLE
    ),
    unpack_megabytes: UnpackMegabytes = None,
) -> None:
    """Say what is in a snapshot, without playing it: versions, times, how everything stood.

    Exit codes: 0 shown, 2 the file cannot be read, or refused arguments.
    """
    snapshot = _read("show", file, unpack_megabytes)
    header, state = snapshot.header, snapshot.state
    if output is OutputFormat.JSON:
        document = {**header.document({}), "state": state}
        say(json_text(document))
        return
    told = header.document({})
    say(f"Muster {header.muster}, Python {header.python}, numpy {header.numpy}")
    say(f"{header.inputs:,} inputs from {local_time(told['began'])} to {local_time(told['saved'])}")
    say("names and labels are pseudonyms" if header.anonymised else "names and labels are the cluster's own")
    counts = state.get("counts", {})
    say(", ".join(f"{count:,} {what}" for what, count in counts.items()) + f", {state.get('passes')} passes")
    waiting = [gang for gang in state.get("gangs", ()) if gang.get("reason")]
    for gang in waiting[:_MOST_SHOWN]:
        reason = gang["reason"]
        waits = f"{gang['namespace']}/{gang['name']} waits: {reason['code']}: {with_local_times(reason['message'])}"
        say(f"  {one_line(waits)}")
    if len(waiting) > _MOST_SHOWN:
        say(f"  and {len(waiting) - _MOST_SHOWN} more gangs wait (-o json has all)")


def _read(command: str, file: Path, unpack_megabytes: int | None) -> Snapshot:
    from extender.journal.archive import USUAL_MEGABYTES, SnapshotError, unpack

    try:
        return unpack(file.read_bytes(), unpack_megabytes or USUAL_MEGABYTES)
    except OSError as error:
        _fail(command, f"{file}: {error.strerror or error}", EXIT_UNREADABLE)
    except SnapshotError as error:
        _fail(command, f"{file}: {error}", EXIT_UNREADABLE)


def _anonymised(snapshot: Snapshot) -> tuple[Snapshot, bytes]:
    from extender.journal.anonymising import anonymise as without_names

    done = without_names(snapshot)
    if done.departs:
        say(
            f"muster snapshot: input {done.departs:,} of {snapshot.header.inputs:,} would be decided otherwise under "
            "pseudonyms, since something in the names counts there; the file ends before it",
            err=True,
        )
    return done.snapshot, done.snapshot.pack()


def _write(command: str, output: Path, file: bytes) -> None:
    try:
        output.write_bytes(file)
    except OSError as error:
        _fail(command, f"--output {output}: {error.strerror or error}", EXIT_FAILED)


def _tell(output: Path, snapshot: Snapshot, file: bytes) -> None:
    size = f"{len(file) / 1e6:.1f} MB" if len(file) >= _MEGABYTE else f"{len(file) / 1e3:.1f} kB"
    say(f"{output}: {snapshot.header.inputs:,} inputs, {size}; `muster replay {output}` plays it")


def _fail(command: str, message: str, code: int) -> NoReturn:
    say(f"muster snapshot {command}: {message}", err=True)
    raise typer.Exit(code)
