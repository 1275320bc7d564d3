"""What is written with a Binding."""

from __future__ import annotations

import asyncio

from extender.admission.events import NodeTopologySeen, PodSeen
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Phase
from tests.control.conftest import GPU, Muster


async def test_bindings_say_which_gpus_and_zones_are_predicted(muster: Muster) -> None:
    """Members and single pods are annotated in the write that binds them: on a node that aligns, zones included."""
    (name,) = muster.nodes(1)
    zones = tuple(Zone(number, f"node-{number}", {GPU: 4}) for number in range(2))
    muster.controller.tell(NodeTopologySeen(NodeTopology(name, TopologyPolicy.RESTRICTED, zones=zones)))
    muster.sync()
    pods = muster.gang("a", 2, gpus=2)
    single = muster.pod("single", 4)
    muster.controller.tell(PodSeen(single))
    await asyncio.sleep(0.6)
    assert await asyncio.gather(*(muster.bind(pod) for pod in pods)) == ["", ""]
    assert await muster.bind(single, name) == ""
    said = muster.api.annotations
    assert {said[pod.name]["muster.dev/predicted-gpus"] for pod in pods} == {"0,1", "2,3"}
    assert {said[pod.name]["muster.dev/predicted-zones"] for pod in pods} == {"0"}
    assert said["single"] == {"muster.dev/predicted-gpus": "4,5,6,7", "muster.dev/predicted-zones": "1"}


async def test_nothing_is_said_of_pods_without_gpus(muster: Muster) -> None:
    """Where nothing is predicted the Binding has no annotations."""
    muster.nodes(1)
    muster.sync()
    plain = muster.pod("plain", 0)
    muster.controller.tell(PodSeen(plain))
    assert (await muster.controller.filter(plain, ["node-0"])).accepted == ["node-0"]
    assert await muster.bind(plain, "node-0") == ""
    assert (plain.phase, muster.api.annotations) == (Phase.PENDING, {"plain": {}})
