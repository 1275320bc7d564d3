"""ComputeDomains of NVIDIA's driver, with the real kube-scheduler and claim controller: one clique, a node a pod."""

from __future__ import annotations

import pytest

from localcluster.client import JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.devices import (
    RESOURCE_CLAIMS,
    allocated_devices,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    gpus_of,
    resource_slice,
)
from localcluster.manifests import apply_all
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.crds import foreign_definitions

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

DRIVER = "compute-domain.nvidia.com"
CHANNEL = "compute-domain-default-channel.nvidia.com"
CLIQUE = "nvidia.com/gpu.clique"
COMPUTE_DOMAINS = Resource("resource.nvidia.com/v1beta1", "ComputeDomain", "computedomains", namespaced=True)


@pytest.fixture(scope="module")
def _definition(device_local_cluster: LocalCluster) -> None:
    """Install the CRD; it stays, as the sandbox deletes what was created when the next story begins."""
    named = "computedomains.resource.nvidia.com"
    definitions = [each for each in foreign_definitions() if each["metadata"]["name"] == named]
    apply_all(device_local_cluster.admin, definitions)


@pytest.fixture
def domains(_definition: None, device_cluster: Sandbox) -> Sandbox:
    """Install the class of channels before Muster starts."""
    attributes = f"device.attributes['{DRIVER}']"
    selectors = [f"{attributes}.type == 'channel'", f"{attributes}.id == 0"]
    device_cluster.create(device_class(CHANNEL, driver=DRIVER, selectors=selectors))
    return device_cluster


def racks(cluster: Sandbox, *names: str, gpus: int) -> None:
    """Create two nodes in a clique of each name, with a channel, and with GPUs that only slices tell of."""
    for name in names:
        for node in cluster.nodes(2, prefix=name, gpus=0, labels={CLIQUE: f"f3b1-{name}.1"}):
            channel = [
                {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
                for kind in ("channel", "daemon")
            ]
            cluster.create(resource_slice(node, channel, driver=DRIVER))
            cluster.create(resource_slice(node, gpus_of(gpus, product="NVIDIA GB200")))


def compute_domain(name: str, nodes: int) -> list[JsonObject]:
    """Return a ComputeDomain and the claim template that its controller would make."""
    channel = {"resourceClaimTemplate": {"name": f"{name}-channel"}, "allocationMode": "Single"}
    return [
        {
            "apiVersion": COMPUTE_DOMAINS.api_version,
            "kind": COMPUTE_DOMAINS.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"numNodes": nodes, "channel": channel},
        },
        claim_template(f"{name}-channel", claim_spec(1, of=CHANNEL)),
    ]


def test_gangs_of_domains_get_a_clique_each(domains: Sandbox, device_muster: Server) -> None:
    """Two domains of two pods share two racks without a rack in common; what numNodes gets wrong is told."""
    domains.create(device_class(extended_resource=GPU))
    racks(domains, "a", "b", gpus=4)
    gangs = []
    for name, nodes in (("first", 2), ("second", 3)):
        for item in compute_domain(name, nodes):
            domains.create(item)
        gangs.append(domains.gang(name, members=2, gpus=1, spec=claiming(template=f"{name}-channel")))
    for gang in gangs:
        gang.wait_running(timeout=60)
    found = [{node.partition("-")[0] for node in gang.nodes} for gang in gangs]
    assert [len(each) for each in found] == [1, 1]
    assert found[0] != found[1]
    assert [len(set(gang.nodes)) for gang in gangs] == [2, 2]
    given = [each for item in domains.api.list_items(RESOURCE_CLAIMS) for each in allocated_devices(item)]
    assert sorted(pool for driver, pool, _ in given if driver == DRIVER) == ["a-0", "a-1", "b-0", "b-1"]
    gangs[1].wait_message("ComputeDomain default/second: spec.numNodes: is 3, and the gang starts on 2 nodes")
    assert not any("numNodes" in message for message in gangs[0].messages)
    device_muster.check()


def test_domain_that_no_clique_holds_waits_unless_a_clique_is_only_preferred(
    domains: Sandbox, device_muster: Server
) -> None:
    """Three pods with a channel each fit no rack of two: that is said; who says what is preferred starts."""
    domains.create(device_class(extended_resource=GPU))
    racks(domains, "a", "b", gpus=4)
    for item in compute_domain("wide", 0):
        domains.create(item)
    wide = domains.gang("wide", members=3, gpus=1, spec=claiming(template="wide-channel"))
    wide.wait_condition("False", "ExceedsTopologyDomain")
    wide.delete()
    asked = {"muster.dev/topology-preferred": "clique"}
    near = domains.gang("near", members=3, gpus=1, spec=claiming(template="wide-channel"), group_annotations=asked)
    near.wait_running(timeout=60)
    assert len(set(near.nodes)) == 3
    device_muster.check()
