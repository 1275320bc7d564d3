"""Whatever stands in an operator's object: it is read, and comes to a gang that can be judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.podgroup import PodGroup
from extender.objects.sources.jobset import EXCLUSIVE_TOPOLOGY, decode_job_set, read_job_set
from extender.objects.sources.kubeflow import KubeflowKind, decode_kubeflow_job, read_kubeflow_job
from extender.objects.sources.leaderworkerset import decode_leader_worker_set, read_leader_worker_set
from extender.objects.sources.ray import decode_ray_cluster, read_ray_cluster
from tests.builders import Json, written

COUNTS = st.integers(-3, 50) | st.none()
TEXTS = st.sampled_from(["", "worker", "driver", "InOrder", "LeaderReady", "WaitForWorkersReady"]) | st.none()
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "annotations": st.dictionaries(
            st.sampled_from([EXCLUSIVE_TOPOLOGY, "muster.dev/min-member", "muster.dev/role-minimums"]),
            st.sampled_from(["rack", "3", "worker=2", ""]),
        ),
        "labels": st.dictionaries(st.just("muster.dev/role"), st.sampled_from(["learner", "worker"])),
    },
)
TEMPLATES = st.none() | st.fixed_dictionaries({}, optional={"metadata": METADATA})


def objects(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Json]:
    """Return objects that have any of some fields, or none."""
    return st.fixed_dictionaries({}, optional=fields)


JOBS = objects(
    name=TEXTS,
    replicas=COUNTS,
    template=objects(metadata=METADATA, spec=objects(parallelism=COUNTS, completions=COUNTS, template=TEMPLATES)),
    dependsOn=st.none() | st.lists(objects(name=TEXTS), max_size=1),
)
REPLICAS = st.dictionaries(
    st.sampled_from(["Master", "Worker", "Launcher"]), objects(replicas=COUNTS, template=TEMPLATES)
)
RAY_GROUPS = objects(
    groupName=TEXTS, replicas=COUNTS, minReplicas=COUNTS, maxReplicas=COUNTS, numOfHosts=COUNTS, suspend=st.booleans()
)
SPECS = {
    "jobset": objects(
        replicatedJobs=st.none() | st.lists(JOBS, max_size=3), startupPolicy=objects(startupPolicyOrder=TEXTS)
    ),
    "leaderworkerset": objects(
        replicas=COUNTS,
        startupPolicy=TEXTS,
        leaderWorkerTemplate=objects(size=COUNTS, leaderTemplate=TEMPLATES, workerTemplate=TEMPLATES),
    ),
    "kubeflow": objects(
        mpiReplicaSpecs=st.none() | REPLICAS,
        launcherCreationPolicy=TEXTS,
        elasticPolicy=objects(minReplicas=COUNTS),
        runPolicy=objects(schedulingPolicy=objects(minAvailable=COUNTS, queue=TEXTS)),
    ),
    "ray": objects(
        workerGroupSpecs=st.none() | st.lists(RAY_GROUPS, max_size=3), enableInTreeAutoscaling=st.booleans()
    ),
}
READ: dict[str, Callable[[bytes], tuple[PodGroup, ...]]] = {
    "jobset": lambda body: (read_job_set(decode_job_set(body)),),
    "leaderworkerset": lambda body: read_leader_worker_set(decode_leader_worker_set(body)),
    "kubeflow": lambda body: (read_kubeflow_job(KubeflowKind.MPI, decode_kubeflow_job(body)),),
    "ray": lambda body: (read_ray_cluster(decode_ray_cluster(body)),),
}


@pytest.mark.parametrize("kind", READ)
@given(data=st.data())
def test_any_object_is_a_gang_or_has_a_problem(kind: str, data: st.DataObject) -> None:
    """There is always a minimum; steps and minimums name roles once, and a step needs more than were there before."""
    document = data.draw(objects(metadata=METADATA, spec=SPECS[kind]))
    for group in READ[kind](written(document)):
        assert group.min_member >= 1
        minimums = dict(group.role_minimums)
        assert len(minimums) == len(group.role_minimums)
        assert all(count >= 1 for count in minimums.values())
        assert all(step.least > step.after >= 0 for step in group.steps)
        assert len({step.role for step in group.steps}) == len(group.steps)
        if minimums:
            assert group.min_member == sum(minimums.values())
