"""A Muster behind a real API server's proxy to pods: who asks it, with which rights, and how.

Muster is real, and so are the API server, RBAC with the shipped Roles, the Lease and kubectl. The pods are objects:
their addresses lead to the Muster of the test on loopback, and kwok plays the kubelet that forwards ports.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from localcluster.build import built_binaries
from localcluster.client import NODES, PODS, ApiClient, JsonObject
from localcluster.cluster import MUSTER_NAMESPACE, LocalCluster
from localcluster.components import KWOK_STAGES
from localcluster.controlplane import ApiServerOptions, probe
from localcluster.credentials import Connection
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Command, Server
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from tests.controlplane.podnetwork import PodNetwork
from tests.docs.conftest import ROOT
from tests.patience import HANGS

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
    view_port: int

    def ask(self, who: str | Path, *arguments: str) -> Result:
        """Run a command to its end as somebody, or with a kubeconfig."""
        kubeconfig = str(self.folder / who)
        return CliRunner().invoke(app, [*arguments, "--kubeconfig", kubeconfig], env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Return what is to be set in an environment so that the kubectl of this control plane is found."""
        folder = self.running.binaries[Binary.KUBECTL].parent
        return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder)}


@contextlib.contextmanager
def reachable_muster(
    place: Path, arguments: Sequence[str] = (), account: str = "muster", server: Sequence[str] = ()
) -> Iterator[Reachable]:
    """Run a control plane whose way to pods leads to a Muster beside it, as an account.

    `arguments` are further ones of Muster, `server` of the API server.
    """
    folder = Path(tempfile.mkdtemp(prefix="muster-", dir="/tmp"))
    view_port, kubelet_port = free_ports(2)
    ports: dict[str, int] = {f"{KUBELET}:10250": kubelet_port, f"{PODS_OF_MUSTER['muster-b']}:10263": view_port}
    network = PodNetwork(folder / "egress", ports)
    (folder / "egress.yaml").write_text(yaml.safe_dump(network.selection), encoding="utf-8")
    options = ApiServerOptions({}, {}, [f"--egress-selector-config-file={folder / 'egress.yaml'}", *server])
    try:
        with network.running(), LocalCluster(place, built_binaries(), options, kubelets=False) as running:
            arguments = ["--view-port", str(view_port), *arguments]
            muster = running.muster(arguments, connection=running.service_account(account))
            muster.launch()
            with Reaper() as reaper, contextlib.ExitStack() as stack:
                kubelet = _kubelet(running, reaper, kubelet_port)
                stack.callback(kubelet.kill)
                kubelet.launch()
                make_pods(running.admin, pod_template(running.binaries[Binary.KUBECTL], folder))
                have_lead(running.admin, "muster-b")
                for name, role in ROLES.items():
                    make_caller(running, name, role).write_kubeconfig(folder / name)
                running.admin.create(GANG)
                kubelet.wait_ready()
                muster.wait_ready()
                yield Reachable(running, network, folder, view_port)
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


def pod_template(kubectl: Path, folder: Path) -> JsonObject:
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


def make_pods(admin: ApiClient, template: JsonObject) -> None:
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


def have_lead(admin: ApiClient, pod: str) -> None:
    """Have the scheduler's Lease held by a pod's kube-scheduler."""
    meta = {"name": "muster", "namespace": MUSTER_NAMESPACE}
    spec = {"holderIdentity": f"{pod}_8f14e45f-ceea-4f6d-9c1d-0a1b2c3d4e5f"}
    admin.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})


def make_caller(running: LocalCluster, name: str, role: str | None) -> Connection:
    """Make somebody who has one of the shipped Roles, or none."""
    running.admin.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
    )
    if role is not None:
        running.admin.create(role_binding(MUSTER_NAMESPACE, "Role", role, {"kind": "ServiceAccount", "name": name}))
    return running.service_account(name, "default")


def role_binding(namespace: str, kind: str, role: str, subject: JsonObject) -> JsonObject:
    """Return what lets a user, or a ServiceAccount of `default`, do in a namespace what a role says."""
    group = "rbac.authorization.k8s.io"
    who = {"apiGroup": group} if subject["kind"] == "User" else {"namespace": "default"}
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": subject["name"], "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        "subjects": [subject | who],
    }
