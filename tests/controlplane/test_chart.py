"""The chart, the components and the Roles for people on the real API server."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.build import built_binaries
from localcluster.client import PODS, ApiClient
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.programs import Binary
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.openapi import PATTERN, write_schemas
from tests.docs.conftest import ROOT
from tests.manifests.chart import NAMESPACE, Helm, rendered_base
from tests.manifests.conftest import Manifest
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

#: Values under which everything is rendered that can be, but for the Prometheus operator's kinds.
EVERYTHING: dict[str, Any] = {
    "fullnameOverride": "gangs",
    "settings": {"veto_seconds": 20},
    "view": {"enabled": True},
    "imagePullSecrets": [{"name": "regcred"}],
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"team": "infra"},
    "nodeSelector": {"pool": "system"},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "muster"}},
        }
    ],
    "serviceAccount": {"annotations": {"example.com/role": "r"}},
    "onboarding": {"enabled": True},
    "access": {"queues": True, "priorities": True},
    "flowControl": {"enabled": True},
    "networkPolicy": {"enabled": True, "viewFrom": [{"ipBlock": {"cidr": "10.0.0.0/28"}}]},
    "monitoring": {"grafanaDashboard": {"enabled": True}},
}
VERBS_ONLY: dict[str, Any] = {
    "kubeScheduler": {"enabled": False},
    "replicas": 1,
    "verbs": {"tls": {"secretName": "muster-tls", "clientCaSecretName": "muster-clients"}},
    "networkPolicy": {"enabled": True},
}
VALUES = [pytest.param({}, id="default"), pytest.param(EVERYTHING, id="all"), pytest.param(VERBS_ONLY, id="verbs-only")]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Return Helm without a cluster."""
    return Helm.in_folder(tmp_path_factory.mktemp("helm"))


@pytest.mark.parametrize("values", VALUES)
def test_the_api_server_accepts_every_object(local_cluster: LocalCluster, helm: Helm, values: dict[str, Any]) -> None:
    """A strict server-side dry run of the rendered chart has nothing to object to, in a namespace of its own."""
    objects = [*helm.render(values, namespace="default"), helm.test_pod(values, namespace="default")]
    done = subprocess.run(
        [
            str(local_cluster.binaries[Binary.KUBECTL]),
            f"--kubeconfig={local_cluster.admin_kubeconfig}",
            *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"),
        ],
        input=yaml.safe_dump_all(objects),
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(objects)
    assert all(line.endswith("serverside-applied (server dry run)") for line in lines)


def test_the_test_of_a_release_is_placed(cluster: Sandbox, muster: Server, helm: Helm) -> None:
    """The pod of `helm test` needs no GPU and no group: Muster binds it, and it runs to its end."""
    cluster.nodes(1, gpus=8)
    pod = helm.test_pod({"test": {"annotations": {"kwok.muster.dev/run-seconds": "0"}}}, namespace="default")
    name = pod["metadata"]["name"]
    cluster.create(pod)
    cluster.wait_until(
        lambda: cluster.api.get(PODS, name, "default")["status"]["phase"] == "Succeeded", "the pod has ended"
    )
    muster.check()


def test_kubeconform_finds_nothing(local_cluster: LocalCluster, helm: Helm, tmp_path: Path) -> None:
    """Base, components, chart and examples are sound by the API server's own schemas, without asking it."""
    objects: list[Manifest] = rendered_base(
        "view", "network-policy", "autoscaling", "onboarding", "access", "flow-control", folder=tmp_path
    )
    for values in ({}, EVERYTHING, VERBS_ONLY):
        objects += [*helm.render(values), helm.test_pod(values)]
    for path in sorted((ROOT / "examples" / "workloads").glob("*.yaml")):
        objects += yaml.safe_load_all(path.read_text(encoding="utf-8"))
    served = {item["apiVersion"] for item in objects} - _operators(local_cluster.admin, objects)
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    write_schemas(local_cluster.admin, sorted(served), schemas)
    known = [item for item in objects if item["apiVersion"] in served]
    summary = f"{len(known)} resources found parsing stdin - Valid: {len(known)}, Invalid: 0, Errors: 0, Skipped: 0"
    assert _kubeconform(schemas, known) == f"Summary: {summary}"

    (deployment, *_) = (item for item in known if item["kind"] == "Deployment")
    deployment["spec"]["replica"] = 2
    assert "additional properties 'replica' not allowed" in _kubeconform(schemas, [deployment])


def _operators(api: ApiClient, objects: list[Manifest]) -> set[str]:
    """Return the API versions among these objects that this API server does not serve: no operator is installed."""
    groups = api.request("GET", "/apis")["groups"]
    served = {version["groupVersion"] for group in groups for version in group["versions"]} | {"v1"}
    return {item["apiVersion"] for item in objects} - served


def _kubeconform(schemas: Path, objects: list[Manifest]) -> str:
    """Return what kubeconform says of these objects: a line that sums up, or what is wrong."""
    kubeconform = built_binaries((Binary.KUBECONFORM,))[Binary.KUBECONFORM]
    command = [str(kubeconform), "-strict", "-summary", "-schema-location", f"{schemas}/{PATTERN}", "-"]
    done = subprocess.run(
        command, input=yaml.safe_dump_all(objects), check=False, capture_output=True, text=True, timeout=HANGS
    )
    return done.stdout.strip() + done.stderr


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        (
            "muster-view",
            [("get", "", "pods/proxy"), ("create", "", "pods/proxy")],
            [("create", "", "pods/portforward"), ("create", "", "pods/exec")],
        ),
        (
            "muster-port-forward",
            [("create", "", "pods/portforward"), ("get", "", "pods/portforward")],
            [("get", "", "pods/proxy"), ("create", "", "pods/exec")],
        ),
    ],
)
def test_a_role_lets_people_look(
    local_cluster: LocalCluster, role: str, may: list[tuple[str, str, str]], may_not: list[tuple[str, str, str]]
) -> None:
    """Whoever has it finds the pods and the leader, reaches them the one way, and can do nothing else."""
    api, user = local_cluster.admin, f"user-of-{role}"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }
    api.create(binding)
    finding = [("list", "", "pods"), ("get", "coordination.k8s.io", "leases")]
    others = [("delete", "", "pods"), ("list", "", "secrets"), ("update", "coordination.k8s.io", "leases")]
    try:
        # The API server's authorizer follows RoleBindings by a watch: a moment later than they are written.
        wait_until(lambda: _allowed(api, user, *finding[0]), timeout_seconds=10, description="the binding counts")
        assert [right for right in [*finding, *may] if not _allowed(api, user, *right)] == []
        assert [right for right in [*others, *may_not] if _allowed(api, user, *right)] == []
    finally:
        resource = api.resource_of(binding)
        api.delete(resource, user, NAMESPACE)


def _allowed(api: ApiClient, user: str, verb: str, group: str, resource: str) -> bool:
    """Return whether a user may do something in Muster's namespace."""
    name, _, subresource = resource.partition("/")
    attributes = {"namespace": NAMESPACE, "verb": verb, "group": group, "resource": name, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": user, "resourceAttributes": {**attributes, "name": "muster" if name == "leases" else ""}},
    }
    allowed: bool = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review)["status"][
        "allowed"
    ]
    return allowed
