"""Versions in the manifests follow those they stand for."""

import tomllib

import pytest
import yaml

from localcluster.components import REPOSITORY, SCHEDULER_CONFIGS
from localcluster.manifests import MANIFESTS
from localcluster.programs import KUBERNETES


@pytest.fixture
def images() -> dict[str, str]:
    """Return the tag of each image of the base kustomization."""
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text(encoding="utf-8"))
    return {image["name"]: image["newTag"] for image in kustomization["images"]}


def test_image_tag_is_the_version_of_the_package(images: dict[str, str]) -> None:
    """The base deploys the Muster of this checkout."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert images["muster"] == project["version"]


def test_kube_scheduler_is_the_one_that_is_tested(images: dict[str, str]) -> None:
    """The base deploys the kube-scheduler version that the control-plane tests run."""
    assert images["registry.k8s.io/kube-scheduler"] == KUBERNETES.required_version("k8s.io/kubernetes")


def test_deployment_listens_where_the_scheduler_asks() -> None:
    """The Deployment's port is the one in the sample configuration, on loopback."""
    deployment = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text(encoding="utf-8"))
    (muster,) = (item for item in deployment["spec"]["template"]["spec"]["containers"] if item["name"] == "muster")
    config = yaml.safe_load((SCHEDULER_CONFIGS / "muster.yaml").read_text(encoding="utf-8"))
    assert {"--host=127.0.0.1", "--port=10261"} <= set(muster["args"])
    assert config["extenders"][0]["urlPrefix"] == "http://127.0.0.1:10261/v1"
