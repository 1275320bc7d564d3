"""What Muster writes to the API server, with hostile text in it: within the API's limits, cut between characters."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.clock import ManualClock
from extender.control.ports import ClusterEvent, PodKey
from extender.kube.status import with_condition
from extender.kube.writer import EventRecorder, KubeClusterApi
from extender.objects.meta import ObjectRef
from tests.hostile.texts import TEXTS

#: A DNS subdomain. Source: apimachinery validation IsDNS1123Subdomain.
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LONG = TEXTS | st.sampled_from(["\U0001f469" * 20_000, "a" + "\u65e5" * 40_000])


class Taking:
    """An API server that takes everything."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def post(self, _path: str, body: Any) -> bytes:
        """Take a body."""
        self.bodies.append(body)
        return b"{}"

    async def patch(self, _path: str, body: Any, *_: Any) -> bytes:
        """Take a body."""
        self.bodies.append(body)
        return b"{}"


@given(name=TEXTS, message=_LONG)
def test_an_event_is_one_that_the_api_takes(name: str, message: str) -> None:
    """Its note has 1,024 bytes at most, all of whole characters; its name is one, whatever its object is called."""
    api = Taking()
    about = ObjectRef("example.com/v1", "Owner", "team", name, "uid")
    event = ClusterEvent(about, warning=True, reason="InsufficientCapacity", message=message, action="Scheduling")
    recorder: Any = EventRecorder
    asyncio.run(recorder(api, ManualClock(), "muster-0").record(event))
    asyncio.run(recorder(api, ManualClock(), "muster-0").record(replace(event, message=f"{message}.")))
    for body in api.bodies:
        note = body["note"].encode()
        assert len(note) <= 1024
        assert f"{message}.".startswith(body["note"])
        assert len(note) > 1020 or body["note"].rstrip(".") == message.rstrip(".")
        written = body["metadata"]["name"]
        assert len(written) <= 253
        assert _NAME.fullmatch(written)
    assert api.bodies[0]["metadata"]["name"] != api.bodies[1]["metadata"]["name"]


@given(message=_LONG)
def test_a_condition_is_one_that_the_api_takes(message: str) -> None:
    """Its message has 32,768 characters at most: of PodGroups and Queues, and of pods that are told of an eviction."""
    (condition,) = with_condition([], {"type": "Scheduled", "status": "False", "message": message}, ManualClock())
    writer: Any = KubeClusterApi
    api = Taking()
    asyncio.run(writer(api, ManualClock(), "muster-0").notify(PodKey("team", "pod", "uid"), "", "Evicted", message))
    (told,) = api.bodies[0]["status"]["conditions"]
    for said in (condition["message"], told["message"]):
        assert len(said) <= 32_768
        assert message.startswith(said)
