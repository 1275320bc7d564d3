"""The status of Queues."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec import structs

from extender.clock import ManualClock
from extender.control.ports import ApiError
from extender.explain.documents import PayerUse, QueueRow, QuotaUse
from extender.explain.views import QueueReport
from extender.kube.status import QueueStatusWriter
from extender.kube.transport import Transport
from extender.objects.queue import decode_queue, read_queue
from tests.builders import GPU, written
from tests.kube.apiscript import Answer, ApiScript, JsonObject, named, page, says

QUEUES_PATH = "/apis/muster.dev/v1alpha1/queues"
STATUS_PATH = f"{QUEUES_PATH}/research/status"
GI = 2**30
STATUS = QueueReport(
    QueueRow(
        name="research",
        parent="",
        active=True,
        reason="",
        message="",
        share=1 / 3,
        pending_gangs=2,
        admitted_gangs=3,
        flavors=(
            QuotaUse("a100", GPU, nominal=16, used=24, borrowed=8, lent=0, reserved=8),
            QuotaUse("a100", "cpu", nominal=2000, used=1500, borrowed=0, lent=500),
            QuotaUse("spot", "memory", nominal=4 * GI, used=3 * GI, borrowed=0, lent=0),
        ),
        pending_since="2025-12-31T23:00:00Z",
        running=(PayerUse("user", "jane", gpus=16, gangs=2, most_gpus=32, most_gangs=None),),
    ),
    generation=4,
    history=((GPU, 20.25), ("cpu", 1250.5)),
    history_at="2026-01-01T00:00:00Z",
)
NOTHING_ELSE = {"borrowed": "0", "lent": "0", "reserved": "0"}
ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Ready",
    "message": "the Queue can be used",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 4,
}


def stored(*conditions: JsonObject, uid: str = "uid-research", version: int = 7) -> JsonObject:
    """Return a Queue with these conditions."""
    return named("research", uid, version, status={"conditions": list(conditions)})


def stands(*queues: JsonObject) -> Answer:
    """Answer a list with these Queues."""
    return says(page(*queues, version=99))


@pytest.fixture
def writer(transport: Transport, clock: ManualClock) -> QueueStatusWriter:
    """Write to the scripted server."""
    return QueueStatusWriter(transport, clock)


async def write(script: ApiScript, writer: QueueStatusWriter, status: QueueReport = STATUS) -> JsonObject:
    """Write a status; return what was sent as such."""
    script.plan(QUEUES_PATH, stands(stored()))
    script.plan(STATUS_PATH, says(stored(version=8)))
    await writer.write("research", "uid-research", status)
    body = script.of(STATUS_PATH)[-1].body
    assert body is not None
    assert body["metadata"] == {"uid": "uid-research", "resourceVersion": "7"}
    sent: JsonObject = body["status"]
    return sent


async def test_status_is_a_patch_with_uid_and_version(script: ApiScript, writer: QueueStatusWriter) -> None:
    """Amounts go as quantities, by flavor; share and history as decimals; the condition with its time."""
    assert await write(script, writer) == {
        "flavors": [
            {
                "name": "a100",
                "resources": [
                    {"name": GPU, "used": "24", "borrowed": "8", "lent": "0", "nominal": "16", "reserved": "8"},
                    {"name": "cpu", "used": "1500m", "borrowed": "0", "lent": "500m", "nominal": "2", "reserved": "0"},
                ],
            },
            {
                "name": "spot",
                "resources": [NOTHING_ELSE | {"name": "memory", "used": "3Gi", "nominal": "4Gi"}],
            },
        ],
        "share": "0.333333",
        "pendingGangs": 2,
        "admittedGangs": 3,
        "pendingSince": "2025-12-31T23:00:00Z",
        "running": [{"kind": "user", "name": "jane", "gpus": 16, "gangs": 2, "mostGpus": 32}],
        "history": [{"resource": GPU, "usage": "20.25"}, {"resource": "cpu", "usage": "1.2505"}],
        "historyAt": "2026-01-01T00:00:00Z",
        "spares": None,  # of a Queue that keeps none, where it had some before
        "observedGeneration": 4,
        "conditions": [ACTIVE],
    }
    assert script.of(STATUS_PATH)[0].headers["Content-Type"] == "application/merge-patch+json"


async def test_history_is_read_again(script: ApiScript, writer: QueueStatusWriter) -> None:
    """What a new Muster reads of the status is what the last one knew."""
    sent = await write(script, writer)
    queue = read_queue(decode_queue(written({"metadata": {"name": "research"}, "status": sent})))
    assert queue.history == dict(STATUS.history)
    assert queue.history_at == STATUS.history_at


async def test_queue_without_history_has_none(script: ApiScript, writer: QueueStatusWriter) -> None:
    """What stood there before is taken away: a list is replaced whole, and null deletes."""
    sent = await write(script, writer, dataclasses.replace(STATUS, history=(), history_at=""))
    assert (sent["history"], sent["historyAt"]) == ([], None)


async def test_queue_that_cannot_be_used_is_not_active(script: ApiScript, writer: QueueStatusWriter) -> None:
    """The condition says why."""
    broken = dataclasses.replace(
        STATUS,
        row=structs.replace(STATUS.row, active=False, reason="InvalidQueue", message="spec.parent: no such Queue"),
    )
    (condition,) = (await write(script, writer, broken))["conditions"]
    assert condition == ACTIVE | {
        "status": "False",
        "reason": "InvalidQueue",
        "message": "spec.parent: no such Queue",
    }


async def test_queue_that_is_another_one_is_not_written_to(script: ApiScript, writer: QueueStatusWriter) -> None:
    """A Queue that was deleted and created again is a conflict, one that is gone is not found."""
    script.plan(QUEUES_PATH, stands(stored(uid="uid-of-another")), stands())
    with pytest.raises(ApiError, match="409 Conflict: Queue research has the UID uid-of-another, not uid-research"):
        await writer.write("research", "uid-research", STATUS)
    with pytest.raises(ApiError, match="404 NotFound: Queue research does not exist"):
        await writer.write("research", "uid-research", STATUS)
    assert script.of(STATUS_PATH) == []
