"""What people do about gangs and Queues from the command line, with their own rights, on the real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from localcluster.client import JOBS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.test_onboarding import plain_job
from tests.controlplane.test_reclaim import queue

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

#: Runs `muster` as somebody, and returns what comes of it.
Run = Callable[..., Result]


@pytest.fixture
def run(device_local_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `muster` with all rights."""
    monkeypatch.setenv("NO_COLOR", "1")
    kubeconfig = str(device_local_cluster.admin_kubeconfig)

    def act(*words: str, kubeconfig: str = kubeconfig, typed: str = "") -> Result:
        return CliRunner().invoke(app, [*words, "--kubeconfig", kubeconfig], input=typed)

    return act


def done(result: Result) -> list[str]:
    """Return the lines of a command that has done its work."""
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.fixture
def jobs(device_cluster: Sandbox) -> Iterator[str]:
    """Return a namespace whose Jobs Muster resumes."""
    device_cluster.create(queue("team"))
    with device_cluster.namespace("acting") as namespace:
        device_cluster.api.patch(NAMESPACES, namespace, {"metadata": {"labels": {"muster.dev/manage-jobs": "true"}}})
        yield namespace
        for job in device_cluster.api.list_items(JOBS, namespace):
            device_cluster.api.delete(JOBS, job["metadata"]["name"], namespace)
        device_cluster.api.delete_all(PODS, namespace)


def job(namespace: str, name: str = "train", **spec: Any) -> JsonObject:
    """Return a suspended Job in a queue."""
    made = plain_job(name, namespace, suspend=True, **spec)
    made["metadata"]["labels"] = {"muster.dev/queue": "team"}
    made["spec"]["template"]["spec"]["schedulerName"] = "muster"
    return made


def group(namespace: str) -> JsonObject:
    """Return a PodGroup of four."""
    about = {"name": "g", "namespace": namespace}
    return {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": about, "spec": {"minMember": 4}}


def member_job(namespace: str) -> JsonObject:
    """Return a Job whose pods name it."""
    made = plain_job("worker", namespace, backoffLimit=100)
    made["spec"]["template"]["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    made["spec"]["template"]["spec"]["schedulerName"] = "muster"
    return made


def test_a_held_gang_starts_when_it_is_released(
    device_cluster: Sandbox, device_muster: Server, jobs: str, run: Run
) -> None:
    """A dry run holds nothing; the reason is the gang's while it is held."""
    api = device_cluster.api
    device_cluster.nodes(1, gpus=4)
    api.create(group(jobs))
    called = "podgroup.scheduling.x-k8s.io/g"
    assert done(run("hold", f"{jobs}/g", "--dry-run", "client")) == [f"{called} held (dry run)"]
    assert done(run("hold", f"{jobs}/g", "--dry-run", "server")) == [f"{called} held (server dry run)"]
    assert "annotations" not in api.get(POD_GROUPS, "g", jobs)["metadata"]
    assert done(run("hold", f"{jobs}/g")) == [f"{called} held"]
    api.create(member_job(jobs))

    def reasons() -> list[str]:
        told = api.get(POD_GROUPS, "g", jobs).get("status", {}).get("conditions") or ()
        return [each["reason"] for each in told if each["status"] == "False"]

    def bound() -> int:
        return sum(1 for pod in api.list_items(PODS, jobs) if pod["spec"].get("nodeName"))

    device_cluster.wait_until(lambda: reasons() == ["Held"] and len(api.list_items(PODS, jobs)) == 4, "it is held", 20)
    assert device_cluster.stays_true(lambda: not bound(), 1.0)
    assert done(run("release", f"{jobs}/g")) == [f"{called} released"]
    device_cluster.wait_until(lambda: bound() == 4, "it starts", 20)
    device_muster.check()


def test_a_job_that_is_requeued_waits_while_it_is_held_and_goes_when_it_is_cancelled(
    device_cluster: Sandbox, device_muster: Server, jobs: str, run: Run
) -> None:
    """It is suspended again, and not resumed before it is released; cancelled, nothing of it is left."""
    api = device_cluster.api
    device_cluster.nodes(1, gpus=4)
    api.create(job(jobs))

    def running() -> int:
        return sum(1 for pod in api.list_items(PODS, jobs) if pod["status"].get("phase") == "Running")

    device_cluster.wait_until(lambda: running() == 4, "it runs", 30)
    assert done(run("hold", f"{jobs}/train")) == ["job.batch/train held"]
    assert device_cluster.stays_true(lambda: running() == 4, 1.0)
    assert run("requeue", f"{jobs}/train", typed="n\n").exit_code == 1
    assert done(run("requeue", f"{jobs}/train", "--yes")) == ["job.batch/train suspended"]
    device_cluster.wait_until(lambda: not api.list_items(PODS, jobs), "its pods go", 30)
    assert device_cluster.stays_true(lambda: bool(api.get(JOBS, "train", jobs)["spec"]["suspend"]), 2.0)
    done(run("release", f"{jobs}/train"))
    device_cluster.wait_until(lambda: running() == 4, "it runs again", 30)
    told = run("cancel", f"{jobs}/train", typed="y\n")
    assert "has 4 pods. To be deleted: job.batch/train" in done(told)[0]
    device_cluster.wait_until(lambda: not api.list_items(PODS, jobs), "nothing is left", 30)
    missing = run("cancel", f"{jobs}/train", "--yes")
    assert missing.exit_code == 1
    assert "are a gang acting/train" in missing.stderr
    device_muster.check()


def test_pods_of_a_pod_group_are_evicted_or_go_with_what_made_them(
    device_cluster: Sandbox, device_muster: Server, jobs: str, run: Run
) -> None:
    """The Job makes new ones, which wait as the gang does; cancel deletes Job and PodGroup."""
    api = device_cluster.api
    device_cluster.nodes(1, gpus=4)
    api.create(group(jobs))
    api.create(member_job(jobs))

    def bound() -> set[str]:
        return {pod["metadata"]["uid"] for pod in api.list_items(PODS, jobs) if pod["spec"].get("nodeName")}

    device_cluster.wait_until(lambda: len(bound()) == 4, "it runs", 30)
    first = bound()
    assert len(done(run("requeue", f"{jobs}/g", "--dry-run", "server"))) == 4
    assert device_cluster.stays_true(lambda: bound() == first, 1.0)
    assert len(done(run("requeue", f"{jobs}/g", "-y"))) == 4
    device_cluster.wait_until(lambda: len(bound() - first) == 4, "new ones run", 30)
    assert done(run("cancel", f"{jobs}/g", "--yes", "--dry-run", "server")) == [
        "job.batch/worker deleted (server dry run)",
        "podgroup.scheduling.x-k8s.io/g deleted (server dry run)",
    ]
    assert len(bound()) == 4
    done(run("cancel", f"{jobs}/g", "--yes"))
    device_cluster.wait_until(lambda: not api.list_items(PODS, jobs), "nothing is left", 30)
    assert not api.list_items(POD_GROUPS, jobs)
    device_muster.check()


def test_a_queue_is_stopped_and_resumed(device_cluster: Sandbox, jobs: str, run: Run) -> None:
    """Its stopPolicy says so; a name that no Queue has is refused."""
    for words, policy in ((["stop"], "Hold"), (["stop", "--drain"], "HoldAndDrain"), (["resume"], "None")):
        assert done(run(*words, "team")) == [f"queue.muster.dev/team has stopPolicy {policy}"]
        assert device_cluster.api.get(QUEUES, "team")["spec"]["stopPolicy"] == policy
    assert (run("stop", "other").exit_code, run("stop", "a/b").exit_code) == (1, 2)
    assert jobs


def test_a_gang_that_waits_is_moved_to_a_queue_that_has_quota(
    device_cluster: Sandbox, device_muster: Server, jobs: str, run: Run
) -> None:
    """It starts there; a dry run moves nothing."""
    api = device_cluster.api
    device_cluster.create(queue("small", 2))
    device_cluster.create(queue("large", 8))
    device_cluster.nodes(1, gpus=8)
    made = job(jobs)
    made["metadata"]["labels"] = {"muster.dev/queue": "small"}
    api.create(made)
    moved = "job.batch/train moved to Queue large"
    assert done(run("move", f"{jobs}/train", "--queue", "large", "--dry-run", "server")) == [
        f"{moved} (server dry run)"
    ]
    assert device_cluster.stays_true(lambda: not api.list_items(PODS, jobs), 1.0)
    assert run("move", f"{jobs}/train", "--queue", "none").exit_code == 1
    assert done(run("move", f"{jobs}/train", "--queue", "large")) == [moved]

    def running() -> int:
        return sum(1 for pod in api.list_items(PODS, jobs) if pod["status"].get("phase") == "Running")

    device_cluster.wait_until(lambda: running() == 4, "it runs", 30)
    device_muster.check()


def test_a_node_is_drained_of_its_gangs_and_resumed(
    device_cluster: Sandbox, device_muster: Server, jobs: str, run: Run
) -> None:
    """Its members go where their places are kept; the node takes pods again when it is resumed."""
    api = device_cluster.api
    names = device_cluster.nodes(2, gpus=4)
    api.create(group(jobs))
    api.create(member_job(jobs))

    def at() -> list[str]:
        pods = api.list_items(PODS, jobs)
        return [str(pod["spec"].get("nodeName")) for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    device_cluster.wait_until(lambda: len(at()) == 4 and len(set(at())) == 1 and "None" not in at(), "it runs", 30)
    (first,) = set(at())
    assert first in names
    assert done(run("stop", f"node/{first}")) == [f"node/{first} cordoned"]
    assert device_cluster.stays_true(lambda: set(at()) == {first}, 1.0)
    assert done(run("drain", f"node/{first}")) == [f"node/{first} cordoned, and its gangs are moved off it"]
    device_cluster.wait_until(lambda: set(at()) == set(names) - {first} and len(at()) == 4, "it runs elsewhere", 60)
    assert done(run("resume", f"node/{first}")) == [f"node/{first} uncordoned"]
    spec = api.get(NODES, first)["spec"]
    assert not spec.get("unschedulable")
    assert "muster.dev/drain" not in {taint["key"] for taint in spec.get("taints") or ()}
    device_muster.check()


def test_rights_are_the_callers_own(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, jobs: str, run: Run, tmp_path: Path
) -> None:
    """Somebody who may only look is refused in the API server's words, and nothing has changed."""
    api = device_cluster.api
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": jobs}})
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    api.create(role | {"metadata": {"name": "look", "namespace": jobs}, "rules": rules})
    binding = {"metadata": {"name": "look", "namespace": jobs}, "roleRef": {"kind": "Role", "name": "look"}}
    binding["roleRef"]["apiGroup"] = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": jobs}
    api.create(role | {"kind": "RoleBinding"} | binding | {"subjects": [subject]})
    api.create(job(jobs))
    viewer = device_local_cluster.service_account("viewer", jobs).write_kubeconfig(tmp_path / "viewer")
    for words in (["hold"], ["cancel", "--yes"], ["hold", "--dry-run", "server"]):
        refused = run(*words, f"{jobs}/train", kubeconfig=str(viewer))
        assert refused.exit_code == 1
        assert 'User "system:serviceaccount:acting:viewer" cannot' in refused.stderr
    assert "annotations" not in api.get(JOBS, "train", jobs)["metadata"]
    assert done(run("hold", f"{jobs}/train", "--dry-run=client", kubeconfig=str(viewer)))
    refused = run("stop", "team", kubeconfig=str(viewer))
    assert refused.exit_code == 1
    assert "cannot get resource" in refused.stderr


def test_the_priority_of_pods_cannot_change(device_cluster: Sandbox, jobs: str, run: Run) -> None:
    """The command says what to do instead."""
    device_cluster.api.create(job(jobs))
    refused = run("priority", f"{jobs}/train", "urgent")
    assert refused.exit_code == 1
    assert "submit it again with priorityClassName: urgent" in refused.stderr
