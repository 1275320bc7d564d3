"""Pods, PodGroups and nodes as objects."""

from localcluster.client import NODES, PODS
from localcluster.nodes import GPU, RACK_LABEL, ZONE_LABEL, NodeShape, numbered_nodes
from localcluster.workloads import GangSpec, PodTemplate, Role


def test_cpu_only_pod_asks_for_no_gpus() -> None:
    """Zero GPUs are left out rather than asked for."""
    pod = PodTemplate(gpus=0, cpu="2").pod("launcher", "default")
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": "1Gi"}


def test_pod_carries_what_its_template_says() -> None:
    """Every field of a template is in the pod."""
    template = PodTemplate(
        gpus=4,
        scheduler="default-scheduler",
        priority_class="high",
        run_seconds=30,
        node_selector={"gpu": "h100"},
        labels={"app": "x"},
        annotations={"note": "y"},
        gates=("quota",),
    )
    pod = template.pod("worker", "research")
    assert pod["metadata"] == {
        "name": "worker",
        "namespace": "research",
        "labels": {"app": "x"},
        "annotations": {"note": "y", "kwok.muster.dev/run-seconds": "30"},
    }
    spec = pod["spec"]
    assert spec["containers"][0]["resources"]["limits"][GPU] == "4"
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("default-scheduler", "high")
    assert (spec["nodeSelector"], spec["schedulingGates"]) == ({"gpu": "h100"}, [{"name": "quota"}])


def test_members_carry_their_group_and_role() -> None:
    """Members of a coscheduling gang are named after gang, role and number, and labelled with both."""
    roles = (Role("launcher", 1, PodTemplate()), Role("worker", 2, PodTemplate(gpus=8)))
    pods = GangSpec("job", "default", 3, roles).pods()
    assert [pod["metadata"]["name"] for pod in pods] == ["job-launcher-0", "job-worker-0", "job-worker-1"]
    assert [pod["metadata"]["labels"] for pod in pods] == [
        {"scheduling.x-k8s.io/pod-group": "job", "muster.dev/role": role} for role in ("launcher", "worker", "worker")
    ]


def test_pod_group_says_what_the_gang_needs() -> None:
    """The PodGroup carries minMember, and the other fields only when they are set."""
    roles = (Role("", 4, PodTemplate(gpus=8)),)
    assert GangSpec("job", "default", 4, roles).pod_group()["spec"] == {"minMember": 4}
    full = GangSpec("job", "default", 3, roles, timeout_seconds=5, min_resources={GPU: "32"}, annotations={"a": "b"})
    assert full.pod_group()["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 5, "minResources": {GPU: "32"}}
    assert full.pod_group()["metadata"]["annotations"] == {"a": "b"}


def test_native_gang_uses_the_native_api() -> None:
    """A native gang's members name their group in the spec, not by a label."""
    gang = GangSpec("job", "default", 2, (Role("", 2, PodTemplate()),), native=True)
    assert gang.pod_group()["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert gang.pod_group()["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    assert [pod["spec"]["schedulingGroup"] for pod in gang.pods()] == [{"podGroupName": "job"}] * 2
    assert all(pod["metadata"]["labels"] == {} for pod in gang.pods())


def test_nodes_are_grouped_into_racks_and_zones() -> None:
    """Four nodes make a rack, four racks a zone; numbers go on where they are told to."""
    nodes = numbered_nodes(3, NodeShape(gpus=8), first=15)
    assert [node["metadata"]["name"] for node in nodes] == ["node-15", "node-16", "node-17"]
    labels = [node["metadata"]["labels"] for node in nodes]
    assert [(label[ZONE_LABEL], label[RACK_LABEL]) for label in labels] == [
        ("zone-0", "rack-3"),
        ("zone-1", "rack-4"),
        ("zone-1", "rack-4"),
    ]


def test_node_offers_its_shape() -> None:
    """Capacity and allocatable are the shape's; own labels go before the usual ones; a node without GPUs names none."""
    shape = NodeShape(gpus=0, cpu="16", memory="64Gi", pods=20, labels={RACK_LABEL: "left"})
    (node,) = numbered_nodes(1, shape, prefix="cpu")
    assert node["status"]["allocatable"] == node["status"]["capacity"] == {"cpu": "16", "memory": "64Gi", "pods": "20"}
    assert node["metadata"]["labels"][RACK_LABEL] == "left"


def test_paths_follow_the_api_conventions() -> None:
    """The core group lives under /api, cluster-wide resources have no namespace, parts come last."""
    assert NODES.path() == "/api/v1/nodes"
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("default", "a", "status") == "/api/v1/namespaces/default/pods/a/status"


def test_pod_may_be_put_on_a_node_with_a_port_and_a_finalizer() -> None:
    """What no scheduler is asked about, what only kube-scheduler knows, and what keeps a deleted pod."""
    template = PodTemplate(node_name="node-1", host_port=8080, finalizers=("example.com/story",))
    pod = template.pod("foreign", "default")
    assert pod["spec"]["nodeName"] == "node-1"
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 8080, "hostPort": 8080}]
    assert pod["metadata"]["finalizers"] == ["example.com/story"]


def test_further_spec_is_added_to_each_pod_as_its_own() -> None:
    """Pods of one template do not share what is changed in one of them."""
    template = PodTemplate(spec={"affinity": {"podAntiAffinity": {}}})
    first, second = (template.pod(name, "default") for name in ("a", "b"))
    first["spec"]["affinity"]["podAntiAffinity"]["changed"] = True
    assert second["spec"]["affinity"] == {"podAntiAffinity": {}}
