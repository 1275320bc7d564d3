"""`pip install muster` is enough to ask and to act: those commands import none of what only a server needs."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from extender.cli.asking import Server, ServerError
from extender.cli.connecting import Connection, reached
from tests.cli import client


class Nothing(BaseHTTPRequestHandler):
    """Answer everything with an empty object."""

    tokens: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        """Answer."""
        self.tokens.append(self.headers["authorization"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as http.server calls them

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """Return the address of a server that understands nothing."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python; never raise."""
    return subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True, timeout=200)


def test_commands_of_the_client_import_nothing_of_the_servers(server: str, tmp_path: Path) -> None:
    """Each comes as far as to an answer, at an address and by a kubeconfig, where the server's packages are missing."""
    kubeconfig = tmp_path / "kubeconfig"
    named = {"name": "here", "cluster": {"server": server}, "context": {"cluster": "here", "user": "here"}, "user": {}}
    kubeconfig.write_text(
        json.dumps({"current-context": "here", **{kind: [named] for kind in ("clusters", "contexts", "users")}})
    )
    done = run(client.__file__, server, str(kubeconfig))
    lines = [line.split() for line in done.stdout.splitlines()]
    ran = {line[0] for line in lines}
    assert {"status", "gangs", "explain", "history", "watch", "hold", "stop"} <= ran, done.stderr
    assert "serve" not in ran
    assert [line for line in lines if line[-1] not in {"0", "1", "2"}] == [], "packages that were imported"
    refused = [line[0] for line in lines if line[-1] == "2"]
    assert len(refused) < len(lines) / 4, f"{refused}: wrong arguments, so that nothing was asked"


PROGRAM = """
import sys
from tests.cli.client import Absent
from extender.cli import main
sys.meta_path.insert(0, Absent())
main()
"""


@pytest.mark.parametrize(
    "words", [["serve", "--kubeconfig", "/dev/null"], ["demo"], ["simulate", "examples/scenarios/two-jobs.yaml"]]
)
def test_what_needs_the_server_says_what_to_install(words: list[str]) -> None:
    """One line that names the extra, and no traceback."""
    done = run("-c", PROGRAM, *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"muster {words[0]}: ")
    assert done.stderr.endswith(" is not installed, which this command needs: pip install 'muster[server]'\n")
    assert done.stderr.count("\n") == 1


def test_a_token_goes_along(server: str, tmp_path: Path) -> None:
    """With every question; a file without one, or a kubeconfig beside it, is refused."""
    file = tmp_path / "token"
    file.write_text("secret\n")
    asked = Server(server)
    asked.show_token(file)
    asked.get("/api/v1/status")
    assert Nothing.tokens[-1] == "Bearer secret"
    for text in ("", "two words"):
        file.write_text(text)
        with pytest.raises(ServerError, match="holds no token"):
            asked.show_token(file)
    with pytest.raises(ServerError, match="--token-file"):
        asked.show_token(tmp_path / "none")
    with pytest.raises(ServerError, match="holds no token"), reached(Connection(token_file=file)):
        pass
    with pytest.raises(ServerError, match="holds no token"), reached(Connection(server=server, token_file=file)):
        pass
