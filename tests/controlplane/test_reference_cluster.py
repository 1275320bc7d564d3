"""The control plane itself, without Muster: what the other stories stand on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.build import built_binaries
from localcluster.client import NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, ApiClient, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.controlplane import ControlPlane
from localcluster.errors import ApiError, LocalClusterError, NotInTimeError
from localcluster.manifests import MANIFESTS, render
from localcluster.nodes import NodeShape, numbered_nodes
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from localcluster.sandbox import Sandbox
from localcluster.watching import LiveView, Signal

pytestmark = pytest.mark.controlplane

REPOSITORY = Path(__file__).parents[2]
STOCK = "default-scheduler"
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", namespaced=True)


def pod_group(name: str, **spec: object) -> JsonObject:
    """Return a coscheduling PodGroup."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def kubectl(local_cluster: LocalCluster) -> list[str]:
    """Return the start of a kubectl command line with all rights."""
    return [str(local_cluster.binaries[Binary.KUBECTL]), "--kubeconfig", str(local_cluster.admin_kubeconfig)]


def allowed(client: ApiClient, verb: str, resource: str, namespace: str = "default") -> bool:
    """Ask the API server whether the client's identity may `verb` a `group/resource/subresource`."""
    group, _, rest = resource.rpartition(":")
    name, _, subresource = rest.partition("/")
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": namespace}
    review = client.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": attributes},
        }
    )
    answer: bool = review["status"]["allowed"]
    return answer


def test_every_program_is_the_pinned_version(local_cluster: LocalCluster) -> None:
    """API server and kubectl say v1.37.0, not the v0.0.0 of a build without version flags."""
    assert local_cluster.admin.request("GET", "/version")["gitVersion"] == "v1.37.0"
    client = subprocess.run(
        [local_cluster.binaries[Binary.KUBECTL], "version", "--client"], check=True, capture_output=True, text=True
    )
    assert "v1.37.0" in client.stdout


def test_kubectl_reaches_the_cluster_with_the_printed_kubeconfig(local_cluster: LocalCluster) -> None:
    """The kubeconfig that `up` prints works with kubectl as it is."""
    answer = subprocess.run(
        [*kubectl(local_cluster), "get", "crd", "-o", "name"], check=True, capture_output=True, text=True
    )
    assert "podgroups.scheduling.x-k8s.io" in answer.stdout


class TestManifests:
    """What `kubectl apply -k manifests` brings into a cluster."""

    @pytest.mark.parametrize("change", [{"minMember": 0}, {"minMember": -1}, {"scheduleTimeoutSeconds": 0}])
    def test_podgroup_that_makes_no_sense_is_refused(self, cluster: Sandbox, change: dict[str, int]) -> None:
        """The CRD's schema refuses values that no scheduler could follow."""
        with pytest.raises(ApiError, match="should be greater than or equal to 1"):
            cluster.api.create(pod_group("senseless", **{"minMember": 2, **change}))

    def test_podgroup_without_any_field_is_accepted(self, cluster: Sandbox) -> None:
        """Like coscheduling's own CRD, ours requires no field."""
        assert cluster.api.create(pod_group("plain"))["spec"] == {}

    def test_podgroup_status_keeps_every_field(self, cluster: Sandbox) -> None:
        """Coscheduling's status fields and the added conditions are stored, through the status subresource alone."""
        cluster.api.create(pod_group("job", minMember=4, minResources={"nvidia.com/gpu": 32, "memory": "1Ti"}))
        condition = {
            "type": "Scheduled",
            "status": "False",
            "reason": "InsufficientCapacity",
            "message": "2 of 4 members fit now",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
        status = {
            "phase": "Scheduling",
            "occupiedBy": "default/job",
            "scheduled": 1,
            "running": 1,
            "succeeded": 0,
            "failed": 0,
            "scheduleStartTime": "2026-01-01T00:00:00Z",
            "conditions": [condition],
        }
        cluster.api.patch(POD_GROUPS, "job", {"status": {"phase": "Ignored"}}, namespace="default")
        assert "status" not in cluster.api.get(POD_GROUPS, "job", "default")
        cluster.api.patch(POD_GROUPS, "job", {"status": status}, namespace="default", subresource="status")
        assert cluster.api.get(POD_GROUPS, "job", "default")["status"] == status

    def test_pod_of_the_deployment_is_admitted(self, local_cluster: LocalCluster) -> None:
        """The Deployment's pod meets the restricted Pod Security Standard that its namespace enforces."""
        objects = render(local_cluster.binaries[Binary.KUBECTL])
        (deployment,) = (item for item in objects if item["kind"] == "Deployment")
        template = deployment["spec"]["template"]
        metadata = {**template["metadata"], "name": "muster", "namespace": "muster-system"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        admitted = local_cluster.admin.request("POST", PODS.path("muster-system"), body=pod, query=query)
        assert admitted["spec"]["priority"] == 1_000_000_000

    def test_config_map_holds_the_sample_configuration(self, local_cluster: LocalCluster) -> None:
        """The Deployment's kube-scheduler reads scheduler-config/muster.yaml itself, not a copy of it."""
        objects = render(local_cluster.binaries[Binary.KUBECTL])
        (config,) = (item for item in objects if item["kind"] == "ConfigMap")
        assert config["data"] == {"muster.yaml": (SCHEDULER_CONFIGS / "muster.yaml").read_text(encoding="utf-8")}

    def test_monitoring_renders_apart_from_the_base(self, local_cluster: LocalCluster) -> None:
        """It is a kustomization of its own, as clusters without the Prometheus operator lack its kinds."""
        executable = local_cluster.binaries[Binary.KUBECTL]
        kinds = {item["kind"] for item in render(executable, MANIFESTS / "monitoring")}
        assert kinds == {"ConfigMap", "PodMonitor", "PrometheusRule"}
        assert not {"PodMonitor", "PrometheusRule"} & {item["kind"] for item in render(executable)}

    def test_example_gang_can_be_applied(self, local_cluster: LocalCluster, cluster: Sandbox) -> None:
        """`kubectl apply -f examples/gang.yaml` creates a PodGroup and the four pods of `schedulerName: muster`."""
        command = [*kubectl(local_cluster), "apply", "--filename", str(REPOSITORY / "examples" / "gang.yaml")]
        subprocess.run(command, check=True, capture_output=True)
        assert cluster.api.get(POD_GROUPS, "training", "default")["spec"] == {"minMember": 4}
        pods = cluster.api.list_items(PODS, "default", labelSelector="scheduling.x-k8s.io/pod-group=training")
        assert [pod["spec"]["schedulerName"] for pod in pods] == ["muster"] * 4


class TestServiceAccounts:
    """The rights that the manifests give, asked of the API server's own RBAC."""

    @pytest.fixture
    def muster_client(self, local_cluster: LocalCluster) -> Iterator[ApiClient]:
        """Connect under Muster's own ServiceAccount."""
        with ApiClient(local_cluster.service_account("muster")) as client:
            yield client

    def test_muster_may_list_nodes(self, cluster: Sandbox, muster_client: ApiClient) -> None:
        """The token of Muster's ServiceAccount reads what it decides upon."""
        names = cluster.nodes(2)
        assert sorted(item["metadata"]["name"] for item in muster_client.list_items(NODES)) == names

    def test_muster_may_not_delete_pods(self, cluster: Sandbox, muster_client: ApiClient) -> None:
        """The same token is refused what Muster never does."""
        pod = cluster.pod("bystander", scheduler="nobody")
        with pytest.raises(ApiError, match=r'cannot delete resource "pods"') as refusal:
            muster_client.delete(PODS, pod.name, pod.namespace)
        assert refusal.value.reason == "Forbidden"
        assert cluster.api.get(PODS, pod.name, pod.namespace)

    @pytest.mark.parametrize(
        ("verbs", "resource"),
        [
            ("get list watch", "pods"),
            ("patch", "pods"),
            ("create", "pods/binding"),
            ("create", "pods/eviction"),
            ("patch", "pods/status"),
            ("list watch", "namespaces"),
            ("list watch", "policy:poddisruptionbudgets"),
            ("list watch", "muster.dev:queues"),
            ("patch", "muster.dev:queues/status"),
            ("list watch", "nodes"),
            ("list watch", "scheduling.k8s.io:priorityclasses"),
            ("list watch", "scheduling.x-k8s.io:podgroups"),
            ("patch", "scheduling.x-k8s.io:podgroups/status"),
            ("list watch", "scheduling.k8s.io:podgroups"),
            ("list watch", "scheduling.volcano.sh:podgroups"),
            ("create patch", "events.k8s.io:events"),
        ],
    )
    def test_muster_has_the_rights_it_needs(self, muster_client: ApiClient, verbs: str, resource: str) -> None:
        """Each right that Muster uses is given, in every namespace."""
        assert [verb for verb in verbs.split() if not allowed(muster_client, verb, resource)] == []

    @pytest.mark.parametrize(
        ("verbs", "resource"),
        [
            ("create update delete deletecollection", "pods"),
            ("update", "pods/status"),
            ("create", "pods/exec"),
            ("create update patch delete", "muster.dev:queues"),
            ("patch update", "policy:poddisruptionbudgets/status"),
            ("update patch delete", "nodes"),
            ("patch", "nodes/status"),
            ("get list watch", "secrets"),
            ("get list watch", "configmaps"),
            ("create update patch delete", "scheduling.x-k8s.io:podgroups"),
            ("patch update", "scheduling.k8s.io:podgroups/status"),
            ("create update patch delete", "scheduling.volcano.sh:podgroups"),
            ("patch update", "scheduling.volcano.sh:podgroups/status"),
            ("create update patch delete", "apiextensions.k8s.io:customresourcedefinitions"),
            ("create update patch bind escalate", "rbac.authorization.k8s.io:clusterroles"),
        ],
    )
    def test_muster_has_no_other_rights(self, muster_client: ApiClient, verbs: str, resource: str) -> None:
        """What Muster never does, its account may not do."""
        assert [verb for verb in verbs.split() if allowed(muster_client, verb, resource)] == []

    def test_account_of_the_pod_is_enough_for_its_kube_scheduler(
        self, local_cluster: LocalCluster, cluster: Sandbox, tmp_path: Path
    ) -> None:
        """A kube-scheduler under the Deployment's ServiceAccount wins its Lease, binds, and is refused nothing."""
        config = yaml.safe_load((SCHEDULER_CONFIGS / "muster.yaml").read_text(encoding="utf-8"))
        del config["extenders"]
        (tmp_path / "paired.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        profile = SchedulerProfile(tmp_path / "paired.yaml", scheduler_name="paired", leader_election=True)
        scheduler = local_cluster.scheduler("paired", profile, local_cluster.service_account("muster-scheduler"))
        scheduler.start()
        cluster.nodes(1)
        cluster.pod("one", scheduler="paired").wait_bound()
        scheduler.kill()
        log = scheduler.command.log_path.read_text(encoding="utf-8")
        assert "forbidden" not in log
        assert cluster.api.get(LEASES, "muster", "muster-system")["spec"]["holderIdentity"]


@pytest.mark.usefixtures("stock_scheduler")
class TestKwok:
    """Nodes without machines."""

    def test_bound_pod_runs(self, cluster: Sandbox) -> None:
        """A pod that was bound to a kwok node becomes Running, and stays so."""
        cluster.nodes(1, gpus=8)
        pod = cluster.pod("one", gpus=1, scheduler=STOCK)
        pod.wait_phase("Running")
        assert cluster.stays_true(lambda: pod.phase == "Running", seconds=0.3)

    def test_pod_ends_by_itself_after_its_run_time(self, cluster: Sandbox) -> None:
        """The run-seconds annotation lets a pod succeed without help."""
        cluster.nodes(1, gpus=8)
        cluster.pod("one", scheduler=STOCK, run_seconds=1).wait_phase("Succeeded")

    def test_run_time_that_is_no_number_is_no_run_time(self, cluster: Sandbox) -> None:
        """A pod with a run time that cannot be read runs on rather than ending at once."""
        cluster.nodes(1, gpus=8)
        pod = cluster.pod("one", scheduler=STOCK, annotations={"kwok.muster.dev/run-seconds": "soon"})
        pod.wait_phase("Running")
        assert cluster.stays_true(lambda: pod.phase == "Running", seconds=0.3)

    def test_completed_pod_gives_its_gpus_back(self, cluster: Sandbox) -> None:
        """A pod that the story completes makes room for the next."""
        cluster.nodes(1, gpus=8)
        first, second = (cluster.pod(name, gpus=8, scheduler=STOCK) for name in ("first", "second"))
        cluster.wait_until(lambda: first.bound or second.bound, "one of two pods bound")
        (winner, loser) = (first, second) if first.bound else (second, first)
        loser.wait_message("Insufficient nvidia.com/gpu")
        winner.wait_phase("Running")
        winner.complete()
        loser.wait_bound()
        assert cluster.peak_gpus() == {"node-0": 8}


class TestSchedulers:
    """kube-scheduler as our sample configurations run it."""

    @pytest.mark.usefixtures("stock_scheduler")
    def test_two_interleaved_gangs_deadlock_without_muster(self, cluster: Sandbox) -> None:
        """Two gangs of 4 x 8 GPUs on four 8-GPU nodes each get a part: neither can start, and neither lets go."""
        cluster.nodes(4, gpus=8)
        first, second = (
            cluster.gang(name, members=4, gpus=8, scheduler=STOCK, create=0) for name in ("job-a", "job-b")
        )
        cluster.interleave(first, second)
        cluster.wait_until(lambda: len(first.bound) + len(second.bound) == 4, "all four nodes taken")
        assert first.partial
        assert second.partial
        assert cluster.stays_true(lambda: first.partial and second.partial, seconds=1.0)

    @pytest.mark.usefixtures("muster_scheduler")
    def test_sample_configuration_lets_nothing_start_without_muster(self, cluster: Sandbox) -> None:
        """While Muster is away its pods wait, with the connection error as the reason."""
        cluster.nodes(1, gpus=8)
        pod = cluster.pod("one", gpus=1)
        assert "connection refused" in pod.wait_message("/v1/filter")
        assert not pod.bound

    @pytest.mark.usefixtures("native_stock_scheduler")
    def test_native_gangs_start_whole_one_after_the_other(self, native_cluster: Sandbox) -> None:
        """With the gate on, kube-scheduler itself starts one of two native gangs whole, then the other."""
        native_cluster.nodes(4, gpus=8)
        gangs = [native_cluster.gang(name, members=4, gpus=8, scheduler=STOCK, create=0) for name in ("job-a", "job-b")]
        native_cluster.interleave(*gangs)
        native_cluster.wait_until(lambda: any(gang.whole for gang in gangs), "one gang whole")
        winner, loser = gangs if gangs[0].whole else reversed(gangs)
        assert not loser.bound
        winner.wait_running()
        winner.complete()
        loser.wait_bound(timeout=30)


class TestSandbox:
    """The words in which the other stories are told."""

    def test_gang_is_created_member_by_member(self, cluster: Sandbox) -> None:
        """A gang may be created in parts, whatever its roles."""
        roles = [cluster.role("launcher", 1), cluster.role("worker", 3, gpus=8)]
        gang = cluster.gang("job", roles=roles, create=2, scheduler="nobody")
        assert gang.min_member == 4
        assert [member.name for member in gang.created] == ["job-launcher-0", "job-worker-0"]
        gang.create()
        cluster.wait_until(lambda: all(member.exists for member in gang.members), "every member exists")
        assert (gang.whole, gang.partial, gang.bound) == (False, False, [])

    def test_gang_needs_members_or_roles(self, cluster: Sandbox) -> None:
        """Both at once, or neither, is a mistake in the story."""
        with pytest.raises(LocalClusterError, match="gang job: give either members or roles"):
            cluster.gang("job", gpus=8)

    @pytest.mark.usefixtures("stock_scheduler")
    def test_pod_created_again_is_another_pod(self, cluster: Sandbox) -> None:
        """A handle follows its pod through deletion and creation; the history tells them apart."""
        cluster.nodes(1, gpus=8)
        gang = cluster.gang("job", members=2, gpus=1, scheduler=STOCK)
        gang.wait_running()
        member = gang.members[0]
        before = member.uid
        member.recreate()
        member.wait_phase("Running")
        assert member.uid != before
        assert [binding.pod for binding in cluster.bindings()].count(member.name) == 2
        assert cluster.deleted_pods() == [member.name]
        assert cluster.peak_gpus() == {"node-0": 2}
        assert set(gang.bound_at()) == {"job-0", "job-1"}
        gang.delete()
        cluster.wait_until(lambda: not any(pod.exists for pod in gang.members) and gang.pod_group is None, "gang gone")

    @pytest.mark.usefixtures("stock_scheduler")
    def test_failed_members_are_told_from_completed_ones(self, cluster: Sandbox) -> None:
        """Work may end well or badly; both end the pod."""
        cluster.nodes(1, gpus=8)
        good, bad = (cluster.gang(name, members=2, scheduler=STOCK) for name in ("good", "bad"))
        with pytest.raises(LocalClusterError, match="has no bound member"):
            cluster.gang("idle", members=1, scheduler="nobody").complete()
        for gang in (good, bad):
            gang.wait_running()
        good.complete()
        bad.fail()
        for gang, phase in ((good, "Succeeded"), (bad, "Failed")):
            for member in gang.members:
                member.wait_phase(phase)

    def test_condition_of_a_gang_is_awaited(self, cluster: Sandbox) -> None:
        """A wait for a condition returns it; one that never comes says what there was instead."""
        gang = cluster.gang("job", members=1, scheduler="nobody")
        condition = {
            "type": "Scheduled",
            "status": "False",
            "reason": "MembersMissing",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"status": {"conditions": [condition]}}
        cluster.api.patch(POD_GROUPS, "job", status, namespace="default", subresource="status")
        assert gang.wait_condition("False", "MembersMissing") == condition
        with pytest.raises(NotInTimeError, match=r"<Gang job 0 bound of 1> condition Scheduled=True .*MembersMissing"):
            gang.wait_condition("True", timeout=0.1)

    def test_what_does_not_stay_true_is_noticed(self, cluster: Sandbox) -> None:
        """`stays_true` looks after every change, not only at the end."""
        assert cluster.stays_true(lambda: True, seconds=0.05)
        pod = cluster.pod("one", scheduler="nobody")
        pod.wait_phase("Pending")
        pod.delete()
        assert not cluster.stays_true(lambda: pod.exists, seconds=5)

    def test_priority_and_disruption_budget_go_away_with_the_story(self, cluster: Sandbox) -> None:
        """What a story makes beside pods and nodes does not reach the next."""
        cluster.priority_class("urgent", 1000)
        cluster.disruption_budget("keep", min_available=1, labels={"app": "x"})
        assert cluster.pod("one", scheduler="nobody", priority_class="urgent").uid
        cluster.reset()
        with pytest.raises(ApiError, match="no PriorityClass with name urgent"):
            cluster.pod("two", scheduler="nobody", priority_class="urgent")
        names = [item["metadata"]["name"] for item in cluster.api.list_items(POD_DISRUPTION_BUDGETS)]
        assert "keep" not in names
        assert cluster.empty

    def test_nodes_are_numbered_on(self, cluster: Sandbox) -> None:
        """A second batch of nodes goes on where the first ended, and may have another shape."""
        assert cluster.nodes(2) == ["node-0", "node-1"]
        assert cluster.nodes(1, gpus=4) == ["node-2"]
        assert cluster.nodes(1, prefix="cpu", gpus=0) == ["cpu-0"]


def test_live_view_outlives_the_api_server(tmp_path: Path) -> None:
    """After kill -9 of the API server and its return, a live view knows what was created and deleted since."""
    with (
        Reaper() as reaper,
        ControlPlane(built_binaries(), tmp_path, reaper) as control_plane,
        ApiClient(control_plane.admin) as client,
    ):
        signal = Signal()
        with LiveView(client, NODES, signal) as nodes:
            client.create_all(numbered_nodes(2, NodeShape()))
            control_plane.api_server.kill()
            control_plane.api_server.start()
            client.create_all(numbered_nodes(1, NodeShape(), first=2))
            client.delete(NODES, "node-0")

            def names() -> list[str]:
                return sorted(item["metadata"]["name"] for item in nodes.all())

            signal.wait_until(
                lambda: names() == ["node-1", "node-2"], timeout_seconds=10, description=lambda: str(names())
            )
            assert [change.type for change in nodes.history()] == ["ADDED", "ADDED", "ADDED", "DELETED"]
