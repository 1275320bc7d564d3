"""The watched kinds that describe network and hardware: all of other projects, and none need be installed."""

from __future__ import annotations

from typing import Any

from extender.control.observer import Observer
from extender.control.ports import Kind
from extender.domain.devices import read_device
from extender.domain.hypernodes import read_hyper_node
from extender.domain.levelobjects import NETWORK_TOPOLOGY_GROUP, read_network_topology, read_topology
from extender.domain.objectref import ObjectRef
from extender.kube.watch import Feed
from extender.numa.nodetopology import read_node_topology
from extender.wire import codec, kubernetes
from extender.wire import topology as wire

#: Kueue has served its Topology in each of these, and nothing that is read here has changed.
_KUEUE_VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")


def topology_feeds(observer: Observer) -> tuple[Feed[Any], ...]:
    """Return what to watch of network and hardware, told to `observer`."""
    return (
        _node_topologies(observer),
        _hyper_nodes(observer),
        _topologies(observer, Kind.KUEUE_TOPOLOGY, "kueue.x-k8s.io", *_KUEUE_VERSIONS),
        _topologies(observer, Kind.KAI_TOPOLOGY, "kai.scheduler", "v1alpha1"),
        _network_topologies(observer),
        _devices(observer),
    )


def calibration_feed(observer: Observer, config_map: str) -> Feed[wire.ConfigMap]:
    """Return the watch of one ConfigMap (NAMESPACE/NAME)."""
    namespace, _, name = config_map.partition("/")

    def seen(item: wire.ConfigMap) -> None:
        meta = item.metadata or kubernetes.ObjectMeta()
        observer.calibration_seen(ObjectRef("v1", "ConfigMap", namespace, name, meta.uid or ""), item.data or {})

    return Feed(
        kind=Kind.CALIBRATION,
        path=f"/api/v1/namespaces/{namespace}/configmaps",
        decode=codec.decode_config_map,
        seen=seen,
        gone=lambda _who: observer.calibration_gone(),
        selector={"fieldSelector": f"metadata.name={name}"},
    )


def _node_topologies(observer: Observer) -> Feed[kubernetes.NodeResourceTopology]:
    return Feed(
        kind=Kind.NODE_TOPOLOGY,
        path="/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        decode=codec.decode_node_resource_topology,
        seen=lambda item: observer.node_topology_seen(read_node_topology(item)),
        gone=lambda who: observer.node_topology_gone(who.name),
        optional=True,
    )


def _hyper_nodes(observer: Observer) -> Feed[wire.HyperNode]:
    return Feed(
        kind=Kind.HYPER_NODE,
        path="/apis/topology.volcano.sh/v1alpha1/hypernodes",
        decode=codec.decode_hyper_node,
        seen=lambda item: observer.hyper_node_seen(read_hyper_node(item)),
        gone=lambda who: observer.hyper_node_gone(who.name),
        optional=True,
    )


def _topologies(observer: Observer, kind: Kind, group: str, *versions: str) -> Feed[wire.Topology]:
    newest, *older = [f"/apis/{group}/{version}/topologies" for version in versions]
    return Feed(
        kind=kind,
        path=newest,
        decode=codec.decode_topology,
        seen=lambda item: observer.levels_seen(read_topology(item, f"{group}/{versions[0]}")),
        gone=lambda who: observer.levels_gone(group, who.name),
        optional=True,
        older=tuple(older),
    )


def _network_topologies(observer: Observer) -> Feed[wire.NetworkTopology]:
    return Feed(
        kind=Kind.NETWORK_TOPOLOGY,
        path=f"/apis/{NETWORK_TOPOLOGY_GROUP}/v1alpha1/clusternetworktopologies",
        decode=codec.decode_network_topology,
        seen=lambda item: observer.levels_seen(read_network_topology(item)),
        gone=lambda who: observer.levels_gone(NETWORK_TOPOLOGY_GROUP, who.name),
        optional=True,
    )


def _devices(observer: Observer) -> Feed[wire.Device]:
    return Feed(
        kind=Kind.DEVICE,
        path="/apis/scheduling.koordinator.sh/v1alpha1/devices",
        decode=codec.decode_device,
        seen=lambda item: observer.device_seen(read_device(item)),
        gone=lambda who: observer.device_gone(who.name),
        optional=True,
    )
