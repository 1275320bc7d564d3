"""Running `muster` as its users do: in a process of its own, or against a server that answers as a test says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml

from tests.patience import HANGS


def muster(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, for a wide screen."""
    return subprocess.run(
        [sys.executable, "-m", "extender", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "COLUMNS": "200"},
    )


def free_port() -> int:
    """Return a loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(url: str, seconds: float = HANGS) -> httpx.Response:
    """Return the first answer of a service that is starting."""
    give_up = time.monotonic() + seconds  # noqa: TID251 - a real process keeps real time
    while True:
        try:
            return httpx.get(url, trust_env=False)
        except httpx.TransportError:
            assert time.monotonic() < give_up, f"{url} never answered"  # noqa: TID251 - a real process keeps real time
            time.sleep(0.05)  # noqa: TID251 - a real process keeps real time


@dataclass
class Script:
    """What a server answers by path, where it is, and what it was asked; 404 without Muster's words elsewhere.

    `bodies` are those of the questions that have one.
    """

    url: str
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Script]:
    """Serve a script on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script.asked.append(f"{self.command} {self.path}")
            if length := int(self.headers.get("content-length", 0)):
                script.bodies.append(self.rfile.read(length))
            status, body = script.answers.get(self.path, (404, b'{"detail":"Not Found"}'))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as http.server looks them up

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        script = Script(f"http://127.0.0.1:{listening.server_port}")
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield script
        listening.shutdown()
        thread.join()


@pytest.fixture
def kubeconfig(server: Script, tmp_path: Path) -> Path:
    """Return a kubeconfig whose API server is the script."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("here", "there")],
        "current-context": "here",
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
