"""`muster explain`: how a gang stands, asked of a running Muster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.cluster.gangs import Census
from extender.cluster.occupancy import Held
from extender.control.explanation import Explanation, explanation_json
from extender.control.views import GangPhase, GangView
from extender.domain.levels import Level, Levels
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.pod import Pod, Shape
from extender.domain.reason import Reason, Wait
from extender.placement.placement import Placement
from tests.cli.conftest import Script, free_port

PLACED = Placement(329.4, "rack", "r1", 12.5, {"n0": 8, "n1": 8})


def explanation(members: int = 2, wait: Wait | None = None) -> bytes:
    """Return what a Muster says of a gang on two nodes."""
    ref = GroupRef(GroupApi.COSCHEDULING, "team", "train")
    pods = tuple(Pod(f"{i}", "team", f"train-{i}", Shape(()), node_name=f"n{i}", role="worker") for i in range(members))
    explained = Explanation(
        GangView(ref, "uid", GangPhase.RUNNING, members, Census(), 0, wait, managed=True),
        Levels((Level("rack", "r"),), "settings"),
        PLACED if wait is None else None,
        pods,
        held={"0": Held((0, 1), (0,), observed=True), "1": Held((2, 3), (1,), observed=False)},
    )
    return json.dumps(explanation_json(explained)).encode()


def explain(*arguments: str) -> Result:
    """Run the command, for a wide screen."""
    return CliRunner().invoke(app, ["explain", *arguments], env={"COLUMNS": "160"})


def test_it_says_where_a_gang_is_and_what_is_predicted(server: Script) -> None:
    """The bandwidth, the closest that all members share, each member with its GPUs."""
    server.answers["/api/v1/gangs/team/train/explain"] = (200, explanation())
    result = explain("team/train", "--server", server.url)
    assert result.exit_code == 0
    assert "team/train: Running, 329 GB/s predicted, within rack r1" in result.stdout
    assert "16 GPUs on 2 nodes; future requests lose 12.5 GB/s" in result.stdout
    assert "levels: rack (settings)" in result.stdout
    first, second = (line for line in result.stdout.splitlines() if "train-" in line)
    assert "0,1" in first
    assert "predicted" not in first
    assert "2,3 (predicted)" in second


def test_it_says_why_a_gang_waits(server: Script) -> None:
    """In the words that every other channel has."""
    wait = Wait(Reason.INSUFFICIENT_CAPACITY, {"minMember": 2, "fits": 1})
    server.answers["/api/v1/gangs/default/train/explain"] = (200, explanation(wait=wait))
    result = explain("train", "--server", server.url)
    assert "waits: InsufficientCapacity: 1 of 2 members fit now" in result.stdout


def test_a_large_gang_is_not_listed_to_its_end(server: Script) -> None:
    """Forty members, and how many more there are."""
    server.answers["/api/v1/gangs/team/train/explain"] = (200, explanation(members=50))
    result = explain("team/train", "--server", server.url)
    assert "train-39" in result.stdout
    assert "train-40" not in result.stdout
    assert "and 10 members more" in result.stdout


def test_programs_get_the_document(server: Script) -> None:
    """As the service sent it."""
    server.answers["/api/v1/gangs/team/train/explain"] = (200, explanation())
    result = explain("team/train", "--server", server.url, "-o", "json")
    assert json.loads(result.stdout) == json.loads(explanation())


def test_the_picture_is_written_where_it_is_asked_for(server: Script, tmp_path: Path) -> None:
    """A file; one that cannot be written is named."""
    server.answers["/api/v1/gangs/team/train/explain"] = (200, explanation())
    server.answers["/api/v1/gangs/team/train/picture.svg"] = (200, b"<svg/>")
    file = tmp_path / "train.svg"
    assert explain("team/train", "--server", server.url, "--picture", str(file)).exit_code == 0
    assert file.read_bytes() == b"<svg/>"
    result = explain("team/train", "--server", server.url, "--picture", str(tmp_path / "no" / "where.svg"))
    assert result.exit_code == 2
    assert "where.svg: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (
            404,
            b'{"detail":"no gang team/train: nothing there"}',
            3,
            "muster explain: no gang team/train: nothing there",
        ),
        (404, b'{"detail":"Not Found"}', 1, "answered 404 Not Found; is that where the verbs are?"),
        (404, b"[]", 1, "answered 404 Not Found"),
        (503, b'{"detail":"not ready: pods not synced"}', 1, "not ready: pods not synced"),
        (500, b"oops", 1, "answered 500 Internal Server Error"),
        (200, b"hello", 1, "does not answer as Muster does"),
    ],
)
def test_a_refusal_is_told_in_one_line(server: Script, status: int, body: bytes, code: int, message: str) -> None:
    """The exit code tells an unknown gang from a Muster that cannot be asked."""
    server.answers["/api/v1/gangs/team/train/explain"] = (status, body)
    result = explain("team/train", "--server", server.url)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_nobody_listening_says_what_to_do() -> None:
    """Where it was asked, and how to get there."""
    result = explain("train", "--server", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
    assert "is Muster running there (kubectl port-forward, for example)?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a/b/c"], "'a/b/c' is no NAMESPACE/NAME of a gang"),
        (["a b"], "'a b' is no NAMESPACE/NAME of a gang"),
        (["g", "--server", "localhost:10261"], "--server localhost:10261 is not an address such as"),
        (["g", "--server", "http://h/path"], "--server http://h/path is not an address such as"),
        (["g", "--server", "http://h:99999"], "--server http://h:99999: Port out of range"),
        (["g", "--ca-file", "ca.crt"], "--ca-file is for https; --server is http://127.0.0.1:10261"),
        (["g", "--server", "https://h", "--cert-file", "c"], "--cert-file and --key-file go together"),
        (["g", "--server", "https://h", "--ca-file", "/nowhere/ca.crt"], "--ca-file: "),
        (
            ["g", "--server", "https://h", "--cert-file", "/nowhere/c", "--key-file", "/nowhere/k"],
            "--cert-file, --key-file: ",
        ),
    ],
)
def test_options_that_cannot_be_used_are_refused(arguments: list[str], message: str) -> None:
    """Exit code 2, naming the option and its value."""
    result = explain(*arguments)
    assert result.exit_code == 2
    assert f"muster explain: {message}" in result.stderr


def test_https_is_asked_over_tls() -> None:
    """A server that does not speak TLS is not asked in the clear."""
    result = explain("train", "--server", f"https://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
