"""The life of a release: Helm itself installs, upgrades, rolls back and removes the chart on an empty API server.

No controllers run there, so no pod comes of the Deployment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from localcluster.build import built_binaries
from localcluster.client import POD_GROUPS, ApiClient, JsonObject, Resource
from localcluster.controlplane import ControlPlane
from localcluster.errors import ApiError
from localcluster.reaper import Reaper
from localcluster.waiting import wait_until
from tests.manifests.chart import CHART, NAMESPACE, Helm
from tests.manifests.conftest import load
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)

CRDS = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

GANG: JsonObject = {
    "apiVersion": POD_GROUPS.api_version,
    "kind": POD_GROUPS.kind,
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"minMember": 4},
}


@dataclass(frozen=True, slots=True)
class Site:
    """An empty cluster, with a namespace as the chart's README says, and Helm for it."""

    api: ApiClient
    helm: Helm
    kubeconfig: Path

    def run(self, *arguments: str) -> str:
        """Run Helm in Muster's namespace and return what it prints; fail with what it says if it fails."""
        done = self.helm.run(*arguments, f"--kubeconfig={self.kubeconfig}", f"--namespace={NAMESPACE}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def release(self, verb: str, values: dict[str, Any], *options: str) -> str:
        """Install or upgrade the chart with these values."""
        file = self.helm.folder / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        return self.run(verb, "muster", str(CHART), f"--values={file}", *options)

    def template(self) -> JsonObject:
        """Return the template of the pods."""
        found: JsonObject = self.api.get(DEPLOYMENTS, "muster", NAMESPACE)["spec"]["template"]
        return found

    def has(self, resource: Resource, name: str, namespace: str | None = None) -> bool:
        """Return whether an object exists."""
        try:
            self.api.get(resource, name, namespace)
        except ApiError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Run an API server that has never seen Muster."""
    reaper = Reaper()
    reaper.watch_folder(tmp_path)
    try:
        with ControlPlane(built_binaries(), tmp_path, reaper) as running, ApiClient(running.admin) as api:
            metadata = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            kubeconfig = running.admin.write_kubeconfig(tmp_path / "admin.kubeconfig")
            yield Site(api, Helm.in_folder(tmp_path), kubeconfig)
    finally:
        reaper.forget_folder(tmp_path)
        reaper.close()


def test_a_release_is_installed_upgraded_rolled_back_and_removed(site: Site) -> None:
    """A change rolls the pods and a rollback undoes it; gangs survive it all, and a new release takes them over."""
    notes = site.release("install", {"image": {"repository": "registry.example/muster"}})
    assert "is installed as muster in muster-system" in notes
    assert "kubectl label namespace" not in notes  # it has the label
    site.api.apply(GANG)
    first = site.template()

    site.release("upgrade", {"image": {"repository": "registry.example/muster"}, "settings": {"veto_seconds": 20}})
    assert any(argument.startswith("--config=") for argument in site.template()["spec"]["containers"][0]["args"])
    site.run("rollback", "muster", "1")
    assert site.template()["spec"] == first["spec"]
    statuses = [each["status"] for each in json.loads(site.run("history", "muster", "--output=json"))]
    assert statuses == ["superseded", "superseded", "deployed"]

    site.run("uninstall", "muster")
    assert not site.has(DEPLOYMENTS, "muster", NAMESPACE)
    assert not site.has(CLUSTER_ROLES, "muster")
    assert site.has(POD_GROUPS, "train", "default")

    site.release("install", {})
    assert site.has(DEPLOYMENTS, "muster", NAMESPACE)
    assert site.has(POD_GROUPS, "train", "default")


def test_a_crd_of_another_installation_is_taken_over_when_that_is_asked_for(site: Site) -> None:
    """Helm refuses by itself; with both options it replaces the CRD, adopts it, and leaves the PodGroups."""
    (theirs,) = load("podgroup-crd.yaml")
    (version,) = theirs["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del status["conditions"]
    version["additionalPrinterColumns"] = []
    site.api.apply(theirs)
    wait_until(lambda: _served(site.api), timeout_seconds=HANGS, description="PodGroups served")
    site.api.apply(GANG)
    with pytest.raises(AssertionError, match="invalid ownership metadata"):
        site.release("install", {})
    site.release("install", {}, "--take-ownership", "--force-conflicts")
    crd = site.api.get(CRDS, theirs["metadata"]["name"])
    assert "conditions" in json.dumps(crd["spec"])
    assert crd["metadata"]["annotations"]["meta.helm.sh/release-name"] == "muster"
    assert site.has(POD_GROUPS, "train", "default")


def _served(api: ApiClient) -> bool:
    try:
        api.list_items(POD_GROUPS, "default")
    except ApiError:
        return False
    return True
