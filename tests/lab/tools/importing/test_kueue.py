"""Kueue's queues as Muster's."""

from __future__ import annotations

import pytest

from extender.objects.queue import BorrowWithin, QueueingStrategy, Quota, Reclaim, StopPolicy, WithinQueue
from muster_lab.tools.importing.kueue import Naming
from muster_lab.tools.importing.objects import NO_NAMESPACE, ImportingError
from tests.lab.tools.importing.examples import KUEUE, kueue, queues, specs, told

GPU = "nvidia.com/gpu"
CLUSTER_QUEUE = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: %s}"
LOCAL_QUEUE = (
    "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: %s, namespace: %s}, "
    "spec: {clusterQueue: %s}}"
)
FLAVOR = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: %s}, spec: %s}"


def local_queues(*queues: tuple[str, str, str]) -> str:
    """Return LocalQueues (name, namespace, ClusterQueue)."""
    return "\n---\n".join(LOCAL_QUEUE % queue for queue in queues)


def test_what_is_imported_is_read_without_problems() -> None:
    """Each ClusterQueue is a Queue, the cohort the Queue above them, and nothing of these objects is lost."""
    imported = kueue(KUEUE)
    read = queues(imported)
    assert list(read) == ["research", "team-a", "team-b"]
    assert all(not queue.problems for queue in read.values())
    assert told(imported) == []


def test_every_field_means_what_it_meant() -> None:
    """Quota in the units of the model, selectors, policies, weight."""
    queue = queues(kueue(KUEUE))["team-a"]
    first, second = queue.flavors
    assert (first.name, first.node_selector) == ("h100", (("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),))
    assert first.quotas == {"cpu": Quota(500), GPU: Quota(16, 8, 8)}
    assert second.quotas == {"cpu": Quota(40_000), GPU: Quota(4)}
    assert (queue.parent, queue.weight, queue.strategy) == ("research", 2.0, QueueingStrategy.STRICT_FIFO)
    assert queue.namespaces is None
    preemption = queue.preemption
    assert preemption.within_queue is WithinQueue.LOWER_OR_NEWER
    assert preemption.reclaim_within_cohort is Reclaim.ANY
    assert preemption.borrow_within_cohort is BorrowWithin.LOWER_PRIORITY
    assert preemption.max_priority_threshold == 100


def test_kueues_defaults_are_written_out() -> None:
    """Who says nothing of preemption has none in Kueue; in Muster it would reclaim."""
    queue = queues(kueue(KUEUE))["team-b"]
    assert (queue.preemption.within_queue, queue.preemption.reclaim_within_cohort) == (WithinQueue.NEVER, Reclaim.NEVER)
    assert queue.strategy is QueueingStrategy.BEST_EFFORT_FIFO
    assert queue.stop_policy is StopPolicy.HOLD


def test_nobody_may_use_a_queue_whose_selector_is_missing() -> None:
    """Kueue's null selector matches no namespace, Muster's every one; a cohort's Queue holds no gangs either."""
    imported = kueue(KUEUE, CLUSTER_QUEUE % "{}")
    assert specs(imported)["a"]["namespaceSelector"] == NO_NAMESPACE
    read = queues(imported)
    labels = {"kubernetes.io/metadata.name": "b", "team": "b"}
    admitted = {name for name, queue in read.items() if queue.namespaces is None or queue.namespaces.matches(labels)}
    assert admitted == {"team-a", "team-b"}


def test_only_namespaces_with_a_local_queue_may_use_a_queue() -> None:
    """As in Kueue: the selector must match, and a LocalQueue must lead there."""
    local = local_queues(("q", "ns-1", "team-b"), ("q", "ns-2", "team-b"))
    read = queues(kueue(KUEUE, local))
    selector = read["q"].namespaces
    assert selector is not None

    def admits(namespace: str, **labels: str) -> bool:
        return selector.matches({"kubernetes.io/metadata.name": namespace} | labels)

    assert admits("ns-1", team="b")
    assert admits("ns-2", team="b")
    assert not admits("ns-2")
    assert not admits("ns-3", team="b")
    unreached = read["team-a"].namespaces
    assert unreached is not None
    assert not unreached.matches({"kubernetes.io/metadata.name": "ns-1"})


def test_more_namespaces_than_a_queue_can_list_are_not_listed() -> None:
    """The selector alone decides then, and it is said."""
    imported = kueue(KUEUE, local_queues(*((f"q-{number}", f"ns-{number}", "team-a") for number in range(65))))
    assert queues(imported)["team-a"].namespaces is None
    assert "65 are too many to be listed" in "".join(told(imported))


def test_a_queue_is_named_as_its_pods_name_it() -> None:
    """The label on pods is a LocalQueue's name; where one name leads to one ClusterQueue, no pod has to change."""
    local = local_queues(("a-queue", "ns-1", "team-a"), ("a-queue", "ns-2", "team-a"), ("team-b", "ns-3", "team-b"))
    imported = kueue(KUEUE, local)
    assert list(specs(imported)) == ["research", "a-queue", "team-b"]
    assert told(imported) == []
    assert list(specs(kueue(KUEUE, local, naming=Naming.CLUSTER_QUEUE))) == ["research", "team-a", "team-b"]


def test_a_name_that_leads_to_several_queues_has_to_change_on_pods() -> None:
    """It is said which label to write instead."""
    imported = kueue(KUEUE, local_queues(("main", "ns-1", "team-a"), ("main", "ns-2", "team-b")))
    assert list(specs(imported)) == ["research", "team-a", "team-b"]
    assert told(imported) == [
        f"LocalQueue ns-{number}/main: metadata.name: pods say kueue.x-k8s.io/queue-name: main; "
        f"let them say muster.dev/queue: team-{team}"
        for number, team in ((1, "a"), (2, "b"))
    ]


def test_a_local_queue_does_not_take_another_queues_name() -> None:
    """LocalQueue team-b that leads to team-a: team-b stays who it is."""
    imported = kueue(KUEUE, local_queues(("team-b", "ns-1", "team-a")))
    assert list(specs(imported)) == ["research", "team-a", "team-b"]
    assert len(imported.differences) == 1


def test_default_local_queues_make_a_default_queue() -> None:
    """Kueue puts what names no queue into the LocalQueue `default` of its namespace."""
    read = queues(kueue(KUEUE, local_queues(("default", "ns-1", "team-a"), ("default", "ns-2", "team-b"))))
    assert (read["team-a"].default, read["team-b"].default, read["research"].default) == (True, True, False)


def test_a_local_queue_without_its_cluster_queue_is_told() -> None:
    """There is nothing that it could lead to."""
    assert told(kueue(KUEUE, local_queues(("q", "ns", "gone")))) == [
        "LocalQueue ns/q: spec.clusterQueue: ClusterQueue gone is not in these files"
    ]


def test_cohorts_are_queues_parents_first() -> None:
    """Named or with an object of their own, with shared quota, at any depth."""
    cohorts = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: research}
spec:
  parentName: company
  fairSharing: {weight: 500m}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 0}]}]
"""
    read = queues(kueue(KUEUE, cohorts))
    assert list(read) == ["company", "research", "team-a", "team-b"]
    research = read["research"]
    assert (research.parent, research.weight) == ("company", 0.5)
    assert research.flavors[0].quotas == {GPU: Quota(8, 0)}
    assert not any(queue.problems for queue in read.values())


def test_a_cycle_of_cohorts_is_imported_as_it_is() -> None:
    """Kueue takes them out of service until it is gone; so does Muster."""
    cohort = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: {parent: %s}}"
    read = queues(kueue(cohort % ("x", "y"), cohort % ("y", "x")))
    assert (read["x"].parent, read["y"].parent) == ("y", "x")


def test_a_cohort_with_the_name_of_a_queue_gets_another() -> None:
    """Kueue has separate names for both, Muster one."""
    imported = kueue(CLUSTER_QUEUE % "{cohort: a, namespaceSelector: {}}")
    assert {name: spec.get("parent") for name, spec in specs(imported).items()} == {"a-cohort": None, "a": "a-cohort"}
    assert told(imported) == ["Cohort a: metadata.name: is called a-cohort: a Queue has its name"]


def test_of_several_resource_groups_the_one_with_gpus_is_imported() -> None:
    """A gang runs in one flavor; what becomes of the other resources is said."""
    groups = (
        "[{coveredResources: [cpu, memory], flavors: [{name: any, resources: [{name: cpu, nominalQuota: 9}]}]}, "
        "{coveredResources: [nvidia.com/gpu], flavors: [{name: h100, resources: [{name: nvidia.com/gpu, "
        "nominalQuota: 8}]}]}]"
    )
    imported = kueue(FLAVOR % ("h100", "{}"), CLUSTER_QUEUE % f"{{namespaceSelector: {{}}, resourceGroups: {groups}}}")
    (flavor,) = queues(imported)["a"].flavors
    assert (flavor.name, dict(flavor.quotas), flavor.node_selector) == ("h100", {GPU: Quota(8)}, None)
    assert told(imported) == [
        (
            "ClusterQueue a: spec.resourceGroups: a gang runs in one flavor: the group of nvidia.com/gpu is imported, "
            "cpu, memory is not limited"
        )
    ]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("{flavorFungibility: {whenCanBorrow: TryNextFlavor}}", "spec.flavorFungibility.whenCanBorrow: borrows in"),
        ("{flavorFungibility: {whenCanPreempt: MayStopSearch}}", "spec.flavorFungibility.whenCanPreempt: tries every"),
        ("{flavorFungibility: {whenCanPreempt: Preempt}}", "spec.flavorFungibility.whenCanPreempt: tries every"),
        ("{flavorFungibility: {preference: PreemptionOverBorrowing}}", "spec.flavorFungibility.preference: borrows"),
        ("{admissionChecks: [quota]}", "spec.admissionChecks: gangs start without these checks"),
        ("{admissionChecksStrategy: {admissionChecks: [{name: a}]}}", "spec.admissionChecksStrategy: gangs start"),
        ("{admissionScope: {admissionMode: X}}", "spec.admissionScope: usage is remembered for all queues or for none"),
        ("{fairSharing: {weight: 0}}", "spec.fairSharing.weight: 0 becomes 0.000001: comes last, and may still borrow"),
        ("{somethingNew: 1}", "spec.somethingNew: left out: nothing is known of this field"),
    ],
)
def test_what_has_no_equal_is_told(spec: str, line: str) -> None:
    """Object, field, and what Muster does instead; the rest is imported all the same."""
    imported = kueue(CLUSTER_QUEUE % spec)
    (difference,) = told(imported)
    assert difference.startswith(f"ClusterQueue a: {line}")
    assert not queues(imported)["a"].problems


@pytest.mark.parametrize(
    "spec",
    [
        "{flavorFungibility: {}}",
        "{flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}}",
        "{flavorFungibility: {whenCanBorrow: MayStopSearch, preference: BorrowingOverPreemption}}",
        "{excludeResourcePrefixes: [example.com]}",
        "{stopPolicy: None, preemption: {}}",
    ],
)
def test_what_muster_does_the_same_way_is_not_told(spec: str) -> None:
    """Kueue's defaults, and what says nothing."""
    assert told(kueue(CLUSTER_QUEUE % spec)) == []


def test_limits_without_a_cohort_are_left_out() -> None:
    """Kueue refuses them, and they would make a Queue without parent invalid."""
    quota = "{name: cpu, nominalQuota: 1, borrowingLimit: 2, lendingLimit: 3}"
    groups = f"[{{coveredResources: [cpu], flavors: [{{name: x, resources: [{quota}]}}]}}]"
    imported = kueue(FLAVOR % ("x", "{}"), CLUSTER_QUEUE % f"{{resourceGroups: {groups}}}")
    assert queues(imported)["a"].flavors[0].quotas == {"cpu": Quota(1000)}
    assert [line.split(": ")[1] for line in told(imported)] == [
        "spec.resourceGroups.flavors.resources.borrowingLimit",
        "spec.resourceGroups.flavors.resources.lendingLimit",
    ]


def test_flavors_say_what_they_add_to_pods() -> None:
    """Muster changes no pods; Topologies it reads itself."""
    taint = "{key: a, effect: NoSchedule}"
    spec = f"{{nodeTaints: [{taint}], tolerations: [{taint}], topologyName: t, resourceWeights: {{cpu: 2}}}}"
    assert [line.split(": ")[1] for line in told(kueue(KUEUE, FLAVOR % ("x", spec)))] == [
        "spec.nodeTaints",
        "spec.tolerations",
        "spec.resourceWeights",
    ]


def test_a_flavor_that_is_not_there_is_every_node() -> None:
    """Kueue would not use the queue; here nothing says which nodes are meant."""
    groups = "[{coveredResources: [cpu], flavors: [{name: x, resources: [{name: cpu, nominalQuota: 1}]}]}]"
    assert told(kueue(CLUSTER_QUEUE % f"{{resourceGroups: {groups}}}")) == [
        "ClusterQueue a: spec.resourceGroups.flavors: there is no ResourceFlavor x in these files: every node is of it"
    ]


def test_priority_classes_become_those_of_pods() -> None:
    """With value and description; the label that Kueue reads is not read."""
    one = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: WorkloadPriorityClass, metadata: {name: high}, value: %s%s}"
    imported = kueue(KUEUE, one % (100, ", description: for papers"))
    assert imported.manifests[0] == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 100,
        "description": "for papers",
    }
    assert told(imported) == [
        (
            "WorkloadPriorityClass high: becomes a PriorityClass: let pods say priorityClassName: high, "
            "not kueue.x-k8s.io/priority-class"
        )
    ]
    with pytest.raises(ImportingError, match="WorkloadPriorityClass high: value: 'much' is no whole number"):
        kueue(KUEUE, one % ("much", ""))


def test_other_objects_are_named() -> None:
    """Topologies are read by Muster from the cluster; of the rest somebody should know that it was left out."""
    others = (
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: t}}",
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: c}}",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: n}}",
    )
    assert told(kueue(KUEUE, *others)) == ["AdmissionCheck c: not imported", "ConfigMap n/m: not imported"]


def test_files_without_queues_are_refused() -> None:
    """Somebody has given the wrong files."""
    with pytest.raises(ImportingError, match="no ClusterQueue or Cohort in these files"):
        kueue(FLAVOR % ("x", "{}"))


def test_a_weight_that_is_no_number_is_refused() -> None:
    """Object and field are named."""
    with pytest.raises(ImportingError, match=r"ClusterQueue a: spec.fairSharing.weight: 'heavy' is not a quantity"):
        kueue(CLUSTER_QUEUE % "{fairSharing: {weight: heavy}}")
