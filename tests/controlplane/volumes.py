"""Local volumes and claims for pods, and the part of kube-controller-manager in binding them."""

from __future__ import annotations

from localcluster.client import JsonObject, Resource
from localcluster.nodes import HOSTNAME_LABEL
from localcluster.sandbox import NAMESPACE, Sandbox

VOLUMES = Resource("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
STORAGE_CLASS = "local"


def mount(name: str) -> JsonObject:
    """Return the part of a pod's spec that mounts a claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def storage_class() -> JsonObject:
    """Return a class of local volumes that are bound when a pod is scheduled."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, node: str, *, claimed_by: str = "") -> JsonObject:
    """Return a volume on the disk of one node."""
    requirement = {"key": HOSTNAME_LABEL, "operator": "In", "values": [node]}
    spec: JsonObject = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": STORAGE_CLASS,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
    }
    if claimed_by:
        spec["claimRef"] = {"namespace": NAMESPACE, "name": claimed_by}
    return {"apiVersion": VOLUMES.api_version, "kind": VOLUMES.kind, "metadata": {"name": name}, "spec": spec}


def claim(name: str, *, volume: str = "") -> JsonObject:
    """Return a claim, for one volume if it is named."""
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": STORAGE_CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if volume:
        spec["volumeName"] = volume
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "metadata": metadata, "spec": spec}


def bind_claim(cluster: Sandbox, name: str, volume: str) -> None:
    """Complete a binding as kube-controller-manager does.

    Source: k8s.io/kubernetes/pkg/controller/volume/persistentvolume, syncUnboundClaim.
    """
    uid = cluster.api.get(CLAIMS, name, NAMESPACE)["metadata"]["uid"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name, "uid": uid}
    cluster.api.patch(VOLUMES, volume, {"spec": {"claimRef": reference}})
    cluster.api.patch(VOLUMES, volume, {"status": {"phase": "Bound"}}, subresource="status")
    done = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    change: JsonObject = {"metadata": {"annotations": done}, "spec": {"volumeName": volume}}
    cluster.api.patch(CLAIMS, name, change, namespace=NAMESPACE)
    cluster.api.patch(CLAIMS, name, {"status": {"phase": "Bound"}}, namespace=NAMESPACE, subresource="status")
