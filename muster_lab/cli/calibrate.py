"""`muster calibrate`: from the output of nccl-tests to the ConfigMap that corrects Muster's bandwidth model."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from extender.cli.printing import say

if TYPE_CHECKING:
    from extender.hardware.calibration import Calibration, Measurement
    from muster_lab.tools.measuring import Effect, Stated
    from muster_lab.tools.nccl_tests import NcclRun

EXIT_NOT_USABLE = 1
EXIT_UNREADABLE = 2

_STDIN = "-"
_NAME, _NAMESPACE = "muster-calibration", "muster-system"

_EPILOG = (
    "Example: run `all_reduce_perf -b 1G -e 8G -f 2 -g 1` on four nodes of one rack, keep what it prints in rack.txt; "
    "then `muster calibrate rack.txt --level rack | kubectl apply -f -`."
)


class Collective(StrEnum):
    """What a test measured."""

    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(calibrate)


def calibrate(  # noqa: PLR0913, PLR0917 - one parameter per option
    output: Annotated[
        list[str],
        typer.Argument(help="What all_reduce_perf or alltoall_perf printed, one run per file; - for standard input."),
    ],
    level: Annotated[
        str,
        typer.Option(
            help="Lowest level that the nodes share: a level's name, `cluster` if none, `clique` for nodes that NVLink "
            "joins. Not needed for one node."
        ),
    ] = "",
    product: Annotated[
        str, typer.Option(help="The nodes' label nvidia.com/gpu.product; else what the output calls the GPUs.")
    ] = "",
    instance_type: Annotated[
        str,
        typer.Option(help="The nodes' label node.kubernetes.io/instance-type, where a cloud gives them their network."),
    ] = "",
    nodes: Annotated[int, typer.Option(min=0, help="How many nodes took part; else what the output lists.")] = 0,
    gpus_per_node: Annotated[
        int, typer.Option(min=0, help="How many GPUs of each node took part; else what the output lists.")
    ] = 0,
    collective: Annotated[
        Collective | None, typer.Option(help="What was measured, where the output does not say.")
    ] = None,
    source: Annotated[str, typer.Option(help="A note for people: when, by whom, with which settings.")] = "",
    merge: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="ConfigMap to start from; entries of the same size are replaced."),
    ] = None,
    name: Annotated[str | None, typer.Option(help=f"The ConfigMap's name; {_NAME} by default.")] = None,
    namespace: Annotated[str | None, typer.Option(help=f"The ConfigMap's namespace; {_NAMESPACE} by default.")] = None,
) -> None:
    """Turn nccl-tests output into the ConfigMap that overrides Muster's bandwidth table.

    The ConfigMap goes to standard output, what it changes to standard error. The bus bandwidth is the mean of the
    largest two sizes, in and out of place; several files of one size are averaged.

    Exit codes: 0 written, 1 a test's output cannot be used, 2 a file cannot be read.
    """
    from extender.hardware.calibration import Calibration
    from extender.objects.topology import Objective
    from muster_lab.tools.measuring import Stated, combined, effect, merged

    if output.count(_STDIN) + (merge == _STDIN) > 1:
        _stop(EXIT_UNREADABLE, "standard input can be read once")
    stated = Stated(product, nodes, gpus_per_node, level, Objective(collective) if collective else None, source)
    start, metadata = _existing(merge)
    measured = combined(_measured(file, stated) for file in output)
    calibration = Calibration(merged(start.measurements, [one for one, _ in measured]))
    for one, spread in measured:
        _say(effect(one, calibration, instance_type))
        _warn_spread(spread, "the files differ")
    metadata = {
        "name": name or metadata.get("name", _NAME),
        "namespace": namespace or metadata.get("namespace", _NAMESPACE),
    }
    say(_config_map(calibration, metadata), nl=False)


def _measured(file: str, stated: Stated) -> Measurement:
    """Read one run, say what was seen of it, and return what it measured."""
    from muster_lab.tools.measuring import LARGE_ENOUGH, measurement_of
    from muster_lab.tools.nccl_tests import NotUsableError, parse

    text = _read(file)
    try:
        run = parse(text)
        measurement = measurement_of(run, stated)
    except NotUsableError as error:
        _stop(EXIT_NOT_USABLE, f"{_shown(file)}: {error}")
    _say_run(file, run)
    if run.largest < LARGE_ENOUGH:
        _note(f"the largest size is {run.largest / 2**20:.0f} MiB, too small to reach the bandwidth: run with -e 8G")
    return measurement


def _existing(merge: str | None) -> tuple[Calibration, dict[str, str]]:
    """Return what a ConfigMap holds, and its name and namespace."""
    from extender.hardware.calibration import Calibration, read_calibration
    from extender.strictyaml import DocumentError, load_documents

    if merge is None:
        return Calibration(), {}
    try:
        documents = [one for one in load_documents(_read(merge)) if one is not None]
    except DocumentError as error:
        _stop(EXIT_UNREADABLE, f"{_shown(merge)}: {error}")
    found = documents[0] if len(documents) == 1 else None
    if not isinstance(found, dict) or found.get("kind") != "ConfigMap" or not isinstance(found.get("data"), dict):
        _stop(EXIT_UNREADABLE, f"{_shown(merge)}: not one ConfigMap with data")
    calibration = read_calibration({str(key): str(value) for key, value in found["data"].items()})
    for problem in calibration.problems:
        say(f"{_shown(merge)}: {problem}", err=True)
    if calibration.problems:
        _stop(EXIT_UNREADABLE, f"{_shown(merge)}: correct or remove these entries, else they would be lost")
    metadata = found.get("metadata") or {}
    return calibration, {key: str(metadata[key]) for key in ("name", "namespace") if metadata.get(key)}


def _config_map(calibration: Calibration, metadata: dict[str, str]) -> str:
    import yaml

    from muster_lab.tools.measuring import calibration_data

    class _Block(str):
        """Text that is written as a block, so that people can read it."""

        __slots__ = ()

    class _Dumper(yaml.SafeDumper):
        """Write `_Block` texts with their line breaks."""

    _Dumper.add_representer(
        _Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")
    )
    data = {key: _Block(text) for key, text in calibration_data(calibration.measurements).items()}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        _stop(EXIT_UNREADABLE, f"{_shown(file)}: {error.strerror}")


def _shown(file: str) -> str:
    return "standard input" if file == _STDIN else file


def _say_run(file: str, run: NcclRun) -> None:
    ranks = f"{run.nodes} x {run.gpus_per_node} {run.device}, " if run.gpus else ""
    say(f"{_shown(file)}: {ranks}{run.gbps:.1f} GB/s, spread {run.spread:.1%}", err=True)
    _warn_spread(run.spread, "the largest sizes differ")


def _warn_spread(spread: float, what: str) -> None:
    from muster_lab.tools.measuring import STEADY

    if spread > STEADY:
        _note(f"{what} by {spread:.0%}: measure again while nothing else uses the network")


def _say(change: Effect) -> None:
    """Say what one entry changes."""
    one = change.measurement
    say(
        f"{one.product}, {one.nodes} x {one.gpus_per_node} GPUs, {one.level}, {one.collective}: measured "
        f"{one.gbps:.0f} GB/s, the table predicts {change.before:.0f} ({change.before / one.gbps - 1:+.0%}), with this "
        f"{change.after:.0f}",
        err=True,
    )
    if change.factor is not None:
        _note(f"the network keeps {change.factor:.2f} of its bandwidth at level {one.level}")
    elif one.nodes > 1 and one.level != "clique":
        _note(f"the nodes themselves are the bound: this says nothing about level {one.level}; measure more nodes")


def _note(message: str) -> None:
    say(f"    {message}", err=True)


def _stop(code: int, message: str) -> NoReturn:
    say(f"muster calibrate: {message}", err=True)
    raise typer.Exit(code)
