"""The Deployment: its arguments are the program's, its ports and files fit together, and it needs no privilege."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from extender.settings import Settings
from muster_lab.tools.schedulerconfig.check import check_text
from muster_lab.tools.schedulerconfig.finding import Expectations
from tests.image.dockerfile import read
from tests.manifests.conftest import ROOT, Manifest, load

BOTH = pytest.mark.parametrize("name", ["muster", "kube-scheduler"])


def test_the_verbs_are_on_loopback_and_health_is_not(options: dict[str, Any]) -> None:
    """The program accepts the container's arguments, and reads them as they are meant."""
    assert options["host"] == "127.0.0.1"
    assert options["metrics_host"] == "0.0.0.0"
    assert options["metrics_port"] != options["port"]


def test_the_scheduler_configuration_fits_the_arguments(options: dict[str, Any], pod_spec: Manifest) -> None:
    """`muster check-config` finds nothing in what the kube-scheduler beside Muster reads."""
    (deployment,) = load("deployment.yaml")
    settings = Settings()
    expected = Expectations(
        scheduler_names=tuple(options["scheduler_name"] or settings.scheduler_names),
        bind_hold_seconds=settings.bind_hold_seconds,
        http_timeout_seconds=settings.http_timeout_seconds,
        reservation_timeout_seconds=settings.reservation_timeout_seconds,
        port=options["port"],
        lease=options["scheduler_lease"],
        replicas=deployment["spec"]["replicas"],
    )
    (checked,) = check_text((ROOT / "scheduler-config" / "muster.yaml").read_text(encoding="utf-8"), expected)
    assert checked.findings == ()
    assert pod_spec["terminationGracePeriodSeconds"] > settings.bind_hold_seconds


def test_the_scheduler_reads_the_file_that_is_mounted(containers: dict[str, Manifest], pod_spec: Manifest) -> None:
    """--config names a key of the generated ConfigMap, under the path where it is mounted."""
    scheduler = containers["kube-scheduler"]
    (config,) = (word.removeprefix("--config=") for word in scheduler["command"] if word.startswith("--config="))
    (mount,) = (one for one in scheduler["volumeMounts"] if config.startswith(f"{one['mountPath']}/"))
    (volume,) = (one for one in pod_spec["volumes"] if one["name"] == mount["name"])
    generator = yaml.safe_load((ROOT / "scheduler-config" / "kustomization.yaml").read_text(encoding="utf-8"))
    (generated,) = generator["configMapGenerator"]
    assert volume["configMap"]["name"] == generated["name"]
    assert config in [f"{mount['mountPath']}/{file}" for file in generated["files"]]


@BOTH
def test_probes_ask_a_port_that_is_open(containers: dict[str, Manifest], options: dict[str, Any], name: str) -> None:
    """A named port, on which the container's own arguments make it listen."""
    container = containers[name]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    if name == "muster":
        assert set(ports.values()) == {options["metrics_port"]}
    else:
        assert {f"--secure-port={number}" for number in ports.values()} <= set(container["command"])
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


@BOTH
def test_a_container_has_no_privilege_and_writes_nothing(
    containers: dict[str, Manifest], pod_spec: Manifest, name: str
) -> None:
    """Not root, a read-only root, no capabilities; and the image's own user is the pod's."""
    context = containers[name]["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not any("emptyDir" in volume for volume in pod_spec["volumes"])
    pod = pod_spec["securityContext"]
    assert pod["runAsNonRoot"] is True
    (user,) = read()[-1].all("USER")
    assert user.text == f"{pod['runAsUser']}:{pod['runAsGroup']}"


@BOTH
def test_a_container_says_what_it_needs(containers: dict[str, Manifest], name: str) -> None:
    """CPU and memory are requested, memory is bounded, CPU is not throttled."""
    resources = containers[name]["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_the_pod_names_what_the_manifests_bring(pod_spec: Manifest) -> None:
    """Its ServiceAccount and PriorityClass exist, and another scheduler starts it."""
    accounts = {one["metadata"]["name"] for one in load("serviceaccounts.yaml")}
    (priority,) = load("priorityclass.yaml")
    assert pod_spec["serviceAccountName"] in accounts
    assert pod_spec["priorityClassName"] == priority["metadata"]["name"]
    assert pod_spec["schedulerName"] not in Settings().scheduler_names


def test_the_priority_is_the_highest_that_users_may_give() -> None:
    """Above every workload, below the classes of the cluster itself, and no default."""
    (priority,) = load("priorityclass.yaml")
    assert priority["value"] == 1_000_000_000
    assert priority["globalDefault"] is False


def test_every_manifest_belongs_to_the_base() -> None:
    """A file that is not listed is never applied."""
    (base,) = load("kustomization.yaml")
    files = {file.name for file in (ROOT / "manifests").glob("*.yaml")} - {"kustomization.yaml"}
    assert files == {name for name in base["resources"] if name.endswith(".yaml")}
    used = {container["image"] for container in load("deployment.yaml")[0]["spec"]["template"]["spec"]["containers"]}
    assert {image["name"] for image in base["images"]} == used
