"""Replicas: hostnames of their own, and who of them holds the Lease."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError
from localcluster.processes import Command, Server
from localcluster.reaper import Reaper
from localcluster.replica import on_host
from localcluster.waiting import wait_until


def script(folder: Path, name: str, text: str) -> None:
    """Write an executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_command_has_the_hostname_and_this_machine_keeps_its_own() -> None:
    """A command that is started `on_host` sees that name; nobody else does."""
    before = socket.gethostname()
    answer = subprocess.run([*on_host("replica-a"), "hostname"], check=True, capture_output=True, text=True)
    assert answer.stdout == "replica-a\n"
    assert socket.gethostname() == before


def test_signals_reach_the_server_itself(tmp_path: Path, reaper: Reaper) -> None:
    """The process that is started becomes the server, arguments and all: there is no shell in between."""
    program = ["sh", "-c", 'echo "$$ $1" >ready; exec sleep 60', "program", "two words"]
    server = Server(Command("program", [*on_host("replica-a"), *program], tmp_path), reaper, lambda: True)
    server.start()
    wait_until((tmp_path / "ready").exists, timeout_seconds=5, description="the program runs")
    written = (tmp_path / "ready").read_text(encoding="utf-8")
    assert written == f"{server.pid} two words\n"
    assert Path(f"/proc/{server.pid}/ns/uts").readlink() != Path("/proc/self/ns/uts").readlink()
    server.kill()
    assert not server.running


@pytest.mark.parametrize(("missing", "package"), [("unshare", "util-linux"), ("hostname", "hostname")])
def test_missing_program_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, package: str
) -> None:
    """Without `unshare` or `hostname` there are no replicas, and the error says what to install."""
    for name in {"unshare", "hostname"} - {missing}:
        script(tmp_path, name, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalClusterError, match=f"`{missing}` is needed .*`apt-get install {package}`"):
        on_host("replica-a")


def test_forbidden_namespace_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel or a container forbids UTS namespaces, the error says what to do, and what was refused."""
    script(tmp_path, "unshare", 'echo "unshare failed: Operation not permitted" >&2; exit 1')
    script(tmp_path, "hostname", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(
        LocalClusterError, match=r"allows no UTS namespace\. Run as root, .*`unshare --uts`: unshare fai"
    ):
        on_host("replica-a")


def test_user_namespace_serves_whoever_is_not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a plain UTS namespace is refused, one inside a user namespace is tried."""
    script(tmp_path, "unshare", 'test "$1" = --map-root-user')
    script(tmp_path, "hostname", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert on_host("replica-a")[:3] == ["unshare", "--map-root-user", "--uts"]
