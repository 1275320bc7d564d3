"""A newcomer's five first tasks, with the commands of the page about them, and no more than it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localcluster.build import built_binaries
from localcluster.client import JOBS, NAMESPACES, PODS, QUEUES, ApiClient, JsonObject, Resource
from localcluster.cluster import LocalCluster
from localcluster.controlplane import ControlPlane
from localcluster.processes import Server
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.conftest import muster_starter
from tests.controlplane.test_onboarding import in_force, plain_job, withdraw
from tests.controlplane.test_reclaim import queue
from tests.docs.conftest import ROOT, read_page
from tests.manifests.chart import NAMESPACE
from tests.patience import HANGS

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

#: Each task by its heading on the page, and the commands that it may take.
GANG, WHY, WHO, STOP, INSTALL = (
    "My first gang, from a plain Job",
    "Why does mine wait, and until when",
    "Who used what last week",
    "Stop a team's queue for maintenance",
    "Install with two replicas, metrics and alerts",
)
AT_MOST = {GANG: 3, WHY: 1, WHO: 1, STOP: 1, INSTALL: 4}
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", namespaced=True)
BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)
CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps", namespaced=True)
#: The Prometheus operator's kinds that the chart makes.
MONITORING = {
    kind: Resource("monitoring.coreos.com/v1", kind, f"{kind.lower()}s", namespaced=True)
    for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule")
}


def commands(task: str) -> list[str]:
    """Return the commands of a task, as the page has them."""
    section = read_page(ROOT / "docs" / "first-tasks.md").sections[task]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [line for line in block.replace("\\\n", " ").splitlines() if line]


@dataclass(frozen=True, slots=True)
class Shell:
    """A newcomer's terminal in a checkout: a kubeconfig, and programs on the PATH."""

    folder: Path
    environment: dict[str, str]

    @classmethod
    def of(cls, folder: Path, kubeconfig: Path, **more: str) -> Shell:
        """Return one with kubectl, helm and this muster."""
        programs = folder / "bin"
        programs.mkdir()
        for name, file in built_binaries((Binary.KUBECTL, Binary.HELM)).items():
            (programs / name.value).symlink_to(file)
        muster = programs / "muster"
        muster.write_text(f'#!/bin/sh\nexec {sys.executable} -m extender "$@"\n', encoding="utf-8")
        muster.chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        told = {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1", "TZ": "UTC"}
        return cls(folder, os.environ | told | more)

    def run(self, command: str) -> str:
        """Type a command; return what it prints, and fail with what it says where it fails."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            check=False,
            capture_output=True,
            text=True,
            timeout=HANGS,
            cwd=ROOT,
            env=self.environment,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.mark.parametrize(("task", "most"), AT_MOST.items())
def test_a_task_takes_no_more_commands_than_promised(task: str, most: int) -> None:
    """Three for a gang, four for an installation, one for each of the others."""
    assert 1 <= len(commands(task)) <= most


@pytest.fixture
def shell(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, device_muster_scheduler: Server, tmp_path: Path
) -> Iterator[Shell]:
    """Return the terminal beside a Muster with a history, on a cluster with one Queue for its users."""
    device_muster_scheduler.check()
    api = device_cluster.api
    config = tmp_path / "settings.yaml"
    config.write_text(f"history_store: {tmp_path / 'history.db'}\nhistory_write_seconds: 0.2\n", encoding="utf-8")
    device_cluster.create(queue("team-a", 4))
    api.patch(NAMESPACES, "default", {"metadata": {"labels": {"muster.dev/queue": "team-a"}}})
    device_cluster.nodes(1, gpus=4)
    try:
        with muster_starter(device_local_cluster) as start:
            start("--config", str(config))
            address = f"http://127.0.0.1:{device_local_cluster.muster_port}"
            yield Shell.of(tmp_path, device_local_cluster.admin_kubeconfig, MUSTER_SERVER=address)
    finally:
        for job in api.list_items(JOBS, "default"):
            api.delete(JOBS, job["metadata"]["name"], "default")
        api.delete_all(PODS, "default")
        withdraw(api, "default")
        gone = {"muster.dev/queue": None, "muster.dev/manage-jobs": None}
        api.patch(NAMESPACES, "default", {"metadata": {"labels": gone}})


def test_a_user_starts_a_gang_asks_why_it_waits_stops_the_queue_and_reads_the_bill(
    device_cluster: Sandbox, shell: Shell
) -> None:
    """Four pods start together; then why and until when; a stopped Queue starts nothing; the report has GPU-hours."""
    api = device_cluster.api

    def pods(name: str) -> list[JsonObject]:
        return list(api.list_items(PODS, "default", labelSelector=f"job-name={name}"))

    def running(name: str) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in pods(name))

    def ends(name: str) -> None:
        for pod in pods(name):
            done = {"status": {"phase": "Succeeded"}}
            api.patch(PODS, pod["metadata"]["name"], done, namespace="default", subresource="status")

    policies, label, create = commands(GANG)
    shell.run(policies)
    shell.run(label)
    in_force(lambda: bool(_dry(api, plain_job("probe", "default"))["spec"]["suspend"]))
    other = plain_job("other", "default")
    other["metadata"]["annotations"] = {"muster.dev/expected-duration": "1h"}
    shell.run(create)
    device_cluster.wait_until(lambda: running("train") == 4, "the first gang runs", 30)
    ends("train")
    api.create(other)
    device_cluster.wait_until(lambda: running("other") == 4, "another one runs", 30)
    shell.run("muster cancel train --yes")
    device_cluster.wait_until(lambda: not pods("train"), "the first is gone", 30)
    shell.run(create)

    (why,) = commands(WHY)
    told = ""

    def explained() -> bool:
        nonlocal told
        told = shell.run(why)
        return "starts at" in told

    wait_until(explained, timeout_seconds=40, description="it is said why and until when")
    assert re.search(r"^ *waits: \w+: ", told, re.MULTILINE), told
    assert "default/other" in told

    (stop,) = commands(STOP)
    shell.run(stop)
    assert api.get(QUEUES, "team-a")["spec"]["stopPolicy"] == "Hold"
    ends("other")
    assert device_cluster.stays_true(lambda: running("train") == 0, 2.0)
    shell.run("muster resume team-a")
    device_cluster.wait_until(lambda: running("train") == 4, "it goes on", 30)
    time.sleep(1)
    (who,) = commands(WHO)
    # Seconds are no tenths of a GPU-hour, but a share of what there was.
    assert re.search(r"^\S+ +team-a .* [1-9][\d.]*%$", shell.run(who), re.MULTILINE)


def _dry(api: ApiClient, item: JsonObject) -> JsonObject:
    return api.request("POST", JOBS.path("default"), body=item, query={"dryRun": "All"})


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[tuple[ApiClient, Shell]]:
    """Run an API server that has never seen Muster, but the Prometheus operator's kinds."""
    reaper = Reaper()
    folder = tmp_path / "plane"
    folder.mkdir()
    reaper.watch_folder(folder)
    try:
        with ControlPlane(built_binaries(), folder, reaper) as running, ApiClient(running.admin) as api:
            for resource in MONITORING.values():
                api.create(_open_crd(resource))
            yield api, Shell.of(tmp_path, running.admin.write_kubeconfig(folder / "admin.kubeconfig"))
    finally:
        reaper.forget_folder(folder)
        reaper.close()


def _open_crd(resource: Resource) -> JsonObject:
    """Return a CRD that takes every object of a kind."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()}
    group = resource.api_version.partition("/")[0]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_an_administrator_installs_two_replicas_with_metrics_and_alerts(empty: tuple[ApiClient, Shell]) -> None:
    """Helm itself, on an API server; the image is not built and no pod comes, so it does not wait for them."""
    api, shell = empty
    build, push, install, test = (each.replace("REGISTRY", "registry.example") for each in commands(INSTALL))
    assert build.startswith("docker build ")
    assert push.startswith("docker push ")
    assert test.startswith("helm test ")
    shell.run(install.replace(" --wait", ""))
    template: dict[str, Any] = api.get(DEPLOYMENTS, "muster", NAMESPACE)["spec"]
    assert template["replicas"] == 2
    image = re.escape(push.split()[-1])
    assert any(re.fullmatch(image, each["image"]) for each in template["template"]["spec"]["containers"])
    assert api.get(BUDGETS, "muster", NAMESPACE)["spec"]["minAvailable"] == 1
    assert api.list_items(MONITORING["PodMonitor"], NAMESPACE)
    (rules,) = api.list_items(MONITORING["PrometheusRule"], NAMESPACE)
    assert any("alert" in rule for group in rules["spec"]["groups"] for rule in group["rules"])


def test_an_administrator_installs_a_history_by_the_options_that_the_page_names(
    empty: tuple[ApiClient, Shell],
) -> None:
    """The third of the four commands with these two: one replica, its claim, and the setting."""
    api, shell = empty
    section = read_page(ROOT / "docs" / "first-tasks.md").sections[WHO]
    (options,) = re.findall(r"`(--set [^`]+)`", section)
    _, _, install, _ = (each.replace("REGISTRY", "registry.example") for each in commands(INSTALL))
    shell.run(f"{install.replace(' --wait', '')} {options}")
    (claim,) = api.list_items(CLAIMS, NAMESPACE)
    pods: dict[str, Any] = api.get(DEPLOYMENTS, "muster", NAMESPACE)["spec"]
    volumes = {each["name"]: each for each in pods["template"]["spec"]["volumes"]}
    assert pods["replicas"] == 1
    assert volumes["history"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    texts = [each["data"].get("settings.yaml", "") for each in api.list_items(CONFIG_MAPS, NAMESPACE)]
    assert any("history_store: /var/lib/muster/history.db" in text for text in texts)
