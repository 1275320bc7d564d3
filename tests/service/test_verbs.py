"""The four verbs, byte for byte as kube-scheduler speaks them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import httpx
import pytest

from extender.admission.events import PodSeen
from extender.control.ports import PodKey
from extender.objects.pod import Phase, Rejection, RejectionReason
from extender.service.app import create_app
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster
from tests.service.conftest import pod_body
from tests.service.serving import served

NAMES = ["node-0", "node-1"]


async def ask(http: httpx.AsyncClient, verb: str, body: object) -> object:
    """Call a verb that must answer 200, and return the answer."""
    response = await http.post(f"/v1/{verb}", json=body)
    assert response.status_code == 200
    return response.json()


class TestFilter:
    """POST /v1/filter."""

    async def test_a_planned_member_gets_its_node(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """NodeNames holds exactly the planned node; nothing failed."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 2)
        body = {"Pod": pod_body("a-0", gang="a"), "Nodes": None, "NodeNames": NAMES}
        answer = await ask(http, "filter", body)
        assert answer == {
            "NodeNames": ["node-0"],
            "Nodes": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }

    async def test_of_a_known_pod_only_the_nomination_is_read(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """What the watch has delivered is not read again; a nomination that is news counts.

        The planned node was offered first and is missing now, for a pod that is nominated to it: kube-scheduler refuses
        it, and the member is placed anew.
        """
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1)
        pod = {"metadata": {"uid": "a-0-uid"}, "spec": "not read"}
        pinned = await ask(http, "filter", {"Pod": pod, "NodeNames": ["node-0"]})
        assert isinstance(pinned, dict)
        assert pinned["NodeNames"] == ["node-0"]
        pod["status"] = {"nominatedNodeName": "node-0"}
        moved = await ask(http, "filter", {"Pod": pod, "NodeNames": ["node-1"]})
        assert isinstance(moved, dict)
        assert moved["NodeNames"] == ["node-1"]

    async def test_of_an_unknown_pod_everything_is_read(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """A pod that the watch has not delivered is refused where it cannot be read."""
        muster.sync()
        body = {"Pod": {"metadata": {"uid": "stranger"}, "spec": "unreadable"}, "NodeNames": NAMES}
        response = await http.post("/v1/filter", json=body)
        assert response.status_code == 400
        assert "$.Pod.spec" in response.json()["Error"]

    async def test_only_post_asks(self, http: httpx.AsyncClient) -> None:
        """Any other method is 405, and says which one is allowed."""
        response = await http.get("/v1/filter")
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"

    async def test_a_waiting_member_is_refused_unresolvably(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """Every node carries the one reason, so that kube-scheduler's event aggregates it."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1, min_member=2)
        answer = await ask(http, "filter", {"Pod": pod_body("a-0", gang="a"), "NodeNames": NAMES})
        assert answer == {
            "NodeNames": [],
            "Nodes": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": dict.fromkeys(NAMES, "gang waits: MembersMissing: 1 of 2 members exist"),
            "Error": "",
        }

    async def test_a_single_pod_is_pinned_to_its_planned_node(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """It is planned in the call that asks for it, beside what gangs have reserved."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1)
        muster.controller.tell(PodSeen(muster.pod("single", 8)))
        answer = await ask(http, "filter", {"Pod": pod_body("single"), "NodeNames": NAMES})
        assert isinstance(answer, dict)
        assert (answer["NodeNames"], answer["FailedNodes"]) == (["node-1"], {})

    async def test_a_single_pod_that_waits_is_refused_unresolvably(
        self, http: httpx.AsyncClient, muster: Muster
    ) -> None:
        """Every node carries the one reason: whom to evict is not for kube-scheduler to find."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1)
        failed = replace(muster.pod("failed", 8), node_name="node-1", phase=Phase.FAILED)
        rejection = Rejection(RejectionReason.TOPOLOGY_AFFINITY, "no locality")
        muster.controller.tell(PodSeen(replace(failed, rejection=rejection)))
        muster.controller.tell(PodSeen(muster.pod("single", 8)))
        answer = await ask(http, "filter", {"Pod": pod_body("single"), "NodeNames": NAMES})
        words = "kubelets rejected such pods on nodes that have room; 0 of 1 members fit on other nodes"
        words = f"pod waits: RejectedByKubelet: {words}"
        assert answer == {
            "NodeNames": [],
            "Nodes": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": dict.fromkeys(NAMES, words),
            "Error": "",
        }

    async def test_whole_nodes_are_echoed(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """Without nodeCacheCapable the accepted nodes come back as they were sent."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1)
        muster.controller.tell(PodSeen(muster.pod("single", 8)))
        items = [{"metadata": {"name": name}, "status": {"x": [1, None]}} for name in NAMES]
        answer = await ask(http, "filter", {"Pod": pod_body("single"), "Nodes": {"items": items}, "NodeNames": None})
        assert isinstance(answer, dict)
        assert answer["Nodes"] == {"items": [items[1]]}
        assert answer["NodeNames"] is None

    async def test_a_request_without_nodes_names_the_setting(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """The answer to neither Nodes nor NodeNames says what to configure."""
        muster.sync()
        answer = await ask(http, "filter", {"Pod": pod_body("p"), "Nodes": None, "NodeNames": None})
        assert isinstance(answer, dict)
        assert "nodeCacheCapable: true" in answer["Error"]

    async def test_a_request_without_pod_is_an_error(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """No pod, or one without UID, cannot be answered."""
        muster.sync()
        for pod in (None, {"metadata": {"name": "x"}}, {}):
            answer = await ask(http, "filter", {"Pod": pod, "NodeNames": NAMES})
            assert isinstance(answer, dict)
            assert answer["Error"] == "no Pod in the request"

    async def test_before_the_first_sync_every_verb_fails_in_its_own_terms(self, http: httpx.AsyncClient) -> None:
        """A verb called too early answers 200 with an error that kube-scheduler shows."""
        pod = pod_body("p")
        answer = await ask(http, "filter", {"Pod": pod, "NodeNames": NAMES})
        assert isinstance(answer, dict)
        assert answer["Error"].startswith("CacheNotSynced: nodes not synced")
        assert await ask(http, "prioritize", {"Pod": pod, "NodeNames": NAMES}) == []
        binding = {"PodName": "p", "PodNamespace": "default", "PodUID": "p-uid", "Node": "node-0"}
        bound = await ask(http, "bind", binding)
        assert isinstance(bound, dict)
        assert bound["Error"].startswith("CacheNotSynced")
        assert await ask(http, "preempt", {"Pod": pod, "NodeNameToMetaVictims": None}) == {"NodeNameToMetaVictims": {}}


class TestBind:
    """POST /v1/bind."""

    async def test_members_are_held_and_bound_together(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """The first call is answered when the second arrives."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 2)
        await _nominated(muster, 2)
        planned = dict(muster.api.nominations)
        calls = [
            {"PodName": name, "PodNamespace": "default", "PodUID": f"{name}-uid", "Node": planned[name]}
            for name in ("a-0", "a-1")
        ]
        first = asyncio.create_task(ask(http, "bind", calls[0]))
        await asyncio.sleep(0.05)
        assert not first.done()
        assert await ask(http, "bind", calls[1]) == {"Error": ""}
        assert await first == {"Error": ""}
        assert sorted(muster.api.bindings) == sorted(planned.items())

    async def test_an_incomplete_call_says_what_is_needed(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """All four fields are needed."""
        muster.sync()
        answer = await ask(http, "bind", {"PodName": "a", "PodNamespace": None})
        assert answer == {"Error": "PodName, PodNamespace, PodUID and Node are all needed to bind"}


async def test_prioritize_answers_a_host_priority_list(http: httpx.AsyncClient, muster: Muster) -> None:
    """Hosts in the order of the request, integer scores; a host that is left out has 0, as kube-scheduler takes it."""
    muster.nodes(2)
    muster.sync()
    other, single = muster.pod("other", 4), muster.pod("single", 4)
    muster.controller.tell(PodSeen(replace(other, node_name="node-1", phase=Phase.RUNNING)))
    muster.controller.tell(PodSeen(single))
    question = {"Pod": pod_body("single", 4), "NodeNames": NAMES}
    await ask(http, "filter", question)
    answer = await ask(http, "prioritize", question)
    assert answer == [{"Host": "node-1", "Score": 10}]


def foreign_body(name: str) -> dict[str, object]:
    """Return a pod of another scheduler as kube-scheduler sends it."""
    body = pod_body(name)
    return {**body, "spec": {**body["spec"], "schedulerName": "default-scheduler"}}


class TestPreempt:
    """POST /v1/preempt."""

    async def test_only_offered_victims_come_back(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """A candidate that is allowed is echoed; one without victims is left out."""
        muster.nodes(2)
        muster.sync()
        solo = muster.pod("solo", 8)
        muster.controller.tell(PodSeen(replace(solo, node_name="node-0", phase=Phase.RUNNING)))
        victims = {"node-0": {"Pods": [{"UID": "solo-uid"}], "NumPDBViolations": 1}, "node-1": {"Pods": None}}
        body = {"Pod": foreign_body("urgent"), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        assert await ask(http, "preempt", body) == {"NodeNameToMetaVictims": {"node-0": victims["node-0"]}}

    async def test_whole_victims_are_answered_by_uid(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """The other form of the request gets the same form of answer."""
        muster.nodes(1)
        muster.sync()
        solo = muster.pod("solo", 8)
        muster.controller.tell(PodSeen(replace(solo, node_name="node-0", phase=Phase.RUNNING)))
        victims = {"node-0": {"Pods": [pod_body("solo"), None], "NumPDBViolations": 0}, "node-1": None}
        answer = await ask(http, "preempt", {"Pod": foreign_body("urgent"), "NodeNameToVictims": victims})
        assert answer == {"NodeNameToMetaVictims": {"node-0": {"Pods": [{"UID": "solo-uid"}], "NumPDBViolations": 0}}}

    async def test_a_gang_member_gets_an_empty_map(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """An empty map, never null, is what stops kube-scheduler."""
        muster.nodes(1)
        muster.sync()
        victims = {"node-0": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}}
        body = {"Pod": pod_body("a-0", gang="a"), "NodeNameToMetaVictims": victims}
        assert await ask(http, "preempt", body) == {"NodeNameToMetaVictims": {}}


class TestBadInput:
    """What no kube-scheduler would send."""

    @pytest.mark.parametrize(
        ("verb", "body"),
        [
            *(
                (verb, body)
                for verb in ("filter", "prioritize", "bind", "preempt")
                for body in (b"", b"{", b"\xff", b"[]")
            ),
            ("filter", b'{"Pod": 3}'),
            ("prioritize", b'{"NodeNames": [1]}'),
            ("bind", b'{"PodName": 1}'),
            ("preempt", b'{"NodeNameToMetaVictims": []}'),
        ],
    )
    async def test_an_unreadable_body_is_400_with_the_place(
        self, http: httpx.AsyncClient, muster: Muster, verb: str, body: bytes
    ) -> None:
        """The answer keeps the protocol's form and names the path inside the document."""
        muster.sync()
        response = await http.post(f"/v1/{verb}", content=body)
        assert response.status_code == 400

    async def test_an_error_names_the_path(self, http: httpx.AsyncClient) -> None:
        """The message points at the field."""
        response = await http.post("/v1/filter", content=b'{"NodeNames": ["a", 7]}')
        assert "$.NodeNames[1]" in response.json()["Error"]

    async def test_whole_nodes_that_are_no_text_are_not_echoed(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """An answer is valid JSON even where the fields that nobody reads were not."""
        muster.sync()
        pod = b'{"metadata": {"name": "other", "uid": "u"}}'
        nodes = b'{"items": [{}, {"metadata": {"name": "node-0"}, "status": {"x": "\xff"}}]}'
        response = await http.post("/v1/filter", content=b'{"Pod": %b, "Nodes": %b}' % (pod, nodes))
        assert response.status_code == 400
        assert "$.Nodes.items[1]" in response.json()["Error"]

    async def test_a_body_beyond_the_limit_is_413(self, http: httpx.AsyncClient) -> None:
        """Both an announced and an unannounced body are cut off."""
        response = await http.post("/v1/filter", content=b"x" * 100_001)
        assert response.status_code == 413
        assert response.json()["Error"] == "body exceeds 100000 bytes (setting body_limit_bytes)"

        async def chunks() -> object:
            for _ in range(101):
                yield b"x" * 1000

        response = await http.post("/v1/filter", content=chunks())  # type: ignore[arg-type]  # an async generator
        assert response.status_code == 413

    async def test_an_error_of_ours_is_an_answer(
        self, http: httpx.AsyncClient, muster: Muster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even a bug answers 200 with Error (P9)."""
        muster.sync()

        def broken(*_: object) -> object:
            raise ZeroDivisionError

        monkeypatch.setattr(muster.controller, "prioritize", broken)
        monkeypatch.setattr(muster.controller, "filter", broken)
        assert await ask(http, "prioritize", {"Pod": pod_body("p"), "NodeNames": NAMES}) == []
        answer = await ask(http, "filter", {"Pod": pod_body("p"), "NodeNames": NAMES})
        assert isinstance(answer, dict)
        assert answer["Error"] == "internal error: ZeroDivisionError"


class TestLimits:
    """Calls beyond what may be under way at once."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Return settings with room for two calls of each verb."""
        return Settings(
            body_limit_bytes=100_000,
            bodies_limit_bytes=120_000,
            call_limit=2,
            bind_limit=2,
            observe_wait_seconds=0,
            bind_hold_seconds=0.2,
            http_timeout_seconds=0.5,
            answer_margin_seconds=0.2,
        )

    async def test_a_bind_too_many_is_refused_in_words(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """It gets an answer at once, which names the setting; when a held one ends there is room again."""
        muster.nodes(4)
        muster.sync()
        muster.gang("a", 4)
        await _nominated(muster, 4)
        planned = dict(muster.api.nominations)
        calls = [
            {"PodName": name, "PodNamespace": "default", "PodUID": f"{name}-uid", "Node": node}
            for name, node in planned.items()
        ]
        held = [asyncio.create_task(ask(http, "bind", call)) for call in calls[:2]]
        await asyncio.sleep(0.05)
        refused = await ask(http, "bind", calls[2])
        assert refused == {"Error": "2 calls are under way, no more are taken (setting bind_limit)"}
        for answer in await asyncio.gather(*held):
            assert isinstance(answer, dict)
            assert "trying again" in answer["Error"]
        again = await ask(http, "bind", {**calls[2], "Node": "ghost"})
        assert isinstance(again, dict)
        assert "is planned on" in again["Error"]

    async def test_calls_of_one_verb_leave_the_others_alone(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """Each verb but bind has its own count; who sends slowly takes a place until its body is complete."""
        muster.nodes(1)
        muster.sync()
        muster.controller.tell(PodSeen(muster.pod("single", 8)))
        going_on = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"{"
            await going_on.wait()
            yield b"}"

        slow = [asyncio.create_task(http.post("/v1/filter", content=slowly())) for _ in range(2)]
        await asyncio.sleep(0.05)
        offer = {"Pod": pod_body("single"), "NodeNames": ["node-0"]}
        refused = await ask(http, "filter", offer)
        assert isinstance(refused, dict)
        assert refused["Error"] == "2 calls are under way, no more are taken (setting call_limit)"
        assert await ask(http, "prioritize", offer) == [{"Host": "node-0", "Score": 10}]
        going_on.set()
        await asyncio.gather(*slow)
        answer = await ask(http, "filter", offer)
        assert isinstance(answer, dict)
        assert answer["NodeNames"] == ["node-0"]

    async def test_all_bodies_together_are_limited(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """One that is allowed for itself is refused while another is in memory, and not afterwards."""
        muster.sync()
        going_on = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b" " * 80_000
            await going_on.wait()
            yield b"{}"

        slow = asyncio.create_task(http.post("/v1/filter", content=slowly()))
        await asyncio.sleep(0.05)
        refused = await http.post("/v1/filter", content=b" " * 80_000 + b"{}")
        assert refused.status_code == 413
        assert refused.headers["connection"] == "close"
        assert refused.json()["Error"] == "bodies under way exceed 120000 bytes (setting bodies_limit_bytes)"
        going_on.set()
        assert (await slow).json()["Error"] == "no Pod in the request"
        assert (await http.post("/v1/filter", content=b" " * 80_000 + b"{}")).status_code == 200

    async def test_a_bind_call_has_a_small_body(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """Held calls are many, and have four names to say."""
        muster.sync()
        response = await http.post("/v1/bind", content=b" " * 20_000 + b"{}")
        assert response.status_code == 413
        assert response.json()["Error"] == "body exceeds 16384 bytes (fixed for bind)"

    async def test_a_binding_that_takes_too_long_is_answered_in_time_and_goes_on(
        self, http: httpx.AsyncClient, muster: Muster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """kube-scheduler hears of it before it gives up; the write is not stopped half-way."""
        muster.nodes(1)
        muster.sync()
        pod = muster.pod("single", 8)
        muster.controller.tell(PodSeen(pod))
        await muster.controller.filter(pod, ["node-0"])
        answered, write = asyncio.Event(), muster.api.bind

        async def slow_write(pod: PodKey, node: str, annotations: Mapping[str, str]) -> None:
            await answered.wait()
            await write(pod, node, annotations)

        monkeypatch.setattr(muster.api, "bind", slow_write)
        call = {"PodName": "single", "PodNamespace": "default", "PodUID": "single-uid", "Node": "node-0"}
        answer = await ask(http, "bind", call)
        assert answer == {"Error": "the API server has not answered in time; the binding may yet be made"}
        assert muster.api.bindings == []
        answered.set()
        await asyncio.sleep(0.01)
        assert muster.api.bindings == [("single", "node-0")]

    async def test_a_late_binding_that_breaks_is_logged(
        self,
        http: httpx.AsyncClient,
        muster: Muster,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Nobody waits for it any more, so the log is where it shows."""
        muster.nodes(1)
        muster.sync()
        pod = muster.pod("single", 8)
        muster.controller.tell(PodSeen(pod))
        await muster.controller.filter(pod, ["node-0"])
        answered = asyncio.Event()

        async def broken_write(_pod: PodKey, _node: str, _annotations: Mapping[str, str]) -> None:
            await answered.wait()
            raise ZeroDivisionError

        monkeypatch.setattr(muster.api, "bind", broken_write)
        call = {"PodName": "single", "PodNamespace": "default", "PodUID": "single-uid", "Node": "node-0"}
        await ask(http, "bind", call)
        answered.set()
        await asyncio.sleep(0.01)
        assert "verb failed after its answer" in capsys.readouterr().out

    async def test_who_goes_away_in_the_middle_is_no_failure_of_ours(
        self, muster: Muster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The call ends, its place and its bytes are free again, and no traceback is logged."""
        muster.sync()
        clock = LoopClock(asyncio.get_running_loop())
        app = create_app(muster.controller, muster.settings, muster.metrics, clock)
        async with served(muster.settings, app=app) as service:
            for _ in range(3):
                _, writer = await service.connect()
                writer.write(
                    b"POST /v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000\r\n\r\n" + b" " * 50_000
                )
                await asyncio.sleep(0.02)
                writer.transport.abort()
                await asyncio.sleep(0.02)
            body = b" " * 90_000 + b"{}"
            head = b"POST /v1/filter HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            assert b"no Pod in the request" in await service.send(head + body)
        logs = capsys.readouterr().out
        assert "the client went away before its request was complete" in logs
        assert "Traceback" not in logs


async def _nominated(muster: Muster, pods: int) -> None:
    """Wait until so many pods are nominated: what kube-scheduler does not ask for is written after half a second."""
    async with asyncio.timeout(60):
        while len(muster.api.nominations) < pods:  # noqa: ASYNC110 - the API made for tests has no event for it
            await asyncio.sleep(0.01)
