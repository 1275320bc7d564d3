"""The kinds that say who shares the cluster, from the API server's JSON to what the observer is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from extender.control.ports import WatchedKind
from extender.kube.reflector import Feeds
from extender.kube.transport import Transport
from tests.kube.apiscript import ApiScript, JsonObject, added, deleted, hold, listed, refuses, watch
from tests.kube.observer import Recorder
from tests.kube.watched import Naps

QUEUES = "/apis/muster.dev/v1alpha1/queues"
NAMESPACES = "/api/v1/namespaces"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
TEAM = {"team": "red"}


@contextlib.asynccontextmanager
async def running(transport: Transport, observer: Recorder) -> AsyncIterator[None]:
    """Run the feeds."""
    task = asyncio.create_task(Feeds(transport, observer, random=Random(1), sleep=Naps()).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def queue(**spec: Any) -> JsonObject:
    """Say that a Queue called `a` is there."""
    return added("a", spec=spec)


async def test_queues(script: ApiScript, transport: Transport) -> None:
    """A Queue is told of as it is read, problems and all; its deletion by name."""
    observer = Recorder()
    script.plan(QUEUES, watch(queue(weight="2"), queue(weight="-1"), listed(7), deleted("a"), then=hold))
    async with running(transport, observer):
        await observer.until(lambda: ("queue gone", "a") in observer.told)
    sound, broken = (words for words in observer.told if words[0] == "queue seen")
    assert sound == ("queue seen", "a", "uid-a")
    assert broken[3].startswith("spec.weight: ")


async def test_queues_may_come_later(script: ApiScript, transport: Transport) -> None:
    """Without the CRD there are no Queues and nothing waits for them; once it is there, they are told of."""
    observer = Recorder()
    script.plan(QUEUES, *[refuses(404, "NotFound")] * 2, watch(queue(), listed(7), then=hold))
    async with running(transport, observer):
        await observer.until(lambda: ("queue seen", "a", "uid-a") in observer.told)
    assert WatchedKind.QUEUE in observer.synced_kinds


async def test_namespaces(script: ApiScript, transport: Transport) -> None:
    """Of a namespace the labels are told of; what else stands there is not even decoded."""
    observer = Recorder()
    plain, labelled = added("x", spec=7, status=7), added("y", metadata={"name": "y", "uid": "u", "labels": TEAM})
    script.plan(NAMESPACES, watch(plain, labelled, listed(7), deleted("x"), then=hold))
    async with running(transport, observer):
        await observer.until(lambda: ("namespace gone", "x") in observer.told)
    assert [words for words in observer.told if words[0] == "namespace seen"] == [
        ("namespace seen", "x"),
        ("namespace seen", "y", "team=red"),
    ]


async def test_disruption_budgets(script: ApiScript, transport: Transport) -> None:
    """A budget is told of with what it allows now; its deletion by namespace and name."""
    observer = Recorder()
    allowed = {"disruptionsAllowed": 2}
    item = added("b", namespace="x", spec={"selector": {"matchLabels": TEAM}}, status=allowed)
    script.plan(BUDGETS, watch(item, listed(7), deleted("b", namespace="x"), then=hold))
    async with running(transport, observer):
        await observer.until(lambda: ("budget gone", "x/b") in observer.told)
    assert ("budget seen", "x/b", "2") in observer.told


@pytest.mark.parametrize("kind", [WatchedKind.QUEUE, WatchedKind.DISRUPTION_BUDGET])
async def test_an_api_that_is_not_there_holds_nobody_up(script: ApiScript, transport: Transport, kind: str) -> None:
    """Neither Queues nor PodDisruptionBudgets need be known to the server."""
    observer = Recorder()
    script.plan(QUEUES if kind is WatchedKind.QUEUE else BUDGETS, refuses(404, "NotFound"))
    async with running(transport, observer):
        await observer.until(lambda: kind in observer.synced_kinds)
    assert observer.restarts == []
