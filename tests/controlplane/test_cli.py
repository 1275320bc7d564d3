"""The commands that ask a running Muster, by its callers' own kubeconfigs, through a real API server.

Muster is real, and so are the API server with its proxy to pods, RBAC with the shipped Roles, the Lease and kubectl.
The pods are objects: their addresses lead to the Muster of the test on loopback, and kwok plays the kubelet that
forwards ports.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from localcluster.build import built_binaries
from localcluster.client import NODES, PODS, ApiClient, JsonObject
from localcluster.cluster import MUSTER_NAMESPACE, LocalCluster
from localcluster.components import KWOK_STAGES
from localcluster.controlplane import ApiServerOptions, probe
from localcluster.credentials import Connection
from localcluster.errors import ApiError
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Command, Server
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from localcluster.waiting import wait_until
from tests.controlplane.podnetwork import PodNetwork
from tests.docs.conftest import ROOT
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

KUBELET = "192.0.2.100"
#: The pods of Muster, and their addresses; the second one leads.
PODS_OF_MUSTER = {"muster-a": "192.0.2.1", "muster-b": "192.0.2.2"}
#: Who asks, and the Role that he has.
ROLES = {"viewer": "muster-view", "forwarder": "muster-port-forward", "stranger": None}
GANG: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-0",
        "namespace": "default",
        "labels": {"muster.dev/gang": "train"},
        "annotations": {"muster.dev/min-member": "2"},
    },
    "spec": {"schedulerName": "muster", "containers": [{"name": "main", "image": "registry.example/train:1"}]},
}


@dataclass(frozen=True)
class Reachable:
    """A control plane, the Muster in it, and a folder with the kubeconfigs of those who ask."""

    running: LocalCluster
    network: PodNetwork
    folder: Path

    def ask(self, who: str | Path, *arguments: str) -> Result:
        """Run a command to its end as somebody, or with a kubeconfig."""
        kubeconfig = str(self.folder / who)
        return CliRunner().invoke(app, [*arguments, "--kubeconfig", kubeconfig], env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Return what is to be set in an environment so that the kubectl of this control plane is found."""
        folder = self.running.binaries[Binary.KUBECTL].parent
        return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder)}


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    """Run a control plane whose way to pods leads to a Muster beside it."""
    folder = Path(tempfile.mkdtemp(prefix="muster-", dir="/tmp"))
    view_port, kubelet_port = free_ports(2)
    ports: dict[str, int] = {f"{KUBELET}:10250": kubelet_port, f"{PODS_OF_MUSTER['muster-b']}:10263": view_port}
    network = PodNetwork(folder / "egress", ports)
    (folder / "egress.yaml").write_text(yaml.safe_dump(network.selection), encoding="utf-8")
    options = ApiServerOptions({}, {}, [f"--egress-selector-config-file={folder / 'egress.yaml'}"])
    place = tmp_path_factory.mktemp("reachable")
    try:
        with network.running(), LocalCluster(place, built_binaries(), options, kubelets=False) as running:
            muster = running.muster(["--view-port", str(view_port)])
            muster.launch()
            with Reaper() as reaper, contextlib.ExitStack() as stack:
                kubelet = _kubelet(running, reaper, kubelet_port)
                stack.callback(kubelet.kill)
                kubelet.launch()
                _make_pods(running.admin, _template(running.binaries[Binary.KUBECTL], folder))
                for name, role in ROLES.items():
                    _make_caller(running, name, role).write_kubeconfig(folder / name)
                running.admin.create(GANG)
                kubelet.wait_ready()
                muster.wait_ready()
                yield Reachable(running, network, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kubelet(running: LocalCluster, reaper: Reaper, port: int) -> Server:
    """Return kwok, which looks after no node, but forwards the verbs' port of every pod to Muster."""
    target = {"address": LOOPBACK, "port": running.muster_port}
    rules = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "muster"},
        "spec": {"forwards": [{"ports": [10261], "target": target}]},
    }
    config = running.folder / "port-forwards.yaml"
    config.write_text(yaml.safe_dump(rules), encoding="utf-8")
    arguments = [str(running.binaries[Binary.KWOK]), f"--kubeconfig={running.admin_kubeconfig}", f"--config={config}"]
    # It does not start without stages, even if it looks after nobody.
    arguments += [
        f"--config={KWOK_STAGES}",
        "--manage-nodes-with-label-selector=nobody=here",
        f"--server-address={LOOPBACK}:{port}",
    ]
    environment = {**os.environ, "HOME": str(running.folder)}
    command = Command("kubelet", arguments, running.folder, environment)
    return Server(command, reaper, lambda: probe(f"http://{LOOPBACK}:{port}/healthz"))


def _template(kubectl: Path, folder: Path) -> JsonObject:
    """Return the template of Muster's pods, as the manifests have it with the component that offers reads."""
    (folder / "muster").symlink_to(ROOT)
    (folder / "overlay").mkdir()
    overlay = {"resources": ["../muster/manifests"], "components": ["../muster/manifests/components/view"]}
    (folder / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    command = [str(kubectl), "kustomize", str(folder / "overlay")]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True, timeout=HANGS).stdout
    (found,) = (item for item in yaml.safe_load_all(rendered) if item["kind"] == "Deployment")
    template: JsonObject = found["spec"]["template"]
    return template


def _make_pods(admin: ApiClient, template: JsonObject) -> None:
    """Make Muster's pods, on a node whose kubelet is kwok."""
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "infra"}})
    endpoints = {"kubeletEndpoint": {"Port": 10250}}
    addresses = [{"type": "InternalIP", "address": KUBELET}]
    admin.patch(
        NODES, "infra", {"status": {"addresses": addresses, "daemonEndpoints": endpoints}}, subresource="status"
    )
    for name, address in PODS_OF_MUSTER.items():
        meta = {"name": name, "namespace": MUSTER_NAMESPACE, "labels": template["metadata"]["labels"]}
        spec = template["spec"] | {"nodeName": "infra"}
        admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        conditions = [{"type": "Ready", "status": "True"}]
        patch = {"status": {**status, "conditions": conditions}}
        admin.patch(PODS, name, patch, namespace=MUSTER_NAMESPACE, subresource="status")
    _lead(admin, "muster-b")


def _lead(admin: ApiClient, pod: str) -> None:
    """Have the scheduler's Lease held by a pod's kube-scheduler."""
    meta = {"name": "muster", "namespace": MUSTER_NAMESPACE}
    spec = {"holderIdentity": f"{pod}_8f14e45f-ceea-4f6d-9c1d-0a1b2c3d4e5f"}
    admin.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})


def _make_caller(running: LocalCluster, name: str, role: str | None) -> Connection:
    """Make somebody who has one of the shipped Roles, or none."""
    running.admin.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
    )
    if role is not None:
        group = "rbac.authorization.k8s.io"
        meta = {"name": name, "namespace": MUSTER_NAMESPACE}
        reference = {"apiGroup": group, "kind": "Role", "name": role}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
        binding: JsonObject = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta}
        running.admin.create(binding | {"roleRef": reference, "subjects": subjects})
    return running.service_account(name, "default")


def test_a_viewer_asks_through_the_api_servers_proxy(reachable: Reachable) -> None:
    """With the shipped Role muster-view alone, the pod that holds the Lease is asked, and it knows of the gang."""
    wait_until(
        lambda: "default/train" in reachable.ask("viewer", "gangs", "-o", "name").stdout,
        timeout_seconds=40,
        description="the gang is listed",
    )
    done = reachable.ask("viewer", "gangs", "--reason", "MembersMissing", "-o", "json")
    assert done.exit_code == 0, done.stderr
    gang = next(gang for gang in json.loads(done.stdout)["gangs"] if gang["name"] == "train")
    assert (gang["minMember"], gang["phase"]) == (2, "Pending")
    assert "192.0.2.2:10263" in reachable.network.asked


def test_gangs_are_chosen_by_their_labels(reachable: Reachable) -> None:
    """As kubectl's -l; what is no selector is refused in Muster's words."""
    wait_until(
        lambda: "default/train" in reachable.ask("viewer", "gangs", "-l", "muster.dev/gang=train", "-o", "name").stdout,
        timeout_seconds=40,
        description="the gang is chosen",
    )
    others = reachable.ask("viewer", "gangs", "-l", "muster.dev/gang!=train", "-o", "name")
    assert (others.exit_code, "default/train" in others.stdout.split()) == (0, False)
    refused = reachable.ask("viewer", "gangs", "-l", "a b")
    assert (refused.exit_code, "label selector: 'a b' cannot be read" in refused.stderr) == (2, True)


def test_a_cluster_is_checked_before_an_install(reachable: Reachable) -> None:
    """An administrator is told what is missing, and whoever has no rights what may not be read."""
    done = reachable.ask(reachable.running.admin_kubeconfig, "init", "-o", "json", "--muster-namespace", "elsewhere")
    document = json.loads(done.stdout)
    found = {each["check"]: each for each in document["findings"]}
    assert done.exit_code == 1, done.stderr
    assert (found["Kubernetes"]["state"], found["rights"]["state"]) == ("ok", "ok")
    assert found["Muster"]["state"] == "missing"
    assert any("helm" in each and "install muster" in each for each in document["apply"])
    stranger = reachable.ask("stranger", "init", "-o", "json")
    assert stranger.exit_code == 1, stranger.stderr
    states = {each["check"]: each["state"] for each in json.loads(stranger.stdout)["findings"]}
    assert (states["rights"], states["GPUs"], states["Muster"]) == ("missing", "unknown", "unknown")


def test_kubectl_finds_it_as_a_plugin(reachable: Reachable, tmp_path: Path) -> None:
    """`kubectl muster gangs` is `muster gangs`, options and exit codes included."""
    plugin = tmp_path / "kubectl-muster"
    plugin.write_text(f"#!{sys.executable}\nfrom extender.cli import main\nmain()\n", encoding="utf-8")
    plugin.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{reachable.environment['PATH']}"
    command = ["kubectl", "muster", "gangs", "-o", "name", "--kubeconfig", str(reachable.folder / "viewer")]
    environment = {**os.environ, **reachable.environment, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "default/train" in done.stdout.split()


def test_what_muster_refuses_comes_through_the_proxy_as_it_is(reachable: Reachable) -> None:
    """Its own words, and the exit code for arguments."""
    done = reachable.ask("viewer", "gangs", "--phase", "sleeping")
    assert done.exit_code == 2
    assert done.stderr.startswith("muster gangs: phase cannot be 'Sleeping'; known: Failed, Finished, Pending")


def test_a_viewer_asks_what_would_be(reachable: Reachable, tmp_path: Path) -> None:
    """A question with a body goes through the proxy too; the gang of the file is judged, and nothing is created."""
    pods = [
        GANG | {"metadata": GANG["metadata"] | {"name": f"maybe-{n}", "labels": {"muster.dev/gang": "maybe"}}}
        for n in (0, 1)
    ]
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods), encoding="utf-8")
    done = reachable.ask("viewer", "explain", "-f", str(tmp_path / "pods.yaml"), "--dry-run", "-o", "json")
    assert '"maybe"' in done.stdout, done.stderr
    assert "default/maybe" not in reachable.ask("viewer", "gangs", "-o", "name").stdout


def _told(stream: IO[str], text: str) -> str:
    """Return the first line with this text."""
    return next(line for line in stream if text in line)


def test_a_viewer_watches_through_the_api_servers_proxy(reachable: Reachable) -> None:
    """The stream is not held back on the way: a second gang is seen while the watch is open; Ctrl-C ends it well."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "extender", "watch", "--kubeconfig", str(reachable.folder / "viewer")]
    environment = os.environ | reachable.environment
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as watch:
        assert watch.stdout is not None
        assert _told(watch.stdout, "default/train ")
        meta = GANG["metadata"] | {"name": "later-0", "labels": {"muster.dev/gang": "later"}}
        reachable.running.admin.create(GANG | {"metadata": meta})
        assert "Pending" in _told(watch.stdout, "default/later ")
        watch.send_signal(signal.SIGINT)
        _, complaints = watch.communicate(timeout=HANGS)
    assert (watch.returncode, complaints) == (0, "")


def test_an_administrator_asks_by_a_port_forward(reachable: Reachable) -> None:
    """With the shipped Role muster-port-forward and the real kubectl, to the verbs' listener on the pod's loopback."""
    done = reachable.ask("forwarder", "status", "--via", "port-forward", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["nodes"]["total"] == 1
    done = reachable.ask("forwarder", "gangs", "--via", "port-forward", "-o", "name")
    assert "default/train" in done.stdout.split()


@pytest.mark.parametrize(
    ("who", "arguments", "message"),
    [
        ("stranger", [], "the right to list pods in namespace muster-system is missing"),
        ("forwarder", ["--via", "proxy"], "the right to get pods/proxy in namespace muster-system is missing"),
        ("viewer", ["--via", "port-forward"], "the right to create pods/portforward is missing"),
        ("viewer", ["--muster-namespace", "default"], "the right to list pods in namespace default is missing"),
        ("viewer", ["--context", "nowhere"], "nowhere"),
    ],
)
def test_a_missing_right_is_named(reachable: Reachable, who: str, arguments: list[str], message: str) -> None:
    """Whoever may not ask is told what to ask his administrator for, in one line."""
    done = reachable.ask(who, "status", *arguments)
    assert done.exit_code in {1, 2}
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_namespace_is_told(reachable: Reachable) -> None:
    """An administrator who looks in the wrong place is told how to look elsewhere."""
    done = reachable.ask(reachable.running.admin_kubeconfig, "status", "--muster-namespace", "kube-system")
    assert done.exit_code == 1
    assert "no pods with the label app.kubernetes.io/name=muster in namespace kube-system" in done.stderr


def test_a_leader_that_cannot_be_reached_is_told(reachable: Reachable) -> None:
    """As when the network does not let the API server through to pods; the other way is named."""
    _lead(reachable.running.admin, "muster-a")
    try:
        done = reachable.ask("viewer", "status")
    finally:
        _lead(reachable.running.admin, "muster-b")
    assert done.exit_code == 1
    assert "the API server does not get through to Muster: 503 " in done.stderr
    assert "--via port-forward takes another way" in done.stderr


def test_an_exec_plugin_gives_the_credentials(reachable: Reachable, tmp_path: Path) -> None:
    """As clouds have it: the kubeconfig names a program, which prints a token."""
    config: dict[str, Any] = yaml.safe_load((reachable.folder / "viewer").read_text(encoding="utf-8"))
    version = "client.authentication.k8s.io/v1"
    credential = {
        "apiVersion": version,
        "kind": "ExecCredential",
        "status": {"token": config["users"][0]["user"]["token"]},
    }
    plugin = {"apiVersion": version, "command": "echo", "args": [json.dumps(credential)], "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": plugin}
    (tmp_path / "config").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = reachable.ask(tmp_path / "config", "status")
    assert done.exit_code == 0, done.stderr
    assert "ready, leading" in done.stdout


def test_a_viewer_cannot_reach_the_verbs(reachable: Reachable) -> None:
    """What the proxy leads to has none: whoever may look cannot place pods."""
    path = f"/api/v1/namespaces/{MUSTER_NAMESPACE}/pods/http:muster-b:10263/proxy/v1/bind"
    viewer = reachable.running.service_account("viewer", "default")
    with ApiClient(viewer) as client, pytest.raises(ApiError, match="404"):
        client.request("POST", path, body={})
    with ApiClient(viewer) as client:
        assert client.request("GET", path.replace("v1/bind", "api/v1/status"))["ready"]
