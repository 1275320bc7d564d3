"""The extender client: what kube-scheduler sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from extender.control.ports import WatchedKind
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Stored
from muster_lab.simulation.scheduler.extender import ExtenderAnswer, ExtenderClient, ExtenderError, TransportError
from tests.builders import pod_json
from tests.lab.conftest import Virtually, loop_clock

Call = Callable[[ExtenderClient, Stored], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "filter": lambda client, pod: client.filter(pod, ["n", "m"]),
    "prioritize": lambda client, pod: client.prioritize(pod, ["n", "m"]),
    "bind": lambda client, pod: client.bind(pod.pod, "n"),
    "preempt": lambda client, pod: client.preempt(pod, {"n": ["u1", "u2"]}),
}


class Exchange:
    """One call to an extender: what was sent, and what came of the answer."""

    def __init__(self, answer: bytes | Exception, *, delay: float = 0.0) -> None:
        """Answer with `answer` after `delay` seconds."""
        self._answer = answer
        self._delay = delay
        self.path = ""
        self.body: dict[str, Any] = {}
        self.pod: Stored | None = None

    async def run(self, call: Call) -> Any:
        """Make the call."""
        self.pod = Cluster(loop_clock()).create(WatchedKind.POD, pod_json("a", gpus=1))
        return await call(ExtenderClient(self._transport), self.pod)

    async def _transport(self, path: str, body: bytes) -> bytes:
        self.path, self.body = path, json.loads(body)
        await asyncio.sleep(self._delay)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("verb", "answer", "rest"),
    [
        ("filter", b'{"NodeNames": null}', {"Nodes": None, "NodeNames": ["n", "m"]}),
        ("prioritize", b"[]", {"Nodes": None, "NodeNames": ["n", "m"]}),
        (
            "preempt",
            b'{"NodeNameToMetaVictims": {}}',
            {
                "NodeNameToVictims": None,
                "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 0}},
            },
        ),
    ],
)
def test_requests_are_go_structs_with_the_whole_pod(
    virtually: Virtually, verb: str, answer: bytes, rest: dict[str, Any]
) -> None:
    """Field names are Go's, what is not there is null, the pod is as the API server has it."""
    exchange = Exchange(answer)
    virtually(exchange.run(CALLS[verb]))
    assert exchange.pod is not None
    assert exchange.path == f"/v1/{verb}"
    assert exchange.body == {"Pod": exchange.pod.json, **rest}


def test_a_bind_names_the_pod_with_its_uid(virtually: Virtually) -> None:
    """The four fields of ExtenderBindingArgs."""
    exchange = Exchange(b'{"Error": ""}')
    virtually(exchange.run(CALLS["bind"]))
    assert exchange.pod is not None
    assert exchange.body == {"PodName": "a", "PodNamespace": "default", "PodUID": exchange.pod.uid, "Node": "n"}


def test_a_filter_answer_is_names_and_two_kinds_of_failures(virtually: Virtually) -> None:
    """The maps say which nodes evicting could help on, and on which not."""
    answer = (
        b'{"NodeNames": ["m"], "FailedNodes": {"n": "full"}, "FailedAndUnresolvableNodes": {"k": "never"}, "Error": ""}'
    )
    verdict = virtually(Exchange(answer).run(CALLS["filter"]))
    assert verdict == ExtenderAnswer(["m"], {"n": "full"}, {"k": "never"})


def test_scores_are_by_node_and_none_without_an_answer(virtually: Virtually) -> None:
    """kube-scheduler goes on without an extender's scores."""
    scores = virtually(Exchange(b'[{"Host": "n", "Score": 7}]').run(CALLS["prioritize"]))
    assert scores == {"n": 7}
    assert virtually(Exchange(TransportError("code 500")).run(CALLS["prioritize"])) == {}
    assert virtually(Exchange(b"nonsense").run(CALLS["prioritize"])) == {}


def test_victims_are_by_node(virtually: Virtually) -> None:
    """Nodes that are left out are no candidates any more; nulls count as nothing."""
    answer = b'{"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u1"}, null, {"UID": null}]}, "m": {"Pods": null}}}'
    assert virtually(Exchange(answer).run(CALLS["preempt"])) == {"n": ["u1"], "m": []}


@pytest.mark.parametrize(
    ("verb", "answer", "message"),
    [
        ("filter", b'{"Error": "not today"}', "not today"),
        ("filter", b"not JSON", "cannot read FilterResult"),
        (
            "filter",
            b'{"NodeNames": ["x"]}',
            'extender "/v1" claims a filtered node "x" which is not found in the input node list',
        ),
        ("filter", TransportError("code 503"), "failed filter with extender at URL /v1/filter, code 503"),
        ("bind", b'{"Error": "gang waits"}', "gang waits"),
        ("bind", TransportError("code 500"), "failed bind with extender at URL /v1/bind, code 500"),
        ("preempt", b'{"NodeNameToMetaVictims": 3}', "cannot read PreemptionResult"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(
    virtually: Virtually, verb: str, answer: bytes | Exception, message: str
) -> None:
    """Errors of the extender, of the transport and of the form all fail the call."""
    with pytest.raises(ExtenderError, match=message):
        virtually(Exchange(answer).run(CALLS[verb]))


@pytest.mark.parametrize("verb", ["filter", "bind", "preempt"])
def test_a_call_without_an_answer_in_thirty_seconds_is_an_error(virtually: Virtually, verb: str) -> None:
    """The extender's httpTimeout ends the call, with Go's words."""

    async def story() -> float:
        with pytest.raises(ExtenderError, match="context deadline exceeded"):
            await Exchange(b"{}", delay=60).run(CALLS[verb])
        return asyncio.get_running_loop().time()

    assert virtually(story()) == 30.0
