"""TrainJobs before they are submitted: what Trainer makes of them, as `muster explain -f` expects it."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.manifest import SubmissionError
from extender.objects.priority import Priorities
from extender.objects.submission import Submission, read_submission
from tests.builders import CREATED, GPU

API = "trainer.kubeflow.org/v1alpha1"


def replicated(name: str, ancestor: str = "", container: str = "node", **spec: Any) -> dict[str, Any]:
    """Return a Job of a runtime's JobSet, which asks for one GPU."""
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    containers = [{"name": container, "image": "x", "resources": {"limits": {GPU: 1}}}]
    pod = {"spec": {"schedulerName": "muster", "containers": containers}}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": pod, **spec}}}


def runtime(*jobs: dict[str, Any], kind: str = "ClusterTrainingRuntime", **policy: Any) -> dict[str, Any]:
    """Return a runtime called `torch` with such Jobs."""
    template = {"metadata": {"labels": {"muster.dev/queue": "team"}}, "spec": {"replicatedJobs": list(jobs)}}
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": "torch"},
        "spec": {"mlPolicy": policy, "template": template},
    }


def train_job(**spec: Any) -> dict[str, Any]:
    """Return a TrainJob called `train` that names the runtime."""
    spec = {"runtimeRef": {"name": "torch"}} | spec
    return {"apiVersion": API, "kind": "TrainJob", "metadata": {"name": "train"}, "spec": spec}


def submitted(*objects: dict[str, Any]) -> Submission:
    """Read what would be submitted."""
    return read_submission(objects, Priorities(), CREATED)


def test_a_train_job_is_the_gang_of_its_job_set() -> None:
    """As many pods as it says, with the resources that it says; those of other Jobs are as the runtime has them."""
    nodes, initializer = replicated("node", "trainer"), replicated("init", "dataset-initializer", "dataset-initializer")
    given = runtime(initializer, nodes, numNodes=1, torch={})
    read = submitted(given, train_job(trainer={"numNodes": 3, "resourcesPerNode": {"limits": {GPU: 8}}}))
    assert read.passed_over == ()
    (gang,) = read.gangs
    assert str(gang.ref) == "default/train"
    assert sorted((pod.role, pod.shape.gpus) for pod in gang.pods) == [("init", 1), *(3 * [("node", 8)])]


def test_the_runtime_says_what_the_train_job_does_not() -> None:
    """The number of nodes, and what they ask for."""
    (gang,) = submitted(train_job(), runtime(replicated("node", "trainer", parallelism=9), numNodes=2)).gangs
    assert [pod.shape.gpus for pod in gang.pods] == [1, 1]
    (gang,) = submitted(train_job(), runtime(replicated("node", "trainer", parallelism=4, completions=4))).gangs
    assert len(gang.pods) == 4


def test_labels_of_both_are_the_job_set_s() -> None:
    """A TrainJob's come before its runtime's."""
    for labels, queue in ({}, "team"), ({"muster.dev/queue": "mine"}, "mine"):
        (gang,) = submitted(train_job(labels=labels), runtime(replicated("node", "trainer"))).gangs
        assert gang.group is not None
        assert gang.group.options.queue == queue


def test_a_train_job_that_is_suspended_is_evaluated_as_if_it_were_resumed() -> None:
    """And says so."""
    (gang,) = submitted(train_job(suspend=True), runtime(replicated("node", "trainer"))).gangs
    assert "JobSet default/train is suspended; it is evaluated as if it were resumed" in gang.remarks


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (
            [train_job(), runtime(kind="TrainingRuntime")],
            "TrainJob default/train: spec.runtimeRef: its pods are in ClusterTrainingRuntime torch, which is not given",
        ),
        (
            [train_job(runtimePatches=[{}]), runtime()],
            "TrainJob default/train: spec.runtimePatches: what comes of it is up to Trainer: ask about the JobSet",
        ),
        (
            [train_job(podTemplateOverrides=[{}]), runtime()],
            "TrainJob default/train: spec.podTemplateOverrides: what comes of it is up to Trainer",
        ),
        (
            [train_job(), runtime(mpi={})],
            "ClusterTrainingRuntime default/torch: spec.mlPolicy.mpi: how many pods there are is up to Trainer",
        ),
        ([train_job(trainer={"numNodes": "4"}), runtime()], "TrainJob default/train: spec.trainer.numNodes: Expected"),
        (
            [train_job(trainer={"numNodes": -1}), runtime(replicated("node", "trainer"))],
            "JobSet default/train: spec.replicatedJobs[0]",
        ),
    ],
)
def test_what_cannot_be_foretold_is_refused(objects: list[dict[str, Any]], words: str) -> None:
    """With the field, and what to ask instead."""
    with pytest.raises(SubmissionError) as error:
        submitted(*objects)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("template", [None, {"spec": None}, {"spec": {"replicatedJobs": 3}}])
def test_a_runtime_without_jobs_makes_no_pods(template: Any) -> None:
    """The gang is there, and says that it has none."""
    broken = runtime() | {"spec": {"template": template}}
    (gang,) = submitted(train_job(), broken).gangs
    assert gang.pods == ()
    assert gang.remarks
