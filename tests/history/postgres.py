"""PostgreSQL of Debian's package, in a directory of its own, as long as a test runs."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from localcluster.ports import free_ports


def find(name: str) -> Path:
    """Return a program of PostgreSQL, the newest there is; fail the test with what installs it."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    here = which(name)
    if not found and here is None:
        pytest.fail("these tests need PostgreSQL: sudo apt-get install -y postgresql", pytrace=False)
    return found[-1] if found else Path(here or "")


class Server:
    """A server that a test can stop and start again; `url` is its database."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"postgresql://muster@127.0.0.1:{port}/postgres"
        self._folder, self._port = folder, port

    def create(self) -> None:
        """Make the files of the database; it lets everyone in who is on this machine."""
        self._run(find("initdb"), "--pgdata", self._folder, "--username", "muster", "--auth", "trust", "--no-sync")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = (
            f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder} -c fsync=off"
        )
        log = self._folder / "log"
        self._run(find("pg_ctl"), "--pgdata", self._folder, "--wait", "--log", log, "--options", options, "start")

    def stop(self) -> None:
        """Stop as if the machine were lost."""
        self._run(find("pg_ctl"), "--pgdata", self._folder, "--mode", "immediate", "stop")

    def _run(self, *command: str | Path) -> None:
        """Run a command as a user that may: PostgreSQL refuses to be root."""
        user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        ids: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        done = subprocess.run(
            list(map(str, command)), check=False, capture_output=True, text=True, cwd="/", timeout=120, **ids
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running() -> Iterator[Server]:
    """Run a server in a folder that its user can reach, which pytest's own need not be."""
    find("initdb")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="muster-postgresql-") as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "data"
        folder.mkdir(mode=0o700)
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
        server = Server(folder, port)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
