"""A short run of the fuzzer, and the proof that its judge would notice."""

from __future__ import annotations

import json

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.judge import complaint
from tests.fuzz.run import fuzz
from tests.fuzz.subject import Answer, Request, running

NAMES = ["node-0", "node-1"]


async def test_no_answer_is_outside_the_protocol() -> None:
    """Of thousands of spoiled requests each gets an answer of the protocol's form, about nodes that it offered."""
    report = await fuzz(6000, seed=20261121)
    assert report.examples == []
    assert report.requests == sum(report.statuses.values()) == 6000
    assert report.statuses.keys() >= {200, 400, 404, 405, 413}
    reached = {"bind bound", "bind refused", "filter pinned", "filter refused", "preempt allowed"}
    assert report.outcomes.keys() >= reached, "the requests are too spoiled to get anywhere"


def test_the_same_seed_asks_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """A finding can be repeated: the statuses of two runs are equal."""
    assert main(["--requests", "300", "--seed", "7"]) == 0
    first = capsys.readouterr().out
    assert main(["--requests", "300", "--seed", "7"]) == 0
    second = capsys.readouterr().out
    statuses = [[line for line in text.splitlines() if line.startswith("statuses")] for text in (first, second)]
    assert statuses[0] == statuses[1] != []


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
    assert words in complaint(request, Answer(200, json.dumps(told).encode(), "application/json"))


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [(500, b"{}", "application/json"), (200, b"oops", "application/json"), (200, b"{}", "text/plain")],
)
def test_the_judge_notices_what_is_no_answer(status: int, body: bytes, content_type: str) -> None:
    """So are a status that is not documented, a body that is no JSON, and another content type."""
    assert complaint(Request("POST", "/v1/bind", b"{}"), Answer(status, body, content_type))


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
