"""Suspended objects with their real controllers: no pods before there is a place, and none too early, twice or lost.

Jobs, PyTorchJobs of the training operator, and JobSets. The latter two's controllers are built by the nightly tests.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from extender.objects.jobsigns import EVICTION_ACKNOWLEDGED, EVICTION_PLANNED
from extender.objects.keys import EVICTION_NOTICE
from localcluster.build import ensure_binaries
from localcluster.client import EVENTS, JOBS, NAMESPACES, PODS, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.manifests import apply_all
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.programs import OPERATOR_BINARIES
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import muster_starter
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.test_facts import remove
from tests.controlplane.test_reclaim import queue

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]

QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas", namespaced=True)
NAMESPACE = "suspended"


def indexed(pods: int, template: JsonObject) -> JsonObject:
    """Return the spec of an Indexed Job."""
    return {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template}


def pytorch(pods: int, template: JsonObject) -> JsonObject:
    """Return the spec of a PyTorchJob whose pods stay when it ends."""
    specs = {
        name: {"replicas": count, "restartPolicy": "Never", "template": template}
        for name, count in (("Master", 1), ("Worker", pods - 1))
    }
    return {"runPolicy": {"suspend": True, "cleanPodPolicy": "None"}, "pytorchReplicaSpecs": specs}


def job_set(pods: int, template: JsonObject) -> JsonObject:
    """Return the spec of a JobSet of two Jobs, with what its webhook fills in."""
    job = {"name": "workers", "replicas": 2, "groupName": "default", "template": {"spec": indexed(pods // 2, template)}}
    return {
        "suspend": True,
        "replicatedJobs": [job],
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": False, "publishNotReadyAddresses": True},
    }


@dataclass(frozen=True, slots=True)
class Suspended:
    """A kind whose objects can be suspended: the label by which their pods are called after them, and their specs."""

    resource: Resource
    label: str
    spec: Callable[[int, JsonObject], JsonObject]


KINDS = {
    "Job": Suspended(JOBS, "job-name", lambda pods, template: {"suspend": True} | indexed(pods, template)),
    "PyTorchJob": Suspended(
        Resource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", namespaced=True),
        "training.kubeflow.org/job-name",
        pytorch,
    ),
    "JobSet": Suspended(
        Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", namespaced=True),
        "jobset.sigs.k8s.io/jobset-name",
        job_set,
    ),
}


class Jobs:
    """Objects of one kind in one namespace that has opted in."""

    def __init__(self, cluster: Sandbox, namespace: str, kind: str = "Job") -> None:
        self.cluster, self.namespace, self.kind = cluster, namespace, KINDS[kind]

    def create(self, name: str, pods: int = 4, **more: Any) -> None:
        """Create a suspended object whose pods ask for a GPU each; `pod` and `annotations` are of these pods."""
        container = {"name": "pytorch", "image": "worker", "resources": {"limits": {GPU: "1"}}}
        template: JsonObject = {"metadata": {"annotations": more.pop("annotations", {})}}
        template["spec"] = {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]}
        template["spec"] |= more.pop("pod", {})
        metadata = {"name": name, "namespace": self.namespace, "labels": {"muster.dev/queue": "team"}}
        manifest = {"apiVersion": self.kind.resource.api_version, "kind": self.kind.resource.kind, "metadata": metadata}
        self.cluster.api.create(manifest | {"spec": self.kind.spec(pods, template) | more})

    def delete(self, name: str) -> None:
        """Delete an object."""
        self.cluster.api.delete(self.kind.resource, name, self.namespace)

    def get(self, name: str) -> JsonObject:
        """Return an object."""
        return self.cluster.api.get(self.kind.resource, name, self.namespace)

    def suspended(self, name: str) -> bool:
        """Return whether an object is suspended."""
        spec = self.get(name)["spec"]
        return bool(spec.get("runPolicy", spec)["suspend"])

    def pods(self, name: str = "") -> list[dict[str, Any]]:
        """Return the pods of a Job, or of all."""
        found = self.cluster.api.list_items(PODS, self.namespace)
        return [pod for pod in found if not name or pod["metadata"]["labels"][self.kind.label] == name]

    def running(self, name: str) -> int:
        """Count the pods of a Job that run."""
        return sum(1 for pod in self.pods(name) if pod["status"].get("phase") == "Running")

    def wait_running(self, name: str, pods: int = 4, timeout: float = 30) -> float:
        """Wait until all pods of a Job run."""
        return self.cluster.wait_until(lambda: self.running(name) == pods, f"{name} runs", timeout)

    def messages(self, name: str) -> list[str]:
        """Return `Reason: note` of the Events about a Job."""
        uid = self.get(name)["metadata"]["uid"]
        events = self.cluster.api.list_items(EVENTS, self.namespace)
        return [f"{each['reason']}: {each.get('note')}" for each in events if each["regarding"].get("uid") == uid]

    def wait_message(self, name: str, start: str, timeout: float = 30) -> None:
        """Wait for an Event about a Job."""
        self.cluster.wait_until(
            lambda: any(each.startswith(start) for each in self.messages(name)), f"{name} says {start}", timeout
        )

    def finish(self, name: str) -> None:
        """Let all pods of a Job succeed."""
        for pod in self.cluster.api.list_items(PODS, self.namespace, labelSelector=f"{self.kind.label}={name}"):
            patch = {"status": {"phase": "Succeeded"}}
            self.cluster.api.patch(PODS, pod["metadata"]["name"], patch, namespace=self.namespace, subresource="status")


@pytest.fixture(scope="module")
def operators(device_local_cluster: LocalCluster) -> Iterator[None]:
    """Run the controllers of the training operator and of JobSet."""
    programs = ensure_binaries(OPERATOR_BINARIES)
    definitions = [
        each for each in foreign_definitions() if each["spec"]["group"] in {"kubeflow.org", "jobset.x-k8s.io"}
    ]
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            properties = version["schema"]["openAPIV3Schema"]["properties"]
            properties |= {"spec": anything, "status": anything}
            version["subresources"] = {"status": {}}
    apply_all(device_local_cluster.admin, definitions)
    servers = [device_local_cluster.operator(program) for program in programs.values()]
    for server in servers:
        server.start()
    yield
    for server in servers:
        server.kill()
    remove(device_local_cluster.admin, definitions)


@pytest.fixture(params=["Job", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("PyTorchJob", "JobSet"))])
def jobs(device_cluster: Sandbox, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Return the objects of each kind in a namespace that has opted in, whose queue has no quota."""
    if request.param != "Job":
        request.getfixturevalue("operators")
    device_cluster.create(queue("team"))
    with device_cluster.namespace(NAMESPACE) as namespace:
        labels = {"metadata": {"labels": {"muster.dev/manage-jobs": "true"}}}
        device_cluster.api.patch(NAMESPACES, namespace, labels)
        found = Jobs(device_cluster, namespace, request.param)
        yield found
        for resource in dict.fromkeys((found.kind.resource, JOBS)):
            for job in device_cluster.api.list_items(resource, namespace):
                with contextlib.suppress(Exception):
                    device_cluster.api.delete(resource, job["metadata"]["name"], namespace)
        device_cluster.api.delete_all(PODS, namespace)


def test_jobs_start_one_after_the_other_and_no_pod_waits(jobs: Jobs, device_muster: Server) -> None:
    """Of three Jobs that each need all GPUs one has pods at a time, and the others say why they wait."""
    jobs.cluster.nodes(1, gpus=4)
    waiting, most = ["a", "b", "c"], 0
    for name in waiting:
        jobs.create(name)
    while waiting:
        jobs.cluster.wait_until(lambda: any(jobs.running(name) == 4 for name in waiting), "one of them runs", 30)
        most = max(most, len([pod for pod in jobs.pods() if pod["status"].get("phase") != "Succeeded"]))
        first = next(name for name in waiting if jobs.running(name) == 4)  # of one second, so in any order
        waiting.remove(first)
        for name in waiting:
            jobs.wait_message(name, "InsufficientCapacity")
            assert jobs.suspended(name)
        jobs.finish(first)
    assert most == 4
    device_muster.check()


def test_other_namespaces_are_left_alone(jobs: Jobs, device_muster: Server) -> None:
    """A namespace without the label keeps its suspended Jobs as they are."""
    jobs.cluster.nodes(1, gpus=8)
    with jobs.cluster.namespace("other") as namespace:
        others = Jobs(jobs.cluster, namespace, jobs.kind.resource.kind)
        others.create("theirs")
        jobs.create("ours")
        jobs.wait_running("ours")
        assert others.suspended("theirs")
        others.delete("theirs")
    device_muster.check()


def test_a_job_of_higher_priority_has_another_suspended(jobs: Jobs, device_muster: Server) -> None:
    """The Job that gives way has no pods then, and runs again when the other one has ended."""
    urgent = jobs.cluster.priority_class("urgent", 1000)
    jobs.cluster.nodes(1, gpus=4)
    jobs.create("low")
    jobs.wait_running("low")
    jobs.create("high", pod={"priorityClassName": urgent})
    jobs.wait_running("high")
    assert jobs.suspended("low")
    assert not jobs.pods("low")
    jobs.wait_message("low", "Preempted")
    jobs.finish("high")
    jobs.wait_running("low")
    device_muster.check()


def test_a_job_with_notice_is_suspended_once_it_acknowledges(jobs: Jobs, device_muster: Server) -> None:
    """Until then its pods run and say what is planned; those that it has the next time say nothing of it."""
    urgent = jobs.cluster.priority_class("urgent", 1000)
    jobs.cluster.nodes(1, gpus=4)
    jobs.create("low", annotations={EVICTION_NOTICE: "5m"})
    jobs.wait_running("low")
    jobs.create("high", pod={"priorityClassName": urgent})

    def planned() -> set[str]:
        return {(pod["metadata"].get("annotations") or {}).get(EVICTION_PLANNED, "") for pod in jobs.pods("low")}

    jobs.cluster.wait_until(lambda: len(planned()) == 1 and "" not in planned(), "the pods say what is planned", 30)
    jobs.wait_message("high", "Preempting")
    assert jobs.running("low") == 4
    body = {"metadata": {"annotations": {EVICTION_ACKNOWLEDGED: planned().pop()}}}
    name = jobs.pods("low")[0]["metadata"]["name"]
    jobs.cluster.api.patch(PODS, name, body, namespace=jobs.namespace)
    jobs.wait_running("high")
    assert jobs.suspended("low")
    assert not jobs.pods("low")
    jobs.finish("high")
    jobs.wait_running("low")
    assert planned() == {""}
    device_muster.check()


def test_pods_that_a_resource_quota_forbids_have_not_come(
    jobs: Jobs, device_local_cluster: LocalCluster, device_muster_scheduler: Server, tmp_path: Path
) -> None:
    """The place ends, the Job is suspended again with a Warning; with quota it starts."""
    config = tmp_path / "muster.yaml"
    config.write_text("reservation_timeout_seconds: 3\nbackoff_max_seconds: 2\n", "utf-8")
    device_muster_scheduler.check()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": jobs.namespace}}
    jobs.cluster.api.create(quota | {"spec": {"hard": {"pods": "2"}}})
    status = {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}
    jobs.cluster.api.patch(QUOTAS, "few", status, namespace=jobs.namespace, subresource="status")
    jobs.cluster.nodes(1, gpus=4)
    with muster_starter(device_local_cluster) as start:
        muster = start("--config", str(config))
        jobs.create("train")
        jobs.wait_message("train", "ReservationExpired")
        jobs.cluster.wait_until(lambda: jobs.suspended("train"), "train is suspended again")
        assert any("is suspended again" in each for each in jobs.messages("train"))
        assert not any(pod["spec"].get("nodeName") for pod in jobs.pods())
        jobs.cluster.api.delete(QUOTAS, "few", jobs.namespace)
        jobs.wait_running("train", timeout=90)
        muster.check()


def test_killed_at_any_step_none_is_lost_or_resumed_twice(jobs: Jobs, device_muster: Server) -> None:
    """SIGKILL again and again while Jobs take turns: each runs once, and never more than there is room for."""
    jobs.cluster.nodes(1, gpus=8)
    names = [f"job-{number}" for number in range(6)]
    for name in names:
        jobs.create(name)
    finished: set[str] = set()
    rounds, deadline = 0, time.monotonic() + 300
    while len(finished) < len(names):
        assert time.monotonic() < deadline, f"finished: {sorted(finished)}"
        time.sleep(0.05 + 0.13 * (rounds % 9))
        if rounds < 12:
            device_muster.kill()
        live = [pod for pod in jobs.pods() if pod["status"].get("phase") != "Succeeded"]
        assert sum(1 for pod in live if pod["spec"].get("nodeName")) <= 8
        for name in names if rounds % 3 == 2 else ():
            if name not in finished and jobs.running(name) == 4:
                jobs.finish(name)
                finished.add(name)
        if rounds < 12:
            device_muster.start()
        rounds += 1
    for name in names:
        assert len({pod["metadata"]["uid"] for pod in jobs.pods(name)}) == 4, "each pod was made once"
    device_muster.check()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("jobs", ["Job"], indirect=True)
def test_a_thousand_jobs_of_eight(
    jobs: Jobs, device_muster: Server, record_property: Callable[[str, object], None]
) -> None:
    """On 100 nodes of eight GPUs a hundred Jobs have pods at a time, and in the end all have run."""
    jobs.cluster.nodes(100, gpus=8)
    names = [f"job-{number}" for number in range(1000)]
    for name in names:
        jobs.create(name, pods=8)
    began, most, ended = time.monotonic(), 0, set[str]()
    while len(ended) < len(names):
        assert time.monotonic() - began < 3000, f"{len(ended)} have ended"
        live = [pod for pod in jobs.pods() if pod["status"].get("phase") not in {"Succeeded", "Failed"}]
        most = max(most, len(live))
        running = Counter(
            pod["metadata"]["labels"]["job-name"] for pod in live if pod["status"].get("phase") == "Running"
        )
        for name in [name for name, count in running.items() if count == 8 and name not in ended]:
            jobs.finish(name)
            ended.add(name)
    seconds = time.monotonic() - began
    record_property("most pods at a time", most)
    record_property("seconds", round(seconds, 1))
    assert (len(ended), most <= 800) == (1000, True), f"{most} pods at a time, {seconds:.0f} s"
    device_muster.check()
