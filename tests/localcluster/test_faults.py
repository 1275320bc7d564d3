"""The fault proxies between a caller and a small server."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from localcluster.client import JsonObject
from localcluster.credentials import Connection, write_service_account_key
from localcluster.errors import LocalClusterError
from localcluster.faults.api import ApiProxy
from localcluster.faults.fault import (
    Answer,
    Call,
    CloseStream,
    Delay,
    DelayEvents,
    Drop,
    Duplicate,
    Fault,
    HalfOpen,
    Hold,
    Lose,
    ReplayOld,
    RewriteEvents,
    Truncate,
)
from localcluster.faults.proxy import Proxy
from localcluster.faults.request import Request, api_request
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.faults.verbs import VerbProxy
from localcluster.waiting import wait_until
from tests.localcluster.upstream import Upstream

POD = "/api/v1/namespaces/default/pods/job-0"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
WATCH = "/api/v1/pods?watch=true"

BINDING = Match(kind="binding")
PODS_WATCH = Match(kind="watch pods")


class PlainApiProxy(Proxy):
    """A proxy for requests to the API, in front of a server without TLS."""

    def read_request(self, method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
        """Say what a request is."""
        return api_request(method, path, query, raw)


def later(item: JsonObject) -> JsonObject:
    """Return an object ten versions later."""
    return {"metadata": {"resourceVersion": str(int(item["metadata"]["resourceVersion"]) + 10)}}


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[Proxy]:
    """Run a proxy for requests to the API in front of it."""
    with PlainApiProxy(upstream.url) as running:
        yield running
        running.check()


@pytest.fixture
def caller(proxy: Proxy) -> Iterator[httpx.Client]:
    """Call through the proxy, waiting half a second for an answer at most."""
    with httpx.Client(base_url=proxy.url, trust_env=False, timeout=0.5) as client:
        yield client


def bind(caller: httpx.Client) -> httpx.Response:
    """Send a Binding."""
    return caller.post(f"{POD}/binding", json={"target": {"name": "node-0"}})


class Watch:
    """A watch that is read in the background."""

    def __init__(self, caller: httpx.Client) -> None:
        """Open it."""
        self.versions: list[int] = []
        self.ended: type[Exception] | str | None = None
        self._caller = caller
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for what the watch should bring."""
        wait_until(condition, timeout_seconds=5, description=f"{self.versions}, ended {self.ended}")

    def _read(self) -> None:
        rest = b""
        try:
            with self._caller.stream("GET", WATCH, timeout=None) as answer:
                for chunk in answer.iter_raw():
                    *lines, rest = (rest + chunk).split(b"\n")
                    self.versions += [int(json.loads(line)["object"]["metadata"]["resourceVersion"]) for line in lines]
            self.ended = "properly" if answer.status_code == 200 else f"status {answer.status_code}"
        except httpx.TransportError as error:
            self.ended = f"inside {rest[:8]!r}" if rest else type(error)


class TestRequests:
    """Faults of ordinary requests."""

    def test_what_no_rule_is_about_passes_unchanged(self, caller: httpx.Client, upstream: Upstream) -> None:
        """Method, path, query, body and Authorization arrive; status and body come back."""
        answer = caller.post(f"{POD}/binding", json={"a": 1}, headers={"Authorization": "Bearer secret"})
        assert answer.json() == {"line": f"POST {POD}/binding", "time": 1, "sent": '{"a":1}'}
        assert upstream.authorizations == ["Bearer secret"]

    def test_dropped_request_does_not_arrive(self, proxy: Proxy, caller: httpx.Client, upstream: Upstream) -> None:
        """The connection is closed without an answer, and the server never hears of it; the next request passes."""
        proxy.add(Rule(BINDING, Drop()))
        with pytest.raises(httpx.TransportError):
            bind(caller)
        assert not upstream.seen
        assert bind(caller).json()["time"] == 1

    def test_lost_answer_took_its_effect(self, proxy: Proxy, caller: httpx.Client, upstream: Upstream) -> None:
        """The server has heard of it, the caller does not learn so."""
        proxy.add(Rule(BINDING, Lose()))
        with pytest.raises(httpx.TransportError):
            bind(caller)
        assert upstream.seen[f"POST {POD}/binding"] == 1
        (exchange,) = proxy.matching(BINDING)
        assert (exchange.upstream_status, exchange.status) == (200, None)

    def test_duplicated_request_arrives_twice(self, proxy: Proxy, caller: httpx.Client) -> None:
        """The caller gets the second answer."""
        proxy.add(Rule(BINDING, Duplicate()))
        assert bind(caller).json()["time"] == 2

    def test_truncated_answer_breaks_off(self, proxy: Proxy, caller: httpx.Client) -> None:
        """Half of what Content-Length announces arrives."""
        proxy.add(Rule(BINDING, Truncate()))
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
            bind(caller)

    @pytest.mark.parametrize(
        ("status", "reason"),
        [(409, "Conflict"), (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")],
    )
    def test_answer_is_a_status_object(self, proxy: Proxy, caller: httpx.Client, status: int, reason: str) -> None:
        """The proxy answers as the API server would, Retry-After included."""
        proxy.add(Rule(BINDING, Answer(status, "too bad", retry_after=3)))
        answer = bind(caller)
        assert (answer.status_code, answer.headers["Retry-After"]) == (status, "3")
        assert (answer.json()["kind"], answer.json()["reason"], answer.json()["code"]) == ("Status", reason, status)

    def test_delayed_request_passes_later(self, proxy: Proxy, caller: httpx.Client) -> None:
        """The request is held up, then forwarded."""
        proxy.add(Rule(BINDING, Delay(0.2)))
        assert bind(caller).json()["time"] == 1
        (exchange,) = proxy.requests
        assert exchange.ended is not None
        assert exchange.ended - exchange.at >= 0.2

    def test_held_request_passes_when_the_rules_are_cleared(self, proxy: Proxy, upstream: Upstream) -> None:
        """A request is held up for as long as the story wants."""
        proxy.add(Rule(BINDING, Hold(), times=FOREVER))
        with ThreadPoolExecutor() as pool, httpx.Client(base_url=proxy.url, trust_env=False) as patient:
            answers = [pool.submit(bind, patient) for _ in range(2)]
            wait_until(lambda: len(proxy.requests) == 2, timeout_seconds=5, description="two requests")
            assert not upstream.seen
            proxy.clear()
            assert {answer.result().status_code for answer in answers} == {200}

    def test_half_open_connection_is_silent(self, proxy: Proxy, caller: httpx.Client, upstream: Upstream) -> None:
        """The caller waits for an answer until its own patience ends."""
        proxy.add(Rule(BINDING, HalfOpen()))
        with pytest.raises(httpx.ReadTimeout):
            bind(caller)
        assert not upstream.seen

    def test_server_that_is_away_closes_the_connection(self, proxy: Proxy, caller: httpx.Client) -> None:
        """The caller gets no answer of the proxy's own making."""
        with PlainApiProxy("http://127.0.0.1:9") as lonely, pytest.raises(httpx.RemoteProtocolError):
            httpx.get(lonely.url, trust_env=False)
        assert proxy.requests == []
        assert caller.get(POD).is_success

    def test_named_point_is_called_before_and_after(
        self, proxy: Proxy, caller: httpx.Client, upstream: Upstream
    ) -> None:
        """A function sees the request before it is forwarded, another one when it has been answered."""
        seen: list[tuple[str, int]] = []
        proxy.add(
            Rule(
                BINDING,
                (
                    Call(lambda exchange: seen.append((exchange.request.name, sum(upstream.seen.values())))),
                    Call(lambda exchange: seen.append((exchange.request.name, sum(upstream.seen.values()))), "after"),
                ),
            )
        )
        bind(caller)
        assert seen == [("job-0", 0), ("job-0", 1)]

    def test_failing_call_is_reported(self, upstream: Upstream) -> None:
        """What a function of a Call raises is raised again where the story can see it."""

        def fail(_exchange: object) -> None:
            raise RuntimeError("no such server")

        with PlainApiProxy(upstream.url) as proxy:
            proxy.add(Rule(BINDING, Call(fail)))
            assert httpx.post(f"{proxy.url}{POD}/binding", trust_env=False).is_success
            with pytest.raises(LocalClusterError, match="no such server"):
                proxy.check()


class TestStreams:
    """Faults of watches."""

    def test_events_pass_as_they_come(self, proxy: Proxy, caller: httpx.Client, upstream: Upstream) -> None:
        """What exists comes at once, what happens later comes when it happens."""
        watch = Watch(caller)
        watch.wait(lambda: watch.versions == [1, 2, 3, 4, 5])
        upstream.say(6)
        watch.wait(lambda: watch.versions == [1, 2, 3, 4, 5, 6])
        watch.wait(lambda: proxy.matching(PODS_WATCH)[0].events == 6)  # counted once it has been passed on

    @pytest.mark.parametrize(
        ("fault", "versions", "ended"),
        [
            (CloseStream(2), [1, 2], "properly"),
            (Truncate(2), [1, 2], "inside b'{\"type\":'"),
            (ReplayOld(4, 2), [1, 2, 3, 4, 3, 4, 5], None),
            (HalfOpen(3), [1, 2, 3], None),
            (HalfOpen(3, seconds=0.1), [1, 2, 3, 4, 5], None),
            (DelayEvents(0.1), [1, 2, 3, 4, 5], None),
            pytest.param(RewriteEvents(later), [11, 12, 13, 14, 15], None, id="RewriteEvents(later)"),
            (Drop(), [], httpx.RemoteProtocolError),
            (Lose(), [], httpx.RemoteProtocolError),
            (Answer(410), [], "status 410"),
        ],
        ids=str,
    )
    def test_watch_meets_a_fault(
        self, proxy: Proxy, caller: httpx.Client, fault: Fault, versions: list[int], ended: object
    ) -> None:
        """A watch that meets a fault brings so much, and ends in this way, if at all."""
        proxy.add(Rule(PODS_WATCH, fault))
        watch = Watch(caller)
        watch.wait(lambda: (watch.versions, watch.ended) == (versions, ended))

    def test_rule_takes_hold_of_an_open_watch(self, proxy: Proxy, caller: httpx.Client, upstream: Upstream) -> None:
        """A stream can be held back while it is open, and what was held back comes when the rules are cleared."""
        watch = Watch(caller)
        watch.wait(lambda: len(watch.versions) == 5)
        proxy.add(Rule(PODS_WATCH, HalfOpen()))
        upstream.say(6)
        bystander = Watch(caller)
        bystander.wait(lambda: len(bystander.versions) == 5)
        assert len(watch.versions) == 5
        proxy.clear()
        watch.wait(lambda: watch.versions == [1, 2, 3, 4, 5, 6])

    def test_held_watch_can_be_closed(self, proxy: Proxy, caller: httpx.Client, upstream: Upstream) -> None:
        """A gap in what a watch tells: what happens while it is held is lost when it is closed."""
        watch = Watch(caller)
        watch.wait(lambda: len(watch.versions) == 5)
        proxy.add(Rule(PODS_WATCH, HalfOpen()))
        upstream.say(6)
        proxy.add(Rule(PODS_WATCH, CloseStream()))
        watch.wait(lambda: watch.ended == "properly")
        assert watch.versions == [1, 2, 3, 4, 5]


class TestRules:
    """Who meets a fault."""

    def test_rule_spares_the_first_and_ends(self, proxy: Proxy, caller: httpx.Client) -> None:
        """`after` requests pass, `times` meet the fault, the rest pass."""
        proxy.add(Rule(BINDING, Answer(503), times=2, after=1))
        assert [bind(caller).status_code for _ in range(5)] == [200, 503, 503, 200, 200]

    def test_rules_are_cleared(self, proxy: Proxy, caller: httpx.Client) -> None:
        """A rule that holds for ever ends with `clear`."""
        proxy.add(Rule(BINDING, Answer(503), times=FOREVER))
        assert [bind(caller).status_code for _ in range(3)] == [503, 503, 503]
        proxy.clear()
        assert bind(caller).is_success

    def test_probability_spares_some(self, proxy: Proxy, caller: httpx.Client) -> None:
        """About half of many requests meet a fault of probability one half."""
        proxy.add(Rule(BINDING, Answer(503), times=FOREVER, probability=0.5))
        refused = sum(bind(caller).status_code == 503 for _ in range(100))
        assert 30 < refused < 70

    def test_storm_of_one_seed_is_the_same_again(self, upstream: Upstream) -> None:
        """The nth Binding meets the same fault in two runs with one seed, whatever else is asked in between."""
        runs = []
        for others in (0, 2):
            with PlainApiProxy(upstream.url) as proxy, httpx.Client(base_url=proxy.url, trust_env=False) as caller:
                proxy.random(7, {Answer(503): 0.2, Answer(409): 0.2, CloseStream(1): 0.5})
                statuses = []
                for _ in range(30):
                    statuses.append(bind(caller).status_code)
                    for _ in range(others):
                        caller.get(POD)
                runs.append(statuses)
        assert runs[0] == runs[1]
        assert {200, 409, 503} == set(runs[0])

    def test_rates_beyond_every_request_are_refused(self, proxy: Proxy) -> None:
        """A mix whose rates add up to more than one is an error of the story."""
        with pytest.raises(ValueError, match=r"1\.2"):
            proxy.random(1, {Drop(): 0.6, Lose(): 0.6})

    def test_unknown_kind_is_refused(self) -> None:
        """A rule that could never fire is an error of the story."""
        with pytest.raises(ValueError, match="'bindings'"):
            Match(kind="bindings")

    @pytest.mark.parametrize(
        ("line", "body", "kinds"),
        [
            (f"POST {POD}/binding", "{}", {"write", "binding"}),
            (f"PATCH {POD}/status", '{"status": {"nominatedNodeName": "n"}}', {"write", "nomination"}),
            (f"PATCH {POD}/status", '{"status": {"nominatedNodeName": null}}', {"write", "withdrawal"}),
            (f"PATCH {POD}/status", '{"status": {"phase": "Running"}}', {"write"}),
            (f"GET {POD}", "", {"get", "get pods"}),
            ("GET /api/v1/pods", "", {"list", "list pods"}),
            ("GET /api/v1/namespaces/default", "", {"get", "get namespaces"}),
            ("GET /api/v1/nodes?watch=true", "", {"watch", "watch nodes"}),
            ("GET /api/v1/nodes?watch=true&sendInitialEvents=true", "", {"watch", "watch nodes", "list", "list nodes"}),
            ("POST /apis/events.k8s.io/v1/namespaces/default/events", "{}", {"write", "event"}),
            (f"PATCH {GROUPS}/job/status", "{}", {"write", "group status"}),
            ("PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/b", "not json", {"write", "lease"}),
        ],
    )
    def test_requests_have_kinds(
        self, proxy: Proxy, caller: httpx.Client, line: str, body: str, kinds: set[str]
    ) -> None:
        """A request is known by the words that rules use."""
        method, _, path = line.partition(" ")
        with caller.stream(method, path, content=body):
            (exchange,) = proxy.requests
        assert exchange.request.kinds == kinds


class TestVerbProxy:
    """What the proxy in front of Muster adds."""

    def test_bind_calls_are_recorded(self, upstream: Upstream) -> None:
        """Who was to be bound where, and what became of it."""
        with VerbProxy(upstream.port) as proxy:
            proxy.add(Rule(Match(kind="bind"), Drop(), after=1))
            body = {"PodName": "job-0", "PodNamespace": "default", "PodUID": "u-0", "Node": "node-0"}
            assert httpx.post(f"{proxy.url}/v1/bind", json=body, trust_env=False).is_success
            with pytest.raises(httpx.TransportError):
                httpx.post(f"{proxy.url}/v1/bind", json=body, trust_env=False)
            pod = {"metadata": {"name": "job-1", "namespace": "default"}}
            httpx.post(f"{proxy.url}/v1/filter", json={"Pod": pod, "NodeNames": []}, trust_env=False)
            first, second = proxy.bind_calls()
            assert (first.namespace, first.name, first.uid, first.node) == ("default", "job-0", "u-0", "node-0")
            assert (first.status, second.status) == (200, None)
            assert first.ended is not None
            assert first.ended >= first.at
            (filtered,) = proxy.matching(Match(kind="filter"))
            assert filtered.request.name == "job-1"

    def test_proxy_that_is_not_started_takes_no_rules(self) -> None:
        """The error says what to do."""
        with pytest.raises(LocalClusterError, match="VerbProxy is not started"):
            VerbProxy(9).add(Rule(Match(kind="bind"), Drop()))


def test_api_proxy_speaks_tls_to_the_server_behind(tmp_path: Path) -> None:
    """In front is plain HTTP; a caller's token is passed on, and one without a token gets the proxy's."""
    key = write_service_account_key(tmp_path / "server.key")
    certificate = tmp_path / "server.crt"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-new", "-key", str(key), "-out", str(certificate), "-days", "2", *subject]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with Upstream(tls=context) as upstream:
        behind = Connection(f"https://127.0.0.1:{upstream.port}", certificate, "own")
        with ApiProxy(behind) as proxy:
            front = proxy.connection(Connection(behind.url, certificate, "caller's"))
            assert front.url == proxy.url
            with httpx.Client(base_url=front.url, trust_env=False) as caller:
                caller.get(POD, headers={"authorization": f"Bearer {front.token}"})
                caller.get(POD)
    assert upstream.authorizations == ["Bearer caller's", "Bearer own"]
