"""The API server's moods: whatever it answers to writes, gangs start whole, once, and what waits says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from localcluster.faults.api import ApiProxy
from localcluster.faults.fault import Answer, Delay, Drop, Duplicate, Fault, Lose, Truncate
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.blows import Record, start_evict_and_wait
from tests.judge import Tolerance

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

_SLOW = 5.0
#: What the API server says for an admission webhook. Source: k8s.io/apiserver pkg/admission/plugin/webhook/errors.
_DENIED = 'admission webhook "pods.example.com" denied the request: not now'
_TIMED_OUT = 'failed calling webhook "pods.example.com": context deadline exceeded'

MOODS: Mapping[str, Fault] = {
    "too many requests": Answer(429, "the server has received too many requests", retry_after=1),
    "internal error": Answer(500),
    "unavailable": Answer(503),
    "conflict": Answer(409, "the object has been modified; please apply your changes to the latest version"),
    "gateway timeout": Answer(504, "request did not complete within the allotted timeout"),
    "denied by a webhook": Answer(403, _DENIED),
    "a webhook that times out": Answer(500, _TIMED_OUT),
    "five seconds late": Delay(_SLOW),
    "no answer": Lose(),
    "not received": Drop(),
    "received twice": Duplicate(),
    "half an answer": Truncate(),
    "an answer that is no JSON": Answer(503, body=b"<html>upstream connect error</html>"),
}
#: Those that decide; the others are of the same kinds for the client, or take minutes, and are part of the night.
_DECIDING = {"too many requests", "conflict", "no answer"}

#: Writes of which the first meets the mood for certain.
_MET = {"binding", "nomination", "group status"}


def writes(mood: str) -> Match:
    """Return all that Muster writes but Leases, which another test is about.

    An eviction that is denied for ten seconds is given up, and others are evicted instead: that is another story.
    """
    spared = {"eviction"} if "denied" in mood else set()
    return Match(kind="write", where=lambda request: "lease" not in request.kinds and request.subresource not in spared)


@pytest.fixture
def tolerance() -> Tolerance:
    """Return how late writes may be: by a slow answer, and by the pauses between attempts."""
    return Tolerance(news=4 * _SLOW, write=8 * _SLOW, eviction=8 * _SLOW)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mood", [pytest.param(mood, marks=() if mood in _DECIDING else pytest.mark.nightly) for mood in MOODS]
)
def test_half_of_all_writes_meet_a_mood(
    cluster: Sandbox,
    faulty_muster: Server,
    api_proxy: ApiProxy,
    mood: str,
    record_property: Record,
) -> None:
    """Gangs start, another has pods evicted and starts, and one that is too large says so, in spite of it."""

    @contextmanager
    def in_this_mood() -> Iterator[None]:
        for kind in _MET:
            api_proxy.add(Rule(Match(kind=kind), MOODS[mood]))
        api_proxy.add(Rule(writes(mood), MOODS[mood], times=FOREVER, probability=0.5))
        yield

    start_evict_and_wait(cluster, in_this_mood(), record_property)
    met = {kind for exchange in api_proxy.requests if exchange.faults for kind in exchange.request.kinds}
    assert met >= _MET
    faulty_muster.check()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mood", ["denied by a webhook", pytest.param("unavailable", marks=pytest.mark.nightly)])
def test_a_write_that_never_succeeds_holds_nothing_back_for_ever(
    cluster: Sandbox, faulty_muster: Server, api_proxy: ApiProxy, mood: str
) -> None:
    """While no Binding succeeds the gang gives its nodes back and says why; when they do again it starts."""
    cluster.nodes(4, gpus=8)
    api_proxy.add(Rule(Match(kind="binding"), MOODS[mood], times=FOREVER))
    gang = cluster.gang("gang", members=4, gpus=8)
    cluster.wait_until(
        lambda: any(each.faults for each in api_proxy.matching(Match(kind="binding"))), "a Binding tried"
    )
    message = gang.wait_message("bind", timeout=60)
    assert not gang.bound
    assert message
    api_proxy.clear()
    gang.wait_bound(4, timeout=90)
    faulty_muster.check()
