"""The Service for readers: its slice, its rights and Muster's option name one object, and nothing selects pods."""

from __future__ import annotations

import yaml

from extender.kube.readservice import ReadSlice
from tests.manifests.conftest import MANIFESTS, load


def test_the_slice_that_muster_keeps_is_the_services() -> None:
    """The option, the label of the slice and the port of the view."""
    service, kept = load("components/read-service/service.yaml")
    (patch,) = yaml.safe_load((MANIFESTS / "components/read-service/kustomization.yaml").read_text())["patches"]
    option, address = yaml.safe_load(patch["patch"])
    named = ReadSlice.of(option["value"].removeprefix("--read-slice="), "10.0.0.1", "muster-a")
    assert (named.namespace, named.name) == (kept["metadata"]["namespace"], kept["metadata"]["name"])
    assert address["value"]["name"] == "POD_IP"
    assert kept["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    (port,), (of_slice,) = service["spec"]["ports"], kept["ports"]
    assert (port["name"], port["targetPort"]) == (of_slice["name"], of_slice["port"])
    view = (MANIFESTS / "components/view/kustomization.yaml").read_text()
    assert f"--view-port={of_slice['port']}" in view


def test_no_selector_and_no_endpoints_are_shipped() -> None:
    """A selector would bring in replicas that stand by; endpoints would take the leader's away when applied again."""
    service, kept = load("components/read-service/service.yaml")
    assert "selector" not in service["spec"]
    assert "endpoints" not in kept


def test_muster_may_patch_that_one_slice() -> None:
    """And gets no other right by it."""
    _, kept = load("components/read-service/service.yaml")
    role, binding = load("components/read-service/rbac.yaml")
    assert role["rules"] == [
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "resourceNames": [kept["metadata"]["name"]],
            "verbs": ["patch"],
        }
    ]
    assert [subject["name"] for subject in binding["subjects"]] == ["muster", "muster-scheduler"]


def test_rights_of_components_are_the_pods_too() -> None:
    """The pod's ServiceAccount, which kube-scheduler is as well, has them; not only Muster's own."""
    (deployment,) = load("deployment.yaml")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    for component in ("autoscaling", "read-service"):
        for item in load(f"components/{component}/rbac.yaml"):
            if item["kind"].endswith("Binding"):
                assert account in {subject["name"] for subject in item["subjects"]}, item["metadata"]["name"]
