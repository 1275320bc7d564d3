"""Muster's rights and credentials are taken away and given back, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from extender.kube.rights import CREDENTIALS_REFUSED
from localcluster.client import SERVICE_ACCOUNTS, JsonObject, Resource
from localcluster.cluster import MUSTER_NAMESPACE, MUSTER_SERVICE_ACCOUNT, LocalCluster
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until

pytestmark = pytest.mark.controlplane

BINDINGS = Resource("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ROLES = Resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
#: How soon it shows; that a token is refused the API server itself notices within ten seconds.
SOON_SECONDS, LATER_SECONDS = 10.0, 20.0
TENANT = "restricted"


@pytest.fixture
def readiness(cluster: Sandbox, local_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Run a Muster under a ServiceAccount of this test's own, which may do what the shipped ClusterRole grants."""
    admin = local_cluster.admin
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(MUSTER_NAMESPACE)}
    binding = admin.get(BINDINGS, MUSTER_SERVICE_ACCOUNT) | {"metadata": named()}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": TENANT, "namespace": MUSTER_NAMESPACE}]
    role = admin.get(ROLES, MUSTER_SERVICE_ACCOUNT) | {"metadata": named()}
    role["rules"].append({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]})
    binding["roleRef"]["name"] = TENANT
    for item in (account, role, binding):
        admin.create(item)
    server = local_cluster.muster(connection=local_cluster.service_account(TENANT))
    server.start()
    cluster.nodes(1, gpus=8)
    yield local_cluster
    server.kill()
    for resource, namespace in ((BINDINGS, None), (ROLES, None), (SERVICE_ACCOUNTS, MUSTER_NAMESPACE)):
        admin.request("DELETE", resource.path(namespace, TENANT))


def named(namespace: str | None = None) -> JsonObject:
    """Return the metadata of what this test creates."""
    return {"name": TENANT} if namespace is None else {"name": TENANT, "namespace": namespace}


def ready(cluster: LocalCluster) -> str:
    """Return what /readyz says."""
    return httpx.get(f"http://127.0.0.1:{cluster.muster_port}/readyz", trust_env=False).text


def test_rights_taken_away_are_named_and_may_come_back(readiness: LocalCluster) -> None:
    """First one verb of the ClusterRole, then the whole binding; open watches would go on for minutes."""
    admin = readiness.admin
    assert ready(readiness) == "ok, leading\n"
    role = admin.get(ROLES, TENANT)
    rules = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    admin.patch(ROLES, TENANT, {"rules": rules})
    narrow = "rights are missing (403): create pods/binding; Muster's ClusterRole must grant them\n"
    wait_until(lambda: ready(readiness) == narrow, timeout_seconds=SOON_SECONDS, description="the right is named")
    binding = admin.get(BINDINGS, TENANT)
    admin.request("DELETE", BINDINGS.path(None, TENANT))
    wait_until(
        lambda: "list and watch nodes, " in ready(readiness),
        timeout_seconds=SOON_SECONDS,
        description="all rights are named",
    )
    admin.patch(ROLES, TENANT, {"rules": role["rules"]})
    admin.create({**binding, "metadata": named()})
    wait_until(lambda: ready(readiness).startswith("ok"), timeout_seconds=SOON_SECONDS, description="ready again")


def test_refused_credentials_are_named_and_may_be_replaced(readiness: LocalCluster) -> None:
    """The ServiceAccount is deleted, and created again; the new token is found where the old one was."""
    admin = readiness.admin
    admin.request("DELETE", SERVICE_ACCOUNTS.path(MUSTER_NAMESPACE, TENANT))
    wait_until(
        lambda: CREDENTIALS_REFUSED in ready(readiness), timeout_seconds=LATER_SECONDS, description="credentials named"
    )
    admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(MUSTER_NAMESPACE)})
    readiness.service_account(TENANT).write_kubeconfig(readiness.folder / "muster.kubeconfig")
    wait_until(lambda: ready(readiness).startswith("ok"), timeout_seconds=LATER_SECONDS, description="ready again")
