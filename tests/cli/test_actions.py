"""What actions send to the API server, and what they refuse by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from extender.cli.commands import app
from tests.cli.conftest import Script

NATIVE = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/train"
PODS = "/api/v1/namespaces/ml/pods"


def answer(server: Script, path: str, document: dict[str, Any]) -> None:
    """Have the API server answer with a document."""
    server.answers[path] = (200, json.dumps(document).encode())


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
    server.answers[PODS] = (403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no pods"}')
    refused = act(kubeconfig, "hold", "ml/train")
    assert (refused.exit_code, refused.stderr) == (1, "muster hold: the API server refuses: no pods\n")
