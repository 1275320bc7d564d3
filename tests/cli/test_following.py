"""Following a running Muster across its restarts; `muster watch` and `muster events`, which do."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import pytest
import yaml
from msgspec import convert
from rich.console import Console
from typer.testing import CliRunner, Result

from extender.cli.asking import Asker, AskError, Server
from extender.cli.commands import app
from extender.cli.following import Followed, News, StreamLost, follow
from extender.cli.printing import local_time
from extender.cli.watch import changes, picture, screen
from extender.clock import ManualClock
from extender.explain.documents import DecisionRow
from extender.service.board.documents import BoardDocument, ChangeDocument, GangRow
from tests.cli.answers import Json, answer, board, change, event, gang, stream, waiting
from tests.cli.conftest import Script
from tests.patience import HANGS

STREAM = "/api/v1/stream"
EVENTS = "/api/v1/events?limit=100"
T = TypeVar("T")
NOW = dt.datetime(2026, 3, 1, 12, 0, 0, tzinfo=dt.UTC)


def ask(server: Script, command: str, *arguments: str) -> Result:
    """Run a command against a Muster."""
    return CliRunner().invoke(app, [command, "--server", server.url, *arguments])


def follower(server: Script, *streams: bytes) -> tuple[Followed, Iterator[News | StreamLost], list[float]]:
    """Follow a Muster that has one stream after the other; at the end the user stops it. Pauses are written down."""
    pending = list(streams)
    pauses: list[float] = []

    @contextlib.contextmanager
    def connect() -> Iterator[Asker]:
        if not pending:
            raise KeyboardInterrupt
        server.answers[STREAM] = (200, pending.pop(0))
        yield Server.at(server.url, None, None, None)

    followed = Followed()
    return followed, follow(connect, followed, pauses.append), pauses


def until_stopped(source: Iterable[T]) -> list[T]:
    """Return what comes until the user stops it."""
    taken: list[T] = []
    with contextlib.suppress(KeyboardInterrupt):
        for one in source:
            taken.append(one)  # noqa: PERF402 - what came before the end is kept
        pytest.fail("it ended by itself")
    return taken


def decision(document: Json) -> DecisionRow:
    """Return a decision as it is read."""
    return convert(document, DecisionRow)


def test_a_change_comes_on_top_of_the_board(server: Script) -> None:
    """Gangs that are new, others, or gone; the order where it changed; a comment is no news."""
    first = board([waiting(), gang()], [event(1)])
    second = change([gang("team/next")], ["team/train"], order=[], events=[event(2)])
    followed, news, _ = follower(server, stream(first, second))
    taken = until_stopped(news)
    assert taken[0] == News(("team/next", "team/train"), (decision(event(1)),))
    assert taken[1] == News(("team/next", "team/train"), (decision(event(2)),))
    assert taken[2] == News()
    assert followed.gangs == {"team/next": convert(gang("team/next"), GangRow)}
    assert followed.order == ()
    assert [one.seq for one in followed.events] == [1, 2]


def test_after_a_restart_only_what_is_new_is_told(server: Script) -> None:
    """A new connection begins with a whole board, in which most is as before; numbers may begin anew."""
    anew = event(1, time="2026-03-01T11:59:59Z")
    followed, news, pauses = follower(
        server, stream(board([gang()], [event(1), event(2)])), stream(board([gang()], [event(2), anew]))
    )
    taken = [one for one in until_stopped(news) if one != News()]
    assert taken[0] == News(("team/train",), (decision(event(1)), decision(event(2))))
    assert isinstance(taken[1], StreamLost)
    assert "has ended the stream" in taken[1].why
    assert taken[2] == News((), (decision(anew),))
    assert pauses == [1.0, 1.0]
    assert len(followed.events) == 3


def test_pauses_grow_while_nobody_answers(server: Script) -> None:
    """Up to eight seconds, and from the beginning once somebody did."""
    followed, news, pauses = follower(server, stream(board()), b"", b"", b"", b"", b"", stream(board()))
    until_stopped(news)
    assert pauses == [1.0, 1.0, 2.0, 4.0, 8.0, 8.0, 1.0]
    assert followed.status is not None
    assert followed.status.ready


def test_a_muster_that_never_answered_is_an_error(server: Script) -> None:
    """So that a wrong address does not look like a restart; what cannot be read neither."""
    followed = Followed()
    with pytest.raises(AskError, match="answered 404"):
        next(follow(lambda: contextlib.nullcontext(Server.at(server.url, None, None, None)), followed))
    _, news, _ = follower(server, b"event: board\ndata: {}\n\n")
    with pytest.raises(AskError, match="cannot be read"):
        next(news)


def test_watch_writes_a_line_for_each_change(server: Script, capsys: pytest.CaptureFixture[str]) -> None:
    """Gangs as they become others, evictions and expiries; what stays as it is, is not told again."""
    first = board([waiting(), gang()], [event(1), event(2, "evicted", message="for team/urgent")])
    grown = gang("team/next", phase="Scheduling", members={**gang()["members"], "bound": 1})
    second = change([grown, gang()], [])
    followed, news, _ = follower(server, stream(first, second, change([], ["team/next"])))
    lines = until_stopped(changes(followed, news))
    assert [line.plain.split("  ", 1)[1] for line in lines] == [
        "Pending     team/next  InsufficientCapacity: 1 of 4 members fit now",
        "Running     team/train  4/4 members, 32 GPUs",
        "evicted    team/train                for team/urgent",
        "Scheduling  team/next  1/4 members, 32 GPUs",
        "Gone        team/next",
    ]
    assert "has ended the stream; trying again in 1 s" in capsys.readouterr().err


def test_a_screen_shows_who_waits_before_who_runs() -> None:
    """How things are, the gangs in their order with their place, the latest decisions; never more lines than fit."""
    followed = Followed()
    assert next(line.plain for line in picture(followed, NOW, 24)) == "waiting for Muster"
    running = [gang(f"team/r{number}", startedAt=f"2026-03-01T11:{number:02d}:00Z") for number in range(40)]
    first = board([waiting("team/second"), *running, waiting("team/first")], [event(n) for n in range(9)])
    followed.board(convert(first, BoardDocument))
    followed.change(convert(change(order=["team/first", "team/second"]), ChangeDocument))
    lines = [line.plain for line in picture(followed, NOW, 30)]
    assert len(lines) == 30
    assert lines[0] == "Muster 0.1.0: ready, leading"
    heading = next(place for place, line in enumerate(lines) if line.startswith("GANG"))
    assert [line.split()[0] for line in lines[heading + 1 : heading + 4]] == ["team/first", "team/second", "team/r39"]
    assert [line.split()[5] for line in lines[heading + 1 : heading + 4]] == ["1", "2", "-"]
    assert any(line.startswith("and 3") and line.endswith(" more") for line in lines)
    assert lines[-1].endswith("4 members")
    for height in range(1, 30):
        assert len(picture(followed, NOW, height)) <= height


def test_a_screen_says_that_nobody_answers() -> None:
    """Above the last that is known."""
    followed = Followed()
    followed.board(convert(board([gang()]), BoardDocument))
    lines = [line.plain for line in picture(followed, NOW, 24, "gone; trying again in 1 s")]
    assert lines[:2] == ["LOST  gone; trying again in 1 s", "Muster 0.1.0: ready, leading"]


def test_the_screen_is_drawn_anew_with_whatever_comes_in(server: Script) -> None:
    """In colours, on the terminal's other screen, which is left at the end."""
    shown = Console(force_terminal=True, color_system="standard", file=io.StringIO(), width=100, height=30)
    followed, news, _ = follower(server, stream(board([waiting()])))
    with contextlib.suppress(KeyboardInterrupt):
        screen(shown, followed, news, ManualClock(NOW))
    assert isinstance(shown.file, io.StringIO)
    drawn = shown.file.getvalue()
    assert "\x1b[33mPending\x1b[0m" in drawn
    assert "has ended the stream" in drawn
    assert drawn.startswith("\x1b[?1049h")
    assert "\x1b[?1049l" in drawn


def stopped(server: Script, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, until it has lost the server; then interrupt it as Ctrl-C does."""
    command = [sys.executable, "-m", "extender", *arguments, "--server", server.url]
    environment = {**os.environ, "COLUMNS": "120", "TZ": "UTC"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANGS)
        return subprocess.CompletedProcess(command, process.returncode, out, first + err)


def test_ctrl_c_ends_a_watch_well(server: Script) -> None:
    """With exit code 0, after what was seen."""
    server.answers[STREAM] = (200, stream(board([waiting()])))
    done = stopped(server, "watch")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "12:00:00  Pending     team/next  InsufficientCapacity: 1 of 4 members fit now\n"
    assert "muster watch: " in done.stderr
    assert "trying again in 1 s" in done.stderr


def test_events_go_on_until_ctrl_c(server: Script) -> None:
    """The latest to begin with, of one gang only; JSON is one decision a line."""
    found = [event(1), event(2), event(3, about="team/other"), event(4)]
    server.answers[STREAM] = (200, stream(board([], found)))
    done = stopped(server, "events", "team/train", "--follow", "--limit", "2", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [event(2), event(4)]
    done = stopped(server, "events", "-f", "-o", "wide")
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        [one["time"].replace("Z", "+00:00"), "started", one["gang"]] for one in found
    ]


def test_events_are_listed_oldest_first(server: Script) -> None:
    """With what each was about: a reason and a message, else members, and how long they had waited."""
    found: list[Json] = [
        event(1, waitedSeconds=12.34),
        event(2, "expired", reason="StartTimeout", message="2 of 4 came"),
        event(3, "reserved", "", members=1, decision=""),
    ]
    answer(server, EVENTS, {"next": 3, "events": found})
    result = ask(server, "events")
    lines = [line.split(maxsplit=3) for line in result.stdout.splitlines()]
    assert lines[0] == ["TIME", "KIND", "GANG", "WHAT"]
    assert [line[1:] for line in lines[1:]] == [
        ["started", "team/train", "4 members after 12.3 s"],
        ["expired", "team/train", "StartTimeout: 2 of 4 came"],
        ["reserved", "-", "1 member"],
    ]
    wide = ask(server, "events", "-o", "wide", "--no-headers").stdout.splitlines()
    assert wide[2].split() == [local_time(found[2]["time"]), "reserved", "-", "3", "-", "-", "1", "member"]
    assert yaml.safe_load(ask(server, "events", "-o", "yaml").stdout)["events"] == found


def test_events_of_one_gang_are_asked_for(server: Script) -> None:
    """A name without a namespace is one in default; none at all is no failure."""
    answer(server, "/api/v1/events?gang=default%2Ftrain&limit=5", {"next": 0, "events": []})
    result = ask(server, "events", "train", "--limit", "5")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing decided about default/train that Muster remembers\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["a/b/c"], "'a/b/c' is no NAMESPACE/NAME of a gang"), (["-f", "-o", "yaml"], "--watch prints lines")],
)
def test_events_that_cannot_be_asked_for_are_refused(server: Script, arguments: list[str], message: str) -> None:
    """Exit code 2, and nobody is asked."""
    result = ask(server, "events", *arguments)
    assert result.exit_code == 2
    assert f"muster events: {message}" in result.stderr
    assert server.asked == []
