"""Ray clusters: the head and the workers without which the cluster is not to start are one gang.

RayJobs and RayServices make RayClusters. Source: ray-project/kuberay ray-operator/apis/ray/v1/raycluster_types.go and
controllers/ray/utils/util.go, by which KubeRay itself sizes PodGroups.
"""

from __future__ import annotations

from dataclasses import replace

from extender.domain.membership import GroupApi, GroupRef
from extender.domain.podgroup import PodGroup
from extender.domain.workloads.roster import Part, first_negative, gang_of, object_ref, role_of
from extender.wire.kubernetes import ObjectMeta
from extender.wire.workloads import RayCluster, RayClusterSpec, RayHeadGroup, RayWorkerGroup

API_VERSION = "ray.io/v1"


def read_ray_cluster(cluster: RayCluster) -> PodGroup:
    """Read a `ray.io/v1` RayCluster; a bad count becomes the `problem`.

    What an autoscaler has added to a group's least number of replicas are extras.
    """
    meta = cluster.metadata or ObjectMeta()
    spec = cluster.spec or RayClusterSpec()
    groups = spec.worker_group_specs or []
    counts: dict[str, int | None] = {}
    for index, group in enumerate(groups):
        where = f"spec.workerGroupSpecs[{index}]"
        counts |= {
            f"{where}.replicas": group.replicas,
            f"{where}.minReplicas": group.min_replicas,
            f"{where}.maxReplicas": group.max_replicas,
            f"{where}.numOfHosts": group.num_of_hosts,
        }
    problem = first_negative(counts)
    head = Part.of(role_of((spec.head_group_spec or RayHeadGroup()).template, "head"), 1)
    elastic = bool(spec.enable_in_tree_autoscaling)
    workers = [] if problem else [_part(group, elastic=elastic) for group in groups]
    ref = GroupRef(GroupApi.RAY, meta.namespace or "", meta.name or "")
    return replace(gang_of(ref, object_ref(API_VERSION, "RayCluster", meta), meta, (head, *workers)), problem=problem)


def _part(group: RayWorkerGroup, *, elastic: bool) -> Part:
    role = role_of(group.template, group.group_name or "worker")
    if group.suspend:
        return Part.of(role, 0)
    hosts = 1 if group.num_of_hosts is None else group.num_of_hosts
    least, most = group.min_replicas or 0, group.max_replicas
    replicas = max(group.replicas or 0, least)
    if most is not None:
        replicas, least = min(replicas, most), min(least, most)
    return Part.of(role, replicas * hosts, least * hosts if elastic else None)
