"""The resource claim controller: it makes the claims of pods, and takes back what pods that are gone had."""

from __future__ import annotations

from contextlib import suppress

from extender.control.ports import ApiError, WatchedKind
from extender.objects.pod import Pod
from extender.objects.podclaims import PodClaim
from extender.objects.resourceclaim import ClaimConsumer, ResourceClaim
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Json, ObjectChange
from muster_lab.simulation.scheduler.dynamic_resources import deallocate

#: What claims say of the name that they have in their pod. Source: dynamic-resource-allocation/resourceclaim.
_OF_POD = "resource.kubernetes.io/pod-claim-name"


class ClaimController:
    """Make claims from templates, take users that are gone off claims, and end the allocation when the last one is.

    A claim that was made for a pod is deleted with it, as the garbage collector does. Source: k8s.io/kubernetes
    pkg/controller/resourceclaim syncPod and syncClaim; claims have no finalizer here, as all is done at once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[tuple[str, str], None] = {}  # namespaces and names of pods whose template is missing
        self._serial = 0
        cluster.watch(self._take_in)

    def _take_in(self, change: ObjectChange) -> None:
        match change.object.key.kind:
            case WatchedKind.POD if change.object.pod.claims.claims:
                self._pod(change)
            case WatchedKind.RESOURCE_CLAIM_TEMPLATE if change.after is not None:
                waiting, self._waiting = self._waiting, {}
                for namespace, name in waiting:
                    found = self._cluster.find(WatchedKind.POD, namespace, name)
                    if found is not None:
                        self._make_claims(found.pod)
            case WatchedKind.RESOURCE_CLAIM if change.after is not None:
                self._review(change.after.key.namespace, change.after.key.name)
            case _:
                pass

    def _pod(self, change: ObjectChange) -> None:
        pod = change.object.pod
        if change.after is not None and not pod.done:
            self._make_claims(pod)
            return
        for name in pod.claims.names:
            self._review(pod.namespace, name)

    def _make_claims(self, pod: Pod) -> None:
        """Make the claims that a pod awaits, those whose templates exist."""
        newest = self._cluster.find(WatchedKind.POD, pod.namespace, pod.name)
        if newest is None or newest.uid != pod.uid or newest.pod.deleting:
            return
        made = {each.name: name for each in newest.pod.claims.awaited if (name := self._make(newest.pod, each))}
        if not made:
            return

        def patch(json: Json) -> None:
            told = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
            json["status"]["resourceClaimStatuses"] = [*json["status"].get("resourceClaimStatuses", ()), *told]

        self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), patch, pod.uid)

    def _make(self, pod: Pod, awaited: PodClaim) -> str:
        """Make one claim of a pod; return its name, "" where its template is missing."""
        template = self._cluster.find(WatchedKind.RESOURCE_CLAIM_TEMPLATE, pod.namespace, awaited.template)
        if template is None:
            self._waiting[pod.namespace, pod.name] = None
            return ""
        self._serial += 1
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        version = self._cluster.create(
            WatchedKind.RESOURCE_CLAIM,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "name": f"{pod.name}-{awaited.name}-{self._serial:05}",
                    "namespace": pod.namespace,
                    "annotations": {_OF_POD: awaited.name},
                    "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                },
                "spec": template.json["spec"]["spec"],
            },
        )
        return version.key.name

    def _review(self, namespace: str, name: str) -> None:
        """Take users that are gone off a claim; end its allocation if none is left, and the claim with its pod."""
        found = self._cluster.find(WatchedKind.RESOURCE_CLAIM, namespace, name)
        if found is None:
            return
        claim = found.claim
        gone = [each.uid for each in claim.reserved_for if self._has_ended(claim, each)]

        def patch(json: Json) -> None:
            left = [each for each in json["status"]["reservedFor"] if each["uid"] not in gone]
            json["status"]["reservedFor"] = left
            if not left:
                deallocate(json)

        with suppress(ApiError):  # another client deleted it meanwhile
            if gone:
                claim = self._cluster.update(WatchedKind.RESOURCE_CLAIM, (namespace, name), patch, claim.uid).claim
            if not claim.reserved_for and self._is_over(claim, found.json):
                self._cluster.delete(WatchedKind.RESOURCE_CLAIM, namespace, name, claim.uid)

    def _has_ended(self, claim: ResourceClaim, user: ClaimConsumer) -> bool:
        found = self._cluster.find(WatchedKind.POD, claim.namespace, user.name)
        return user.resource == "pods" and (found is None or found.uid != user.uid or found.pod.done)

    def _is_over(self, claim: ResourceClaim, json: Json) -> bool:
        """Tell whether a claim was made for a pod that has ended, or is gone."""
        owners = [
            each["name"] for each in json["metadata"].get("ownerReferences", ()) if each["uid"] == claim.controller
        ]
        found = self._cluster.find(WatchedKind.POD, claim.namespace, owners[0]) if owners else None
        return bool(owners) and (found is None or found.uid != claim.controller or found.pod.done)
