"""The pods that controllers make of an object: names, labels, annotations and owners as those controllers write them.

A second opinion: it shares nothing with `extender.objects.workloads`. Sources, as of 2026:
kube-controller-manager pkg/controller/{job,deployment,replicaset,statefulset}; kubernetes-sigs/jobset
pkg/controllers/jobset_controller.go; kubernetes-sigs/lws pkg/controllers/pod_controller.go,
pkg/webhooks/pod_webhook.go; kubeflow/training-operator pkg/controller.v1/common/pod.go; kubeflow/mpi-operator
pkg/controller/mpi_job_controller.go; kubeflow/trainer pkg/runtime/framework/plugins; ray-project/kuberay
ray-operator/controllers/ray/common/pod.go.

StatefulSets of a LeaderWorkerSet are owners of its pods and nothing more: no object is made for them.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from localcluster.client import JsonObject

#: Where controllers put five random characters.
_SUFFIXES: Final = ("4kq9z", "b7x2m", "hs6tw", "p8d5c", "v2nl7", "zr5gf")

_JOB_NAME, _INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_JOBSET = "jobset.sigs.k8s.io"
_LWS = "leaderworkerset.sigs.k8s.io"
_KUBEFLOW = "training.kubeflow.org"
_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def children(parent: JsonObject, beside: list[JsonObject]) -> list[JsonObject]:
    """Return what the controller of `parent` creates at once: pods, or objects whose controllers make some.

    Args:
        parent: the object, in a namespace; a kind without controller has no children.
        beside: what was applied with it, where it names another object.
    """
    if parent["kind"] == "TrainJob":
        return [_job_set_of_train_job(parent, beside)]
    makers: Mapping[str, Callable[[JsonObject], Iterator[JsonObject]]] = {
        "Job": _pods_of_job,
        "Deployment": _replica_sets,
        "ReplicaSet": _pods_of_replica_set,
        "JobSet": _jobs_of_job_set,
        "LeaderWorkerSet": _pods_of_leader_worker_set,
        "DisaggregatedSet": _leader_worker_sets,
        "PyTorchJob": _pods_of_pytorch_job,
        "MPIJob": _children_of_mpi_job,
        "RayJob": _ray_clusters,
        "RayCluster": _pods_of_ray_cluster,
    }
    maker = makers.get(parent["kind"])
    return [] if maker is None else list(maker(parent))


def _pods_of_job(job: JsonObject) -> Iterator[JsonObject]:
    spec, name = job["spec"], job["metadata"]["name"]
    parallelism = spec.get("parallelism", 1)
    for index in range(min(parallelism, spec.get("completions", parallelism))):
        labels = {_JOB_NAME: name, "job-name": name}
        labels |= {"batch.kubernetes.io/controller-uid": _uid(job), "controller-uid": _uid(job)}
        if spec.get("completionMode") != "Indexed":
            yield _pod(job, spec["template"], f"{name}-{_SUFFIXES[index]}", labels)
            continue
        pod = _pod(
            job, spec["template"], f"{name}-{index}-{_SUFFIXES[index % len(_SUFFIXES)]}", labels | {_INDEX: str(index)}
        )
        pod["metadata"]["annotations"] |= {_INDEX: str(index)}
        pod["spec"].setdefault("hostname", f"{name}-{index}")
        yield pod


def _replica_sets(deployment: JsonObject) -> Iterator[JsonObject]:
    spec, name = deployment["spec"], deployment["metadata"]["name"]
    hashed = {"pod-template-hash": "6d4f9c7b8"}
    template = copy.deepcopy(spec["template"])
    template["metadata"]["labels"] |= hashed
    child = {
        "replicas": spec.get("replicas", 1),
        "selector": {"matchLabels": spec["selector"]["matchLabels"] | hashed},
        "template": template,
    }
    yield _object(deployment, "apps/v1", "ReplicaSet", f"{name}-6d4f9c7b8", child, template["metadata"]["labels"])


def _pods_of_replica_set(replica_set: JsonObject) -> Iterator[JsonObject]:
    spec = replica_set["spec"]
    for number in range(spec["replicas"]):
        yield _pod(replica_set, spec["template"], f"{replica_set['metadata']['name']}-{_SUFFIXES[number]}", {})


def _jobs_of_job_set(job_set: JsonObject) -> Iterator[JsonObject]:
    meta, spec = job_set["metadata"], job_set["spec"]
    replicated = spec["replicatedJobs"]
    total = sum(job.get("replicas", 1) for job in replicated)
    before = 0
    for role in replicated:
        for index in range(role.get("replicas", 1)):
            name = f"{meta['name']}-{role['name']}-{index}"
            keys = {
                f"{_JOBSET}/jobset-name": meta["name"],
                f"{_JOBSET}/replicatedjob-name": role["name"],
                f"{_JOBSET}/replicatedjob-replicas": str(role.get("replicas", 1)),
                f"{_JOBSET}/restart-attempt": "0",
                f"{_JOBSET}/global-replicas": str(total),
                f"{_JOBSET}/job-index": str(index),
                f"{_JOBSET}/job-global-index": str(before + index),
                f"{_JOBSET}/job-key": hashlib.sha1(f"{meta['namespace']}/{name}".encode()).hexdigest(),  # noqa: S324 - JobSet's name for a Job, not a secret
            }
            job = copy.deepcopy(role["template"]["spec"])
            job.setdefault("completionMode", "Indexed")  # the webhook's defaults
            template = job["template"]
            template["spec"].setdefault("restartPolicy", "OnFailure")
            template["spec"]["subdomain"] = meta["name"]
            written = template.setdefault("metadata", {})
            written["labels"] = {**written.get("labels", {}), **keys}
            written["annotations"] = {**written.get("annotations", {}), **keys}
            own = {**role["template"].get("metadata", {}).get("labels", {}), **keys}
            yield _object(job_set, "batch/v1", "Job", name, {**job, "suspend": False}, own)
        before += role.get("replicas", 1)


def _leader_worker_sets(workload: JsonObject) -> Iterator[JsonObject]:
    name, prefix, revision = workload["metadata"]["name"], "disaggregatedset.x-k8s.io", "5d8c7b9f"
    for index in range(workload["spec"].get("slices", 1)):
        for role in workload["spec"]["roles"]:
            labels = {f"{prefix}/name": name, f"{prefix}/slice": str(index), f"{prefix}/role": role["name"]}
            labels |= {f"{prefix}/revision": revision}
            spec = copy.deepcopy(role["spec"])
            for template in ("leaderTemplate", "workerTemplate"):
                if template in spec["leaderWorkerTemplate"]:
                    meta = spec["leaderWorkerTemplate"][template].setdefault("metadata", {})
                    meta["labels"] = {**meta.get("labels", {}), **labels}
            own = f"{name}-{index}-{revision}-{role['name']}"
            yield _object(workload, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", own, spec, labels)


def _pods_of_leader_worker_set(workload: JsonObject) -> Iterator[JsonObject]:
    name, template = workload["metadata"]["name"], workload["spec"]["leaderWorkerTemplate"]
    size = template["size"]
    common = {f"{_LWS}/name": name, f"{_LWS}/template-revision-hash": "7f5c8b96d"}
    leaders = _object(workload, "apps/v1", "StatefulSet", name, {}, {})
    by = "leaderTemplate" if "leaderTemplate" in template else "workerTemplate"
    for group in range(workload["spec"].get("replicas", 1)):
        leader_name = f"{name}-{group}"
        key = hashlib.sha1(f"{workload['metadata']['namespace']}/{leader_name}".encode()).hexdigest()  # noqa: S324 - LeaderWorkerSet's name for a group
        labels = common | {f"{_LWS}/group-index": str(group), f"{_LWS}/group-key": key}
        leader = _pod_of_stateful_set(leaders, template[by], group, labels | {f"{_LWS}/worker-index": "0"}, name)
        leader["metadata"]["annotations"] |= {f"{_LWS}/size": str(size)}
        yield leader
        workers = _object(leader, "apps/v1", "StatefulSet", leader_name, {}, {})
        for index in range(1, size):  # their StatefulSet begins at 1
            own = labels | {f"{_LWS}/worker-index": str(index)}
            pod = _pod_of_stateful_set(workers, template["workerTemplate"], index, own, name)
            pod["metadata"]["annotations"] |= {f"{_LWS}/size": str(size), f"{_LWS}/leader-name": leader_name}
            yield pod


def _pod_of_stateful_set(
    stateful_set: JsonObject, template: JsonObject, ordinal: int, labels: Mapping[str, str], service: str
) -> JsonObject:
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    own = {
        "apps.kubernetes.io/pod-index": str(ordinal),
        "controller-revision-hash": f"{stateful_set['metadata']['name']}-5d8c7b9f4",
        "statefulset.kubernetes.io/pod-name": name,
    }
    pod = _pod(stateful_set, template, name, {**labels, **own})
    pod["spec"] |= {"hostname": name, "subdomain": service}
    return pod


def _pods_of_pytorch_job(job: JsonObject) -> Iterator[JsonObject]:
    name = job["metadata"]["name"]
    for kind, replica in job["spec"]["pytorchReplicaSpecs"].items():
        for index in range(replica.get("replicas", 1)):
            labels = {
                f"{_KUBEFLOW}/operator-name": "pytorchjob-controller",
                f"{_KUBEFLOW}/job-name": name,
                f"{_KUBEFLOW}/replica-type": kind.lower(),
                f"{_KUBEFLOW}/replica-index": str(index),
            }
            if kind == "Master":
                labels |= {f"{_KUBEFLOW}/job-role": "master"}
            pod = _pod(job, replica["template"], f"{name}-{kind.lower()}-{index}", labels)
            yield _with_restart_policy(pod, replica)


def _children_of_mpi_job(job: JsonObject) -> Iterator[JsonObject]:
    name, replicas = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]
    common = {f"{_KUBEFLOW}/operator-name": "mpi-operator", f"{_KUBEFLOW}/job-name": name}
    worker = replicas["Worker"]
    for index in range(worker["replicas"]):
        labels = common | {f"{_KUBEFLOW}/job-role": "worker", f"{_KUBEFLOW}/replica-index": str(index)}
        pod = _pod(job, worker["template"], f"{name}-worker-{index}", labels)
        pod["spec"] |= {"hostname": f"{name}-worker-{index}", "subdomain": name}
        yield _with_restart_policy(pod, worker)
    launcher = copy.deepcopy(replicas["Launcher"]["template"])
    meta = launcher.setdefault("metadata", {})
    meta["labels"] = {**meta.get("labels", {}), **common, f"{_KUBEFLOW}/job-role": "launcher"}
    launcher["spec"] |= {"hostname": f"{name}-launcher", "subdomain": name}
    spec = {"template": _with_restart_policy(launcher, replicas["Launcher"])}
    yield _object(job, "batch/v1", "Job", f"{name}-launcher", spec, {"app": name})


def _job_set_of_train_job(job: JsonObject, beside: list[JsonObject]) -> JsonObject:
    """Return the JobSet that Trainer makes of a TrainJob and its runtime, which stands beside it."""
    wanted, trainer = job["spec"]["runtimeRef"], job["spec"]["trainer"]
    (runtime,) = (
        each for each in beside if (each["kind"], each["metadata"]["name"]) == (wanted["kind"], wanted["name"])
    )
    spec = copy.deepcopy(runtime["spec"]["template"]["spec"])
    nodes = trainer.get("numNodes", runtime["spec"]["mlPolicy"]["numNodes"])
    for role in spec["replicatedJobs"]:
        if role["template"].get("metadata", {}).get("labels", {}).get(_ANCESTOR) == "trainer":
            role["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
            for container in role["template"]["spec"]["template"]["spec"]["containers"]:
                if container["name"] == "node":
                    container["resources"] = trainer["resourcesPerNode"]
    return _object(job, "jobset.x-k8s.io/v1alpha2", "JobSet", job["metadata"]["name"], spec, {})


def _ray_clusters(job: JsonObject) -> Iterator[JsonObject]:
    labels = dict(job["metadata"].get("labels") or {})
    labels |= {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": job["metadata"]["name"]}
    name = f"{job['metadata']['name']}-{_SUFFIXES[0]}"
    yield _object(job, "ray.io/v1", "RayCluster", name, job["spec"]["rayClusterSpec"], labels)


def _pods_of_ray_cluster(cluster: JsonObject) -> Iterator[JsonObject]:
    name, spec = cluster["metadata"]["name"], cluster["spec"]

    def labels(kind: str, group: str) -> dict[str, str]:
        return {
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": name,
            "ray.io/node-type": kind,
            "ray.io/group": group,
            "ray.io/identifier": f"{name}-{kind}",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }

    yield _pod(cluster, spec["headGroupSpec"]["template"], f"{name}-head-{_SUFFIXES[0]}", labels("head", "headgroup"))
    for group in spec["workerGroupSpecs"]:
        for number in range(group["replicas"] * group.get("numOfHosts", 1)):
            pod_name = f"{name}-{group['groupName']}-worker-{_SUFFIXES[number]}"
            yield _pod(cluster, group["template"], pod_name, labels("worker", group["groupName"]))


def _pod(owner: JsonObject, template: JsonObject, name: str, labels: Mapping[str, str]) -> JsonObject:
    """Return a pod of a template, with labels and annotations of its own in front of the template's."""
    meta = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**meta.get("labels", {}), **labels},
            "annotations": dict(meta.get("annotations", {})),
            "ownerReferences": [_owner(owner)],
        },
        "spec": copy.deepcopy(template["spec"]),
    }


def _object(  # noqa: PLR0917 - the parts of an object
    owner: JsonObject, api_version: str, kind: str, name: str, spec: JsonObject, labels: Mapping[str, str]
) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(labels),
            "ownerReferences": [_owner(owner)],
        },
        "spec": spec,
    }


def _owner(owner: JsonObject) -> JsonObject:
    keys = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return {**keys, "uid": _uid(owner), "controller": True, "blockOwnerDeletion": True}


def _uid(item: JsonObject) -> str:
    """Return an object's UID; one that the API server does not know, as no operator is installed, gets one here."""
    stored: str | None = item["metadata"].get("uid")
    return stored or f"uid-of-{item['metadata']['name']}"


def _with_restart_policy(pod: JsonObject, replica: JsonObject) -> JsonObject:
    """Set in a pod or template what Kubeflow's operators do: the replica's policy counts, not the template's."""
    pod["spec"]["restartPolicy"] = {"ExitCode": "Never"}.get(replica["restartPolicy"], replica["restartPolicy"])
    return pod
