"""What the kubelet's managers see of a pod: containers one by one, and whether they get CPUs of their own."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.pod import Pod, Shape, read_pod
from extender.objects.podspec import decode_pod
from extender.objects.requests import ContainerRequest, Stage, pod_request, read_containers
from tests.builders import GPU, Json, pod_json, written

GIB = 2**30

BOTH = {"cpu": "4", "memory": "8Gi"}


def container(
    requests: Json | None = None, limits: Json | None = None, *, name: str = "c", sidecar: bool = False
) -> Json:
    """Build a container."""
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if sidecar else {})


def read(*containers: Json, init: tuple[Json, ...] = (), **spec: Any) -> Pod:
    """Read a pod of such containers."""
    fields = {"containers": list(containers), "initContainers": list(init)} | spec
    return read_pod(decode_pod(written(pod_json(spec=fields))))


def requests(stage: Stage = Stage.APP, **amounts: int) -> ContainerRequest:
    """Build what a container asks for; `gpu` stands for the GPU resource."""
    named = {GPU if name == "gpu" else name: amount for name, amount in amounts.items()}
    return ContainerRequest(tuple(sorted(named.items())), stage)


def test_a_single_container_needs_no_list() -> None:
    """One container asks for what the pod asks for: nothing to tell apart."""
    assert read(container(BOTH)).shape.containers == ()


def test_containers_that_ask_for_nothing_are_left_out() -> None:
    """Beside one that asks for something they make no difference."""
    assert read(container(BOTH), container(), container({"cpu": "0"})).shape.containers == ()


def test_containers_come_in_order_of_admission() -> None:
    """Init containers and sidecars first, as the kubelet admits them, each with its own amounts."""
    pod = read(
        container({"cpu": "500m", GPU: "1"}),
        container({"cpu": "2"}),
        init=(container({GPU: "2"}), container({"memory": "1Gi"}, sidecar=True)),
    )
    assert pod.shape.containers == (
        requests(Stage.INIT, gpu=2),
        requests(Stage.SIDECAR, memory=GIB),
        requests(cpu=500, gpu=1),
        requests(cpu=2000),
    )


@pytest.mark.parametrize(
    "other",
    [
        {"overhead": {"cpu": "100m"}},
        {"initContainers": [container(BOTH, name="init")], "containers": [container()]},
    ],
)
def test_one_container_is_listed_where_the_pod_asks_for_more(other: Json) -> None:
    """With overhead, or if only an init container asks, the pod's request is not that of one container."""
    (only,) = read(container(BOTH), **other).shape.containers
    assert dict(only.requests) == {"cpu": 4000, "memory": 8 * GIB}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container(BOTH, BOTH)], True),
        ([container({}, BOTH)], True),
        ([container({"cpu": "4000m", "memory": "8192Mi"}, BOTH)], True),
        ([container(BOTH | {GPU: "8"}, BOTH | {GPU: "8"})], True),
        ([container(BOTH)], False),
        ([container(BOTH, {"cpu": "4"})], False),
        ([container(BOTH, BOTH | {"cpu": "5"})], False),
        ([container(BOTH | {"memory": "7Gi"}, BOTH)], False),
        ([container({}, {"cpu": "0", "memory": "8Gi"})], False),
        ([container(BOTH, BOTH), container()], False),
        ([container(BOTH, BOTH), container(BOTH, BOTH)], True),
        ([], False),
    ],
)
def test_a_pod_is_guaranteed_if_every_container_is_limited_to_its_request(
    containers: list[Json],
    expected: bool,
) -> None:
    """CPU and memory both, by value, a missing request standing for the limit; devices do not matter."""
    assert read(*containers).shape.guaranteed is expected


def test_init_containers_count_for_the_class_too() -> None:
    """One init container without limits makes the pod Burstable."""
    assert not read(container(BOTH, BOTH), init=(container(BOTH),)).shape.guaranteed
    assert read(container(BOTH, BOTH), init=(container(BOTH, BOTH),)).shape.guaranteed


@pytest.mark.parametrize("resources", [{"requests": BOTH}, {"limits": BOTH}])
def test_requests_of_the_pod_as_a_whole_have_no_cpus_of_their_own(resources: Json) -> None:
    """The managers pass over pods with pod-level resources."""
    assert not read(container(BOTH, BOTH), resources=resources).shape.guaranteed


def test_a_limit_that_cannot_be_read_is_a_problem() -> None:
    """The problem names container, resource and value; the pod has an empty shape."""
    pod = read(container(BOTH, BOTH | {"memory": "much"}))
    assert str(pod.problem).startswith("spec.containers[0].resources.limits.memory: 'much' is not a quantity")
    assert pod.shape == Shape((("pods", 1),))


def test_shapes_differ_by_what_the_kubelet_sees() -> None:
    """Equal sums of other containers, or of another class, are other shapes."""
    plain = Shape((("cpu", 1000),))
    assert plain != Shape((("cpu", 1000),), guaranteed=True)
    assert plain != Shape((("cpu", 1000),), containers=(requests(cpu=500), requests(cpu=500)))
    assert hash(Shape((("cpu", 1000),), guaranteed=True)) == hash(Shape((("cpu", 1000),), guaranteed=True))


def test_the_pod_asks_for_its_peak() -> None:
    """Side by side containers add up; an init container counts with the sidecars that started before it."""
    parts = (
        requests(Stage.INIT, gpu=6),
        requests(Stage.SIDECAR, gpu=1, cpu=1000),
        requests(Stage.INIT, gpu=4, cpu=9000),
        requests(gpu=3, cpu=4000),
        requests(memory=GIB),
    )
    assert pod_request(parts) == {"cpu": 10_000, "memory": GIB, GPU: 6}


def test_a_pod_without_a_spec_asks_for_nothing() -> None:
    """There is nothing to align, and nothing to fail at."""
    assert read_containers(decode_pod(b"{}")) == ()
    assert not read_pod(decode_pod(b"{}")).shape.guaranteed
