"""Lists of `muster` beside those of the real kubectl: the same arguments about the same names, on one API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from extender.cli.connecting import EXIT_NO_SUCH
from localcluster.client import PODS
from localcluster.programs import Binary
from localcluster.waiting import wait_until
from tests.controlplane.reaching import GANG, Reachable, reachable_muster
from tests.docs.conftest import ROOT
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

#: Each gang has one pod of its own name: gangs to Muster, pods to kubectl, with the same names and labels.
GANGS = {"default": {"alpha": "red", "beta": "blue", "gamma": "red"}, "team-a": {"delta": "red", "omega": "blue"}}
BY_NAME = ("--sort-by", ".metadata.name")
#: Of all namespaces, without the pods of Muster itself.
EVERYWHERE = ("-A", "-l", "color", *BY_NAME)


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    """Run a Muster that is asked through an API server, with gangs in two namespaces."""
    with reachable_muster(tmp_path_factory.mktemp("manners")) as found:
        admin = found.running.admin
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
        admin.request("DELETE", "/api/v1/namespaces/default/pods/train-0")
        for namespace, gangs in GANGS.items():
            for name, color in gangs.items():
                _make_gang(found, name, namespace, color)
        config = yaml.safe_load(found.running.admin_kubeconfig.read_text(encoding="utf-8"))
        (found.folder / "admin").write_text(yaml.safe_dump(config), encoding="utf-8")
        config["contexts"][0]["context"]["namespace"] = "team-a"
        (found.folder / "in-team-a").write_text(yaml.safe_dump(config), encoding="utf-8")
        every = sorted(f"{namespace}/{name}" for namespace, gangs in GANGS.items() for name in gangs)
        wait_until(
            lambda: sorted(found.ask("admin", "gangs", "-A", "-o", "name").stdout.split()) == every,
            timeout_seconds=40,
            description="the gangs are listed, and the pod's is gone",
        )
        yield found


def _make_gang(reachable: Reachable, name: str, namespace: str, color: str) -> None:
    meta = {"name": name, "namespace": namespace, "labels": {"color": color, "muster.dev/gang": name}}
    reachable.running.admin.create(GANG | {"metadata": GANG["metadata"] | meta})


def _kubectl(reachable: Reachable, who: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    kubectl = str(reachable.running.binaries[Binary.KUBECTL])
    command = [kubectl, "get", "pods", *arguments, f"--kubeconfig={reachable.folder / who}"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS)


def _cells(text: str) -> list[list[str]]:
    """Return the words of each line: how far apart columns are is the program's own."""
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("who", "arguments"),
    [
        ("admin", ["-o", "jsonpath={.items[*].metadata.name}", *BY_NAME]),
        ("admin", ["-o", "jsonpath={.items[0].metadata.name} and {.items[-1:].metadata.name}", *BY_NAME]),
        ("admin", ["-o", 'jsonpath={range .items[*]}{.metadata.name}{"\\t"}{end}', *EVERYWHERE]),
        ("admin", ["-o", 'jsonpath={.items[?(@.metadata.namespace=="team-a")].metadata.name}', *EVERYWHERE]),
        ("admin", ["-o", "jsonpath={.items[*].nothing}"]),
        ("admin", ["alpha", "-o", "jsonpath={.metadata.namespace}/{.metadata.name}"]),
        ("admin", ["alpha", "gamma", "-o", "jsonpath={.items[*].metadata.name}", *BY_NAME]),
        ("admin", ["-o", "custom-columns=NAME:.metadata.name,Of:metadata.namespace,NO:.nothing", *EVERYWHERE]),
        ("admin", ["-o", "custom-columns=NAME:{.metadata.name}", "--no-headers", "-l", "color=red", *BY_NAME]),
        ("admin", ["alpha", "-o", "custom-columns=NAME:.metadata.name"]),
        ("admin", ["-o", "custom-columns=NAME:.metadata.name", "-l", "color in (red,green),!old", "-A", *BY_NAME]),
        ("admin", ["-o", "custom-columns=NAME:.metadata.name", "-n", "team-a", "--sort-by", "{.metadata.name}"]),
        ("in-team-a", ["-o", "custom-columns=NAME:.metadata.name", *BY_NAME]),
        ("in-team-a", ["-o", "custom-columns=NAME:.metadata.name", "-n", "default", *BY_NAME]),
        ("in-team-a", ["-o", "custom-columns=NAME:.metadata.name", *EVERYWHERE]),
        ("in-team-a", ["alpha", "-n", "default", "-o", "jsonpath={.metadata.name}"]),
    ],
)
def test_what_kubectl_prints_is_printed(reachable: Reachable, who: str, arguments: list[str]) -> None:
    """Which rows in which order, and which words: by templates, columns, labels and namespaces."""
    theirs = _kubectl(reachable, who, *arguments)
    ours = reachable.ask(who, "gangs", *arguments)
    assert (theirs.returncode, ours.exit_code) == (0, 0), theirs.stderr + ours.stderr
    if any(word.startswith("jsonpath") for word in arguments):
        assert ours.stdout == theirs.stdout
    assert _cells(ours.stdout) == _cells(theirs.stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing"], EXIT_NO_SUCH, "there is no default/missing"),
        (["alphaa"], EXIT_NO_SUCH, "there is no default/alphaa; did you mean default/alpha?"),
        (["missing", "-w"], EXIT_NO_SUCH, "there is no default/missing"),
        (["alpha", "-A"], 2, "-A"),
        (["-l", "a b"], 2, "label selector"),
        (["-o", "nothing"], 2, "there is no such format"),
        (["-o", "custom-columns"], 2, "custom-columns=NAME:.metadata.name"),
        (["-o", "jsonpath={.items[*}"], 2, "'.items[*' is no path"),
    ],
)
def test_what_kubectl_refuses_is_refused(reachable: Reachable, arguments: list[str], code: int, said: str) -> None:
    """With nothing on standard output and one line beside it; the exit code says more than kubectl's 1."""
    theirs = _kubectl(reachable, "admin", *arguments)
    ours = reachable.ask("admin", "gangs", *arguments)
    assert (theirs.returncode, theirs.stdout) == (1, ""), arguments
    assert (ours.exit_code, ours.stdout, ours.stderr.count("\n")) == (code, "", 1), ours.stderr
    assert said in ours.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sort-by", ".nothing"], "rows have no such field"),
        (["-o", "jsonpath={range .items[*]}{.metadata.name}"], "{range} without {end}"),
    ],
)
def test_slips_that_kubectl_passes_over_are_told(reachable: Reachable, arguments: list[str], said: str) -> None:
    """It prints nothing, or guesses, and calls it a success."""
    assert _kubectl(reachable, "admin", *arguments).returncode == 0
    ours = reachable.ask("admin", "gangs", *arguments)
    assert (ours.exit_code, ours.stdout, said in ours.stderr) == (2, "", True)


def test_what_is_there_is_printed_beside_what_is_missing(reachable: Reachable) -> None:
    """As kubectl does: rows on standard output, names of nothing on standard error, and an exit code for it."""
    names = ["alpha", "missing", "gamma"]
    columns = ["-o", "custom-columns=NAME:.metadata.name", *BY_NAME]
    theirs = _kubectl(reachable, "admin", *names, *columns)
    ours = reachable.ask("admin", "gangs", *names, *columns)
    assert (theirs.returncode, ours.exit_code) == (1, EXIT_NO_SUCH)
    assert _cells(ours.stdout) == _cells(theirs.stdout) == [["NAME"], ["alpha"], ["gamma"]]
    assert "missing" in theirs.stderr
    assert "there is no default/missing" in ours.stderr


def test_csv_has_a_line_for_each_row(reachable: Reachable) -> None:
    """Below one heading; kubectl has no CSV."""
    done = reachable.ask("admin", "gangs", "-A", "-o", "csv", *BY_NAME)
    heading, *rows = done.stdout.splitlines()
    assert done.exit_code == 0
    assert heading.startswith("namespace,name,")
    assert [row.split(",")[1] for row in rows] == ["alpha", "beta", "delta", "gamma", "omega"]
    bare = reachable.ask("admin", "gangs", "-A", "-o", "csv", "--no-headers", *BY_NAME)
    assert bare.stdout.splitlines() == rows


def _watched(command: Sequence[str], environment: dict[str, str], steps: Iterator[str]) -> list[str]:
    """Return what a watch prints until Ctrl-C, each line once: after each step it is read up to what the step names."""
    pipe, seen = subprocess.PIPE, dict[str, None]()
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as watch:
        assert watch.stdout is not None
        for last in steps:
            while last not in seen:
                seen[watch.stdout.readline().strip()] = None
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=HANGS)
    return list(seen)


def test_a_watch_prints_what_kubectls_does(reachable: Reachable) -> None:
    """The heading, what there is, then a row for what is new, of the namespace and labels that were asked for."""

    def steps() -> Iterator[str]:
        yield "first"
        _make_gang(reachable, "elsewhere", "default", "blue")
        _make_gang(reachable, "other", "team-w", "red")
        _make_gang(reachable, "second", "team-w", "blue")
        yield "second"
        reachable.running.admin.request("DELETE", PODS.path("team-w", "other"))
        reachable.running.admin.request("DELETE", PODS.path("default", "elsewhere"))

    reachable.running.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-w"}})
    _make_gang(reachable, "first", "team-w", "blue")
    wait_until(
        lambda: reachable.ask("admin", "gangs", "-n", "team-w", "-o", "name").stdout == "team-w/first\n",
        timeout_seconds=40,
        description="the gang is listed",
    )
    options = ["-n", "team-w", "-w", "-o", "custom-columns=NAME:.metadata.name", "-l", "color=blue"]
    options += [f"--kubeconfig={reachable.folder / 'admin'}"]
    environment = {**os.environ, **reachable.environment}
    try:
        ours = _watched([sys.executable, "-m", "extender", "gangs", *options], environment, steps())
        kubectl = str(reachable.running.binaries[Binary.KUBECTL])
        reachable.running.admin.request("DELETE", PODS.path("team-w", "second"))
        theirs = _watched([kubectl, "get", "pods", *options], environment, steps())
    finally:
        for name in ("first", "second"):
            reachable.running.admin.request("DELETE", PODS.path("team-w", name))
    assert ours == theirs == ["NAME", "first", "second"]


def test_kubectl_completes_names(reachable: Reachable, tmp_path: Path) -> None:
    """`kubectl muster gangs al<TAB>`, as the real kubectl asks its plug-ins: gangs, Queues, options, no files."""
    reachable.running.admin.create(
        {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "night-runs"}, "spec": {}}
    )
    for name, call in (("kubectl-muster", "main"), ("kubectl_complete-muster", "complete")):
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nfrom extender.cli import {call}\n{call}()\n", encoding="utf-8")
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{reachable.environment['PATH']}"
    kept = {**os.environ, **reachable.environment, "PATH": path, "PYTHONPATH": str(ROOT)}
    environment = kept | {"KUBECONFIG": str(reachable.folder / "in-team-a")}

    def completed(*words: str) -> list[str]:
        command = ["kubectl", "__complete", "muster", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=HANGS, env=environment)
        *found, directive = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        assert directive == ":4", done.stdout
        return found

    def completes(*words: str, to: list[str]) -> None:
        """Wait until these words are completed so: a key that is pressed waits a moment for Muster, and no longer."""
        wait_until(
            lambda: sorted(completed(*words)) == to, timeout_seconds=40, description=f"{words} completed to {to}"
        )

    completes("queues", "ni", to=["night-runs"])
    completes("gangs", "del", to=["delta"])
    completes("gangs", "", to=["default/alpha", "default/beta", "default/gamma", "delta", "omega"])
    completes("gangs", "-n", "default", "al", to=["alpha"])
    completes("gangs", "delta", "de", to=["default/alpha", "default/beta", "default/gamma"])
    completes("explain", "default/b", to=["default/beta"])
    assert "--sort-by" in completed("gangs", "--so")
    assert "queues" in completed("que")
