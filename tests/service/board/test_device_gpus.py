"""GPUs that only ResourceSlices tell of are counted as those of a device plugin are: free, reserved and used."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    ClaimGone,
    ClaimSeen,
    ClaimTemplateSeen,
    DeviceClassSeen,
    GroupSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    SliceSeen,
)
from extender.explain.drawing.tree import draw
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.podclaims import PodClaims
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.devicevalues import CLASS, claim_of, class_of, slice_of, spec_of, template_of, uses
from tests.service.board.conftest import Seen

GPU = "nvidia.com/gpu"
PLUGIN = [f"node-{index}" for index in range(4)]
SLICES = ["dra-0", "dra-1"]


@pytest.fixture(params=[("", CLASS), (GPU, CLASS), ("", "gpu"), (GPU, "gpu"), ("example.com/h100", CLASS)], ids=str)
async def of_class(seen: Seen, request: pytest.FixtureRequest) -> str:
    """Add two nodes whose eight GPUs only slices tell of; return the class, which a resource may stand for."""
    resource, name = request.param
    tell = seen.muster.controller.tell
    tell(DeviceClassSeen(class_of(name, resource=resource)))
    for node in SLICES:
        tell(NodeSeen(Node(node, allocatable={"cpu": 64_000, "pods": 110})))
        tell(SliceSeen(slice_of(node, whole=True)))
    for count in (2, 3):
        tell(ClaimTemplateSeen(template_of(str(count), spec_of(count, of=name))))
    return str(name)


def gang_of(seen: Seen, name: str, members: int, claims: PodClaims) -> list[Pod]:
    """Create a gang whose pods have claims."""
    ref = GroupRef(COSCHEDULING, "default", name)
    seen.muster.controller.tell(GroupSeen(PodGroup(ref, uid=f"{name}-uid", min_member=members, created=name)))
    pods = [replace(seen.muster.pod(f"{name}-{index}", 0, ref), claims=claims) for index in range(members)]
    for pod in pods:
        seen.muster.controller.tell(PodSeen(pod))
    return pods


async def check(seen: Seen, used: dict[str, int], reserved: dict[str, int] | None = None) -> None:
    """Compare all that counts GPUs, of nodes and of all together, with how many are used and reserved on which node."""
    promised = reserved or {}
    picture = await seen.picture()
    rows = {row.name: row for row in picture.nodes}
    taken = {name: used.get(name, 0) + promised.get(name, 0) for name in (*PLUGIN, *SLICES)}
    assert {name: (len(row.cells), row.free, row.reserved) for name, row in rows.items()} == {
        name: (8, 8 - count, promised.get(name, 0)) for name, count in taken.items()
    }
    counts = {
        "allocatable": 48,
        "used": sum(used.values()),
        "reserved": sum(promised.values()),
        "free": 48 - sum(taken.values()),
    }
    gpus = picture.status.gpus
    assert {key: getattr(gpus, key) for key in counts} == counts
    assert {key: seen.muster.sample("muster_gpus", state=key) for key in counts} == counts
    survey = seen.muster.controller.inspection.survey(GroupRef(COSCHEDULING, "default", "a"))
    drawn = draw(survey, "default/a", "", ())
    assert {node.name: (len(node.cells), node.used) for node in drawn.nodes} == {
        name: (8, count) for name, count in taken.items()
    }


def allocate(seen: Seen, of_class: str, pod: Pod, node: str, devices: range, **fields: Any) -> None:
    """Let the claim of a pod be allocated, and the pod be bound."""
    name, count = f"{pod.name}-claim", len(devices)
    tell = seen.muster.controller.tell
    tell(ClaimSeen(claim_of(name, spec_of(count, of=of_class), owner=pod.uid, node=node, devices=devices)))
    claims = replace(pod.claims, claims=(replace(pod.claims.claims[0], claim=name),))
    tell(PodSeen(replace(pod, claims=claims, node_name=node, **fields)))


async def test_each_number_is_that_of_the_devices(seen: Seen, of_class: str) -> None:
    """A gang with claims reserves GPUs, uses them once it is bound, and shows them as its own."""
    await check(seen, {})
    pods = gang_of(seen, "a", 4, uses(template="3"))
    await asyncio.sleep(1)
    where = {pod.name: seen.muster.planned(pod) for pod in pods}
    assert set(where.values()) == set(SLICES)
    await check(seen, {}, Counter({node: 3 * n for node, n in Counter(where.values()).items()}))
    assert seen.muster.sample("muster_gpu_seconds_total", queue="", gang_namespace="default", use="reserved") > 0
    nth = Counter[str]()
    for pod in pods:
        node = where[pod.name]
        allocate(seen, of_class, pod, node, range(3 * nth[node], 3 * nth[node] + 3))
        nth[node] += 1
    await check(seen, {node: 3 * count for node, count in nth.items()})
    assert (await seen.gangs())["a"].gpus == 12
    rows = {row.name: row for row in (await seen.picture()).nodes}
    assert [Counter(rows[node].cells)["default/a"] for node in SLICES] == [6, 6]


async def test_claims_without_pods_and_shared_claims_use_their_gpus(seen: Seen, of_class: str) -> None:
    """What a claim holds that no pod is counted for is used; the gang that shares it has it, else the claim itself."""
    tell = seen.muster.controller.tell
    tell(ClaimSeen(claim_of("lone", spec_of(2, of=of_class), node="dra-1", devices=range(2))))
    await check(seen, {"dra-1": 2})
    rows = {row.name: row for row in (await seen.picture()).nodes}
    assert Counter(rows["dra-1"].cells) == {"claim:default/lone": 2, "": 6}
    tell(ClaimSeen(claim_of("shared", spec_of(5, of=of_class))))
    pods = gang_of(seen, "a", 2, uses(claim="shared"))
    await asyncio.sleep(1)
    (node,) = {seen.muster.planned(pod) for pod in pods}
    used = Counter({"dra-1": 2})
    await check(seen, used, {node: 5})
    tell(ClaimSeen(claim_of("shared", spec_of(5, of=of_class), node=node, devices=range(2, 7))))
    for pod in pods:
        tell(PodSeen(replace(pod, node_name=node)))
    await check(seen, used + Counter({node: 5}))
    assert (await seen.gangs())["a"].gpus == 5
    rows = {row.name: row for row in (await seen.picture()).nodes}
    assert Counter(rows[node].cells)["default/a"] == 5


@pytest.mark.usefixtures("of_class")
async def test_gangs_that_wait_count_the_gpus_of_their_claims(seen: Seen) -> None:
    """GPUs that are wanted by claims are lost time, and unmet demand, as those of requests are."""
    gang_of(seen, "a", 6, uses(template="3"))
    await asyncio.sleep(10)
    gauge = seen.muster.sample("muster_gang_waiting_gpu_seconds_total", reason="ExceedsCluster")
    assert gauge == pytest.approx(180, abs=2)
    await check(seen, {})


@pytest.mark.parametrize("seed", range(3))
async def test_random_claims_are_counted_device_by_device(seen: Seen, of_class: str, seed: int) -> None:
    """Claims with and without pods, and pods of the device plugin, come and go: each GPU counts once, all the time."""
    drawn, tell = random.Random(seed), seen.muster.controller.tell
    held: dict[str, tuple[str, set[int], str]] = {}  # claim -> its node and devices, and the UID of its pod
    plugged: dict[str, tuple[str, int]] = {}  # pod -> its node and GPUs
    for step in range(12):
        if held and drawn.random() < 0.3:
            name = drawn.choice(sorted(held))
            _, _, uid = held.pop(name)
            tell(ClaimGone("default", name))
            if uid:
                tell(PodGone(uid))
        elif plugged and drawn.random() < 0.2:
            uid = drawn.choice(sorted(plugged))
            del plugged[uid]
            tell(PodGone(uid))
        elif drawn.random() < 0.3:
            gpus, idle = drawn.randint(1, 8), [each for each in PLUGIN if each not in dict(plugged.values())]
            if idle:
                node = drawn.choice(idle)
                pod = replace(seen.muster.pod(f"plain-{step}", gpus), node_name=node)
                tell(PodSeen(pod))
                plugged[pod.uid] = (node, gpus)
        else:
            node = drawn.choice(SLICES)
            taken = set().union(*(devices for at, devices, _ in held.values() if at == node))
            free = sorted(set(range(8)) - taken)
            devices = set(drawn.sample(free, drawn.randint(0, min(3, len(free)))))
            if devices:
                name, spec = f"claim-{step}", spec_of(len(devices), of=of_class)
                pod = replace(seen.muster.pod(f"pod-{step}", 0), node_name=node, claims=uses(claim=name))
                owned = drawn.random() < 0.6
                tell(ClaimSeen(claim_of(name, spec, owner=pod.uid if owned else "", node=node, devices=devices)))
                if owned:
                    tell(PodSeen(pod))
                held[name] = (node, devices, pod.uid if owned else "")
        used = Counter(dict.fromkeys(SLICES, 0))
        for node, devices, _ in held.values():
            used[node] += len(devices)
        used.update(dict(plugged.values()))
        await check(seen, dict(used))
