"""What the status of a PodGroup without pods says, and where else its reason stands, on a real control plane."""

from __future__ import annotations

import pytest

from extender.objects.keys import QUEUE, TOPOLOGY_REQUIRED
from localcluster.client import EVENTS, JOBS, POD_GROUPS, PODS, JsonObject
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import StartMuster
from tests.controlplane.test_reclaim import queue

pytestmark = pytest.mark.controlplane


def phase(cluster: Sandbox, name: str) -> str:
    """Return the phase that a PodGroup's status says, "" for none."""
    group = cluster.api.get(POD_GROUPS, name, "default")
    return str(group.get("status", {}).get("phase", ""))


def test_what_is_wrong_with_a_podgroup_is_told_before_it_has_pods(cluster: Sandbox, muster: Server) -> None:
    """A misspelt key and a Queue that there is not; the gang starts when the Queue is there and its pods come."""
    cluster.nodes(2, gpus=8)
    annotations = {QUEUE: "team", f"{TOPOLOGY_REQUIRED}s": "rack"}
    gang = cluster.gang("train", members=2, gpus=8, create=0, group_annotations=annotations)
    gang.create_group()
    gang.wait_condition("False", "UnknownQueue")
    assert phase(cluster, "train") == "Pending"
    cluster.wait_until(lambda: len(gang.messages) > 1, "Events about the key and about the Queue")
    assert sorted(message.partition(":")[0] for message in gang.messages) == ["InvalidField", "UnknownQueue"]
    cluster.create({"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}})
    gang.wait_condition("False", "MembersMissing")
    gang.create()
    gang.wait_bound(2)
    gang.wait_condition("True", "Started")
    muster.check()


def test_a_podgroup_whose_pods_have_gone_does_not_say_that_it_runs(cluster: Sandbox, start_muster: StartMuster) -> None:
    """Nor if they go while no Muster runs."""
    cluster.nodes(1, gpus=8)
    seen, unseen = (cluster.gang(name, members=1, gpus=4) for name in ("seen", "unseen"))
    muster = start_muster()
    for gang in (seen, unseen):
        gang.wait_running(1)
        gang.wait_condition("True", "Started")
    cluster.api.delete(PODS, seen.created[0].name, "default")
    seen.wait_condition("False", "MembersMissing")
    muster.kill()
    cluster.api.delete(PODS, unseen.created[0].name, "default")
    cluster.wait_until(lambda: not cluster.api.list_items(PODS, "default"), "the pods being gone")
    muster.start()
    unseen.wait_condition("False", "MembersMissing")
    assert [phase(cluster, gang) for gang in ("seen", "unseen")] == ["Pending", "Pending"]
    muster.check()


def job_of_gang(name: str, pods: int) -> JsonObject:
    """Return a Job whose pods are members of the PodGroup of the same name, with a GPU each."""
    container = {"name": "main", "image": "worker", "resources": {"limits": {GPU: "1"}}}
    template = {
        "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": name}},
        "spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]},
    }
    spec = {"completions": pods, "parallelism": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("full", [False, True], ids=["room", "full"])
@pytest.mark.parametrize("reason", ["UnknownQueue", "NamespaceNotAllowed", "PodGroupMissing"])
def test_pod_job_and_podgroup_say_the_same(
    device_cluster: Sandbox, device_muster: Server, reason: str, *, full: bool
) -> None:
    """Also where kube-scheduler does not ask, as no node has room, and the pods' own conditions say so."""
    cluster, api = device_cluster, device_cluster.api
    cluster.nodes(1, gpus=4)
    if full:
        cluster.pod("occupant", gpus=4).wait_bound()
    cluster.create(queue("closed", namespaceSelector={"matchLabels": {"team": "other"}}))
    if reason != "PodGroupMissing":
        name = {"UnknownQueue": "none", "NamespaceNotAllowed": "closed"}[reason]
        gang = cluster.gang("train", members=2, gpus=1, create=0, group_annotations={QUEUE: name})
        gang.create_group()
        gang.wait_condition("False", reason)
    uid = api.create(job_of_gang("train", 2))["metadata"]["uid"]

    def members() -> list[JsonObject]:
        found = api.list_items(PODS, "default")
        return [pod for pod in found if pod["metadata"].get("labels", {}).get("job-name") == "train"]

    def told(about: str) -> list[str]:
        events = api.list_items(EVENTS, "default")
        return [event["reason"] for event in events if event["regarding"].get("uid") == about]

    try:
        cluster.wait_until(lambda: reason in told(uid), f"the Job saying {reason}")
        cluster.wait_until(
            lambda: sum(reason in told(pod["metadata"]["uid"]) for pod in members()) == 1, f"one pod saying {reason}"
        )
        words = f"Insufficient {GPU}" if full else f"gang waits: {reason}: "
        cluster.wait_until(
            lambda: (
                [
                    any(words in (condition.get("message") or "") for condition in pod["status"].get("conditions", ()))
                    for pod in members()
                ]
                == [True, True]
            ),
            f"all pods' conditions saying {words}",
        )
    finally:
        api.delete(JOBS, "train", "default")
        api.delete_all(PODS, "default")
    device_muster.check()
