"""The four verbs, byte for byte as kube-scheduler speaks them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from extender.domain.pod import Phase
from tests.control.conftest import Muster
from tests.service.conftest import pod_body

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
            "FailedAndUnresolvableNodes": dict.fromkeys(NAMES, "gang waits: 1 of 2 members exist"),
            "Error": "",
        }

    async def test_a_single_pod_is_refused_resolvably_where_gangs_hold_the_room(
        self, http: httpx.AsyncClient, muster: Muster
    ) -> None:
        """FailedNodes leaves kube-scheduler the option to preempt."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1)
        answer = await ask(http, "filter", {"Pod": pod_body("single"), "NodeNames": NAMES})
        assert isinstance(answer, dict)
        assert answer["NodeNames"] == ["node-1"]
        assert answer["FailedNodes"] == {"node-0": "no room beside what is reserved for gangs"}

    async def test_whole_nodes_are_echoed(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """Without nodeCacheCapable the accepted nodes come back as they were sent."""
        muster.nodes(2)
        muster.sync()
        muster.gang("a", 1)
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
        await asyncio.sleep(0.05)
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
    """Hosts in the order of the request, integer scores."""
    muster.nodes(2)
    muster.sync()
    pod = muster.pod("other", 4)
    muster.controller.pod_seen(replace(pod, node_name="node-1", phase=Phase.RUNNING))
    answer = await ask(http, "prioritize", {"Pod": pod_body("single", 4), "NodeNames": NAMES})
    assert answer == [{"Host": "node-0", "Score": 0}, {"Host": "node-1", "Score": 10}]


class TestPreempt:
    """POST /v1/preempt."""

    async def test_only_offered_victims_come_back(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """A candidate that is allowed is echoed; one without victims is left out."""
        muster.nodes(2)
        muster.sync()
        solo = muster.pod("solo", 8)
        muster.controller.pod_seen(replace(solo, node_name="node-0", phase=Phase.RUNNING))
        victims = {"node-0": {"Pods": [{"UID": "solo-uid"}], "NumPDBViolations": 1}, "node-1": {"Pods": None}}
        body = {"Pod": pod_body("urgent"), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        assert await ask(http, "preempt", body) == {"NodeNameToMetaVictims": {"node-0": victims["node-0"]}}

    async def test_whole_victims_are_answered_by_uid(self, http: httpx.AsyncClient, muster: Muster) -> None:
        """The other form of the request gets the same form of answer."""
        muster.nodes(1)
        muster.sync()
        solo = muster.pod("solo", 8)
        muster.controller.pod_seen(replace(solo, node_name="node-0", phase=Phase.RUNNING))
        victims = {"node-0": {"Pods": [pod_body("solo"), None], "NumPDBViolations": 0}, "node-1": None}
        answer = await ask(http, "preempt", {"Pod": pod_body("urgent"), "NodeNameToVictims": victims})
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
