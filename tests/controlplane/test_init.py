"""`muster init` on a real API server: bare, installed by the commands that it prints, and complete."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from localcluster.build import built_binaries
from localcluster.client import NODES, ApiClient, Resource
from localcluster.controlplane import ControlPlane
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from localcluster.waiting import wait_until
from tests.docs.conftest import ROOT
from tests.manifests.chart import NAMESPACE, Helm
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", namespaced=True)


@dataclass(frozen=True)
class Bare:
    """An API server that has never seen Muster, its administrator's kubeconfig, and a folder of programs."""

    api: ApiClient
    kubeconfig: Path
    programs: Path

    def init(self, *words: str) -> Result:
        """Run the command."""
        arguments = ["init", *words, "--kubeconfig", str(self.kubeconfig)]
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "160", "HOME": str(self.programs)})

    def found(self) -> tuple[int, dict[str, str], list[str]]:
        """Return the exit code, what is how, and what is to be applied."""
        done = self.init("-o", "json")
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["ready"] == (done.exit_code == 0), done.stderr
        return (
            done.exit_code,
            {each["check"]: each["state"] for each in document["findings"]},
            document["apply"],
        )

    def run(self, command: str) -> None:
        """Run a command that `init` prints, in the folder of the source, as it says."""
        environment = {
            **os.environ,
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.programs),
        }
        done = subprocess.run(
            shlex.split(command), check=False, capture_output=True, text=True, timeout=HANGS, env=environment, cwd=ROOT
        )
        assert done.returncode == 0, (command, done.stderr)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    """Run such an API server."""
    reaper = Reaper()
    folder = tmp_path / "plane"
    folder.mkdir()
    reaper.watch_folder(folder)
    programs = tmp_path / "programs"
    programs.mkdir()
    binaries = built_binaries()
    shutil.copy(binaries[Binary.KUBECTL], programs / "kubectl")
    (programs / "helm").symlink_to(Helm.in_folder(tmp_path).executable)
    try:
        with ControlPlane(binaries, folder, reaper) as running, ApiClient(running.admin) as api:
            yield Bare(api, running.admin.write_kubeconfig(folder / "admin.kubeconfig"), programs)
    finally:
        reaper.forget_folder(folder)
        reaper.close()


def test_its_own_commands_make_a_bare_cluster_ready(bare: Bare) -> None:
    """Each command is run as it is printed; what is left to do is the kubelets', and then nothing is."""
    code, found, commands = bare.found()
    assert code == 1
    assert (found["Kubernetes"], found["rights"], found["CRDs"], found["Muster"], found["GPUs"]) == (
        *("ok", "ok"),
        *("missing", "missing", "missing"),
    )
    for command in commands:
        if command.startswith(f"kubectl --kubeconfig {bare.kubeconfig} create namespace") or " label " in command:
            bare.run(command)
        elif " install muster " in command:
            bare.run(command.replace("REGISTRY/", "registry.example/"))
        else:  # pods that no kubelet starts, a device plugin from elsewhere
            assert " rollout status " in command or "nvdp" in command, command
    wait_until(lambda: bare.found()[1]["CRDs"] == "ok", timeout_seconds=20, description="the kinds are served")
    code, found, commands = bare.found()
    assert (code, found["Muster"], found["profile"]) == (1, "missing", "ok")
    assert any("describe pods" in command for command in commands)

    replicas = bare.api.get(DEPLOYMENTS, "muster", NAMESPACE)["spec"]["replicas"]
    status = {"replicas": replicas, "readyReplicas": replicas}
    bare.api.patch(DEPLOYMENTS, "muster", {"status": status}, namespace=NAMESPACE, subresource="status")
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    bare.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0", "labels": labels}})
    amount = {"nvidia.com/gpu": "8"}
    bare.api.patch(NODES, "gpu-0", {"status": {"capacity": amount, "allocatable": amount}}, subresource="status")
    code, found, commands = bare.found()
    assert (code, commands) == (0, []), found
    assert not {"missing", "unknown"} & set(found.values())
    told = bare.init()
    assert told.stdout.endswith("\nready\n")
    assert "8 NVIDIA-H100-80GB-HBM3 on 1 nodes" in told.stdout
    assert "To apply" not in told.stdout
