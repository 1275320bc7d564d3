"""What actions send to the API server, and what they refuse by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from extender.objects.keys import PLACE
from tests.cli.conftest import Script

NATIVE = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/train"
REPLICAS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs"}
PODS = "/api/v1/namespaces/ml/pods"


def answer(server: Script, path: str, document: dict[str, Any]) -> None:
    """Have the API server answer with a document."""
    server.answers[path] = (200, json.dumps(document).encode())


def refuse(server: Script, path: str, status: int, message: str) -> None:
    """Have the API server refuse what is asked of a path."""
    server.answers[path] = (status, json.dumps({"kind": "Status", "code": status, "message": message}).encode())


def pod(name: str, labels: dict[str, str] | None = None, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a pod of the namespace ml."""
    metadata: dict[str, Any] = {"name": name, "namespace": "ml", "uid": name, "labels": labels or {}}
    if owner:
        metadata["ownerReferences"] = [owner | {"controller": True}]
    return {"metadata": metadata, "spec": {"schedulerName": "muster", "containers": [{"name": "c"}]}}


def act(kubeconfig: Path, *words: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [*words, "--kubeconfig", str(kubeconfig)], env={"COLUMNS": "160"})


def changes(server: Script) -> list[str]:
    """Return what was asked that is no question."""
    return [asked for asked in server.asked if not asked.startswith("GET")]


def test_a_name_alone_is_one_of_the_contexts_namespace(server: Script, kubeconfig: Path) -> None:
    """As for every question; -n names another, and what stands in front of the name counts first."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    config["contexts"][0]["context"]["namespace"] = "ml"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    answer(server, PODS, {"items": [pod("train-0", {"muster.dev/gang": "train"})]})
    answer(server, f"{PODS}/train-0", {})
    assert act(kubeconfig, "hold", "train").stdout == "pod/train-0 held\n"
    assert act(kubeconfig, "hold", "train", "--context", "there", "-n", "ml").stdout == "pod/train-0 held\n"
    assert act(kubeconfig, "hold", "ml/train", "-n", "other").stdout == "pod/train-0 held\n"
    assert act(kubeconfig, "hold", "train", "--context", "there").exit_code == 1
    assert changes(server) == [f"PATCH {PODS}/train-0"] * 3


def test_a_gang_of_labels_is_held_by_its_pods(server: Script, kubeconfig: Path) -> None:
    """Each of its pods has the annotation; those of others are left alone."""
    members = [pod(f"train-{index}", {"muster.dev/gang": "train"}) for index in range(2)]
    answer(server, PODS, {"items": [*members, pod("other")]})
    for index in range(2):
        answer(server, f"{PODS}/train-{index}", {})
    done = act(kubeconfig, "hold", "ml/train")
    assert (done.exit_code, done.stdout) == (0, "pod/train-0 held\npod/train-1 held\n"), done.stderr
    assert changes(server) == [f"PATCH {PODS}/train-0", f"PATCH {PODS}/train-1"]
    assert json.loads(server.bodies[0]) == {"metadata": {"annotations": {"muster.dev/hold": "true"}}}
    done = act(kubeconfig, "release", "ml/train")
    assert (done.exit_code, done.stdout) == (0, "pod/train-0 released\npod/train-1 released\n"), done.stderr
    assert json.loads(server.bodies[-1]) == {"metadata": {"annotations": {"muster.dev/hold": None}}}


def test_pods_are_all_tried_whatever_becomes_of_the_others(server: Script, kubeconfig: Path) -> None:
    """Those that were refused are named in the end, in the API server's words."""
    members = [pod(f"train-{index}", {"muster.dev/gang": "train"}, REPLICAS) for index in range(3)]
    answer(server, PODS, {"items": members})
    for index in (0, 2):
        answer(server, f"{PODS}/train-{index}", {})
        answer(server, f"{PODS}/train-{index}/eviction", {})
    refuse(server, f"{PODS}/train-1", 403, "may not patch")
    refuse(server, f"{PODS}/train-1/eviction", 429, "it would violate the pod's disruption budget")
    held = act(kubeconfig, "hold", "ml/train")
    assert (held.exit_code, held.stdout) == (1, "pod/train-0 held\npod/train-2 held\n")
    assert held.stderr == "muster hold: 1 of 3 not held:\n  pod/train-1: the API server refuses: may not patch\n"
    evicted = act(kubeconfig, "requeue", "ml/train", "--yes")
    assert (evicted.exit_code, evicted.stdout) == (1, "pod/train-0 evicted\npod/train-2 evicted\n")
    assert "1 of 3 not evicted:\n  pod/train-1: the API server refuses: it would violate" in evicted.stderr


def test_what_is_held_by_its_pods_alone_is_not_requeued(server: Script, kubeconfig: Path) -> None:
    """The pods that come after them would not be held, and start."""
    member = pod("train-0", {"muster.dev/gang": "train"}, REPLICAS)
    member["metadata"]["annotations"] = {"muster.dev/hold": "true"}
    answer(server, PODS, {"items": [member]})
    refused = act(kubeconfig, "requeue", "ml/train", "--yes")
    assert (refused.exit_code, "is held by its pods alone" in refused.stderr) == (1, True)
    assert changes(server) == []


def test_a_job_that_muster_resumed_is_suspended_again(server: Script, kubeconfig: Path) -> None:
    """It asks first; no pod is evicted."""
    job = "/apis/batch/v1/namespaces/ml/jobs/train"
    body = {"metadata": {"name": "train", "namespace": "ml", "uid": "j", "annotations": {PLACE: "{}"}}}
    answer(server, job, body)
    made = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    answer(server, PODS, {"items": [pod("train-0", owner=made)]})
    arguments = ["requeue", "ml/train", "--kubeconfig", str(kubeconfig)]
    assert CliRunner().invoke(app, arguments, input="n\n").exit_code == 1
    assert changes(server) == []
    done = CliRunner().invoke(app, arguments, input="y\n")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "job.batch/train suspended")
    assert json.loads(server.bodies[-1]) == {"spec": {"suspend": True}}


def test_a_queue_says_whether_it_starts_anything(server: Script, kubeconfig: Path) -> None:
    """One patch of its stopPolicy."""
    path = "/apis/muster.dev/v1alpha1/queues/team"
    answer(server, path, {"metadata": {"name": "team"}})
    for words, policy in ((["stop"], "Hold"), (["drain"], "HoldAndDrain"), (["resume"], "None")):
        done = act(kubeconfig, *words, "team")
        assert done.stdout == f"queue.muster.dev/team has stopPolicy {policy}\n", done.stderr
        assert json.loads(server.bodies[-1]) == {"spec": {"stopPolicy": policy}}


def test_the_priority_of_pods_cannot_be_changed(server: Script, kubeconfig: Path) -> None:
    """A gang of labels has no other."""
    answer(server, PODS, {"items": [pod("train-0", {"muster.dev/gang": "train"})]})
    refused = act(kubeconfig, "priority", "ml/train", "urgent")
    assert (refused.exit_code, "is that of its pods" in refused.stderr) == (1, True)


def test_cancel_asks_and_says_what_goes(server: Script, kubeconfig: Path) -> None:
    """The PodGroup after what made its pods."""
    answer(server, NATIVE, {"metadata": {"name": "train", "namespace": "ml", "uid": "1"}})
    lone = pod("train-0")
    lone["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    answer(server, PODS, {"items": [lone]})
    answer(server, f"{PODS}/train-0", {})
    arguments = ["cancel", "ml/train", "--kubeconfig", str(kubeconfig)]
    assert CliRunner().invoke(app, arguments, input="n\n").exit_code == 1
    done = CliRunner().invoke(app, arguments, input="y\n")
    assert "To be deleted: pod/train-0, podgroup.scheduling.k8s.io/train" in done.stdout
    assert changes(server) == [f"DELETE {PODS}/train-0", f"DELETE {NATIVE}"]


def test_the_priority_of_a_native_pod_group_is_changed(server: Script, kubeconfig: Path) -> None:
    """It is a field of its own; a server's dry run says so in the query."""
    answer(server, NATIVE, {"metadata": {"name": "train", "namespace": "ml", "uid": "1"}})
    answer(server, PODS, {"items": []})
    answer(server, f"{NATIVE}?dryRun=All", {})
    done = act(kubeconfig, "priority", "ml/train", "urgent", "--dry-run", "server")
    assert done.stdout == "podgroup.scheduling.k8s.io/train has priority urgent (server dry run)\n", done.stderr
    assert json.loads(server.bodies[-1]) == {"spec": {"priorityClassName": "urgent"}}


def test_only_what_comes_again_is_requeued(server: Script, kubeconfig: Path) -> None:
    """A pod without a controller would be lost; a gang without pods waits already."""
    answer(server, NATIVE, {"metadata": {"name": "train", "namespace": "ml", "uid": "1"}})
    answer(server, PODS, {"items": []})
    refused = act(kubeconfig, "requeue", "ml/train", "--yes")
    assert (refused.exit_code, "waits already" in refused.stderr) == (1, True)
    lone = pod("train-0")
    lone["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    answer(server, PODS, {"items": [lone]})
    refused = act(kubeconfig, "requeue", "ml/train", "--yes")
    assert (refused.exit_code, "would make pod/train-0 again" in refused.stderr) == (1, True)
    assert changes(server) == []


def test_what_is_at_the_top_is_cancelled(server: Script, kubeconfig: Path) -> None:
    """A ReplicaSet's Deployment; an owner of another UID of that name is not its owner."""
    replicas = "/apis/apps/v1/namespaces/ml/replicasets/web-1"
    deployment = "/apis/apps/v1/namespaces/ml/deployments/web"
    made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs"}
    by = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    answer(server, PODS, {"items": [pod("web-1-a", {"muster.dev/gang": "web"}, made)]})
    kinds = [{"name": "replicasets", "kind": "ReplicaSet"}, {"name": "deployments", "kind": "Deployment"}]
    answer(server, "/apis/apps/v1", {"resources": kinds})
    answer(server, replicas, {"metadata": {"namespace": "ml", "uid": "rs", "ownerReferences": [by]}})
    answer(server, deployment, {"metadata": {"namespace": "ml", "uid": "d"}})
    done = act(kubeconfig, "cancel", "ml/web", "--dry-run", "client")
    assert done.stdout == "deployment.apps/web deleted (dry run)\n", done.stderr
    answer(server, deployment, {"metadata": {"namespace": "ml", "uid": "another"}})
    done = act(kubeconfig, "cancel", "ml/web", "-y", "--dry-run", "client")
    assert done.stdout == "replicaset.apps/web-1 deleted (dry run)\n", done.stderr
    assert changes(server) == []


def test_a_kind_that_one_may_not_read_is_passed_by(server: Script, kubeconfig: Path) -> None:
    """What is not known to the caller does not keep others from being found."""
    server.answers[NATIVE] = (403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}')
    answer(server, PODS, {"items": [pod("train")]})
    answer(server, f"{PODS}/train", {})
    assert act(kubeconfig, "hold", "ml/train").stdout == "pod/train held\n"
    answer(server, PODS, {"items": []})
    refused = act(kubeconfig, "hold", "ml/train")
    assert "you may not get podgroups.scheduling.k8s.io in namespace ml" in refused.stderr
    server.answers[PODS] = (403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no pods"}')
    refused = act(kubeconfig, "hold", "ml/train")
    assert (refused.exit_code, refused.stderr) == (1, "muster hold: the API server refuses: no pods\n")


def test_a_right_that_is_missing_changes_nothing(server: Script, kubeconfig: Path) -> None:
    """What describes the pods may not be read, or what made them: neither is taken for one that is not there."""
    refuse(server, NATIVE, 403, "no")
    member = pod("train-0", owner=REPLICAS)
    member["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    answer(server, PODS, {"items": [member]})
    refused = act(kubeconfig, "hold", "ml/train")
    assert "are described by podgroups.scheduling.k8s.io, which you may not get" in refused.stderr
    answer(server, NATIVE, {"metadata": {"name": "train", "namespace": "ml", "uid": "1"}})
    answer(server, "/apis/apps/v1", {"resources": [{"name": "replicasets", "kind": "ReplicaSet"}]})
    refuse(server, "/apis/apps/v1/namespaces/ml/replicasets/web-1", 403, "may not get replicasets")
    refused = act(kubeconfig, "cancel", "ml/train", "--yes")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "muster cancel: the API server refuses: may not get replicasets\n",
    )
    assert changes(server) == []


def test_a_gang_is_moved_to_another_queue(server: Script, kubeconfig: Path) -> None:
    """By the label of its object, which then is the only one that says so; the Queue has to be there."""
    annotated = {"name": "train", "namespace": "ml", "uid": "1", "annotations": {"muster.dev/queue": "old"}}
    answer(server, NATIVE, {"metadata": annotated})
    answer(server, PODS, {"items": []})
    refused = act(kubeconfig, "move", "ml/train", "--queue", "research")
    assert (refused.exit_code, refused.stderr) == (1, "muster move: no Queue is called research\n")
    answer(server, "/apis/muster.dev/v1alpha1/queues/research", {"metadata": {"name": "research"}})
    done = act(kubeconfig, "move", "ml/train", "--queue", "research")
    assert done.stdout == "podgroup.scheduling.k8s.io/train moved to Queue research\n", done.stderr
    labels = {"labels": {"muster.dev/queue": "research"}, "annotations": {"muster.dev/queue": None}}
    assert json.loads(server.bodies[-1]) == {"metadata": labels}
    refuse(server, "/apis/muster.dev/v1alpha1/queues/research", 403, "may not get queues")
    assert act(kubeconfig, "move", "ml/train", "--queue", "research").exit_code == 0
    assert act(kubeconfig, "move", "ml/train", "--queue", "node/gpu-1").exit_code == 2


def test_a_node_is_stopped_drained_and_resumed(server: Script, kubeconfig: Path) -> None:
    """It is cordoned; the taint by which Muster drains it is the only one that is added, and taken off again."""
    path = "/api/v1/nodes/gpu-1"
    others = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    drained = [*others, {"key": "muster.dev/drain", "effect": "NoSchedule"}]
    answer(server, path, {"metadata": {"name": "gpu-1", "resourceVersion": "7"}, "spec": {"taints": others}})
    assert act(kubeconfig, "stop", "node/gpu-1").stdout == "node/gpu-1 cordoned\n"
    assert json.loads(server.bodies[-1]) == {"spec": {"unschedulable": True}}
    done = act(kubeconfig, "drain", "node/gpu-1")
    assert done.stdout == "node/gpu-1 cordoned, and its gangs are moved off it\n", done.stderr
    version = {"metadata": {"resourceVersion": "7"}}
    assert json.loads(server.bodies[-1]) == version | {"spec": {"unschedulable": True, "taints": drained}}
    answer(server, path, {"metadata": {"name": "gpu-1", "resourceVersion": "7"}, "spec": {"taints": drained}})
    assert act(kubeconfig, "resume", "node/gpu-1").stdout == "node/gpu-1 uncordoned\n"
    assert json.loads(server.bodies[-1]) == version | {"spec": {"unschedulable": None, "taints": others}}
    refused = act(kubeconfig, "stop", "pod/gpu-1")
    assert (refused.exit_code, "neither QUEUE nor node/NAME" in refused.stderr) == (2, True)
