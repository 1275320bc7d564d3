"""Ways to a running Muster: an address, the API server's proxy to its pod, a port-forward."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli.asking import AskError, Server
from extender.cli.commands import app
from extender.cli.connecting import Connection, MusterPort, Via, proxied_port, reached
from extender.cli.pods import MusterPod, forwarded
from tests.cli.answers import answer, board, gang, status, stream
from tests.cli.conftest import Script, free_port
from tests.patience import HANGS

PODS = "/api/v1/namespaces/muster-system/pods?labelSelector=app.kubernetes.io/name%3Dmuster"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster"
VIEW = {"name": "view", "containerPort": 10263}

#: A kubectl that forwards to the port in its environment, or says what is against it.
KUBECTL = f"""#!{sys.executable}
import os, sys, time
print(" ".join(sys.argv[1:]), file=open(os.environ["KUBECTL_CALLS"], "a"), flush=True)
if said := os.environ.get("KUBECTL_SAYS"):
    sys.exit(said)
if "KUBECTL_HANGS" in os.environ:
    time.sleep(60)
if "KUBECTL_ENDS" in os.environ:
    sys.exit(3)
print("Forwarding from 127.0.0.1:" + os.environ["KUBECTL_PORT"] + " -> 10261", flush=True)
time.sleep(60)
"""


def proxied(name: str) -> str:
    """Return where the API server's proxy has a pod's port for people."""
    return f"/api/v1/namespaces/muster-system/pods/http:{name}:10263/proxy"


def pods(*names: str, ports: tuple[Any, ...] = (VIEW,)) -> dict[str, Any]:
    """Return a list of Muster's pods, which run."""
    state = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {"containers": [{"args": ["serve"], "ports": list(ports)}]}
    metas = [{"name": name, "namespace": "muster-system"} for name in names]
    return {"items": [{"metadata": meta, "spec": spec, "status": state} for meta in metas]}


def refusal(code: int, reason: str, message: str) -> dict[str, Any]:
    """Return how the API server says no."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def ask(command: str, *arguments: str, **environment: str) -> Result:
    """Run a command, for a wide screen."""
    return CliRunner().invoke(app, [command, *arguments], env={"COLUMNS": "160", "MUSTER_SERVER": None, **environment})


def test_the_api_servers_proxy_is_the_way_to_the_pod_that_leads(server: Script, kubeconfig: Path) -> None:
    """The Lease says which pod; a query goes through, and Muster's answer comes back as it is."""
    answer(server, PODS, pods("muster-a", "muster-b"))
    answer(server, LEASE, {"spec": {"holderIdentity": "muster-b_0000"}})
    answer(
        server, f"{proxied('muster-b')}/api/v1/gangs?namespace=default&phase=Running", {"gangs": [gang("team/train")]}
    )
    result = ask("gangs", "--phase", "running", "-o", "name", "--kubeconfig", str(kubeconfig))
    assert (result.exit_code, result.stdout) == (0, "team/train\n"), result.stderr


def test_a_single_pod_needs_no_lease(server: Script, kubeconfig: Path) -> None:
    """Nor the right to read one; KUBECONFIG names the file."""
    answer(server, PODS, pods("muster-a"))
    answer(server, f"{proxied('muster-a')}/api/v1/status", status())
    result = ask("status", KUBECONFIG=str(kubeconfig))
    assert result.exit_code == 0, result.stderr
    assert "ready, leading" in result.stdout
    assert [path for path in server.asked if "leases" in path] == []


def test_without_a_lease_the_first_pod_is_asked(server: Script, kubeconfig: Path) -> None:
    """As where kube-scheduler has not written one yet."""
    answer(server, PODS, pods("muster-b", "muster-a"))
    answer(server, LEASE, refusal(404, "NotFound", "leases not found"), 404)
    answer(server, f"{proxied('muster-a')}/api/v1/status", status())
    assert ask("status", "--kubeconfig", str(kubeconfig)).exit_code == 0


def test_a_stream_comes_through_the_proxy(server: Script, kubeconfig: Path) -> None:
    """Line by line, cut wherever the network likes."""
    answer(server, PODS, pods("muster-a"))
    server.answers[f"{proxied('muster-a')}/api/v1/stream"] = (200, stream(board([gang()])))
    connection = Connection(None, None, None, None, kubeconfig, "there", "muster-system", Via.PROXY)
    with reached(connection) as muster:
        lines = list(muster.lines("/api/v1/stream", 5.0))
    assert muster.where == "pod muster-system/muster-a (through the API server's proxy)"
    assert lines[:2] == ["retry: 1000", "event: board"]
    assert json.loads(lines[3].removeprefix("data: ")) == board([gang()])


def test_a_question_with_a_body_comes_through_the_proxy(server: Script, kubeconfig: Path) -> None:
    """As POST."""
    answer(server, PODS, pods("muster-a"))
    answer(server, f"{proxied('muster-a')}/api/v1/explain", {"gangs": []})
    connection = Connection(None, None, None, None, kubeconfig, None, "muster-system", Via.AUTO)
    with reached(connection) as muster:
        assert json.loads(muster.post("/api/v1/explain", body=b'{"objects": []}')) == {"gangs": []}
    assert server.asked[-1] == f"POST {proxied('muster-a')}/api/v1/explain"


@pytest.mark.parametrize(
    ("path", "code", "body", "exit_code", "message"),
    [
        (PODS, 403, refusal(403, "Forbidden", "pods is forbidden"), 1, "pods is forbidden: the right to list pods in"),
        (PODS, 401, refusal(401, "Unauthorized", "Unauthorized"), 1, "does not know these credentials (401); log in"),
        (PODS, 200, {"items": []}, 1, "no pods with the label app.kubernetes.io/name=muster in namespace muster-sys"),
        (LEASE, 403, refusal(403, "Forbidden", "no"), 1, "the right to get leases in namespace muster-system is miss"),
        ("status", 403, refusal(403, "Forbidden", "no"), 1, "the right to get pods/proxy in namespace muster-system"),
        ("status", 503, refusal(503, "ServiceUnavailable", "refused"), 1, "does not get through to Muster: 503 Servi"),
        ("status", 503, {"detail": "pods not synced"}, 1, "muster status: pods not synced"),
        ("status", 400, {"detail": "no such thing"}, 2, "muster status: no such thing"),
        ("status", 404, {"detail": "Not Found"}, 1, "Muster answered 404 Not Found; is it older than this command?"),
        ("status", 200, {"hello": 1}, 1, "required field `version`; is it as new as this command?"),
        ("status", 500, refusal(500, "InternalError", "oops"), 1, "the API server: 500 InternalError: oops"),
    ],
)
def test_what_goes_wrong_on_the_way_is_told_with_what_to_do(  # noqa: PLR0917 - one value per column of the table
    server: Script,
    kubeconfig: Path,
    path: str,
    code: int,
    body: Mapping[str, Any],
    exit_code: int,
    message: str,
) -> None:
    """In one line: who refused, which right is missing, Muster's own words where it is Muster that refuses."""
    answer(server, PODS, pods("muster-a", "muster-b"))
    answer(server, LEASE, {"spec": {"holderIdentity": "muster-a_0000"}})
    where = f"{proxied('muster-a')}/api/v1/status" if path == "status" else path
    answer(server, where, body, code)
    result = ask("status", "--kubeconfig", str(kubeconfig))
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_refused_stream_is_told(server: Script, kubeconfig: Path) -> None:
    """As any other refusal, by the command that follows it."""
    answer(server, PODS, pods("muster-a"))
    answer(server, f"{proxied('muster-a')}/api/v1/stream", refusal(403, "Forbidden", "no"), 403)
    result = ask("watch", "--kubeconfig", str(kubeconfig))
    assert result.exit_code == 1
    assert "muster watch: no: the right to get pods/proxy in namespace muster-system is missing" in result.stderr


def test_an_api_server_that_is_not_there_is_told(server: Script, kubeconfig: Path) -> None:
    """With what happened."""
    config = kubeconfig.read_text(encoding="utf-8").replace(server.url, f"http://127.0.0.1:{free_port()}")
    kubeconfig.write_text(config, encoding="utf-8")
    result = ask("status", "--kubeconfig", str(kubeconfig))
    assert result.exit_code == 1
    assert "muster status: the API server: no answer: " in result.stderr
    assert result.stderr.endswith("does kubectl reach the cluster of this context (kubectl cluster-info)?\n")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (401, "answered 401 Unauthorized; log in there, or give --token-file with a token that is valid"),
        (403, "answered 403 Forbidden; ask those who run it for access, or leave out --server"),
        (404, "answered 404 Not Found; is that where the verbs are, and as new as this command?"),
        (500, "answered 500 Internal Server Error; is that where the verbs are?"),
        (503, "answered 503 Service Unavailable; no replica of Muster answers behind it; kubectl -n muster-system get"),
    ],
)
def test_another_server_at_the_address_is_told_with_what_to_do(server: Script, code: int, message: str) -> None:
    """In one line, by what it answers: a proxy before Muster, a Service without endpoints, something else."""
    server.answers["/api/v1/status"] = (code, b"<html>no</html>")
    result = ask("status", "--server", server.url)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert message in result.stderr


def test_the_words_of_a_muster_that_stands_by_are_told(server: Script) -> None:
    """As it says them, whatever the way."""
    answer(server, "/api/v1/gangs", {"detail": "stands by: muster-b leads"}, 503)
    result = ask("gangs", "--server", server.url)
    assert (result.exit_code, result.stderr) == (1, "muster gangs: stands by: muster-b leads\n")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://muster.invalid:1", "is the host in --server spelt right?"),
        ("https://{host}", "does it speak http there?"),
        ("http://127.0.0.1:1", "is Muster running there (kubectl port-forward, for example)?"),
    ],
)
def test_a_wrong_address_is_told_with_what_to_look_at(server: Script, address: str, message: str) -> None:
    """The host, the scheme or the port."""
    result = ask("status", "--server", address.format(host=server.url.removeprefix("http://")))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.endswith(f"; {message}\n")


def test_a_muster_that_is_slow_is_told_with_how_long_was_waited() -> None:
    """A listener that takes the question and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        muster = Server(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(AskError, match=r"does not answer within 0\.05 s: it is busy, or the way to it is cut; try"):
            muster.get("/api/v1/status", timeout=0.05)


def test_without_a_kubeconfig_it_is_said_what_to_give(tmp_path: Path) -> None:
    """A file or an address; exit code 2."""
    result = ask("status", HOME=str(tmp_path), KUBECONFIG="")
    assert result.exit_code == 2
    assert "no kubeconfig: " in result.stderr
    assert "or --server with Muster's address" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ca-file", "x"], "--ca-file is for --server https://...; a kubeconfig has its own"),
        (["--server", "http://h", "--context", "x"], "--context is for the way through the API server, and Muster is"),
        (["--server", "http://h", "--via", "proxy"], "--via is for the way through the API server"),
        (["--server", "ftp://h"], "--server ftp://h is not an address such as http://127.0.0.1:10261"),
    ],
)
def test_options_of_different_ways_exclude_each_other(arguments: list[str], message: str) -> None:
    """Exit code 2, naming the option."""
    result = ask("status", *arguments)
    assert result.exit_code == 2
    assert f"muster status: {message}" in result.stderr


def test_the_environment_names_an_address(server: Script) -> None:
    """MUSTER_SERVER, as --server."""
    answer(server, "/api/v1/status", status())
    assert ask("status", MUSTER_SERVER=server.url).exit_code == 0


def muster_pod(view: int | None) -> MusterPod:
    """Return a pod with or without a port for people."""
    return MusterPod("n", "p", "p", "Running", True, ("n", "muster"), view_port=view)  # noqa: FBT003 - ready


def test_the_proxy_is_used_where_the_pod_has_a_port_for_people() -> None:
    """Otherwise a port-forward, and for what has an effect always one."""
    assert proxied_port(muster_pod(10263), Via.AUTO, MusterPort.VIEW) == 10263
    assert proxied_port(muster_pod(None), Via.AUTO, MusterPort.VIEW) is None
    assert proxied_port(muster_pod(10263), Via.PORT_FORWARD, MusterPort.VIEW) is None
    assert proxied_port(muster_pod(10263), Via.AUTO, MusterPort.VERBS) is None


def test_a_proxy_to_nowhere_is_refused(server: Script, kubeconfig: Path) -> None:
    """With what to change; and no effect can be had through the proxy at all."""
    answer(server, PODS, pods("muster-a", ports=()))
    result = ask("status", "--kubeconfig", str(kubeconfig), "--via", "proxy")
    assert result.exit_code == 1
    assert "pod muster-system/muster-a has no port named view" in result.stderr
    connection = Connection(None, None, None, None, kubeconfig, None, "muster-system", Via.PROXY)
    with pytest.raises(ValueError, match="changes nothing"), reached(connection, MusterPort.VERBS):
        pytest.fail("reached")


@pytest.fixture
def kubectl(tmp_path: Path) -> dict[str, str]:
    """Return the environment in which a kubectl of this test's own is found, and writes down how it was called."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text(KUBECTL, encoding="utf-8")
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()
    return {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "KUBECTL_CALLS": str(calls)}


def forwards(kubectl: dict[str, str]) -> bool:
    """Tell whether this test's kubectl still runs."""
    listed = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    return kubectl["KUBECTL_CALLS"].replace("calls", "bin/kubectl") in listed


def test_a_port_forward_is_the_way_to_a_pod_that_offers_nothing(
    server: Script, kubeconfig: Path, kubectl: dict[str, str]
) -> None:
    """To the verbs' port on its loopback, with the caller's kubeconfig; kubectl has ended when the command has."""
    port = server.url.rpartition(":")[2]
    answer(server, PODS, pods("muster-a", ports=()))
    answer(server, "/api/v1/status", status())
    arguments = ["--kubeconfig", str(kubeconfig), "--context", "there"]
    result = ask("status", *arguments, **kubectl, KUBECTL_PORT=port)
    assert result.exit_code == 0, result.stderr
    assert Path(kubectl["KUBECTL_CALLS"]).read_text(encoding="utf-8").split() == [
        f"--kubeconfig={kubeconfig}",
        "--context=there",
        "port-forward",
        "--address=127.0.0.1",
        "--namespace=muster-system",
        "pod/muster-a",
        ":10261",
    ]
    assert not forwards(kubectl)


def test_a_command_that_is_terminated_ends_its_port_forward(
    server: Script, kubeconfig: Path, kubectl: dict[str, str]
) -> None:
    """Nobody else would, and the way to the verbs would stay open."""
    answer(server, PODS, pods("muster-a", ports=()))
    command = [sys.executable, "-m", "extender", "status", "--kubeconfig", str(kubeconfig)]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(HANGS)  # a command that fails early never asks
        environment = {**os.environ, **kubectl, "KUBECTL_PORT": str(silent.getsockname()[1])}
        with subprocess.Popen(command, env=environment) as asking:
            asked, _ = silent.accept()
            asking.terminate()
            assert asking.wait(HANGS) == 128 + 15
            asked.close()
    assert not forwards(kubectl)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"KUBECTL_SAYS": "error: pods is forbidden: User cannot create pods/portforward"},
            "failed: pods is forbidden: User cannot create pods/portforward; the right to create pods/portforward is",
        ),
        ({"KUBECTL_SAYS": "error: unable to forward port"}, "to pod muster-system/muster-a failed: unable to forward"),
        ({"KUBECTL_ENDS": "1"}, "failed: it ended with exit code 3"),
    ],
)
def test_a_port_forward_that_fails_is_told(
    server: Script, kubeconfig: Path, kubectl: dict[str, str], environment: dict[str, str], message: str
) -> None:
    """In kubectl's own words, with the right that is missing."""
    answer(server, PODS, pods("muster-a"))
    result = ask("status", "--via", "port-forward", "--kubeconfig", str(kubeconfig), **kubectl, **environment)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_kubectl_that_says_nothing_is_ended(kubectl: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for a login that nobody sees."""
    for name, value in kubectl.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBECTL_HANGS", "1")
    pod = muster_pod(None)
    with (
        pytest.raises(AskError, match=r"pod n/p failed: nothing happened for 0\.5 s"),
        forwarded(pod, pod.verbs_port, None, None, start_seconds=0.5),
    ):
        pytest.fail("forwarded")


def test_an_answer_that_does_not_come_in_time_is_told(server: Script, kubeconfig: Path) -> None:
    """Each question has a bound of its own."""
    answer(server, PODS, pods("muster-a"))
    connection = Connection(None, None, None, None, kubeconfig, None, "muster-system", Via.PROXY)
    with reached(connection) as muster, pytest.raises(AskError, match="no answer through the API server within 0 s"):
        muster.get("/api/v1/status", 0.0)


def test_a_missing_kubectl_is_told_with_where_to_get_it(server: Script, kubeconfig: Path, tmp_path: Path) -> None:
    """And with the way that does without."""
    answer(server, PODS, pods("muster-a"))
    arguments = ["--via", "port-forward", "--kubeconfig", str(kubeconfig)]
    result = ask("status", *arguments, PATH=str(tmp_path))
    assert result.exit_code == 1
    assert "none is on PATH: install it (https://kubernetes.io/docs/tasks/tools)" in result.stderr
    assert "--via proxy" in result.stderr


def test_a_forwarded_muster_that_goes_away_is_named(server: Script, kubeconfig: Path, kubectl: dict[str, str]) -> None:
    """By its pod, not by a port that means nothing to anybody."""
    answer(server, PODS, pods("muster-a"))
    arguments = ["--via", "port-forward", "--kubeconfig", str(kubeconfig)]
    result = ask("status", *arguments, **kubectl, KUBECTL_PORT=str(free_port()))
    assert result.exit_code == 1
    assert "muster status: pod muster-system/muster-a (by kubectl port-forward) does not answer" in result.stderr


SERVICE = "/api/v1/namespaces/muster-system/services/muster-read:view/proxy"


def test_the_service_that_follows_the_leader_is_the_first_way(server: Script, kubeconfig: Path) -> None:
    """Where it leads to a Muster, neither pods nor the Lease are asked for; a port-forward does not take it."""
    answer(server, f"{SERVICE}/healthz", {})
    answer(server, f"{SERVICE}/api/v1/status", status())
    result = ask("status", "--kubeconfig", str(kubeconfig))
    assert result.exit_code == 0, result.stderr
    assert server.asked == [f"GET {SERVICE}/healthz", f"GET {SERVICE}/api/v1/status"]


@pytest.mark.parametrize("code", [403, 404, 503])
def test_without_the_service_the_leader_is_looked_for(server: Script, kubeconfig: Path, code: int) -> None:
    """It is not there, may not be asked, or leads nowhere, as after the loss of a leader."""
    answer(server, f"{SERVICE}/healthz", refusal(code, "No", "no"), code)
    answer(server, PODS, pods("muster-a"))
    answer(server, f"{proxied('muster-a')}/api/v1/status", status())
    assert ask("status", "--kubeconfig", str(kubeconfig)).exit_code == 0


def test_a_right_that_the_service_lacks_is_named(server: Script, kubeconfig: Path) -> None:
    """It is another one than that to pods."""
    answer(server, f"{SERVICE}/healthz", {})
    answer(server, f"{SERVICE}/api/v1/status", refusal(403, "Forbidden", "no"), 403)
    result = ask("status", "--kubeconfig", str(kubeconfig))
    assert (result.exit_code, "the right to get services/proxy in namespace" in result.stderr) == (1, True)
