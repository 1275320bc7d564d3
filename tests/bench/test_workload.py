"""What a benchmark creates, as requests."""

from __future__ import annotations

import json

from bench.controlplane.arrivals import Mix
from bench.controlplane.contenders import Contender
from bench.controlplane.fill import Fill, creations, starts, taken
from bench.controlplane.workload import GPUS_PER_NODE, Workload
from localcluster.client import NATIVE_POD_GROUPS, POD_GROUPS


def test_each_contender_gets_the_same_pods_under_its_own_groups() -> None:
    """Only what makes a gang of them differs: a label for Muster, a field for kube-scheduler, nothing without gangs."""
    workload = Workload(2, 3)
    groups, pods = {}, {}
    for contender in Contender:
        items = [json.loads(request.body) for request in workload.creations("some", contender.groups)]
        groups[contender] = [item["apiVersion"] for item in items if item["kind"] == "PodGroup"]
        pods[contender] = [item for item in items if item["kind"] == "Pod"]
    assert groups == {
        Contender.STOCK: [],
        Contender.STOCK_100: [],
        Contender.NATIVE: [NATIVE_POD_GROUPS.api_version] * 2,
        Contender.NATIVE_100: [NATIVE_POD_GROUPS.api_version] * 2,
        Contender.FLOOR: [],
        Contender.MUSTER: [POD_GROUPS.api_version] * 2,
    }
    assert pods[Contender.STOCK] == pods[Contender.FLOOR]
    for contender, of_contender in pods.items():
        assert [pod["metadata"]["name"] for pod in of_contender] == list(workload.pod_names())
        for pod in of_contender:
            pod["metadata"].pop("labels")
            pod["spec"].pop("schedulingGroup", None)
        assert of_contender == [
            {**pod, "metadata": {key: value for key, value in pod["metadata"].items() if key != "labels"}}
            for pod in pods[Contender.STOCK]
        ], contender


def test_a_podgroup_is_created_before_its_pods() -> None:
    """As a controller would; the next gang follows."""
    kinds = [json.loads(request.body)["kind"] for request in Workload(2, 2).creations("muster", POD_GROUPS)]
    assert kinds == ["PodGroup", "Pod", "Pod"] * 2


def test_members_that_are_missing_are_not_created_but_wanted() -> None:
    """The gang waits for ever."""
    group, *pods = (json.loads(request.body) for request in Workload(1, 4, missing=1).creations("muster", POD_GROUPS))
    assert group["spec"]["minMember"] == 4
    assert len(pods) == Workload(1, 4, missing=1).pods == 3


def test_single_pods_get_no_podgroup() -> None:
    """They are for the cost of Muster to those that need no gang."""
    requests = Workload(3, 1, grouped=False).creations("muster", POD_GROUPS)
    assert [json.loads(request.body)["kind"] for request in requests] == ["Pod"] * 3


def test_nominations_fill_one_node_after_the_other() -> None:
    """Eight GPUs to a node: the floor places what fits, no node twice."""
    requests = Workload(1, 6, gpus=4).nominations(["a", "b", "c"])
    assert [json.loads(request.body)["status"]["nominatedNodeName"] for request in requests] == list("aabbcc")
    assert requests[5].path == "/api/v1/namespaces/default/pods/gang-0-5/status"


def test_running_gangs_are_created_on_their_nodes() -> None:
    """A full cluster needs no scheduler to become full."""
    requests = Workload(2, 8, prefix="running").running(POD_GROUPS, ["a", "b"])
    pods = [item for request in requests if (item := json.loads(request.body))["kind"] == "Pod"]
    assert {(pod["metadata"]["name"].rpartition("-")[0], pod["spec"]["nodeName"]) for pod in pods} == {
        ("running-0", "a"),
        ("running-1", "b"),
    }


def test_the_same_nodes_are_taken_in_every_run() -> None:
    """They are spread over all nodes, whole, by pods that run and that no contender schedules."""
    nodes = [f"node-{number}" for number in range(1000)]
    occupied = taken(nodes, Fill.NINE_TENTHS.occupied(len(nodes), needed=1))
    assert occupied == taken(nodes, 900)
    assert len(set(occupied)) == 900
    assert 80 < len([node for node in nodes[:100] if node in set(occupied)]) < 100
    pods = [json.loads(request.body) for request in creations(occupied)]
    assert [pod["spec"]["nodeName"] for pod in pods] == occupied
    (asked,) = {json.dumps(pod["spec"]["containers"][0]["resources"]["requests"]) for pod in pods}
    assert json.loads(asked)["nvidia.com/gpu"] == str(GPUS_PER_NODE)
    assert {pod["spec"]["schedulerName"] for pod in pods}.isdisjoint(one.scheduler_name for one in Contender)
    created = [request.path for request in creations(occupied)]
    assert [request.path for request in starts(occupied)] == [
        f"{path}/{node}/status" for path, node in zip(created, occupied, strict=True)
    ]


def test_a_full_cluster_has_room_for_the_workload_and_nothing_else() -> None:
    """Eight pods of one GPU need a node, nine need two."""
    assert [Fill.FULL.occupied(10, Workload(1, pods).least_nodes) for pods in (8, 9)] == [9, 8]
    assert [Fill.EMPTY.occupied(10, 2), Fill.NINE_TENTHS.occupied(10, 1)] == [0, 9]


def test_a_mix_arrives_alike_for_everybody() -> None:
    """Four in five pods are single; moments are drawn from a seed, over the time that the rate gives."""
    mix = Mix(singles=320, gangs=10, size=8, pods_per_second=50.0)
    arrivals = mix.arrivals()
    assert (mix.pods, mix.seconds) == (400, 8.0)
    assert sum(arrival.workload.pods for arrival in arrivals) == mix.pods
    assert sum(arrival.single for arrival in arrivals) == 320
    assert [arrival.at for arrival in arrivals] == sorted(arrival.at for arrival in mix.arrivals())
    assert 0 <= arrivals[0].at < arrivals[-1].at < mix.seconds
    names = [name for arrival in arrivals for name in arrival.workload.pod_names()]
    assert len(set(names)) == mix.pods
