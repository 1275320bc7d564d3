"""Every command that asks a running Muster, with hostile text in every field of its answer, in every format."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.cli.commands import app
from extender.cli.completing import answer_kubectl
from extender.cli.following import Followed, News
from extender.cli.output import Format
from extender.cli.printing import SteadyConsole
from extender.cli.watch import changes, picture
from extender.clock import ManualClock
from extender.explain.documents import DefragmentationDocument, Explanation, QueuesDocument
from extender.history.documents import CurvesDocument, HistoryDocument, ReportDocument
from extender.service.board.documents import (
    BoardDocument,
    CapacityDocument,
    EventsDocument,
    GangsDocument,
    NodesDocument,
    StatusDocument,
)
from tests.examples import share
from tests.hostile.texts import ATTACKS, TEXTS, document

#: Command -> its arguments.
ASKING = {
    "status": [],
    "gangs": ["-A"],
    "queues": [],
    "nodes": [],
    "top": [],
    "capacity": [],
    "events": ["-A"],
    "explain": ["team/train"],
    "history": ["-A"],
    "report": ["--price", "2"],
    "defrag": ["team/train"],
}
#: Commands that print no answer of Muster's, or are tested elsewhere.
OTHERS = {
    "watch": "below, by what it shows",
    "snapshot": "tests/hostile/test_files.py",
    "replay": "tests/hostile/test_files.py",
    **dict.fromkeys(
        ("hold", "release", "cancel", "requeue", "priority", "move", "stop", "drain", "resume"),
        "names that the API server has checked, by say() and note()",
    ),
    **dict.fromkeys(("init", "serve", "completion", "settings", "calibrate", "check-config"), "the caller's own files"),
    **dict.fromkeys(("demo", "simulate", "study", "import", "trace"), "the caller's own files"),
}
#: Beginning of a path -> what is answered there; the longest counts.
ANSWERS = {
    "/api/v1/status": StatusDocument,
    "/api/v1/gangs": GangsDocument,
    "/api/v1/gangs/": Explanation,
    "/api/v1/gangs/team/train/defrag": DefragmentationDocument,
    "/api/v1/queues": QueuesDocument,
    "/api/v1/nodes": NodesDocument,
    "/api/v1/capacity": CapacityDocument,
    "/api/v1/events": EventsDocument,
    "/api/v1/history": HistoryDocument,
    "/api/v1/report": ReportDocument,
    "/api/v1/curves": CurvesDocument,
}
FORMATS = (
    *(Format.TABLE, Format.WIDE, Format.JSON, Format.YAML, Format.NAME, Format.CSV, "html"),
    *("jsonpath={..*}", "custom-columns=A:.name,B:.reason,C:.metadata.name"),
)
#: What styles text on a terminal; none of the attacks is one.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """Standard output that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


class HostileServer(ThreadingHTTPServer):
    """Muster, with one text wherever it says any; with `refusing` it refuses, and says why in that text."""

    text = ""
    refusing = False

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return what is at a path."""
        if self.refusing:
            return 404, json.dumps({"detail": self.text}).encode()
        kind = ANSWERS[max((each for each in ANSWERS if path.startswith(each)), key=len)]
        return 200, json.dumps(document(kind, self.text)).encode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, HostileServer)
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status, body = self.server.answer(self.path)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - as http.server looks it up

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    """Serve hostile text on loopback."""
    with HostileServer(("127.0.0.1", 0), _Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def run(arguments: list[str], out: io.StringIO | None = None) -> str:
    """Run a command; return what it printed on standard output, and behind it what on standard error."""
    out, err = out or io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        app(arguments, standalone_mode=True)
    assert "Traceback" not in err.getvalue()
    return out.getvalue() + err.getvalue()


def result(arguments: list[str]) -> str:
    """Run a command; return what a program would read of it."""
    out = io.StringIO()
    run(arguments, out)
    return out.getvalue()


def leads_to_nothing(shown: str) -> bool:
    """Tell whether text steers no terminal, once Muster's own colours are off."""
    return all(one.isprintable() or one in "\n\t" for one in _STYLE.sub("", shown))


def test_every_command_is_here() -> None:
    """A new command is tried with hostile text, or it is said why not."""
    command: Any = typer.main.get_command(app)
    assert set(command.commands) == ASKING.keys() | OTHERS.keys()


@pytest.mark.parametrize("command", ASKING)
@share(0.4)
@given(output=st.sampled_from(FORMATS), text=TEXTS)
def test_no_text_steers_a_terminal(server: HostileServer, command: str, output: str, text: str) -> None:
    """Nothing but printable characters, line ends and tabs, in whichever format; and a text forges no line."""
    server.refusing, server.text = False, text
    arguments = [command, *ASKING[command], "--server", server.url, "-o", output]
    shown = run(arguments, Terminal())
    assert leads_to_nothing(shown)
    if output in {Format.TABLE, Format.WIDE, Format.NAME} or output.startswith("custom"):
        server.text = "plain"
        assert len(shown.split("\n")) == len(run(arguments, Terminal()).split("\n"))


@pytest.mark.parametrize("command", ASKING)
@share(0.2)
@given(text=TEXTS)
def test_a_refusal_is_one_line(server: HostileServer, command: str, text: str) -> None:
    """Whatever Muster, or a proxy before it, says."""
    server.refusing, server.text = True, text
    shown = run([command, *ASKING[command], "--server", server.url])
    assert leads_to_nothing(shown)
    assert shown.count("\n") == 1


@pytest.fixture(scope="module")
def long_cells() -> Iterator[None]:
    """Let Python's reader of CSV take cells of more than 128 KiB, which is a limit of its own."""
    before = csv.field_size_limit(2**24)
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("long_cells")
@pytest.mark.parametrize("command", ASKING)
@share(0.2)
@given(text=TEXTS)
def test_programs_read_what_was_said(server: HostileServer, command: str, text: str) -> None:
    """JSON and YAML say the same as Muster, with escapes in place of what steers; a cell of CSV is no formula."""
    server.refusing, server.text = False, text
    arguments = [command, *ASKING[command], "--server", server.url]
    for output, read in ((Format.JSON, json.loads), (Format.YAML, yaml.safe_load)):
        shown = result([*arguments, "-o", output])
        assert leads_to_nothing(shown)
        assert text in texts_of(read(shown))
    for row in csv.reader(io.StringIO(result([*arguments, "-o", "csv"]), newline="")):
        assert [cell for cell in row if cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d"))] == []


def texts_of(value: Any) -> set[str]:
    """Return all texts in a document."""
    if isinstance(value, dict):
        return set().union(*map(texts_of, value.values()), map(str, value))
    return set().union(*map(texts_of, value)) if isinstance(value, list) else {str(value)}


@given(text=TEXTS)
def test_what_is_watched_steers_nothing(text: str) -> None:
    """The lines of `muster watch`, and its screen."""
    followed = Followed()
    told = followed.board(msgspec.convert(document(BoardDocument, text), BoardDocument, strict=False))
    events = followed.events
    lines = [*changes(followed, [News(told.gangs, tuple(events))]), *picture(followed, ManualClock().now(), 40)]
    out = Terminal()
    shown = SteadyConsole(file=out, width=200, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        shown.print(line)
    assert leads_to_nothing(out.getvalue())
    assert out.getvalue().count("\n") == len(lines)


def test_only_one_place_makes_consoles() -> None:
    """Each console is one that no text steers."""
    made = [
        str(path)
        for folder in ("extender", "muster_lab")
        for path in Path(folder).rglob("*.py")
        if re.search(r"(?<!Steady)\bConsole\((?!Console\))", path.read_text(encoding="utf-8"))
    ]
    assert made == []


@pytest.mark.parametrize("text", ATTACKS)
def test_shells_are_offered_names_only(server: HostileServer, text: str) -> None:
    """What is no name of Kubernetes is not completed: zsh evaluates what it is given."""
    server.refusing, server.text = False, text
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        answer_kubectl(app, ["queues", "--server", server.url, ""])
    names = [line.partition("\t")[0] for line in out.getvalue().splitlines()]
    assert all(re.fullmatch(r"[-:A-Za-z0-9._/=]*", name) for name in names)
