"""Plain Jobs in labelled namespaces, and who may use which Queue and PriorityClass: the API server's own policies."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from localcluster.client import EVENTS, JOBS, NAMESPACES, PODS, ApiClient, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.errors import ApiError
from localcluster.manifests import MANIFESTS, apply_all
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.programs import Binary
from localcluster.sandbox import Sandbox
from tests.controlplane.test_reclaim import queue
from tests.docs.conftest import ROOT, Page
from tests.patience import HANGS

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

CRON_JOBS = Resource("batch/v1", "CronJob", "cronjobs", namespaced=True)
PAGE = ROOT / "docs" / "onboarding.md"
LABEL = {"muster.dev/manage-jobs": "true"}
USERS = {"muster.dev/user", "muster.dev/group"}


def component(name: str) -> list[JsonObject]:
    """Return the objects of a component of the manifests."""
    return [
        item
        for file in sorted((MANIFESTS / "components" / name).glob("*.yaml"))
        for item in yaml.safe_load_all(file.read_text("utf-8"))
        if item["kind"] != "Component"
    ]


def plain_job(name: str, namespace: str, pods: int = 4, **spec: Any) -> JsonObject:
    """Return an Indexed Job that says nothing about Muster; each of its pods asks for a GPU."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {GPU: "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    told = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": told | spec,
    }


def in_force(probe: Callable[[], bool]) -> None:
    """Wait until a policy that was just applied does what `probe` looks for: the API server reads it with a delay."""
    deadline = time.monotonic() + 30
    while not probe():
        assert time.monotonic() < deadline, "the policy is not in force"
        time.sleep(0.1)


def tried(api: ApiClient, item: JsonObject) -> JsonObject:
    """Return an object as the API server would store it."""
    path = api.resource_of(item).path(item["metadata"]["namespace"])
    return api.request("POST", path, body=item, query={"dryRun": "All"})


def refused(api: ApiClient, item: JsonObject) -> str:
    """Return why the API server refuses an object, "" if it takes it."""
    try:
        tried(api, item)
    except ApiError as error:
        return str(error)
    return ""


def delete_each(api: ApiClient, items: list[JsonObject]) -> None:
    """Delete objects without a namespace, those that are there."""
    for item in items:
        with contextlib.suppress(ApiError):
            api.delete(api.resource_of(item), item["metadata"]["name"])


def taken_over(api: ApiClient, namespace: str) -> bool:
    """Return whether a plain Job would become a gang."""
    return bool(tried(api, plain_job("probe", namespace))["spec"]["suspend"])


def withdraw(api: ApiClient, namespace: str) -> None:
    """Remove the policies, and wait until they do nothing more in a namespace."""
    delete_each(api, component("onboarding"))
    in_force(lambda: not taken_over(api, namespace))


@pytest.fixture
def team(device_local_cluster: LocalCluster, device_cluster: Sandbox) -> Iterator[str]:
    """Return a namespace with the one label, where Jobs are taken over."""
    api = device_local_cluster.admin
    apply_all(api, component("onboarding"))
    with device_cluster.namespace("team-a") as namespace:
        api.patch(NAMESPACES, namespace, {"metadata": {"labels": LABEL}})
        in_force(lambda: taken_over(api, namespace))
        yield namespace
        for job in api.list_items(JOBS, namespace):
            api.delete(JOBS, job["metadata"]["name"], namespace)
        api.delete_all(PODS, namespace)
        withdraw(api, namespace)


def test_a_plain_job_is_a_gang_and_starts_whole(device_cluster: Sandbox, team: str, device_muster: Server) -> None:
    """Two Jobs of four pods on a node for six: each runs whole, one after the other, and no pod waits."""
    api = device_cluster.api
    device_cluster.nodes(1, gpus=6)
    for name in ("first", "second"):
        api.create(plain_job(name, team))

    def running() -> list[str]:
        live = [pod for pod in api.list_items(PODS, team) if pod["status"].get("phase") == "Running"]
        return [pod["metadata"]["labels"]["job-name"] for pod in live]

    device_cluster.wait_until(lambda: len(running()) == 4, "one of them runs", 30)
    (first,) = set(running())
    (second,) = {"first", "second"} - {first}
    assert device_cluster.stays_true(lambda: len(api.list_items(PODS, team)) == 4, 1.0)
    assert api.get(JOBS, second, team)["spec"]["suspend"]
    for pod in api.list_items(PODS, team):
        done = {"status": {"phase": "Succeeded"}}
        api.patch(PODS, pod["metadata"]["name"], done, namespace=team, subresource="status")
    device_cluster.wait_until(lambda: running() == [second] * 4, "the other runs", 30)
    device_muster.check()


def test_the_pages_three_commands_start_a_gang(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, device_muster: Server
) -> None:
    """They are run as they stand there, but for a wait until the policy is in force."""
    api, page = device_cluster.api, Page(PAGE, PAGE.read_text("utf-8"))
    commands = page.blocks[0].text.splitlines()
    assert (page.blocks[0].language, len(commands)) == ("sh", 3)
    device_cluster.nodes(1, gpus=4)
    try:
        for command in commands:
            program, *words = command.split()
            assert program == "kubectl"
            if "create" in words:
                in_force(lambda: taken_over(api, "default"))
            binary = str(device_local_cluster.binaries[Binary.KUBECTL])
            kubectl = [binary, f"--kubeconfig={device_local_cluster.admin_kubeconfig}", *words]
            done = subprocess.run(kubectl, check=False, capture_output=True, text=True, cwd=ROOT, timeout=HANGS)
            assert done.returncode == 0, done.stderr
        device_cluster.wait_until(
            lambda: [pod["status"].get("phase") for pod in api.list_items(PODS, "default")] == ["Running"] * 4,
            "the gang runs",
            30,
        )
        device_muster.check()
    finally:
        with contextlib.suppress(ApiError):
            api.delete(JOBS, "train", "default")
        withdraw(api, "default")
        api.patch(NAMESPACES, "default", {"metadata": {"labels": {"muster.dev/manage-jobs": None}}})


def test_what_a_job_says_itself_counts(device_cluster: Sandbox, team: str) -> None:
    """Another scheduler, a PodGroup, a queue, pods that do not know of each other, parts of other objects."""
    api = device_cluster.api
    api.patch(NAMESPACES, team, {"metadata": {"labels": {"muster.dev/queue": "team-a"}}})

    def seen(**spec: Any) -> tuple[str, bool, dict[str, str], dict[str, str]]:
        metadata, template = spec.pop("metadata", {}), spec.pop("template", {})
        job = plain_job("job", team, **spec)
        job["metadata"] |= metadata
        job["spec"]["template"]["metadata"] = template.pop("metadata", {})
        job["spec"]["template"]["spec"] |= template
        stored = tried(api, job)
        pod = stored["spec"]["template"]
        said, own = (
            {key: value for key, value in (about or {}).items() if "muster.dev" in key and key not in USERS}
            for about in (stored["metadata"].get("labels"), pod["metadata"].get("annotations"))
        )
        return pod["spec"]["schedulerName"], stored["spec"]["suspend"], said, own

    named = {"muster.dev/queue": "team-a"}
    in_force(lambda: seen() == ("muster", True, named, {}))
    assert seen(template={"schedulerName": "other"}) == ("other", False, {}, {})
    assert seen(metadata={"labels": {"muster.dev/queue": "b"}}) == ("muster", True, {"muster.dev/queue": "b"}, {})
    assert seen(metadata={"labels": {"muster.dev/manage-jobs": "false"}})[:2] == ("default-scheduler", False)
    assert seen(completionMode="NonIndexed") == ("muster", False, {}, named)
    assert seen(completionMode="NonIndexed", suspend=True) == ("muster", True, {}, named)
    assert seen(completions=1, parallelism=1) == ("muster", False, {}, named)
    group = {"scheduling.x-k8s.io/pod-group": "train"}
    assert seen(template={"metadata": {"labels": group}}) == ("muster", False, {}, {})
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "1", "controller": True}
    assert seen(metadata={"ownerReferences": [owner]}) == ("muster", False, {}, named)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "1", "controller": True}
    assert seen(metadata={"ownerReferences": [owner]}) == ("muster", True, named, {})
    with device_cluster.namespace("others") as others:
        assert not tried(api, plain_job("job", others))["spec"]["suspend"]


def test_pods_of_operators_are_taken_and_those_of_services_are_not(device_cluster: Sandbox, team: str) -> None:
    """A PyTorchJob's and a Ray cluster's pods; not a DaemonSet's, a Deployment's, or one without a controller."""
    api = device_cluster.api

    def scheduler(api_version: str, kind: str) -> str:
        owner = {"apiVersion": api_version, "kind": kind, "name": "it", "uid": "1", "controller": True}
        spec = {"containers": [{"name": "worker", "image": "worker"}]}
        metadata = {"name": "pod", "namespace": team} | ({"ownerReferences": [owner]} if kind else {})
        stored = tried(api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return str(stored["spec"]["schedulerName"])

    in_force(lambda: scheduler("kubeflow.org/v1", "PyTorchJob") == "muster")
    assert scheduler("ray.io/v1", "RayCluster") == "muster"
    for api_version, kind in (
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("", ""),
    ):
        assert scheduler(api_version, kind) == "default-scheduler"


@pytest.fixture
def access(device_local_cluster: LocalCluster, device_cluster: Sandbox) -> Iterator[str]:
    """Return a namespace in which ada may use the Queue team-a and the PriorityClass urgent, and ben neither."""
    api = device_local_cluster.admin
    rights = [
        *component("access"),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "create-work"},
            "rules": [
                {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": ["create", "update", "patch"]},
                {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups"], "verbs": ["create", "patch"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "patch"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "use-team-a"},
            "rules": [
                {"apiGroups": ["muster.dev"], "resources": ["queues"], "resourceNames": ["team-a"], "verbs": ["use"]},
                {
                    "apiGroups": ["scheduling.k8s.io"],
                    "resources": ["priorityclasses"],
                    "resourceNames": ["urgent"],
                    "verbs": ["use"],
                },
            ],
        },
    ]
    with device_cluster.namespace("team-a") as namespace, device_cluster.namespace("team-b") as other:
        for where, role, who in (
            (namespace, "create-work", ("ada", "ben")),
            (namespace, "use-team-a", ("ada",)),
            (other, "create-work", ("ada",)),
        ):
            rights.append(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": {"name": role, "namespace": where},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace} for name in who],
                }
            )
        for name in ("ada", "ben"):
            about = {"name": name, "namespace": namespace}
            api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
        apply_all(api, rights)
        device_cluster.create(queue("team-a"))
        device_cluster.priority_class("urgent", 1000)
        yield namespace
    delete_each(api, [item for item in rights if item["kind"] != "RoleBinding"])


def test_who_may_use_which_queue_and_priority_rbac_says(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, access: str
) -> None:
    """Two people in one namespace: what the one may the other may not, and elsewhere neither may."""
    with contextlib.ExitStack() as closing:
        ada, ben = (
            closing.enter_context(ApiClient(device_local_cluster.service_account(name, access)))
            for name in ("ada", "ben")
        )
        _check_access(device_cluster.api, access, ada, ben)


def _check_access(admin: ApiClient, access: str, ada: ApiClient, ben: ApiClient) -> None:
    def job(where: str = "metadata", **pod: Any) -> JsonObject:
        made = plain_job("job", access)
        made["spec"]["template"]["spec"] |= {"schedulerName": "muster"} | pod
        target = made if where == "metadata" else made["spec"]["template"]
        if where:
            kind = "annotations" if where == "template" else "labels"
            target["metadata"] = target.get("metadata", {}) | {kind: {"muster.dev/queue": "team-a"}}
        return made

    in_force(lambda: "may not use the Queue team-a in the namespace team-a" in refused(ben, job()))
    in_force(lambda: "PriorityClass urgent" in refused(ben, job("", priorityClassName="urgent")))
    assert refused(ada, job(priorityClassName="urgent")) == ""
    assert refused(ben, job("")) == ""
    assert "may not use the Queue" in refused(ben, job("template"))
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": access, "labels": {"muster.dev/queue": "team-a"}},
        "spec": {"minMember": 2},
    }
    assert refused(ada, group) == ""
    assert "may not use the Queue" in refused(ben, group)
    elsewhere = job()
    elsewhere["metadata"]["namespace"] = "team-b"
    assert "may not use the Queue team-a in the namespace team-b" in refused(ada, elsewhere)
    # One may not be moved into a Queue; what is in one may be changed by all who may.
    nightly = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("")["spec"]}}
    about = {"name": "nightly", "namespace": access}
    ben.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": about, "spec": nightly})
    moved = {"spec": {"jobTemplate": {"metadata": {"labels": {"muster.dev/queue": "team-a"}}}}}
    with pytest.raises(ApiError, match="may not use the Queue"):
        ben.patch(CRON_JOBS, "nightly", moved, namespace=access)
    ada.patch(CRON_JOBS, "nightly", moved, namespace=access)
    ben.patch(CRON_JOBS, "nightly", {"spec": {"schedule": "0 4 * * *"}}, namespace=access)
    admin.delete(CRON_JOBS, "nightly", access)
    # What the namespace names is for all who may create pods there.
    label = {"metadata": {"labels": {"muster.dev/queue": "team-a"}}}
    admin.patch(NAMESPACES, access, label)
    in_force(lambda: refused(ben, job()) == "")


def test_a_queue_limits_what_one_user_runs_by_who_created_the_job(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, team: str, device_muster: Server
) -> None:
    """Two of eva's Jobs one after the other, though there is room, and tom's beside them, whatever their pods say."""
    api = device_cluster.api
    device_cluster.create(queue("team-a", 64, perUser={"maxRunningGPUs": 4}))
    api.patch(NAMESPACES, team, {"metadata": {"labels": {"muster.dev/queue": "team-a"}}})
    rights: list[JsonObject] = [
        {"rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}], "kind": "Role"},
        {
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "create"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": team} for name in ("eva", "tom")],
        },
    ]
    for name in ("eva", "tom"):
        api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": team}})
    for each in rights:
        about = {"name": "create", "namespace": team}
        api.create({"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": about} | each)
    device_cluster.nodes(2, gpus=8)

    def job(name: str) -> JsonObject:
        made = plain_job(name, team)
        made["spec"]["template"]["metadata"] = {"labels": {"muster.dev/user": "nobody"}}
        return made

    def running() -> set[str]:
        live = [pod for pod in api.list_items(PODS, team) if pod["status"].get("phase") == "Running"]
        return {pod["metadata"]["labels"]["job-name"] for pod in live}

    def told(name: str) -> list[str]:
        events = api.list_items(EVENTS, team)
        return [each["reason"] for each in events if each["regarding"]["name"] == name]

    with contextlib.ExitStack() as closing:
        eva, tom = (
            closing.enter_context(ApiClient(device_local_cluster.service_account(name, team)))
            for name in ("eva", "tom")
        )
        in_force(lambda: not refused(eva, job("probe")))
        eva.create(job("first"))
        device_cluster.wait_until(lambda: running() == {"first"}, "the first runs", 30)
        eva.create(job("second"))
        tom.create(job("other"))
    device_cluster.wait_until(lambda: running() == {"first", "other"}, "another user's runs", 30)
    device_cluster.wait_until(lambda: "RunningLimitReached" in told("second"), "the second says why it waits", 30)
    users = {pod["metadata"]["labels"]["muster.dev/user"] for pod in api.list_items(PODS, team)}
    assert users == {f"system.serviceaccount.{team}.{name}" for name in ("eva", "tom")}
    pod = api.list_items(PODS, team)[0]["metadata"]["name"]
    with pytest.raises(ApiError, match="stay as they were set"):
        api.patch(PODS, pod, {"metadata": {"labels": {"muster.dev/user": "tom"}}}, namespace=team)
    for each in api.list_items(PODS, team, labelSelector="job-name=first"):
        done = {"status": {"phase": "Succeeded"}}
        api.patch(PODS, each["metadata"]["name"], done, namespace=team, subresource="status")
    device_cluster.wait_until(lambda: running() == {"second", "other"}, "the second runs when the first has ended", 30)
    device_muster.check()
