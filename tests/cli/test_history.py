"""`muster history` and `muster report`, asked of a running Muster."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from extender.cli.history import moment_of
from tests.cli.answers import answer
from tests.cli.conftest import Script

ROW: dict[str, Any] = {
    "namespace": "team-a",
    "name": "train",
    "uid": "uid-1",
    "api": "scheduling.x-k8s.io",
    "owner": "Job/train",
    "queue": "research",
    "flavor": "h100",
    "user": "ann",
    "priority": 5,
    "members": 8,
    "gpus": 64,
    "resources": {"nvidia.com/gpu": 64},
    "created": "2026-03-01T10:00:00Z",
    "started": "2026-03-01T10:05:00Z",
    "ended": "2026-03-01T12:05:00Z",
    "outcome": "Succeeded",
    "waitedSeconds": 300.0,
    "ranSeconds": 7200.0,
    "reason": "InsufficientCapacity",
    "message": "6 of 8 members fit now",
    "evictions": 1,
    "evicted": "Preempted",
    "evictedBy": "team-b/urgent",
    "nodes": "gpu-[1-8]",
    "nodeCount": 8,
    "gpuSeconds": {"used": 460800.0, "reserved": 640.0, "lost": 3600.0},
    "runs": [
        {
            "began": "2026-03-01T10:05:00Z",
            "ended": "2026-03-01T12:05:00Z",
            "nodes": "gpu-[1-8]",
            "evicted": "",
            "by": "",
        },
    ],
}
HISTORY = {"gangs": [ROW, ROW | {"name": "old", "ended": "2026-03-01T09:00:00Z"}], "asOf": ROW["ended"], "next": "1,1"}
REPORT_ROW = {"since": "2026-03-02T00:00:00Z", "period": "2026-W10", "key": "research", "used": 1234.5}
REPORT = {
    "by": "queue",
    "per": "week",
    "zone": "UTC",
    "since": "2026-03-02T00:00:00Z",
    "until": "2026-03-09T00:00:00Z",
    "rows": [REPORT_ROW | {"reserved": 3.25, "lost": 10.0, "share": 0.625, "cost": 2469.0}],
    "capacity": {"2026-W10": 2000.0},
    "price": 2.0,
}
NOW = dt.datetime(2026, 3, 8, 12, tzinfo=dt.UTC)


class AnyQuery(dict[str, tuple[int, bytes]]):
    """Answers by path, whatever the query."""

    def get(self, path: str, default: Any = None) -> Any:
        """Return the answer to a path."""
        return super().get(path.partition("?")[0], default)


@pytest.fixture
def asked(server: Script) -> Script:
    """Return a Muster that answers both."""
    server.answers = AnyQuery()
    answer(server, "/api/v1/history", HISTORY)
    answer(server, "/api/v1/report", REPORT)
    return server


def ask(server: Script, *arguments: str) -> Result:
    """Run a command against a Muster."""
    return CliRunner().invoke(app, [*arguments, "--server", server.url], env={"TZ": "UTC"})


def test_gangs_are_listed_the_latest_last(asked: Script) -> None:
    """What they waited, ran and used, why, and that there are more."""
    result = ask(asked, "history")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == ["GANG", "team-a/old", "team-a/train"]
    assert lines[2][1:] == [
        *("Succeeded", "2026-03-01T12:05:00+00:00", "5m", "120m", "64", "128.0", "research", "1"),
        "InsufficientCapacity",
    ]
    assert "older ones are left out: --until 2026-03-01T09:00:00Z" in result.stderr


def test_wide_tells_who_evicted_and_where_it_ran(asked: Script) -> None:
    """All that there is in one line."""
    line = ask(asked, "history", "-o", "wide").stdout.splitlines()[2]
    for said in ("gpu-[1-8]", "Preempted for team-b/urgent", "Job/train", "ann", "6 of 8 members fit now"):
        assert said in line


def test_csv_has_every_field(asked: Script) -> None:
    """One line a gang, with the names of the API as headings."""
    rows = list(csv.DictReader(io.StringIO(ask(asked, "history", "-o", "csv").stdout)))
    assert [row["name"] for row in rows] == ["old", "train"]
    assert rows[0].keys() == ROW.keys()
    assert json.loads(rows[0]["gpuSeconds"]) == ROW["gpuSeconds"]


def test_what_is_asked_for_goes_to_muster(asked: Script) -> None:
    """Filters as they are, times as moments in UTC."""
    ask(
        asked, "history", "team-a/train", "--queue", "q", "--since", "2026-03-01", "--outcome", "failed", "--limit", "5"
    )
    query = parse_qs(urlsplit(asked.asked[-1].removeprefix("GET ")).query)
    assert {name: value for name, (value,) in query.items()} == {
        "namespace": "team-a",
        "name": "train",
        "queue": "q",
        "outcome": "Failed",
        "since": "2026-03-01T00:00:00Z",
        "limit": "5",
    }


def test_gangs_are_asked_for_by_node_and_by_how_they_begin(asked: Script) -> None:
    """A star is what follows; that there may be older ones is said also where none is among the latest."""
    answer(asked, "/api/v1/history", HISTORY | {"gangs": []})
    result = ask(asked, "history", "team-a/pre*", "--node", "gpu-7")
    query = parse_qs(urlsplit(asked.asked[-1].removeprefix("GET ")).query)
    assert query == {"namespace": ["team-a"], "prefix": ["pre"], "node": ["gpu-7"], "limit": ["100"]}
    assert "older ones are left out" in result.stderr


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("36h", dt.datetime(2026, 3, 7, 0, tzinfo=dt.UTC)),
        ("1w", dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)),
        ("2026-03-01T09:30:00+01:00", dt.datetime(2026, 3, 1, 8, 30, tzinfo=dt.UTC)),
        ("last week", None),
        ("99999999w", None),
    ],
)
def test_times_are_durations_ago_dates_or_times(text: str, moment: dt.datetime | None) -> None:
    """Whatever else there is is refused."""
    assert moment_of(text, NOW) == moment


def test_a_time_that_is_none_is_refused_before_anything_is_asked(asked: Script) -> None:
    """Exit code 2, and what could be said."""
    result = ask(asked, "report", "--since", "last week")
    assert result.exit_code == 2
    assert "12h or 7d" in result.stderr
    assert asked.asked == []


def test_a_report_says_who_used_what(asked: Script) -> None:
    """In hours, as a share of the cluster, and at a price."""
    lines = [line.split() for line in ask(asked, "report", "--price", "2").stdout.splitlines()]
    assert lines == [
        ["PERIOD", "QUEUE", "USED", "RESERVED", "LOST", "SHARE", "COST"],
        ["2026-W10", "research", "1,234.5", "3.2", "10.0", "62.5%", "2,469.00"],
    ]
    assert json.loads(ask(asked, "report", "-o", "json").stdout) == REPORT
    (row,) = csv.DictReader(io.StringIO(ask(asked, "report", "-o", "csv").stdout))
    assert (row["key"], row["used"], row["cost"]) == ("research", "1234.5", "2469.0")


def test_a_page_has_everything_in_it(asked: Script) -> None:
    """What each queue, namespace and user used, its price, and curves; nothing is loaded from elsewhere."""
    curve = {
        "key": "<b>",
        "used": [8.0, 0.0],
        "reserved": [0.0, 0.0],
        "waitingGangs": [1.0, 2.0],
        "waitingGpus": [8.0, 99.0],
    }
    course = {"by": "queue", "since": "2026-03-02T00:00:00Z", "until": "2026-03-02T02:00:00Z", "stepSeconds": 3600}
    course |= {"capacity": [16.0, 16.0], "curves": [curve], "others": curve | {"key": ""}}
    answer(asked, "/api/v1/curves", course)
    page = ask(asked, "report", "--price", "2", "--queue", "research", "-o", "html").stdout
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 2
    assert re.search(r"""(src|href)=|url\(|@import|<script""", page) is None
    for said in ("1,234.5", "62.", "2,469.00", "2026-W10", "queue research", "&lt;b&gt;", "others", "at most 198"):
        assert said in page
    assert "<b>" not in page
    paths = [each.removeprefix("GET ") for each in asked.asked]
    assert [parse_qs(urlsplit(path).query)["by"] for path in paths] == [["queue"], ["namespace"], ["user"], ["queue"]]
    assert {urlsplit(path).path for path in paths} == {"/api/v1/report", "/api/v1/curves"}


def test_a_page_of_nothing_says_so(asked: Script) -> None:
    """No curves, and no tables."""
    answer(asked, "/api/v1/report", REPORT | {"rows": [], "capacity": {}, "price": None})
    course = {"by": "queue", "since": "2026-03-02T00:00:00Z", "until": "2026-03-02T00:00:00Z", "stepSeconds": 3600}
    answer(asked, "/api/v1/curves", course | {"capacity": [], "curves": [], "others": None})
    page = ask(asked, "report", "--zone", "Europe/Berlin", "-o", "html").stdout
    assert page.count("Nothing was used.") == 3
    assert "<svg" not in page


def test_without_a_history_the_setting_is_named(asked: Script) -> None:
    """Exit code 1, in Muster's own words."""
    asked.answers["/api/v1/history"] = (404, b'{"detail": "no history is kept: the setting history_store is empty"}')
    result = ask(asked, "history")
    assert result.exit_code == 1
    assert "history_store" in result.stderr
