"""`muster import`: the queues of another scheduler as Muster's own."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from extender.cli.printing import say

if TYPE_CHECKING:
    from muster_lab.tools.importing.objects import ForeignObject, Imported

EXIT_DIFFERENCES = 1
EXIT_UNREADABLE = 2

_STDIN = "-"

_KUEUE_EPILOG = (
    "Example: kubectl get clusterqueues,cohorts,resourceflavors,workloadpriorityclasses -o yaml > kueue.yaml; "
    "kubectl get localqueues -A -o yaml > local.yaml; muster import kueue kueue.yaml local.yaml -o queues.yaml"
)
_VOLCANO_EPILOG = (
    "Example: kubectl get queues.scheduling.volcano.sh -o yaml | "
    "muster import volcano - --capacity nvidia.com/gpu=512 -o queues.yaml"
)

Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML or JSON; - for standard input.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where the manifests go; standard output by default.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Write nothing and fail if anything differs.")]


class NameAfter(StrEnum):
    """After what a Queue is named."""

    LOCAL_QUEUE = "local-queue"
    CLUSTER_QUEUE = "cluster-queue"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    importing = typer.Typer(
        name="import", help="Turn the queues of another scheduler into Muster's Queues.", no_args_is_help=True
    )
    importing.command(epilog=_KUEUE_EPILOG)(kueue)
    importing.command(epilog=_VOLCANO_EPILOG)(volcano)
    app.add_typer(importing)


def kueue(
    files: Files,
    *,
    name_after: Annotated[
        NameAfter,
        typer.Option(help="local-queue: pods keep their kueue.x-k8s.io/queue-name where that is unambiguous."),
    ] = NameAfter.LOCAL_QUEUE,
    output: Output = None,
    strict: Strict = False,
) -> None:
    """Turn ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and WorkloadPriorityClasses into Queues.

    The manifests go to standard output, what Muster does otherwise to standard error, one line for each field.

    Exit codes: 0 written, 1 something differs and --strict is given, 2 a file cannot be used.
    """
    from muster_lab.tools.importing.kueue import Naming, import_kueue
    from muster_lab.tools.importing.objects import ImportingError

    try:
        imported = import_kueue(_objects(files), Naming(name_after))
    except ImportingError as error:
        _stop(str(error))
    _write(imported, output, strict=strict)


def volcano(
    files: Files,
    *,
    capacity: Annotated[
        list[str] | None,
        typer.Option(metavar="RESOURCE=QUANTITY", help="What the cluster has of a resource; repeat for several."),
    ] = None,
    output: Output = None,
    strict: Strict = False,
) -> None:
    """Turn Volcano's Queues into Muster's.

    Where no queue says what it deserves, weights share out --capacity, as Volcano's plugin proportion does. The
    manifests go to standard output, what Muster does otherwise to standard error, one line for each field.

    Exit codes: 0 written, 1 something differs and --strict is given, 2 a file or option cannot be used.
    """
    from muster_lab.tools.importing.objects import ImportingError
    from muster_lab.tools.importing.volcano import import_volcano

    try:
        imported = import_volcano(_objects(files), _amounts(capacity or []))
    except ImportingError as error:
        _stop(str(error))
    _write(imported, output, strict=strict)


def _objects(files: list[str]) -> list[ForeignObject]:
    from muster_lab.tools.importing.objects import read_objects

    if files.count(_STDIN) > 1:
        _stop("standard input can be read once")
    return read_objects({"standard input" if file == _STDIN else file: _text(file) for file in files})


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        _stop(f"{file}: {error.strerror or error}")
    except UnicodeDecodeError as error:
        _stop(f"{file}: {error}")


def _amounts(capacity: list[str]) -> dict[str, int]:
    from extender.objects.requests import QuantityError, amount

    amounts = {}
    for text in capacity:
        resource, _, quantity = text.partition("=")
        try:
            amounts[resource] = amount(resource, quantity)
        except QuantityError as error:
            _stop(f"--capacity {text}: {error}")
        if not resource:
            _stop(f"--capacity {text}: not RESOURCE=QUANTITY, such as nvidia.com/gpu=512")
    return amounts


def _write(imported: Imported, output: Path | None, *, strict: bool) -> None:
    """Say what differs, and write the manifests unless that is a failure."""
    import yaml

    for difference in imported.differences:
        say(str(difference), err=True)
    if strict and imported.differences:
        say(f"muster import: {len(imported.differences)} differences, nothing is written", err=True)
        raise typer.Exit(EXIT_DIFFERENCES)
    text = yaml.safe_dump_all(imported.manifests, sort_keys=False, width=120)
    if output is None:
        say(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        _stop(f"--output {output}: {error.strerror or error}")


def _stop(message: str) -> NoReturn:
    say(f"muster import: {message}", err=True)
    raise typer.Exit(EXIT_UNREADABLE)
