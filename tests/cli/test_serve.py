"""`muster serve`: what it refuses, and that it serves until told to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.commands import app
from tests.cli.conftest import free_port, wait_for
from tests.patience import HANGS


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Write a kubeconfig for an API server that does not answer."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "u", "user": {"token": "not-a-secret"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "loopback"),
        (["--host", "example.org"], "loopback"),
        (["--client-ca-file", "ca.crt"], "TLS needs both"),
        (["--tls-cert-file", "/nowhere/tls.crt", "--tls-private-key-file", "/nowhere/tls.key"], "/nowhere/tls.crt"),
        (["--kubeconfig", "/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        (["--config", "/nowhere/muster.yaml"], "/nowhere/muster.yaml"),
        (["--scheduler-name", ""], "none may be empty"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(kubeconfig: Path, arguments: list[str], message: str) -> None:
    """Exit code 2 and one line that names what is wrong."""
    result = CliRunner().invoke(app, ["serve", "--kubeconfig", str(kubeconfig), *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_contradictory_settings_are_refused(kubeconfig: Path, tmp_path: Path) -> None:
    """Holding binds longer than kube-scheduler waits would bind behind its back."""
    file = tmp_path / "muster.yaml"
    file.write_text("bind_hold_seconds: 40\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["serve", "--kubeconfig", str(kubeconfig), "--config", str(file)])
    assert result.exit_code == 2
    assert "bind_hold_seconds (40) must be below http_timeout_seconds (30)" in result.stderr


@pytest.fixture
def service(kubeconfig: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, int, int]]:
    """Run `muster serve` with all listeners; yield the process and its ports."""
    ports = free_port(), free_port(), free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "extender", "serve", "--kubeconfig", str(kubeconfig), "--log-format", "json"),
            *("--port", str(ports[0]), "--metrics-port", str(ports[1]), "--view-port", str(ports[2])),
        ],
        env={**os.environ, "NO_PROXY": "*"},
        stderr=subprocess.PIPE,
    )
    yield process, *ports
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def test_it_serves_without_an_api_server_and_stops_when_told(
    service: tuple[subprocess.Popen[bytes], int, int, int],
) -> None:
    """Alive, not ready, says why; SIGTERM ends it with exit code 0 and JSON logs."""
    process, port, metrics_port, view_port = service
    assert wait_for(f"http://127.0.0.1:{port}/healthz").status_code == 200
    ready = wait_for(f"http://127.0.0.1:{metrics_port}/readyz")
    assert ready.status_code == 503
    assert ready.text.startswith("nodes, ")
    assert " not synced: no answer: ClientConnectorError: Cannot connect to host" in ready.text
    seen = wait_for(f"http://127.0.0.1:{view_port}/api/v1/status")
    assert not seen.json()["ready"]
    assert wait_for(f"http://127.0.0.1:{metrics_port}/api/v1/status").status_code == 404
    assert wait_for(f"http://127.0.0.1:{view_port}/v1/filter").status_code == 404
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=HANGS) == 0
    assert process.stderr is not None
    lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert lines[0]["event"] == "starting"
    assert not any("not-a-secret" in str(line) for line in lines)


def test_a_port_that_is_taken_ends_it(kubeconfig: Path) -> None:
    """Nobody is left behind half-started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = subprocess.run(
            [sys.executable, "-m", "extender", "serve", "--kubeconfig", str(kubeconfig), "--port", str(port)],
            check=False,
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
    assert result.returncode == 1
    assert "cannot listen on 127.0.0.1" in result.stderr


def test_a_slice_to_keep_needs_the_pods_address(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a name or POD_IP is wrong is said before anything is listened on."""
    monkeypatch.delenv("POD_IP", raising=False)
    result = CliRunner().invoke(app, ["serve", f"--kubeconfig={kubeconfig}", "--read-slice=muster-system/muster-read"])
    assert result.exit_code == 2
    assert "set it from the pod's status.podIP" in result.output
