"""Gangs that lack nodes ask for them by ProvisioningRequests, on the real API server; an autoscaler is played."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.client import PODS, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.manifests import MANIFESTS, apply_all
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import muster_starter
from tests.controlplane.crds import foreign_definitions

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
REQUESTS = Resource("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "provisioningrequests", namespaced=True)
TEMPLATES = Resource("v1", "PodTemplate", "podtemplates", namespaced=True)


class Autoscaler:
    """What cluster-autoscaler does about ProvisioningRequests, when a test tells it to."""

    def __init__(self, cluster: Sandbox) -> None:
        self.cluster = cluster
        self.seen: dict[str, str] = {}

    def requests(self) -> list[JsonObject]:
        """Return the requests that there are; all that ever were are remembered by their UIDs."""
        found = self.cluster.api.list_items(REQUESTS)
        self.seen |= {each["metadata"]["uid"]: each["metadata"]["name"] for each in found}
        return found

    def templates(self) -> list[JsonObject]:
        """Return the templates of requests."""
        return self.cluster.api.list_items(TEMPLATES)

    def wait_request(self, of: Callable[[JsonObject], bool] = lambda _: True, timeout: float = 15) -> JsonObject:
        """Wait until there is a single request, for which `of` holds; return it."""
        self.cluster.wait_until(
            lambda: len(found := self.requests()) == 1 and of(found[0]), f"a request is made: {self.seen}", timeout
        )
        return self.requests()[0]

    def wait_none(self, timeout: float = 15) -> None:
        """Wait until there is no request, and nothing of any."""
        self.cluster.wait_until(lambda: not (self.requests() or self.templates()), "all is withdrawn", timeout)

    def answer(self, request: JsonObject, kind: str, *, reason: str = "", message: str = "") -> None:
        """Set a condition of a request."""
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"type": kind, "status": "True", "lastTransitionTime": now}
        told |= {"reason": reason or kind, "message": message}
        kept = [each for each in request.get("status", {}).get("conditions", []) if each["type"] != kind]
        request["status"] = {"conditions": [*kept, told]}
        meta = request["metadata"]
        patch = {"status": request["status"]}
        self.cluster.api.patch(REQUESTS, meta["name"], patch, namespace=meta["namespace"], subresource="status")

    def provide(self, request: JsonObject) -> list[str]:
        """Make nodes of eight GPUs for all pods that are asked for, and say so."""
        self.answer(request, "Accepted")
        by_name = {each["metadata"]["name"]: each["template"]["spec"] for each in self.templates()}
        gpus = sum(
            each["count"] * int(by_name[each["podTemplateRef"]["name"]]["containers"][0]["resources"]["limits"][GPU])
            for each in request["spec"]["podSets"]
        )
        names = self.cluster.nodes(-(-gpus // 8), prefix=request["metadata"]["name"], gpus=8)
        self.answer(request, "Provisioned")
        return names


@pytest.fixture(scope="module")
def _definition(local_cluster: LocalCluster) -> None:
    """Install the CRD and the rights of the component, which stay."""
    named = "provisioningrequests.autoscaling.x-k8s.io"
    apply_all(local_cluster.admin, [each for each in foreign_definitions() if each["metadata"]["name"] == named])
    rights = (MANIFESTS / "components" / "autoscaling" / "rbac.yaml").read_text("utf-8")
    apply_all(local_cluster.admin, list(yaml.safe_load_all(rights)))


@pytest.fixture
def autoscaler(_definition: None, cluster: Sandbox) -> Iterator[Autoscaler]:
    """Return the autoscaler of a cluster without requests."""
    played = Autoscaler(cluster)
    yield played
    for resource in (REQUESTS, TEMPLATES):
        cluster.api.delete_all(resource, "default")


@pytest.fixture
def muster(
    autoscaler: Autoscaler, local_cluster: LocalCluster, muster_scheduler: Server, tmp_path: Path
) -> Iterator[Server]:
    """Run a Muster that asks for nodes, and tries again after two seconds."""
    assert not autoscaler.requests()
    config = tmp_path / "muster.yaml"
    config.write_text(f"provisioning_class: {CLASS}\nprovisioning_retry_seconds: 2\n", "utf-8")
    muster_scheduler.check()
    with muster_starter(local_cluster) as start:
        server = start("--config", str(config))
        yield server
        server.check()


def annotation(pod: JsonObject) -> str | None:
    """Return which request a pod says that it uses."""
    said: str | None = pod["metadata"].get("annotations", {}).get(CONSUME)
    return said


@pytest.mark.usefixtures("muster")
def test_a_gang_on_an_empty_cluster_asks_once_gets_nodes_and_starts_whole(
    cluster: Sandbox, autoscaler: Autoscaler
) -> None:
    """What it asks for, what its members say, what people read; then the request is withdrawn."""
    gang = cluster.gang("train", members=4, gpus=4)
    request = autoscaler.wait_request()
    assert request["spec"]["provisioningClassName"] == CLASS
    assert [each["count"] for each in request["spec"]["podSets"]] == [4]
    assert request["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
    (template,) = autoscaler.templates()
    assert template["template"]["spec"]["schedulerName"] == "muster"
    name = request["metadata"]["name"]
    cluster.wait_until(
        lambda: all(annotation(pod) == name for pod in cluster.api.list_items(PODS, "default")), "members name it"
    )
    gang.wait_message("AwaitingNodes")
    assert not gang.bound
    assert len(autoscaler.provide(request)) == 2
    gang.wait_bound()
    autoscaler.wait_none()
    assert len(autoscaler.seen) == 1


@pytest.mark.usefixtures("muster")
def test_a_request_that_fails_is_made_again(cluster: Sandbox, autoscaler: Autoscaler) -> None:
    """After a pause, under another name; the reason tells what failed."""
    gang = cluster.gang("train", members=2, gpus=8)
    first = autoscaler.wait_request()
    autoscaler.answer(first, "Failed", reason="CapacityIsNotFound", message="no node group is large enough")
    gang.wait_message("Failed (CapacityIsNotFound): no node group is large enough")
    second = autoscaler.wait_request(lambda found: found["metadata"]["uid"] != first["metadata"]["uid"])
    assert second["metadata"]["annotations"]["muster.dev/attempt"] == "2"
    autoscaler.answer(second, "Provisioned")
    autoscaler.answer(second, "BookingExpired")
    third = autoscaler.wait_request(lambda found: found["metadata"]["annotations"]["muster.dev/attempt"] == "3")
    autoscaler.provide(third)
    gang.wait_bound()
    autoscaler.wait_none()


@pytest.mark.usefixtures("muster")
def test_a_gang_that_is_deleted_leaves_no_request(cluster: Sandbox, autoscaler: Autoscaler) -> None:
    """Neither the request nor a template; without the garbage collector of kube-controller-manager."""
    gang = cluster.gang("train", members=2, gpus=8)
    autoscaler.wait_request()
    gang.delete()
    autoscaler.wait_none()


@pytest.mark.usefixtures("muster")
def test_room_that_comes_free_ends_the_request(cluster: Sandbox, autoscaler: Autoscaler) -> None:
    """The gang starts where another one has ended."""
    cluster.nodes(1, gpus=8)
    first = cluster.gang("first", members=2, gpus=4)
    first.wait_running()
    second = cluster.gang("second", members=2, gpus=4)
    autoscaler.wait_request()
    first.complete()
    second.wait_bound()
    autoscaler.wait_none()


def test_killed_at_any_step_it_asks_no_second_time(cluster: Sandbox, autoscaler: Autoscaler, muster: Server) -> None:
    """SIGKILL before the request is seen, while it is pending, and when its nodes are there."""
    gang = cluster.gang("train", members=4, gpus=8)
    request = autoscaler.wait_request()
    for pause in (0.0, 0.3, 1.0):
        muster.kill()
        muster.start()
        cluster.stays_true(lambda: len(autoscaler.requests()) == 1, pause)
    muster.kill()
    autoscaler.provide(request)
    muster.start()
    gang.wait_bound(timeout=40)
    autoscaler.wait_none()
    assert len(autoscaler.seen) == 1
