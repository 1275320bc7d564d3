"""Events, and their repetitions."""

from __future__ import annotations

import dataclasses

import pytest

from extender.clock import ManualClock
from extender.control.ports import ApiError, ClusterEvent
from extender.kube.transport import Transport
from extender.kube.writer import EventRecorder
from extender.objects.meta import ObjectRef
from tests.kube.apiscript import ApiScript, refuses, says

OK = says({"kind": "Event"})
EVENT = ClusterEvent(
    about=ObjectRef("scheduling.x-k8s.io/v1alpha1", "PodGroup", "x", "job", "uid-job"),
    warning=True,
    reason="InsufficientCapacity",
    message="2 of 4 members fit now",
    action="Scheduling",
)
EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/x/events"


def name_of(script: ApiScript, path: str = EVENTS_PATH, index: int = 0) -> str:
    """Return the name of an Event that was created."""
    body = script.of(path)[index].body
    assert body is not None
    name = body["metadata"]["name"]
    assert isinstance(name, str)
    return name


@pytest.fixture
def recorder(transport: Transport, clock: ManualClock) -> EventRecorder:
    """Record Events on the scripted server as `muster-0`."""
    return EventRecorder(transport, clock, "muster-0")


class TestFirst:
    """Events that were not written before."""

    async def test_first_occurrence_creates_an_event(self, script: ApiScript, recorder: EventRecorder) -> None:
        """Every field that the events.k8s.io API requires is there, and none of the deprecated ones."""
        script.plan(EVENTS_PATH, OK)
        await recorder.record(EVENT)
        (request,) = script.requests
        assert request.method == "POST"
        assert request.body == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "x", "name": name_of(script)},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Warning",
            "reason": "InsufficientCapacity",
            "action": "Scheduling",
            "note": "2 of 4 members fit now",
            "regarding": {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "namespace": "x",
                "name": "job",
                "uid": "uid-job",
            },
            "reportingController": "muster.dev/muster",
            "reportingInstance": "muster-0",
        }
        assert name_of(script).startswith("job.")

    async def test_repetitions_raise_the_count(
        self, script: ApiScript, recorder: EventRecorder, clock: ManualClock
    ) -> None:
        """The second time is the first patch of the series, with count 2 and the time."""
        script.plan(EVENTS_PATH, OK)
        await recorder.record(EVENT)
        patched = f"{EVENTS_PATH}/{name_of(script)}"
        script.plan(patched, OK, OK)
        for _ in range(2):
            clock.advance(1.5)
            await recorder.record(EVENT)
        assert [request.body for request in script.of(patched)] == [
            {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.500000Z"}},
            {"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:03.000000Z"}},
        ]

    async def test_different_events_have_different_names(self, script: ApiScript, recorder: EventRecorder) -> None:
        """Whatever differs makes another Event, even at the same moment."""
        others = [
            dataclasses.replace(EVENT, reason="Started", warning=False),
            dataclasses.replace(EVENT, message="3 of 4 members fit now"),
            dataclasses.replace(EVENT, about=dataclasses.replace(EVENT.about, uid="uid-of-another")),
        ]
        script.plan(EVENTS_PATH, *[OK] * 4)
        for event in (EVENT, *others):
            await recorder.record(event)
        assert len({name_of(script, index=index) for index in range(4)}) == 4
        body = script.requests[1].body
        assert body is not None
        assert body["type"] == "Normal"

    async def test_lost_answer_does_not_make_a_second_event(
        self, script: ApiScript, recorder: EventRecorder, clock: ManualClock
    ) -> None:
        """Another attempt uses the same name and time; that it exists already means that the first one arrived."""
        script.plan(EVENTS_PATH, refuses(504, "Timeout"), refuses(409, "AlreadyExists"))
        with pytest.raises(ApiError, match="504"):
            await recorder.record(EVENT)
        clock.advance(1.0)
        await recorder.record(EVENT)
        first, second = script.requests
        assert first.body == second.body
        script.plan(f"{EVENTS_PATH}/{name_of(script)}", OK)
        await recorder.record(EVENT)
        assert script.requests[-1].method == "PATCH"

    async def test_failed_count_is_sent_again_unchanged(self, script: ApiScript, recorder: EventRecorder) -> None:
        """A patch whose answer was lost does not count twice."""
        script.plan(EVENTS_PATH, OK)
        await recorder.record(EVENT)
        patched = f"{EVENTS_PATH}/{name_of(script)}"
        script.plan(patched, refuses(500, "InternalError"), OK)
        with pytest.raises(ApiError, match="500"):
            await recorder.record(EVENT)
        await recorder.record(EVENT)
        assert [request.body["series"]["count"] for request in script.of(patched) if request.body] == [2, 2]

    async def test_event_that_the_server_has_forgotten_is_written_anew(
        self, script: ApiScript, recorder: EventRecorder, clock: ManualClock
    ) -> None:
        """Events live an hour; after that the next occurrence is a first one, under a new name."""
        script.plan(EVENTS_PATH, OK, OK)
        await recorder.record(EVENT)
        script.plan(f"{EVENTS_PATH}/{name_of(script)}", refuses(404, "NotFound"))
        clock.advance(7200.0)
        await recorder.record(EVENT)
        assert [request.method for request in script.requests] == ["POST", "PATCH", "POST"]
        assert name_of(script, index=1) != name_of(script)

    async def test_object_without_namespace_has_its_events_in_default(
        self, script: ApiScript, recorder: EventRecorder
    ) -> None:
        """Events about nodes go where `kubectl describe node` looks for them."""
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        script.plan(path, OK)
        await recorder.record(dataclasses.replace(EVENT, about=ObjectRef("v1", "Node", "", "n", "uid-n")))
        body = script.requests[0].body
        assert body is not None
        assert body["metadata"]["namespace"] == "default"

    async def test_limits_of_the_api_are_kept(
        self, script: ApiScript, transport: Transport, clock: ManualClock
    ) -> None:
        """Names, notes and instances that are too long are cut, between characters."""
        script.plan(EVENTS_PATH, OK)
        about = dataclasses.replace(EVENT.about, name=f"{'a' * 235}.{'b' * 17}")
        event = dataclasses.replace(EVENT, about=about, message="ü" * 1000)
        await EventRecorder(transport, clock, "i" * 200).record(event)
        body = script.requests[0].body
        assert body is not None
        assert body["note"] == "ü" * 512
        assert body["reportingInstance"] == "i" * 128
        assert len(body["metadata"]["name"]) == 252
        assert ".." not in body["metadata"]["name"]
