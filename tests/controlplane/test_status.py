"""What a PodGroup's status says when it has no pods, on a real control plane."""

from __future__ import annotations

import pytest

from extender.objects.keys import QUEUE, TOPOLOGY_REQUIRED
from localcluster.client import POD_GROUPS, PODS
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import StartMuster

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
