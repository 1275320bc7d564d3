"""What stays of pods that are gone: nothing whose size they chose."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from types import FunctionType, MethodType, ModuleType
from weakref import WeakKeyDictionary

import pytest

from extender.admission.events import NodeTopologySeen, PodGone, PodSeen
from extender.caches import SizedDict
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Pod, Shape, read_pod
from extender.objects.podspec import decode_pod
from tests.builders import GPU, pod_json, written
from tests.worlds import World

PODS = 40


def unique(name: str, gpus: int, *, node: str = "", scheduler: str = "muster", operator: str = "NotIn") -> Pod:
    """Return a pod with an affinity that no other pod has."""
    match = {"key": f"key-{name}", "operator": operator, "values": [f"{name}-{value}" for value in range(20)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {"affinity": affinity, "schedulerName": scheduler}
    return read_pod(decode_pod(written(pod_json(name, gpus=gpus, node=node, spec=spec))))


def come_and_go(world: World, kind: str) -> list[weakref.ref[Shape]]:
    """Let pods of one kind come, be looked at, and go; return what is left of their shapes."""
    pods = []
    for number in range(PODS):
        name = f"{kind}-{number}"
        match kind:
            case "placed":
                pod = unique(name, 8)
            case "nowhere":
                pod = unique(name, 1, operator="In")
            case "bound":
                pod = unique(name, 1, node="node-0")
            case _:
                pod = unique(name, 1, node="node-0", scheduler="default-scheduler")
        pods.append(pod)
        world.tell(PodSeen(pod))
        world.filter(pod)
        world.judge()
    for pod in pods:
        world.tell(PodGone(pod.uid))
    world.judge()
    return [weakref.ref(pod.shape) for pod in pods]


@pytest.mark.parametrize("aligned", [False, True], ids=["plain nodes", "aligned nodes"])
@pytest.mark.parametrize("kind", ["placed", "nowhere", "bound", "foreign"])
def test_nothing_is_kept_of_shapes_that_are_gone(world: World, kind: str, *, aligned: bool) -> None:
    """Each pod that has a shape of its own takes it along, whatever became of the pod and whose it was."""
    for name in world.nodes(3):
        if aligned:
            zones = tuple(Zone(number, f"zone-{number}", {GPU: 4, "cpu": 32_000}) for number in range(2))
            world.tell(NodeTopologySeen(NodeTopology(name, TopologyPolicy.RESTRICTED, zones=zones)))
    shapes = come_and_go(world, kind)
    world.later(3600)
    world.effects()
    gc.collect()
    left = sum(shape() is not None for shape in shapes)
    assert left <= PODS // 2  # what the last cycle looked at stays until the next


def entries(root: object) -> dict[str, int]:
    """Return how many entries the containers have that an object owns, by class and attribute; caches are left out."""
    found: dict[str, int] = {}
    seen: set[int] = {id(root)}
    left: list[tuple[str, object]] = [(type(root).__name__, root)]
    while left:
        where, each = left.pop()
        if isinstance(each, SizedDict | WeakKeyDictionary | type | ModuleType | FunctionType):
            continue
        if isinstance(each, dict | list | set | deque | tuple | frozenset):
            found[where] = found.get(where, 0) + len(each)
            inner = [*each.keys(), *each.values()] if isinstance(each, dict) else list(each)
            children = [(where, child) for child in inner]
        else:
            names = [
                *getattr(each, "__dict__", ()),
                *(s for c in type(each).__mro__ for s in getattr(c, "__slots__", ())),
            ]
            children = [(f"{type(each).__name__}.{name}", getattr(each, name, None)) for name in names]
            if isinstance(each, MethodType):
                children.append((where, each.__self__))
        for place, child in children:
            if id(child) not in seen and not isinstance(child, str | int | float | bytes | None):
                seen.add(id(child))
                left.append((place, child))
    return found


def a_round(world: World, number: int) -> None:
    """Let gangs and pods come and go of which every name is new."""
    pods = []
    for index in range(8):
        name = f"round-{number}-{index}"
        annotations = {"muster.dev/queue": name, "muster.dev/odd": name, "example.com/x": name}
        labels = {"muster.dev/gang": name, f"label-{name}": name, "muster.dev/role": name}
        options = {"muster.dev/min-member": "1"} | annotations
        requests = {f"example.com/{name}": "1", "cpu": f"{number}{index}m", GPU: "1"} if index % 2 else {GPU: "3"}
        spec = {
            "priority": 10 * number + index,
            "schedulerName": "muster" if index % 4 else name,
            "nodeName": "node-0" if index % 3 == 1 else None,
            "containers": [{"name": name, "resources": {"requests": requests}}],
            "schedulingGates": [{"name": name}] if index == 6 else [],
        }
        document = pod_json(name, labels=labels, annotations=options, spec=spec)
        document["metadata"]["namespace"] = name
        pods.append(read_pod(decode_pod(written(document))))
        world.tell(PodSeen(pods[-1]))
        world.filter(pods[-1])
        world.judge()
    for _ in range(4):
        world.later(40)
    for pod in pods:
        world.tell(PodGone(pod.uid))
    world.later(1)
    world.later(7200)
    world.later(7200)
    world.effects()


def test_no_table_grows_by_what_is_gone(world: World) -> None:
    """After every round of gangs and pods with names of their own each table is as large as after the last."""
    world.nodes(3)
    for number in range(3):
        a_round(world, number)
    before = entries(world.engine)
    for number in range(3, 6):
        a_round(world, number)
    after = entries(world.engine)
    grown = {where: after[where] - before.get(where, 0) for where in after if after[where] > before.get(where, 0) + 2}
    grown.pop("NodeTable._column", None)  # up to 32 columns, which another test counts
    assert grown == {}
