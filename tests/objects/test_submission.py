"""Objects as the gangs that would come of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.manifest import SubmissionError
from extender.objects.podgroup import MOST_PODS
from extender.objects.priority import Priorities
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.kubeflow import KUBEFLOW
from extender.objects.sources.native import NATIVE
from extender.objects.sources.ray import RAY
from extender.objects.sources.volcano import VOLCANO
from extender.objects.submission import Submitted, read_submission
from tests.builders import GPU, Json, container_json, coscheduling_json, native_json, pod_json, volcano_json
from tests.examples import share

CREATED = "2026-02-01T00:00:00Z"
IN_TRAIN = {"scheduling.x-k8s.io/pod-group": "train"}


def template(labels: Json | None = None, gpus: int = 8, **spec: Any) -> Json:
    """Build a pod template that asks for GPUs by a limit alone, as people write them."""
    container = {"name": "main", "resources": {"limits": {GPU: gpus, "cpu": "4"}, "requests": {"cpu": "2"}}}
    return {"metadata": {"labels": labels or {}}, "spec": {"schedulerName": "muster", "containers": [container]} | spec}


def described(api: str, kind: str, spec: Json, **meta: Any) -> Json:
    """Build an object called `train`."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "train"} | meta, "spec": spec}


def job(pods: int = 4, **fields: Any) -> Json:
    """Build an indexed Job of the coscheduling gang `train`."""
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template(IN_TRAIN)}
    return described("batch/v1", "Job", spec | fields)


def read(*objects: Any, **priorities: int) -> tuple[Submitted, ...]:
    """Read objects."""
    return read_submission(objects, Priorities(priorities), CREATED).gangs


def only(*objects: Any, **priorities: int) -> Submitted:
    """Read objects that make one gang."""
    (gang,) = read(*objects, **priorities)
    return gang


def test_a_job_is_its_pods_under_the_pod_group_beside_it() -> None:
    """As many as run at a time, numbered, asking for what their limits say where they have no request."""
    gang = only(coscheduling_json("train", minMember=3), job(4, completions=9))
    assert (gang.ref.api, str(gang.ref)) == (COSCHEDULING, "default/train")
    assert gang.group is not None
    assert (gang.group.min_member, gang.group.created) == (3, CREATED)
    assert [(pod.name, pod.rank.indices) for pod in gang.pods] == [(f"train-{i}", (i,)) for i in range(4)]
    assert dict(gang.pods[0].shape.requests) == {GPU: 8, "cpu": 2000, "pods": 1}
    assert {pod.created for pod in gang.pods} == {CREATED}
    assert not gang.remarks


def test_a_pod_group_that_is_not_among_the_objects_is_left_for_the_cluster_to_say() -> None:
    """The pods are there, what describes them is not."""
    gang = only(job(2))
    assert gang.group is None
    assert len(gang.pods) == 2


def test_a_pod_group_without_pods_says_so() -> None:
    """Nothing of the cluster is counted for it."""
    gang = only(native_json("train", gang={"minCount": 2}))
    assert (gang.ref.api, gang.pods) == (NATIVE, ())
    assert gang.remarks == ("none of the objects makes pods of this gang; those in the cluster are not counted",)


@pytest.mark.parametrize(
    ("objects", "api", "roles", "minimum"),
    [
        (
            [volcano_json("train", minMember=2), pod_json(annotations={"scheduling.k8s.io/group-name": "train"})],
            VOLCANO,
            {"": 1},
            2,
        ),
        (
            [
                described(
                    "jobset.x-k8s.io/v1alpha2",
                    "JobSet",
                    {
                        "replicatedJobs": [
                            {"name": "driver", "template": {"spec": {"template": template(gpus=1)}}},
                            {
                                "name": "workers",
                                "replicas": 2,
                                "template": {"spec": {"parallelism": 3, "completions": 3, "template": template()}},
                            },
                        ]
                    },
                )
            ],
            JOBSET,
            {"driver": 1, "workers": 6},
            7,
        ),
        (
            [
                described(
                    "kubeflow.org/v1",
                    "PyTorchJob",
                    {
                        "pytorchReplicaSpecs": {
                            "Master": {"template": template()},
                            "Worker": {"replicas": 3, "template": template()},
                        }
                    },
                )
            ],
            KUBEFLOW,
            {"master": 1, "worker": 3},
            4,
        ),
        (
            [
                described(
                    "kubeflow.org/v2beta1",
                    "MPIJob",
                    {
                        "launcherCreationPolicy": "WaitForWorkersReady",
                        "mpiReplicaSpecs": {
                            "Launcher": {"template": template(gpus=1)},
                            "Worker": {"replicas": 2, "template": template()},
                        },
                    },
                )
            ],
            KUBEFLOW,
            {"worker": 2},
            2,
        ),
        (
            [
                described(
                    "ray.io/v1",
                    "RayJob",
                    {
                        "rayClusterSpec": {
                            "headGroupSpec": {"template": template(gpus=1)},
                            "workerGroupSpecs": [
                                {"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": template()}
                            ],
                        }
                    },
                )
            ],
            RAY,
            {"head": 1, "gpu": 4},
            5,
        ),
    ],
    ids=["volcano", "jobset", "pytorch", "mpi", "rayjob"],
)
def test_operators_make_the_pods_that_they_say_they_make(
    objects: list[Json], api: str, roles: dict[str, int], minimum: int
) -> None:
    """Under the keys by which Muster knows them when they are there."""
    gang = only(*objects)
    assert gang.ref.api == api
    assert Counter(pod.role for pod in gang.pods) == roles
    assert gang.group is not None
    assert gang.group.min_member == minimum


def test_each_group_of_a_leader_worker_set_is_a_gang() -> None:
    """Its pods say how many they are, and the leader is the first."""
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}}
    gangs = read(described("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec))
    assert [str(gang.ref) for gang in gangs] == ["default/train-0", "default/train-1"]
    assert [pod.role for pod in gangs[1].pods] == ["leader", "worker", "worker"]
    assert {pod.options.min_member for pod in gangs[1].pods} == {3}


def test_workers_that_wait_for_their_leader_are_not_there_yet() -> None:
    """With LeaderReady and with exclusive topology."""
    spec: Json = {"leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}}
    ready = described("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec | {"startupPolicy": "LeaderReady"})
    key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    exclusive = described("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations={key: "rack"})
    assert [len(only(each).pods) for each in (ready, exclusive)] == [1, 1]


def test_jobs_of_a_jobset_that_wait_for_others_are_not_there_yet() -> None:
    """In order, by dependsOn, and with exclusive topology all but the first pod of each."""
    jobs: list[Json] = [
        {"name": name, "template": {"spec": {"parallelism": 2, "template": template()}}} for name in ("a", "b")
    ]
    api = "jobset.x-k8s.io/v1alpha2"
    ordered = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    depending = {"replicatedJobs": [jobs[0], jobs[1] | {"dependsOn": [{"name": "a", "status": "Ready"}]}]}
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    exclusive = described(api, "JobSet", {"replicatedJobs": jobs}, annotations={key: "rack"})
    assert Counter(pod.role for pod in only(described(api, "JobSet", ordered)).pods) == {"a": 2}
    assert Counter(pod.role for pod in only(described(api, "JobSet", depending)).pods) == {"a": 2}
    assert Counter(pod.role for pod in only(exclusive).pods) == {"a": 1, "b": 1}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_pods_that_name_no_gang_start_one_by_one(kind: str) -> None:
    """They stand together, and one of them is enough."""
    gang = only(described("apps/v1", kind, {"replicas": 3, "template": template()}))
    assert gang.alone
    assert (len(gang.pods), gang.group.min_member if gang.group else 0) == (3, 1)
    assert gang.remarks == (f"the pods of {kind} default/train name no gang: each is placed by itself",)


def test_a_pod_is_read_as_if_it_were_new() -> None:
    """Whatever became of the one that it was copied from; Muster's own gate would be taken off."""
    spec = {"nodeName": "gpu-1", "schedulingGates": [{"name": "muster.dev/admission"}, {"name": "other"}]}
    pod = pod_json("old", gpus=8, gang="train", spec=spec, status={"phase": "Running", "startTime": CREATED})
    pod["metadata"]["deletionTimestamp"] = CREATED
    (read_again,) = only(pod).pods
    assert (read_again.node_name, read_again.phase, read_again.deleting, read_again.started_at) == (
        *("", "Pending", False),
        None,
    )
    assert read_again.gates == ("other",)
    assert read_again.uid == "hypothetical:default/old"


def test_a_name_is_made_up_for_pods_that_have_a_prefix() -> None:
    """As the API server would, and two of them do not collide."""
    one: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": template()["spec"]}
    gangs = read({"kind": "List", "items": [one, one]})
    assert [pod.name for gang in gangs for pod in gang.pods] == ["p-1", "p-2"]


class TestPriorities:
    """What the API server makes of a class."""

    def test_a_class_of_the_cluster_counts(self) -> None:
        """By its name."""
        gang = only(job(1, template=template(IN_TRAIN, priorityClassName="high")), high=7)
        assert gang.pods[0].priority == 7

    def test_a_class_among_the_objects_counts(self) -> None:
        """As a global default too."""
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
        named = only(high, job(1, template=template(IN_TRAIN, priorityClassName="high")))
        default = only(high | {"globalDefault": True}, job(1))
        assert (named.pods[0].priority, default.pods[0].priority) == (9, 9)

    def test_a_class_that_nobody_knows_is_told(self) -> None:
        """What is assumed instead, once for all pods."""
        gang = only(job(3, template=template(IN_TRAIN, priorityClassName="low")))
        assert gang.pods[0].priority == 0
        assert gang.remarks == ("no PriorityClass is called low; priority 0 is assumed (put the object into the file)",)

    def test_a_number_in_the_pod_counts_first(self) -> None:
        """It is what the API server wrote."""
        spec = template(IN_TRAIN, priorityClassName="high", priority=3)
        assert only(job(1, template=spec), high=7).pods[0].priority == 3


def test_what_makes_no_pods_is_left_out() -> None:
    """Services, ConfigMaps and the like stand beside workloads in every file."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train"}}
    assert len(only(service, job(2)).pods) == 2


def test_a_suspended_job_is_judged_as_if_it_ran() -> None:
    """And that is told."""
    assert only(job(1, suspend=True)).remarks == (
        "Job default/train is suspended; it is evaluated as if it were resumed",
    )


def test_a_key_that_does_not_exist_is_told() -> None:
    """As the Event would about the real object."""
    gang = only(coscheduling_json("train", annotations={"muster.dev/odd": "x"}, minMember=1), job(1))
    assert any("muster.dev/odd" in remark for remark in gang.remarks)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], "there is no object that makes pods; a PodGroup, Pod, Job, JobSet ... is needed"),
        ([7], "object 1 is no Kubernetes object: it has no kind"),
        ([job(1), {"kind": "Pod"}], "object 2: Pod: metadata: is missing; metadata.name is needed"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], "object 1: Pod: metadata.name: is missing"),
        ([{"kind": "Pod", "metadata": {"name": "a"}}], "object 1: Pod: apiVersion: is missing, such as batch/v1"),
        (
            [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A b"}}],
            "object 1: Pod: metadata.name: 'A b' cannot be the name of a Pod",
        ),
        (
            [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}],
            "object 1: Pod: metadata.name: 7 is not a text; quote it",
        ),
        ([job(1), job(1)], "Job default/train is given twice"),
        (
            [job(1, parallelism="four")],
            "Job default/train: spec.parallelism: Expected `int | null`, got `str`",
        ),
        ([job(-1)], "Job default/train: spec.parallelism: -1 is negative"),
        (
            [job(10**6)],
            f"Job default/train: spec.parallelism: 1000000 pods are more than a question may be about, {MOST_PODS}",
        ),
        (
            [described("batch/v1", "Job", {"template": {"spec": {}}})],
            "Job default/train: spec.template.spec.containers: there is none; nothing can be said of such a pod",
        ),
        (
            [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}],
            "Pod default/a: spec.containers: there is none; nothing can be said of such a pod",
        ),
        (
            [described("batch.volcano.sh/v1alpha1", "Job", {})],
            "Job default/train: kind: batch.volcano.sh/v1alpha1 Job is not supported: it is not known",
        ),
        (
            [described("ray.io/v1", "RayJob", {})],
            "RayJob default/train: spec.rayClusterSpec: is missing; it cannot be said which pods there would be",
        ),
        (
            [described("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": -1})],
            "LeaderWorkerSet default/train: spec.replicas: -1 is negative",
        ),
        (
            [
                described(
                    "jobset.x-k8s.io/v1alpha2",
                    "JobSet",
                    {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template()}}}] * 2},
                )
            ],
            "JobSet default/train: metadata.name: two pods would be called default/train-a-0-0",
        ),
    ],
)
def test_what_nobody_can_judge_is_refused(objects: list[Any], message: str) -> None:
    """With the object and the field."""
    with pytest.raises(SubmissionError) as refused:
        read(*objects)
    assert str(refused.value).startswith(message)


def test_a_request_that_is_no_quantity_is_a_bad_member() -> None:
    """The gang is judged as it would be: with the reason InvalidMember."""
    bad = {"schedulerName": "muster", "containers": [container_json(requests={"cpu": "many"})]}
    (pod,) = only(job(1, template={"metadata": {"labels": IN_TRAIN}, "spec": bad})).pods
    assert pod.problem is not None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 20) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.sampled_from(
        [
            *(("batch/v1", "Job"), ("apps/v1", "Deployment"), ("v1", "Pod"), ("ray.io/v1", "RayCluster")),
            *(("jobset.x-k8s.io/v1alpha2", "JobSet"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")),
            *(("kubeflow.org/v1", "MPIJob"), ("scheduling.x-k8s.io/v1alpha1", "PodGroup"), ("v1", "List")),
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            [
                *("parallelism", "completions", "replicas", "template", "replicatedJobs", "leaderWorkerTemplate"),
                *("mpiReplicaSpecs", "headGroupSpec", "workerGroupSpecs", "minMember", "containers", "runPolicy"),
            ]
        ),
        _JSON,
        max_size=4,
    ),
    _JSON,
)
@share(0.6)
def test_no_object_makes_it_fail_otherwise(kind: tuple[str, str], spec: Json, meta: object) -> None:
    """Whatever people write is read, or refused with a message."""
    thing = {"apiVersion": kind[0], "kind": kind[1], "spec": spec}
    for metadata in ({"name": "train"}, meta):
        gangs: tuple[Submitted, ...] = ()
        with contextlib.suppress(SubmissionError):
            gangs = read(thing | {"metadata": metadata})
        assert sum(len(gang.pods) for gang in gangs) <= MOST_PODS


def test_a_job_that_names_a_queue_is_a_gang_where_its_namespace_has_opted_in() -> None:
    """Elsewhere each of its pods is placed by itself."""
    submitted = described(
        "batch/v1",
        "Job",
        {"parallelism": 4, "suspend": True, "template": template()},
        labels={"muster.dev/queue": "team"},
    )
    (gang,) = read_submission([submitted], Priorities(), CREATED, {"default"}).gangs
    assert gang.group is not None
    assert (gang.ref.api, gang.group.min_member, len(gang.pods), gang.alone) == ("batch", 4, 4, False)
    assert gang.group.options.queue == "team"
    assert only(submitted).alone
