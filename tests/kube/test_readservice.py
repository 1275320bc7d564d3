"""Who is behind the Service for readers: the replica that leads, by its own patch."""

from __future__ import annotations

import asyncio

import pytest

from extender.kube.readservice import LOOK_SECONDS, LOOKS_A_PATCH, ReadSlice, follow_leader
from extender.kube.transport import Transport
from tests.kube.apiscript import ApiScript, JsonObject, refuses, says
from tests.kube.watched import Naps

SLICE = "muster-system/muster-read"
PATH = "/apis/discovery.k8s.io/v1/namespaces/muster-system/endpointslices/muster-read"
FIRST, SECOND = ReadSlice.of(SLICE, "10.0.0.1", "muster-a"), ReadSlice.of(SLICE, "fd00::2", "muster-b")


async def patches(
    script: ApiScript, transport: Transport, kept: ReadSlice, leads: list[bool]
) -> list[JsonObject | None]:
    """Look once for each word whether it leads; return what was patched by that."""
    naps, words, before = Naps(), iter(leads), len(script.requests)
    task = asyncio.create_task(follow_leader(transport, kept, lambda: next(words, False), sleep=naps))
    await naps.until(lambda: len(naps.seconds) >= len(leads))
    task.cancel()
    await asyncio.wait([task])
    assert set(naps.seconds) == {LOOK_SECONDS}
    assert {(one.method, one.path) for one in script.requests[before:]} <= {("PATCH", PATH)}
    return [one.body for one in script.requests[before:]]


async def test_a_replica_that_stands_by_writes_nothing(script: ApiScript, transport: Transport) -> None:
    """However often it looks."""
    assert await patches(script, transport, FIRST, [False] * 5) == []


async def test_the_next_leader_takes_the_place_of_the_former(script: ApiScript, transport: Transport) -> None:
    """Each patch is the whole list, so none of its predecessor is left."""
    script.plan(PATH, says({}), says({}))
    assert await patches(script, transport, FIRST, [True, False]) == [FIRST.body()]
    (patch,) = await patches(script, transport, SECOND, [False, True])
    assert patch is not None
    (endpoint,) = patch["endpoints"]
    assert endpoint["addresses"] == ["fd00::2"]
    assert endpoint["targetRef"]["name"] == "muster-b"


async def test_a_leader_that_stays_writes_now_and_then(script: ApiScript, transport: Transport) -> None:
    """So that a slice that was applied again is put right; one that leads again writes at once."""
    script.plan(PATH, *[says({})] * 3)
    looks = [True] * (LOOKS_A_PATCH + 1) + [False, True]
    assert len(await patches(script, transport, FIRST, looks)) == 3


async def test_a_refusal_is_tried_again(script: ApiScript, transport: Transport) -> None:
    """At the next look, until it gets through."""
    script.plan(PATH, refuses(403, "Forbidden"), refuses(403, "Forbidden"), says({}))
    assert len(await patches(script, transport, FIRST, [True] * 5)) == 3


@pytest.mark.parametrize("name", ["muster-read", "/muster-read", "muster-system/", "a/b/c"])
def test_what_names_no_slice_is_refused(name: str) -> None:
    """With what it should look like."""
    with pytest.raises(ValueError, match="NAMESPACE/NAME, such as muster-system/muster-read"):
        ReadSlice.of(name, "10.0.0.1", "muster-a")


def test_a_pod_that_does_not_know_its_address_is_told_so() -> None:
    """With the field that has it."""
    with pytest.raises(ValueError, match=r"POD_IP is '', not an address; set it from the pod's status\.podIP"):
        ReadSlice.of(SLICE, "", "muster-a")
