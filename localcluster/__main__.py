"""The local control plane from the command line: `python -m localcluster build` and `python -m localcluster up`."""

from typing import Annotated

import typer

from localcluster import up as session
from localcluster.build import ensure_binaries
from localcluster.errors import LocalClusterError
from localcluster.programs import CHECKING_BINARIES, DEFAULT_BINARIES, DEVICE_BINARIES, NEWEST, Binary, Release

app = typer.Typer(help="A real Kubernetes control plane on loopback.", no_args_is_help=True, add_completion=False)

KubernetesOption = Annotated[Release, typer.Option("--kubernetes", help="Minor version of Kubernetes.")]


@app.command()
def build(
    binary: Annotated[
        list[Binary] | None, typer.Option(help="Build only this; may be repeated. [default: what the tests need]")
    ] = None,
    kubernetes: KubernetesOption = NEWEST,
) -> None:
    """Build the control plane, and what checks manifests, into the cache, unless they are there already."""
    try:
        built = ensure_binaries(binary or (*DEFAULT_BINARIES, *DEVICE_BINARIES, *CHECKING_BINARIES), release=kubernetes)
    except LocalClusterError as error:
        raise _failure(error) from error
    for path in built.values():
        typer.echo(path)


@app.command()
def up(
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 8,
    gpus: Annotated[int, typer.Option(min=0, help="How many GPUs each node has.")] = 8,
    kubernetes: KubernetesOption = NEWEST,
) -> None:
    """Start a cluster with GPU nodes and Muster, say how to use it, and remove it at Ctrl-C."""
    try:
        session.run(session.Size(nodes, gpus), kubernetes, typer.echo)
    except LocalClusterError as error:
        raise _failure(error) from error


def _failure(error: LocalClusterError) -> typer.Exit:
    typer.echo(f"localcluster: {error}", err=True)
    return typer.Exit(1)


if __name__ == "__main__":
    app()
