"""What the judge reads in Kubernetes objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judge.objects import Taint, Toleration, read_group, read_job, read_node, read_pod, thousandths


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("100m", 100),
        ("2", 2000),
        (2, 2000),
        ("0.5", 500),
        ("1.5Gi", 1536 * 1024**2 * 1000),
        ("1Ki", 1024_000),
        ("3k", 3_000_000),
        ("1e3", 1_000_000),
        ("1E", 10**21),
        ("1n", 1),
        ("0", 0),
    ],
)
def test_quantities(quantity: str | int, expected: int) -> None:
    """Quantities are thousandths of a unit, rounded up."""
    assert thousandths(quantity) == expected


def test_bad_quantity() -> None:
    """What is no quantity is an error, not a zero."""
    with pytest.raises(ValueError, match="invalid literal"):
        thousandths("many")


def pod(**spec: Any) -> dict[str, Any]:
    """Make a pod."""
    return {"metadata": {"uid": "u", "name": "p", "namespace": "d"}, "spec": spec}


def asks(**requests: str) -> dict[str, Any]:
    """Make a container."""
    return {"resources": {"requests": requests}}


def test_requests_add_up() -> None:
    """A pod takes the larger of its containers with sidecars and its largest init step, and its overhead."""
    requests = read_pod(
        pod(
            containers=[asks(cpu="1"), asks(cpu="500m", memory="1Ki")],
            initContainers=[asks(cpu="4"), {**asks(cpu="1"), "restartPolicy": "Always"}, asks(memory="3Ki")],
            overhead={"cpu": "250m"},
        )
    ).requests
    assert requests == {"cpu": 4250, "memory": 3072_000, "pods": 1000}


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({"scheduling.x-k8s.io/pod-group": "g"}, {}, ("scheduling.x-k8s.io", "d", "g")),
        ({}, {"schedulingGroup": {"podGroupName": "g"}}, ("scheduling.k8s.io", "d", "g")),
        ({"muster.dev/gang": "g"}, {}, ("muster.dev", "d", "g")),
        ({}, {}, None),
    ],
)
def test_membership(labels: dict[str, str], spec: dict[str, Any], expected: object) -> None:
    """A pod names its gang by either label or by its native field."""
    thing = pod(**spec)
    thing["metadata"]["labels"] = labels
    assert read_pod(thing).group == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minMember": 3}, 3),
        ({}, 1),
        ({"schedulingPolicy": {"gang": {"minCount": 2}}}, 2),
        ({"schedulingPolicy": {}}, 1),
    ],
)
def test_min_member(spec: dict[str, Any], expected: int) -> None:
    """Both APIs say how many must start together."""
    thing = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "metadata": {"name": "g", "uid": "u"}, "spec": spec}
    assert read_group(thing).min_member == expected


def test_a_job_is_the_group_of_its_pods() -> None:
    """A Job that names a queue is a gang of as many as it runs at a time, without those that have succeeded."""
    meta = {"namespace": "d", "name": "train", "uid": "u"}
    thing = {"metadata": meta, "spec": {"parallelism": 3, "completions": 8}, "status": {"succeeded": 1}}
    job = read_job(thing)
    assert (job.key, job.uid, job.min_member) == (("batch", "d", "train"), "u", 2)
    member = pod()
    member["metadata"] |= {
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u", "controller": True}],
    }
    assert read_pod(member).group is None
    member["metadata"]["labels"] = {"muster.dev/queue": "team"}
    assert read_pod(member).group == job.key


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("", "Exists", "", ""), True),
        (Toleration("a", "Exists", "", "NoExecute"), False),
        (Toleration("a", "Equal", "x", ""), True),
        (Toleration("a", "Equal", "y", ""), False),
        (Toleration("b", "Exists", "", ""), False),
    ],
)
def test_tolerations(toleration: Toleration, expected: bool) -> None:
    """A toleration names key, value and effect, or leaves them open."""
    assert toleration.tolerates(Taint("a", "x")) is expected


def test_taints_of_a_cordoned_node() -> None:
    """A cordon is a taint; one that only asks to stay away is none."""
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    node = read_node({"metadata": {"name": "n"}, "spec": {"unschedulable": True, "taints": [soft]}})
    assert node.taints == (Taint("node.kubernetes.io/unschedulable"),)
