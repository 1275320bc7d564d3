"""Gangs whose pods Kubernetes' own controllers make: StatefulSets, Jobs, and Jobs with PodGroups of their own.

The controllers are kube-controller-manager's. Nothing here stands for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.objects.keys import TOPOLOGY_REQUIRED
from localcluster.build import built_binaries
from localcluster.client import EVENTS, JOBS, NAMESPACES, NATIVE_POD_GROUPS, POD_GROUPS, PODS, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.controlplane import NATIVE_PODGROUP_API_SERVER, ApiServerOptions
from localcluster.processes import Server
from localcluster.programs import DEFAULT_BINARIES, DEVICE_BINARIES, NEWEST, Release
from localcluster.sandbox import Sandbox
from localcluster.workloads import POD_GROUP_LABEL, PodTemplate
from tests.controlplane.conftest import muster_starter
from tests.controlplane.test_examples import BLOCK_LABEL, RACK_LABEL
from tests.controlplane.test_reclaim import queue
from tests.controlplane.test_suspended_jobs import Jobs

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly, pytest.mark.timeout(300)]

STATEFUL_SETS = Resource("apps/v1", "StatefulSet", "statefulsets", namespaced=True)
#: Seconds: what should not happen would have happened by then.
WATCHFUL = 3.0

JOBS_WITH_PODGROUPS = ApiServerOptions(
    feature_gates={**NATIVE_PODGROUP_API_SERVER.feature_gates, "WorkloadWithJob": True},
    runtime_config=NATIVE_PODGROUP_API_SERVER.runtime_config,
)


class Made:
    """An object whose controller makes the members of one gang, each with two GPUs."""

    def __init__(self, cluster: Sandbox, resource: Resource, groups: Resource = POD_GROUPS) -> None:
        self.cluster, self.resource, self.groups, self.name = cluster, resource, groups, "train"

    def create(self, spec: JsonObject, *, group: str = "train") -> None:
        """Create the object with a pod template of members of a PodGroup, "" for none."""
        pod = PodTemplate(gpus=2, labels={"app": self.name}).pod(self.name, "default")
        if group:
            pod["metadata"]["labels"][POD_GROUP_LABEL] = group
        if self.resource is STATEFUL_SETS:
            pod["spec"]["restartPolicy"] = "Always"
            spec = {"serviceName": self.name, "selector": {"matchLabels": {"app": self.name}}, **spec}
        template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
        about = {"name": self.name, "namespace": "default"}
        item = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": about}
        self.cluster.api.create(item | {"spec": {**spec, "template": template}})

    def patch(self, **spec: Any) -> None:
        """Change some of its spec."""
        self.cluster.api.patch(self.resource, self.name, {"spec": spec}, namespace="default")

    def pods(self, phase: str = "") -> dict[str, JsonObject]:
        """Return its pods by name, or those of one phase."""
        found = self.cluster.api.list_items(PODS, "default", labelSelector=f"app={self.name}")
        return {pod["metadata"]["name"]: pod for pod in found if not phase or pod["status"].get("phase") == phase}

    def nodes(self) -> dict[str, str]:
        """Return the nodes of its pods that run, by name."""
        return {name: pod["spec"]["nodeName"] for name, pod in self.pods("Running").items()}

    def wait_running(self, count: int, timeout: float = 30) -> None:
        """Wait until so many pods run, and no others exist."""
        self.cluster.wait_until(
            lambda: len(self.nodes()) == count == len(self.pods()), f"{count} pods of {self.name} run", timeout
        )

    def wait_event(self, text: str) -> None:
        """Wait for an Event about its pods, or the PodGroup that there is, that contains a text."""
        api = self.cluster.api

        def said() -> bool:
            about = [*self.pods().values(), *api.list_items(self.groups, "default")]
            uids = {each["metadata"]["uid"] for each in about}
            events = [each for each in api.list_items(EVENTS, "default") if each["regarding"].get("uid") in uids]
            return any(text in f"{each['reason']}: {each.get('note')}" for each in events)

        self.cluster.wait_until(said, f"an Event says {text}")

    def delete(self) -> None:
        """Delete it with its pods."""
        self.cluster.api.request(
            "DELETE",
            self.resource.path("default", self.name),
            body={"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
        )
        self.cluster.api.delete_all(PODS, "default")
        self.cluster.wait_until(lambda: not self.pods(), f"{self.name} has no pods", 30)


def pod_group(minimum: int, **annotations: str) -> JsonObject:
    """Return the PodGroup of `train`."""
    about = {"name": "train", "namespace": "default", "annotations": annotations}
    item = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": about}
    return item | {"spec": {"minMember": minimum}}


@pytest.fixture
def stateful(device_cluster: Sandbox) -> Iterator[Made]:
    """Return a StatefulSet, which is not created yet."""
    made = Made(device_cluster, STATEFUL_SETS)
    yield made
    made.delete()


@pytest.fixture
def job(device_cluster: Sandbox) -> Iterator[Made]:
    """Return a Job, which is not created yet."""
    made = Made(device_cluster, JOBS)
    yield made
    made.delete()


def replicas(count: int, policy: str = "Parallel") -> JsonObject:
    """Return the spec of a StatefulSet, but for its template."""
    return {"replicas": count, "podManagementPolicy": policy}


def test_a_stateful_set_starts_whole(stateful: Made, device_muster: Server) -> None:
    """With `podManagementPolicy: Parallel`: while there is no room for all none runs, then all do."""
    stateful.cluster.nodes(1, gpus=6)
    stateful.cluster.api.create(pod_group(4))
    stateful.create(replicas(4))
    stateful.wait_event("ExceedsCluster")
    assert stateful.cluster.stays_true(lambda: not stateful.cluster.bindings(), WATCHFUL)
    stateful.cluster.nodes(1, gpus=2)
    stateful.wait_running(4)
    device_muster.check()


def test_one_that_is_scaled_grows_in_its_domain_and_leaves_no_trace(stateful: Made, device_muster: Server) -> None:
    """Of two racks it stays in the one where it started; what it gives back others can have."""
    cluster = stateful.cluster
    racks: dict[str, str] = {}
    for rack in ("a", "b"):
        names = cluster.nodes(4, prefix=rack, gpus=2, labels={BLOCK_LABEL: "block", RACK_LABEL: rack})
        racks |= dict.fromkeys(names, rack)
    cluster.api.create(pod_group(2, **{TOPOLOGY_REQUIRED: "rack"}))
    stateful.create(replicas(2))
    stateful.wait_running(2)
    (rack,) = {racks[node] for node in stateful.nodes().values()}
    stateful.patch(replicas=6)
    cluster.wait_until(lambda: len(stateful.nodes()) == 4, "as many run as the rack has room for", 30)
    assert cluster.stays_true(lambda: len(cluster.bindings()) == 4, WATCHFUL)
    assert {racks[node] for node in stateful.nodes().values()} == {rack}
    stateful.patch(replicas=2)
    stateful.wait_running(2)
    other = cluster.gang("other", members=6, gpus=2)
    other.wait_running()
    device_muster.check()


def test_a_rolling_update_of_one_that_fills_the_cluster(stateful: Made, device_muster: Server) -> None:
    """Each pod's successor has its place, also while another gang waits for room, until all are of the new revision."""
    cluster = stateful.cluster
    cluster.nodes(2, gpus=4)
    cluster.api.create(pod_group(4))
    stateful.create(replicas(4))
    stateful.wait_running(4)
    before = {pod["metadata"]["uid"] for pod in stateful.pods().values()}
    waiting = cluster.gang("waiting", members=1, gpus=2)
    waiting.wait_message("InsufficientCapacity")
    stateful.patch(template={"metadata": {"annotations": {"release": "2"}}})
    cluster.wait_until(
        lambda: before.isdisjoint(pod["metadata"]["uid"] for pod in stateful.pods().values()),
        "all are of the new revision",
        60,
    )
    stateful.wait_running(4)
    assert not any(member.bound for member in waiting.members)
    device_muster.check()


def test_one_whose_pods_come_one_after_the_other_says_what_it_lacks(stateful: Made, device_muster: Server) -> None:
    """`OrderedReady` makes the second pod when the first runs: with a minimum of one it starts so, else it waits."""
    cluster = stateful.cluster
    cluster.nodes(1, gpus=8)
    cluster.api.create(pod_group(4))
    stateful.create(replicas(4, "OrderedReady"))
    stateful.wait_event("1 of 4 members exist")
    assert cluster.stays_true(lambda: not cluster.bindings(), WATCHFUL)
    cluster.api.patch(POD_GROUPS, "train", {"spec": {"minMember": 1}}, namespace="default")
    stateful.wait_running(4)
    device_muster.check()


def test_a_job_gets_another_pod_for_one_that_failed_in_its_place(job: Made, device_muster: Server) -> None:
    """The cluster is full and another gang waits: the Job's new pod of that index runs where the old one did."""
    cluster = job.cluster
    cluster.nodes(2, gpus=4)
    cluster.api.create(pod_group(4))
    job.create({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimit": 4})
    job.wait_running(4)
    waiting = cluster.gang("waiting", members=1, gpus=2)
    waiting.wait_message("InsufficientCapacity")
    name, node = next(iter(job.nodes().items()))
    cluster.api.patch(PODS, name, {"status": {"phase": "Failed"}}, namespace="default", subresource="status")
    cluster.wait_until(lambda: len(job.nodes()) == 4, "four run again", 60)
    assert job.nodes().keys().isdisjoint({name})
    assert sorted(job.nodes().values()).count(node) == 2
    assert not any(member.bound for member in waiting.members)
    device_muster.check()


@pytest.fixture(scope="module")
def podgroup_local_cluster(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[LocalCluster]:
    """Run a control plane whose Job controller makes PodGroups (feature gate WorkloadWithJob)."""
    if release is not NEWEST:
        pytest.skip(f"the Job controller of Kubernetes {release} makes no PodGroups that Muster reads")
    binaries = built_binaries((*DEFAULT_BINARIES, *DEVICE_BINARIES), release=release)
    folder = tmp_path_factory.mktemp("podgroups")
    with LocalCluster(folder, binaries, JOBS_WITH_PODGROUPS, controllers=True) as running:
        running.muster_scheduler.start()
        yield running


@pytest.fixture
def podgroup_cluster(podgroup_local_cluster: LocalCluster) -> Iterator[Sandbox]:
    """Return that cluster, without pods and nodes."""
    with Sandbox(podgroup_local_cluster.admin, native_pod_groups=True) as sandbox:
        sandbox.reset()
        yield sandbox
        sandbox.reset()


@pytest.fixture
def podgroup_muster(podgroup_local_cluster: LocalCluster, podgroup_cluster: Sandbox) -> Iterator[Server]:
    """Start a Muster of this test's own there."""
    assert podgroup_cluster.empty
    with muster_starter(podgroup_local_cluster) as start:
        yield start()


GANG: JsonObject = {"schedulingPolicy": {"gang": {}}}


def test_a_job_whose_controller_makes_its_podgroup(podgroup_cluster: Sandbox, podgroup_muster: Server) -> None:
    """It starts whole; when it asks for more pods at a time, its controller raises the minimum and they join."""
    job = Made(podgroup_cluster, JOBS, NATIVE_POD_GROUPS)
    podgroup_cluster.nodes(1, gpus=6)
    spec = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "scheduling": GANG}
    job.create(spec, group="")
    job.wait_event("ExceedsCluster")
    (group,) = podgroup_cluster.api.list_items(NATIVE_POD_GROUPS, "default")
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert podgroup_cluster.stays_true(lambda: not podgroup_cluster.bindings(), WATCHFUL)
    podgroup_cluster.nodes(1, gpus=6)
    job.wait_running(4)
    job.patch(completions=6, parallelism=6)
    job.wait_running(6)
    (group,) = podgroup_cluster.api.list_items(NATIVE_POD_GROUPS, "default")
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 6}}
    job.delete()
    podgroup_muster.check()


def test_a_suspended_job_whose_controller_makes_its_podgroup(
    podgroup_cluster: Sandbox, podgroup_muster: Server
) -> None:
    """Muster plans it without pods and resumes it; the next one waits until it has ended."""
    podgroup_cluster.create(queue("team"))
    podgroup_cluster.nodes(1, gpus=4)
    with podgroup_cluster.namespace("suspended") as namespace:
        labels = {"metadata": {"labels": {"muster.dev/manage-jobs": "true"}}}
        podgroup_cluster.api.patch(NAMESPACES, namespace, labels)
        jobs = Jobs(podgroup_cluster, namespace)
        for name in ("first", "second"):
            jobs.create(name, scheduling=GANG)
        podgroup_cluster.wait_until(lambda: len(jobs.pods()) == 4, "one of them is resumed", 30)
        first = jobs.pods()[0]["metadata"]["labels"]["job-name"]
        jobs.wait_running(first)
        second = {"first": "second", "second": "first"}[first]
        jobs.wait_message(second, "InsufficientCapacity")
        assert jobs.suspended(second)
        jobs.finish(first)
        jobs.wait_running(second)
        for name in ("first", "second"):
            jobs.delete(name)
    podgroup_muster.check()
