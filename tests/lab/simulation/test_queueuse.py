"""What the gangs of each queue use, as the simulation counts it."""

from __future__ import annotations

from typing import Any

from extender.control.ports import WatchedKind
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.manifests import namespace_manifest, queue_manifest
from muster_lab.simulation.queueuse import QueueUse, queue_uses
from muster_lab.simulation.scenario import ScenarioGang
from muster_lab.simulation.workload import Workload, WorkloadSite
from tests.builders import GPU, node_json, pod_json
from tests.lab.conftest import Virtually, loop_clock
from tests.lab.simulation.test_workload import gang


def quota(flavor: str, nominal: int, **fields: Any) -> dict[str, Any]:
    """Return a flavor with a quota of GPUs."""
    return {"name": flavor, "resources": [{"name": GPU, "nominalQuota": str(nominal)}], **fields}


def uses(queues: dict[str, dict[str, Any]], *gangs: ScenarioGang, **nodes: str) -> list[QueueUse]:
    """Return what queues use when pods, named with underscores, are on nodes; must run on an event loop.

    Nodes n and m have eight GPUs each; m is a spot node.
    """
    cluster = Cluster(loop_clock())
    for name, spec in queues.items():
        cluster.create(WatchedKind.QUEUE, queue_manifest(name, spec))
    cluster.create(WatchedKind.NAMESPACE, namespace_manifest("default", {"team": "a"}))
    cluster.create(WatchedKind.NODE, node_json("n"))
    cluster.create(WatchedKind.NODE, node_json("m", labels={"spot": "yes"}))
    workload = Workload(WorkloadSite(cluster, loop_clock(), "muster"))
    workload.add(gangs)
    cluster.create(WatchedKind.POD, pod_json("foreign", gpus=1, node="n"))
    for name, node in nodes.items():
        cluster.bind("default", name.replace("_", "-"), node)
    return list(queue_uses(cluster, workload))


def test_pods_on_nodes_count_for_their_gangs_queue(virtually: Virtually) -> None:
    """Above its own a queue borrows what its sibling lends; pods of nobody and those that wait do not count."""

    async def story() -> list[QueueUse]:
        spec = {"parent": "root", "flavors": [quota("default", 8)]}
        return uses(
            {"root": {}, "a": spec, "b": spec},
            gang("g", 3, gpus=4, queue="a"),
            gang("h", 1, gpus=1, queue="b"),
            g_0="n",
            g_1="n",
            g_2="m",
        )

    root, a, b = virtually(story())
    assert (root.name, a.name, b.name) == ("root", "a", "b")
    assert (a.used, a.borrowed, a.lent) == ({GPU: 12}, {GPU: 4}, {GPU: 0})
    assert (b.used, b.borrowed, b.lent) == ({GPU: 0}, {GPU: 0}, {GPU: 4})
    assert root.used == {GPU: 12}
    assert a.share > b.share == 0.0


def test_a_pod_counts_in_the_flavor_of_its_node(virtually: Virtually) -> None:
    """The first of the queue's flavors that the node is of; on a node of none it counts nowhere."""

    async def story() -> tuple[QueueUse, QueueUse]:
        spot = quota("spot", 8, nodeSelector={"spot": "yes"})
        pods = gang("g", 2, gpus=4, queue="q")
        (both,) = uses({"q": {"flavors": [spot, quota("rest", 2)]}}, pods, g_0="n", g_1="m")
        (only,) = uses({"q": {"flavors": [spot]}}, pods, g_0="n", g_1="m")
        return both, only

    both, only = virtually(story())
    assert {flavor.name: dict(flavor.used) for flavor in both.flavors} == {"spot": {GPU: 4}, "rest": {GPU: 4}}
    assert both.used == {GPU: 8}
    assert only.used == {GPU: 4}


def test_a_gang_that_names_no_queue_is_in_its_namespaces_default(virtually: Virtually) -> None:
    """If there is one that takes the namespace."""

    async def story() -> list[QueueUse]:
        chosen = {"default": True, "namespaceSelector": {"matchLabels": {"team": "a"}}, "flavors": [quota("f", 8)]}
        other = {**chosen, "namespaceSelector": {"matchLabels": {"team": "b"}}}
        return uses({"other": other, "chosen": chosen}, gang("g", 1, gpus=4), g_0="n")

    other, chosen = virtually(story())
    assert (other.used, chosen.used) == ({GPU: 0}, {GPU: 4})


def test_a_queue_that_cannot_be_used_uses_nothing(virtually: Virtually) -> None:
    """It is there all the same."""

    async def story() -> list[QueueUse]:
        queues: dict[str, dict[str, Any]] = {"a": {"parent": "b", "flavors": [quota("f", 8)]}, "b": {"parent": "a"}}
        return uses(queues, gang("g", 1, gpus=4, queue="a"), g_0="n")

    assert virtually(story()) == [QueueUse("a", (), 0.0), QueueUse("b", (), 0.0)]


def test_without_queues_there_is_nothing_to_say(virtually: Virtually) -> None:
    """However much is used."""

    async def story() -> list[QueueUse]:
        return uses({}, gang("g", 1, gpus=4), g_0="n")

    assert virtually(story()) == []
