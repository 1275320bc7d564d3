"""A short run of the fuzzer, and the proof that its judge would notice."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extender.cli.interpreter import settle_code
from tests.fuzz.guidance import Pool, Unguided
from tests.fuzz.judge import Judge
from tests.fuzz.messages import Answer, Request, line_of, request_of
from tests.fuzz.run import fuzz
from tests.fuzz.session import play_again, recorded
from tests.fuzz.subject import running
from tests.fuzz.turns import looking
from tests.patience import HANGS

NAMES = ["node-0", "node-1"]
#: What the OpenAPI document says, in short.
DOCUMENT: dict[str, Any] = {
    "paths": {
        **{
            f"/v1/{verb}": {"post": {"responses": {"200": {"content": {"application/json": {}}}}}}
            for verb in ("filter", "prioritize", "bind", "preempt")
        },
        "/api/v1/gangs/{namespace}/{name}/explain": {
            "get": {"responses": {"200": {"content": {"application/json": {}}}, "404": {}}}
        },
    }
}
JUDGE = Judge(DOCUMENT)


@pytest.fixture
def settled() -> Iterator[None]:
    """Take what other tests have left out of the collector's sight, as `muster serve` does: it looks for 100 ms."""
    settle_code()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("settled")
async def test_no_answer_is_outside_the_protocol() -> None:
    """Of thousands of spoiled requests each gets an answer of the protocol's form, about nodes that it offered."""
    report = await fuzz(6000, seed=20261121)
    assert report.examples == []
    assert report.requests == sum(report.statuses.values()) == 6000
    assert report.statuses.keys() >= {200, 400, 404, 405, 413, 422}
    async with running() as subject:
        assert report.paths.keys() >= subject.app.openapi()["paths"].keys() - {"/api/v1/snapshot"}
    reached = {"bind bound", "bind refused", "filter pinned", "filter refused", "preempt allowed"}
    assert report.outcomes.keys() >= reached, "the requests are too spoiled to get anywhere"


async def test_only_what_is_computed_without_a_pause_is_a_stall() -> None:
    """Not what a request takes in sum that gives way, as one that waits for a thread does."""
    spent = 0.0
    async with looking(lambda: spent) as meter:
        for _ in range(5):
            spent += 0.06
            await asyncio.sleep(0.02)
        assert meter.longest() == pytest.approx(0.06)
        spent += 0.2
        assert meter.longest() == pytest.approx(0.2)
        meter.begin()
        assert meter.longest() == 0.0


async def test_the_same_seed_asks_the_same() -> None:
    """Without guidance a finding can be repeated by its seed: the statuses of two runs are equal."""
    first, second = [await fuzz(300, seed=7) for _ in range(2)]
    assert first.statuses == second.statuses
    assert first.paths == second.paths


class Scripted:
    """A guide that has something new to say after each of the first three requests, or two if one was of a verb."""

    def __init__(self) -> None:
        self._asked = 0

    @property
    def reached(self) -> int:
        """Count."""
        self._asked += 1
        return min(self._asked, 6)


async def test_what_reaches_anything_new_is_kept_and_sent_first_next_time(tmp_path: Path) -> None:
    """Guidance keeps the requests that reached something, in a file too, and the next run begins with them."""
    file = tmp_path / "kept"
    pool = Pool(file)
    report = await fuzz(600, 3, Scripted(), pool)
    assert report.kept == len(pool) == 3
    pool.save()
    assert [*Pool(file)] == [*pool]
    sent = await fuzz(3, 4, Unguided(), Pool(file))
    assert sent.requests == sum(sent.statuses.values()) == 3


def test_runs_add_up_and_coverage_guides_them(tmp_path: Path) -> None:
    """A record has a line for each run, of successive seeds; the second begins where the first came to."""
    record, said = tmp_path / "record.jsonl", list[str]()
    command = [sys.executable, "-m", "tests.fuzz", "--requests", "400", "--record", str(record)]
    for more in (["--seed", "1"], []):
        done = subprocess.run([*command, *more], check=False, capture_output=True, text=True, timeout=HANGS)
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(done.stdout)
    first, second = recorded(record)
    assert (first["seed"], second["seed"]) == (1, 2)
    assert first["kept"] > 50 > second["kept"]
    assert second["reached"] > 0.95 * first["reached"] > 5000  # of the same requests, 32,800 to 34,400 are reached
    assert "so far      800 requests in 2 runs, 0 complaints" in said[1]


def test_findings_are_sent_again(tmp_path: Path) -> None:
    """A file of requests is played again, each against a fresh Muster."""
    file = tmp_path / "findings"
    request = Request("POST", "/v1/bind", b"{\xff", query=b"a=%00")
    file.write_text(f"{line_of(request)}\n")
    assert request_of(file.read_text()) == request
    assert not play_again(file)


@pytest.mark.parametrize(
    ("verb", "told", "words"),
    [
        ("filter", {"Error": ""}, "form"),
        (
            "filter",
            {"NodeNames": ["x"], "Nodes": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None, "Error": ""},
            "not offered",
        ),
        (
            "filter",
            {"NodeNames": [], "Nodes": None, "FailedNodes": {"x": ""}, "FailedAndUnresolvableNodes": {}, "Error": ""},
            "not offered",
        ),
        ("prioritize", [{"Host": "node-0", "Score": 11}, {"Host": "node-1", "Score": 0}], "out of range"),
        ("prioritize", [{"Host": "node-0", "Score": 0}], "out of range"),
        ("prioritize", [{"Host": "node-1", "Score": 1}, {"Host": "node-0", "Score": 1}], "another order"),
        ("prioritize", [{"Host": "node-2", "Score": 1}], "not asked about"),
        ("bind", {"Error": None}, "form"),
        ("bind", {"Error": "internal error: KeyError"}, "internal error"),
        ("preempt", {"NodeNameToMetaVictims": {"x": {"Pods": [], "NumPDBViolations": 0}}}, "not offered"),
        ("preempt", {"NodeNameToMetaVictims": {"node-0": {"Pods": [{"UID": "y"}]}}}, "victim that was not offered"),
    ],
)
def test_the_judge_notices(verb: str, told: object, words: str) -> None:
    """Each way to leave the protocol is complained about."""
    offered = {"NodeNames": NAMES, "NodeNameToMetaVictims": {"node-0": {"Pods": [{"UID": "x"}]}}}
    request = Request("POST", f"/v1/{verb}", json.dumps(offered).encode())
    assert words in JUDGE.complaint(request, Answer(200, json.dumps(told).encode(), "application/json"))


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [(500, b"{}", "application/json"), (200, b"oops", "application/json"), (200, b"{}", "text/plain")],
)
def test_the_judge_notices_what_is_no_answer(status: int, body: bytes, content_type: str) -> None:
    """So are a status that is not documented, a body that is no JSON, and another content type."""
    assert JUDGE.complaint(Request("POST", "/v1/bind", b"{}"), Answer(status, body, content_type))


@pytest.mark.parametrize(
    ("request_line", "status", "words"),
    [
        ("GET /api/v1/gangs/a/b/explain", 200, ""),
        ("GET /api/v1/gangs/a/b/explain", 500, "status 500"),
        ("POST /api/v1/gangs/a/b/explain", 405, ""),
        ("POST /api/v1/gangs/a/b/explain", 200, "status 200"),
        ("get /api/v1/gangs/a/b/explain", 200, "status 200"),
        ("GET /api/v1/gangs/a/b/c/explain", 404, ""),
        ("GET /api/v1/gangs/a/b/c/explain", 200, "does not exist"),
        ("GET /", 200, ""),
        ("GET /dashboard/x/y", 500, "does not exist"),
    ],
)
def test_the_judge_knows_the_document(request_line: str, status: int, words: str) -> None:
    """Statuses are those of the document; what is not in it is refused, and pages are for browsers."""
    method, path = request_line.split()
    told = JUDGE.complaint(Request(method, path, b""), Answer(status, b"{}", "application/json"))
    assert words in told
    assert bool(words) == bool(told)


async def test_the_subject_answers_good_requests_well() -> None:
    """What is fuzzed is a Muster that works: a member is sent to its planned node."""
    async with running() as subject:
        pod = subject.waiting[0]
        sent = {
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "labels": {"scheduling.x-k8s.io/pod-group": "gang"},
            },
            "spec": {"schedulerName": "muster"},
        }
        nodes = [f"node-{index}" for index in range(6)]
        body = json.dumps({"Pod": sent, "NodeNames": nodes}).encode()
        answer = await subject.ask(Request("POST", "/v1/filter", body))
        assert len(json.loads(answer.body)["NodeNames"]) == 1
