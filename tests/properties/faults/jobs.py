"""Jobs of the batch API, and what kube-controller-manager makes of them: pods of those that are not suspended.

Sources: k8s.io/kubernetes pkg/controller/job/job_controller.go, indexed_job_utils.go. A name is used again once the pod
that had it is gone, where the real controller makes up another one.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any, TypeAlias

import orjson

from extender.control.ports import ApiError, WatchedKind
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.workload import MANAGE_JOBS
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import ObjectChange, Stored

Json: TypeAlias = dict[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"
_OWN_LABELS = (keys.QUEUE, keys.ROLE)


def namespace_manifest(name: str) -> Json:
    """Return a namespace that has opted in: Muster resumes and suspends its Jobs."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {MANAGE_JOBS: "true"}}}


def job_manifest(name: str, member: Json, count: int) -> Json:
    """Return a suspended Indexed Job of `count` pods that are like `member`."""
    meta = member["metadata"]
    labels = {key: meta["labels"][key] for key in _OWN_LABELS if key in meta["labels"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": meta.get("annotations", {}),
        },
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "template": {"metadata": {"labels": labels}, "spec": member["spec"]},
        },
        "status": {},
    }


class JobController:
    """Make the pods of Jobs, take them back from those that are suspended, and say which have succeeded."""

    def __init__(self, cluster: Cluster) -> None:
        """Follow a cluster from now on."""
        self._cluster = cluster
        self._succeeded: dict[str, set[int]] = defaultdict(set)  # by the Job's UID
        cluster.watch(self._take_in)

    def succeeded(self, job: Stored) -> set[int]:
        """Return the indexes of a Job whose pods have succeeded."""
        return self._succeeded[job.uid]

    def _take_in(self, change: ObjectChange) -> None:
        key = change.object.key
        if key.kind is WatchedKind.JOB:
            if change.after is None:
                for pod in self._pods(change.object):
                    self._delete(pod)
            self._reconcile(key.namespace, key.name)
        elif key.kind is WatchedKind.POD and INDEX in change.object.json["metadata"].get("annotations", {}):
            self._count(change.object)
            self._reconcile(key.namespace, change.object.json["metadata"]["ownerReferences"][0]["name"])

    def _count(self, pod: Stored) -> None:
        meta = pod.json["metadata"]
        if pod.pod.phase is Phase.SUCCEEDED:
            self._succeeded[meta["ownerReferences"][0]["uid"]].add(int(meta["annotations"][INDEX]))

    def _reconcile(self, namespace: str, name: str) -> None:
        """Let a Job have the pods that it should have."""
        job = self._cluster.find(WatchedKind.JOB, namespace, name)
        if job is None:
            return
        spec, done = job.json["spec"], self._succeeded[job.uid]
        for pod in self._pods(job):
            if pod.pod.phase is Phase.FAILED or (spec["suspend"] and pod.pod.phase is not Phase.SUCCEEDED):
                self._delete(pod)
        for index in range(spec["completions"]):
            if not spec["suspend"] and index not in done:
                self._make(job, index)
        status: Json = {"succeeded": len(done), "completedIndexes": ",".join(map(str, sorted(done)))} if done else {}
        if len(done) == spec["completions"]:
            status["conditions"] = [{"type": "Complete", "status": "True"}]
        self._cluster.update(WatchedKind.JOB, (namespace, name), lambda json: json.update(status=status))

    def _make(self, job: Stored, index: int) -> None:
        """Create a pod of a Job, unless one has its name."""
        meta, template = job.json["metadata"], orjson.loads(orjson.dumps(job.json["spec"]["template"]))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": job.uid, "controller": True}
        labels = {"batch.kubernetes.io/job-name": meta["name"], INDEX: str(index)}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{index}",
                "namespace": meta["namespace"],
                "labels": template["metadata"]["labels"] | labels,
                "annotations": {INDEX: str(index)},
                "ownerReferences": [owner | {"blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }
        with suppress(ApiError):
            self._cluster.create(WatchedKind.POD, pod)

    def _pods(self, job: Stored) -> list[Stored]:
        """Return the pods of a Job that are not on their way out."""
        found = (
            self._cluster.find(WatchedKind.POD, job.key.namespace, f"{job.key.name}-{index}")
            for index in range(job.json["spec"]["completions"])
        )
        return [pod for pod in found if pod is not None and not pod.pod.deleting and _owner(pod) == job.uid]

    def _delete(self, pod: Stored) -> None:
        with suppress(ApiError):
            self._cluster.delete(WatchedKind.POD, pod.key.namespace, pod.key.name, pod.uid)


def _owner(pod: Stored) -> str:
    return str(pod.json["metadata"]["ownerReferences"][0]["uid"])
