"""The plugin DynamicResources in scheduling cycles: devices are given when a pod is bound, and taken back later."""

from __future__ import annotations

from typing import Any

import pytest

from extender.control.ports import WatchedKind
from localcluster.devices import claim, claim_spec, claim_template, claiming, device_class, gpus_of, resource_slice
from muster_lab.simulation.claim_controller import ClaimController
from tests.lab.conftest import Bench, Virtually, reach

LACKING = "cannot allocate all claims"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def bench_of(*nodes: str, devices: int = 8, templates: tuple[int, ...] = (2, 6, 8)) -> Bench:
    """Return a cluster whose nodes have devices of one class, a template for so many, and an extender."""
    bench = Bench(extended=True)
    ClaimController(bench.cluster)
    bench.nodes(*nodes)
    bench.cluster.create(WatchedKind.DEVICE_CLASS, device_class())
    for node in nodes:
        bench.cluster.create(WatchedKind.RESOURCE_SLICE, resource_slice(node, gpus_of(devices)))
    for count in templates:
        template = claim_template(f"some-{count}", claim_spec(count))
        bench.cluster.create(WatchedKind.RESOURCE_CLAIM_TEMPLATE, template)
    return bench


def claims(bench: Bench) -> dict[str, tuple[int, list[str]]]:
    """Return how many devices each claim has, and who may use it, by the pod or else by its own name."""
    found = {}
    for version in bench.cluster.list(WatchedKind.RESOURCE_CLAIM):
        owners = version.json["metadata"].get("ownerReferences", [{"name": version.key.name}])
        has = version.claim.allocation
        users = [each.name for each in version.claim.reserved_for]
        found[owners[0]["name"]] = (0 if has is None else len(has.devices), users)
    return found


def refuse_bind(body: dict[str, Any]) -> dict[str, str]:
    """Answer a bind call with an error."""
    return {"Error": f"{body['PodName']} is not wanted"}


def test_devices_are_allocated_before_the_extender_is_asked_to_bind(virtually: Virtually) -> None:
    """The bind call finds the claim written, with the pod as its user."""

    async def story() -> tuple[dict[str, Any], dict[str, str]]:
        bench = bench_of("n", "m")
        seen: dict[str, Any] = {}

        def bind(body: dict[str, Any]) -> dict[str, str]:
            seen.update(claims(bench))
            return bench.extender.write_binding(body)

        bench.extender.bind = bind
        bench.pod("a", spec=claiming(template="some-6"))
        await bench.settle()
        await bench.close()
        return seen, bench.placed()

    assert virtually(story()) == ({"a": (6, ["a"])}, {"a": "n"})


def test_a_pod_without_devices_waits_until_those_of_another_are_free(virtually: Virtually) -> None:
    """It is told in the plugin's words, and tried again when the claim controller has ended the other's allocation."""

    async def story() -> tuple[str, dict[str, str], dict[str, Any]]:
        bench = bench_of("n")
        for name in ("a", "b"):
            bench.pod(name, spec=claiming(template="some-6"))
        await bench.settle()
        refusal = bench.get("b").refusal
        bench.end("a")
        await reach(2)
        await bench.close()
        return refusal, bench.placed(), claims(bench)

    refusal, placed, left = virtually(story())
    assert refusal == f"0/1 nodes are available: 1 {LACKING}. preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
    assert placed == {"a": "n", "b": "n"}
    assert left == {"b": (6, ["b"])}


@pytest.mark.parametrize("missing", ["template", "claim", "class"])
def test_a_pod_waits_for_what_its_claims_need(virtually: Virtually, missing: str) -> None:
    """A missing template or claim keeps it from being tried at all, a missing class from every node."""

    async def story() -> tuple[int, str, dict[str, str]]:
        bench = bench_of("n", templates=())
        if missing == "class":
            bench.cluster.delete(WatchedKind.DEVICE_CLASS, "", "gpu.nvidia.com")
            bench.cluster.create(WatchedKind.RESOURCE_CLAIM, claim("c", claim_spec(2)))
        bench.pod("a", spec=claiming(template="late") if missing == "template" else claiming(shared="c"))
        await reach(5)
        tried, refusal = bench.scheduler.attempts, bench.get("a").refusal
        kind, manifest = {
            "template": (WatchedKind.RESOURCE_CLAIM_TEMPLATE, claim_template("late", claim_spec(2))),
            "claim": (WatchedKind.RESOURCE_CLAIM, claim("c", claim_spec(2))),
            "class": (WatchedKind.DEVICE_CLASS, device_class()),
        }[missing]
        bench.cluster.create(kind, manifest)
        await reach(8)
        await bench.close()
        return tried, refusal, bench.placed()

    tried, refusal, placed = virtually(story())
    assert placed == {"a": "n"}
    if missing == "class":
        assert refusal.startswith(
            "0/1 nodes are available: request gpus: device class gpu.nvidia.com does not exist. preemption:"
        )
    else:
        assert (tried, refusal) == (0, "")


def test_an_allocation_outlives_a_failed_bind_call_and_is_ended_when_it_is_in_the_way(virtually: Virtually) -> None:
    """Unreserve takes the pod off its claim; the next attempt, which the extender sends elsewhere, ends it first."""

    async def story() -> tuple[dict[str, Any], str, dict[str, str], dict[str, Any]]:
        bench = bench_of("n", "m")
        bench.extender.bind = refuse_bind
        bench.pod("a", spec=claiming(template="some-8"))
        await bench.settle()
        kept = claims(bench)
        bench.extender.filter = lambda body: {"NodeNames": [name for name in body["NodeNames"] if name == "m"]}
        bench.extender.bind = bench.extender.write_binding
        await reach(10)
        await bench.close()
        (_, told) = bench.cluster.events.about("a", "FailedScheduling")
        return kept, told.event.message, bench.placed(), claims(bench)

    kept, refusal, placed, left = virtually(story())
    assert kept == {"a": (8, [])}
    assert refusal.startswith(
        "0/2 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, "
        "preemption: 0/2 nodes are available: 2"
    )
    assert placed == {"a": "m"}
    assert left == {"a": (8, ["a"])}


def test_devices_in_flight_are_given_to_one_pod_only(virtually: Virtually) -> None:
    """Two pods that are tried in one moment share the node's devices, also while neither allocation is heard of."""

    async def story() -> tuple[dict[str, str], list[tuple[str, ...]]]:
        bench = bench_of("n")
        for name in ("a", "b", "c", "d", "e"):
            bench.pod(name, spec=claiming(template="some-2"))
        await bench.settle()
        await bench.close()
        given = [version.claim.allocation for version in bench.cluster.list(WatchedKind.RESOURCE_CLAIM)]
        return bench.placed(), [tuple(each.device.device for each in found.devices) for found in given if found]

    placed, given = virtually(story())
    assert len(placed) == 4
    assert sorted(device for those in given for device in those) == [f"gpu-{number}" for number in range(8)]


def test_pods_that_share_a_claim_go_where_its_devices_are(virtually: Virtually) -> None:
    """The second uses the allocation of the first; it ends when both are over, and the claim stays."""

    async def story() -> tuple[dict[str, str], list[tuple[int, list[str]]]]:
        bench = bench_of("n", "m")
        bench.cluster.create(WatchedKind.RESOURCE_CLAIM, claim("shared", claim_spec(8)))
        for name in ("a", "b"):
            bench.pod(name, spec=claiming(shared="shared"))
        await reach(3)
        steps = [claims(bench)["shared"]]
        for name in ("a", "b"):
            bench.end(name)
            await reach(bench.clock.elapsed() + 1)
            steps.append(claims(bench)["shared"])
        await bench.close()
        return bench.placed(), steps

    placed, steps = virtually(story())
    assert len(set(placed.values())) == 1
    assert steps == [(8, ["a", "b"]), (8, ["b"]), (0, [])]


def test_a_claim_that_cannot_be_evaluated_is_an_error(virtually: Virtually) -> None:
    """An expression that fails for a device ends the attempt; the pod is tried again after its backoff."""

    async def story() -> tuple[str, str]:
        bench = bench_of("n", templates=())
        selector = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"
        bench.cluster.create(WatchedKind.RESOURCE_CLAIM, claim("c", claim_spec(1, selectors=[selector])))
        bench.pod("a", spec=claiming(shared="c"))
        await bench.settle()
        await bench.close()
        (condition,) = bench.cluster.get(WatchedKind.POD, "default", "a").json["status"]["conditions"]
        return condition["reason"], condition["message"]

    reason, message = virtually(story())
    assert reason == "SchedulerError"
    assert "a selector failed" in message
