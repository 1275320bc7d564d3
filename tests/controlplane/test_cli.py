"""The commands that ask a running Muster, by its callers' own kubeconfigs, through a real API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from localcluster.client import PODS, ApiClient
from localcluster.cluster import MUSTER_NAMESPACE
from localcluster.errors import ApiError
from localcluster.ports import LOOPBACK
from localcluster.waiting import wait_until
from tests.controlplane.reaching import GANG, PODS_OF_MUSTER, Reachable, have_lead, reachable_muster
from tests.docs.conftest import ROOT
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    """Run a control plane whose way to pods leads to a Muster beside it."""
    with reachable_muster(tmp_path_factory.mktemp("reachable")) as found:
        yield found


def test_a_viewer_asks_through_the_api_servers_proxy(reachable: Reachable) -> None:
    """With the shipped Role muster-view alone, the pod that holds the Lease is asked, and it knows of the gang."""
    wait_until(
        lambda: "default/train" in reachable.ask("viewer", "gangs", "-o", "name").stdout,
        timeout_seconds=40,
        description="the gang is listed",
    )
    done = reachable.ask("viewer", "gangs", "--reason", "MembersMissing", "-o", "json")
    assert done.exit_code == 0, done.stderr
    gang = next(gang for gang in json.loads(done.stdout)["gangs"] if gang["name"] == "train")
    assert (gang["minMember"], gang["phase"]) == (2, "Pending")
    assert "192.0.2.2:10263" in reachable.network.asked


def test_gangs_are_chosen_by_their_labels(reachable: Reachable) -> None:
    """As kubectl's -l; what is no selector is refused in Muster's words."""
    wait_until(
        lambda: "default/train" in reachable.ask("viewer", "gangs", "-l", "muster.dev/gang=train", "-o", "name").stdout,
        timeout_seconds=40,
        description="the gang is chosen",
    )
    others = reachable.ask("viewer", "gangs", "-l", "muster.dev/gang!=train", "-o", "name")
    assert (others.exit_code, "default/train" in others.stdout.split()) == (0, False)
    refused = reachable.ask("viewer", "gangs", "-l", "a b")
    assert (refused.exit_code, "label selector: 'a b' cannot be read" in refused.stderr) == (2, True)


def test_a_cluster_is_checked_before_an_install(reachable: Reachable) -> None:
    """An administrator is told what is missing, and whoever has no rights what may not be read."""
    done = reachable.ask(reachable.running.admin_kubeconfig, "init", "-o", "json", "--muster-namespace", "elsewhere")
    document = json.loads(done.stdout)
    found = {each["check"]: each for each in document["findings"]}
    assert done.exit_code == 1, done.stderr
    assert (found["Kubernetes"]["state"], found["rights"]["state"]) == ("ok", "ok")
    assert found["Muster"]["state"] == "missing"
    assert any("helm" in each and "install muster" in each for each in document["apply"])
    stranger = reachable.ask("stranger", "init", "-o", "json")
    assert stranger.exit_code == 1, stranger.stderr
    states = {each["check"]: each["state"] for each in json.loads(stranger.stdout)["findings"]}
    assert (states["rights"], states["GPUs"], states["Muster"]) == ("missing", "unknown", "unknown")


def test_kubectl_finds_it_as_a_plugin(reachable: Reachable, tmp_path: Path) -> None:
    """`kubectl muster gangs` is `muster gangs`, options and exit codes included."""
    plugin = tmp_path / "kubectl-muster"
    plugin.write_text(f"#!{sys.executable}\nfrom extender.cli import main\nmain()\n", encoding="utf-8")
    plugin.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{reachable.environment['PATH']}"
    command = ["kubectl", "muster", "gangs", "-o", "name", "--kubeconfig", str(reachable.folder / "viewer")]
    environment = {**os.environ, **reachable.environment, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "default/train" in done.stdout.split()


def test_what_muster_refuses_comes_through_the_proxy_as_it_is(reachable: Reachable) -> None:
    """Its own words, and the exit code for arguments."""
    done = reachable.ask("viewer", "gangs", "--phase", "sleeping")
    assert done.exit_code == 2
    assert done.stderr.startswith("muster gangs: phase cannot be 'Sleeping'; known: Failed, Finished, Pending")


def test_a_viewer_asks_what_would_be(reachable: Reachable, tmp_path: Path) -> None:
    """A question with a body goes through the proxy too; the gang of the file is judged, and nothing is created."""
    pods = [
        GANG | {"metadata": GANG["metadata"] | {"name": f"maybe-{n}", "labels": {"muster.dev/gang": "maybe"}}}
        for n in (0, 1)
    ]
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods), encoding="utf-8")
    done = reachable.ask("viewer", "explain", "-f", str(tmp_path / "pods.yaml"), "--dry-run", "-o", "json")
    assert '"maybe"' in done.stdout, done.stderr
    assert "default/maybe" not in reachable.ask("viewer", "gangs", "-o", "name").stdout


def _told(stream: IO[str], text: str) -> str:
    """Return the first line with this text."""
    return next(line for line in stream if text in line)


def test_a_viewer_watches_through_the_api_servers_proxy(reachable: Reachable) -> None:
    """The stream is not held back on the way: a second gang is seen while the watch is open; Ctrl-C ends it well."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "extender", "watch", "--kubeconfig", str(reachable.folder / "viewer")]
    environment = os.environ | reachable.environment
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as watch:
        assert watch.stdout is not None
        assert _told(watch.stdout, "default/train ")
        meta = GANG["metadata"] | {"name": "later-0", "labels": {"muster.dev/gang": "later"}}
        reachable.running.admin.create(GANG | {"metadata": meta})
        assert "Pending" in _told(watch.stdout, "default/later ")
        watch.send_signal(signal.SIGINT)
        _, complaints = watch.communicate(timeout=HANGS)
    assert (watch.returncode, complaints) == (0, "")


def test_an_administrator_asks_by_a_port_forward(reachable: Reachable) -> None:
    """With the shipped Role muster-port-forward and the real kubectl, to the verbs' listener on the pod's loopback."""
    done = reachable.ask("forwarder", "status", "--via", "port-forward", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["nodes"]["total"] == 1
    done = reachable.ask("forwarder", "gangs", "--via", "port-forward", "-o", "name")
    assert "default/train" in done.stdout.split()


@pytest.mark.parametrize(
    ("who", "arguments", "message"),
    [
        ("stranger", [], "the right to list pods in namespace muster-system is missing"),
        ("forwarder", ["--via", "proxy"], "the right to get pods/proxy in namespace muster-system is missing"),
        ("viewer", ["--via", "port-forward"], "the right to create pods/portforward is missing"),
        ("viewer", ["--muster-namespace", "default"], "the right to list pods in namespace default is missing"),
        ("viewer", ["--context", "nowhere"], "nowhere"),
    ],
)
def test_a_missing_right_is_named(reachable: Reachable, who: str, arguments: list[str], message: str) -> None:
    """Whoever may not ask is told what to ask his administrator for, in one line."""
    done = reachable.ask(who, "status", *arguments)
    assert done.exit_code in {1, 2}
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_namespace_is_told(reachable: Reachable) -> None:
    """An administrator who looks in the wrong place is told how to look elsewhere."""
    done = reachable.ask(reachable.running.admin_kubeconfig, "status", "--muster-namespace", "kube-system")
    assert done.exit_code == 1
    assert "no pods with the label app.kubernetes.io/name=muster in namespace kube-system" in done.stderr


def test_pods_that_do_not_run_are_told(reachable: Reachable) -> None:
    """As while images are pulled: each with its phase, and what says more."""
    admin = reachable.running.admin

    def become(phase: str) -> None:
        for name in PODS_OF_MUSTER:
            admin.patch(PODS, name, {"status": {"phase": phase}}, namespace=MUSTER_NAMESPACE, subresource="status")

    become("Pending")
    try:
        done = reachable.ask("viewer", "status")
    finally:
        become("Running")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "muster status: no pod of Muster runs in namespace muster-system: muster-a is Pending, muster-b is Pending; "
        "kubectl describe pod says why\n"
    )


class _Page(BaseHTTPRequestHandler):
    """A server that is no Muster: it has a page for every path."""

    def do_GET(self) -> None:
        """Answer with a page."""
        self.send_response(200)
        self.send_header("content-length", "13")
        self.end_headers()
        self.wfile.write(b"<html></html>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_another_server_behind_the_pod_is_told(reachable: Reachable) -> None:
    """As where the label, or the port, is another program's: in one sentence, for every kind of question."""
    with ThreadingHTTPServer((LOOPBACK, 0), _Page) as other:
        answering = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        answering.start()
        ports = dict(reachable.network.ports)
        reachable.network.ports = {**ports, f"{PODS_OF_MUSTER['muster-a']}:10263": other.server_port}
        have_lead(reachable.running.admin, "muster-a")
        try:
            answers = {command: reachable.ask("viewer", command) for command in ("status", "gangs", "queues")}
        finally:
            have_lead(reachable.running.admin, "muster-b")
            reachable.network.ports = ports
            other.shutdown()
            answering.join()
    for command, done in answers.items():
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == (
            f"muster {command}: pod muster-system/muster-a (through the API server's proxy) does not answer as Muster "
            "does: is it another program, or another port?\n"
        )


def test_a_leader_that_cannot_be_reached_is_told(reachable: Reachable) -> None:
    """As when the network does not let the API server through to pods; the other way is named."""
    have_lead(reachable.running.admin, "muster-a")
    try:
        done = reachable.ask("viewer", "status")
    finally:
        have_lead(reachable.running.admin, "muster-b")
    assert done.exit_code == 1
    assert "the API server does not get through to Muster: 503 " in done.stderr
    assert "--via port-forward takes another way" in done.stderr


def test_an_exec_plugin_gives_the_credentials(reachable: Reachable, tmp_path: Path) -> None:
    """As clouds have it: the kubeconfig names a program, which prints a token."""
    config: dict[str, Any] = yaml.safe_load((reachable.folder / "viewer").read_text(encoding="utf-8"))
    version = "client.authentication.k8s.io/v1"
    credential = {
        "apiVersion": version,
        "kind": "ExecCredential",
        "status": {"token": config["users"][0]["user"]["token"]},
    }
    plugin = {"apiVersion": version, "command": "echo", "args": [json.dumps(credential)], "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": plugin}
    (tmp_path / "config").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = reachable.ask(tmp_path / "config", "status")
    assert done.exit_code == 0, done.stderr
    assert "ready, leading" in done.stdout


def test_a_viewer_cannot_reach_the_verbs(reachable: Reachable) -> None:
    """What the proxy leads to has none: whoever may look cannot place pods."""
    path = f"/api/v1/namespaces/{MUSTER_NAMESPACE}/pods/http:muster-b:10263/proxy/v1/bind"
    viewer = reachable.running.service_account("viewer", "default")
    with ApiClient(viewer) as client, pytest.raises(ApiError, match="404"):
        client.request("POST", path, body={})
    with ApiClient(viewer) as client:
        assert client.request("GET", path.replace("v1/bind", "api/v1/status"))["ready"]
