"""Pods that were created with a node and ask for more than any node has."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from extender.admission.events import NodeSeen, PodGone, PodSeen, QueueSeen
from extender.explain.drawing.tree import DrawnHolding, cells
from extender.objects.meta import ObjectRef
from extender.objects.pod import Pod, read_pod
from extender.objects.podspec import decode_pod
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason
from tests.builders import GPU, container_json, pod_json, written
from tests.worlds import Job, World

ABSURD = ("200000000", str(2**63 - 1), "1e999")


def absurd(quantity: str = ABSURD[0], *, name: str = "absurd", node: str = "node-0", scheduler: str = "muster") -> Pod:
    """Return a pod on a node, or on none, that asks for so many GPUs."""
    containers = [container_json(requests={"cpu": "1", GPU: quantity})]
    return read_pod(
        decode_pod(written(pod_json(name, node=node, spec={"containers": containers, "schedulerName": scheduler})))
    )


def free_gpus(world: World) -> list[int]:
    """Return how many GPUs each node has left."""
    model = world.admission.model
    table = model.table
    found: list[int] = table.free()[table.resources.index(GPU)].tolist()
    return found


@pytest.mark.parametrize("quantity", ABSURD)
@pytest.mark.parametrize("scheduler", ["muster", "default-scheduler"])
def test_absurd_amount_takes_what_its_node_has(world: World, quantity: str, scheduler: str) -> None:
    """Whatever such a pod asks for, it takes its node and nothing of the others, and gives it back."""
    world.nodes(2)
    pod = absurd(quantity, scheduler=scheduler)
    world.tell(PodSeen(pod))
    world.tell(PodSeen(pod))
    assert free_gpus(world) == [0, 8]
    assert world.gang("small", 1).reserved == {"small-0": "node-1"}
    world.tell(PodGone(pod.uid))
    assert free_gpus(world) == [8, 0]


def test_absurd_amount_follows_its_node(world: World) -> None:
    """A node that comes after the pod, or has other GPUs later, is taken whole each time."""
    world.tell(PodSeen(absurd()))
    world.nodes(1)
    assert free_gpus(world) == [0]
    model = world.admission.model
    node = model.table.node(0)
    world.tell(NodeSeen(replace(node, allocatable={**node.allocatable, GPU: 4})))
    assert free_gpus(world) == [0]


def test_warning_names_object_and_field(world: World) -> None:
    """People are told once which pod and field it is, also of a pod that another scheduler looks after."""
    world.nodes(1)
    for scheduler in ("muster", "default-scheduler"):
        pod = absurd(name=scheduler, scheduler=scheduler)
        world.tell(PodSeen(pod))
        world.tell(PodSeen(pod))
        (note,) = world.effects().notes
        assert isinstance(note.about, Pod | ObjectRef)
        assert note.about.name == scheduler
        assert note.warning
        assert note.message.startswith(f"spec.containers[0].resources.requests.{GPU}: 200000000 of {GPU} is more than")


def test_absurd_amount_of_a_waiting_pod_is_its_reason(world: World) -> None:
    """Without a node such a pod waits, and the reason names the field."""
    world.nodes(1)
    pod = absurd(node="")
    world.tell(PodSeen(pod))
    world.judge()
    wait = Job(world, pod.group).wait
    assert wait is not None
    assert wait.reason is Reason.INVALID_MEMBER
    assert "spec.containers[0].resources.requests" in wait.names["detail"]


def test_absurd_amount_costs_siblings_no_quota(world: World) -> None:
    """A queue is charged what the node has: its siblings keep what else there is."""
    world.nodes(3)
    quotas = {GPU: Quota(nominal=8)}
    world.tell(QueueSeen(Queue("org", uid="org")))
    for name in ("a", "b", "c"):
        world.tell(
            QueueSeen(Queue(name, uid=name, parent="org", flavors=(Flavor("f", quotas=quotas),), default=name == "a"))
        )
    world.tell(PodSeen(absurd()))
    sharing = world.admission.sharing
    assert sharing.tree.used("org", "f", GPU) == 8


def test_picture_of_a_node_is_no_larger_than_the_node() -> None:
    """Who holds which GPU is found in memory of the size of the node."""
    tracemalloc.start()
    try:
        assert cells(8, [DrawnHolding("big", 2**31), DrawnHolding("small", 2, which=(7,))]) == (*["big"] * 7, "small")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_pods_cannot_widen_the_table(world: World) -> None:
    """Resources that pods name and no node lists cost no column each."""
    world.nodes(1)
    for number in range(100):
        containers = [container_json(requests={f"example.com/r{number}": "1"})]
        pod = read_pod(decode_pod(written(pod_json(f"p{number}", node="node-0", spec={"containers": containers}))))
        world.tell(PodSeen(pod))
    model = world.admission.model
    table = model.table
    assert len(table.resources) <= 32
    node = table.node(0)
    world.tell(NodeSeen(replace(node, allocatable={**node.allocatable, "example.com/r99": 3})))
    assert table.free()[table.resources.index("example.com/r99")].tolist() == [2]
