"""The command line behind two real replicas: by the Service that follows the leader, and through its loss."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli.commands import app
from localcluster.build import built_binaries
from localcluster.client import Resource
from localcluster.cluster import MUSTER_NAMESPACE, LocalCluster
from localcluster.controlplane import ApiServerOptions
from localcluster.manifests import MANIFESTS
from localcluster.ports import free_ports
from localcluster.programs import Binary
from localcluster.replica import Replica, Replicas
from localcluster.waiting import wait_until
from tests.controlplane.podnetwork import PodNetwork
from tests.controlplane.reaching import GANG, PODS_OF_MUSTER, make_caller, make_pods, pod_template, role_binding
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", namespaced=True)
#: Seconds until the next leader has the Lease of a dead one, and the Service leads to it.
TAKEOVER = 40.0


@dataclass(frozen=True)
class Pair:
    """Two replicas behind one Service, and who asks."""

    running: LocalCluster
    network: PodNetwork
    folder: Path
    replicas: Replicas

    def ask(self, who: str) -> Result:
        """Ask for the gangs' names as somebody."""
        arguments = ["gangs", "-A", "-o", "name", "--kubeconfig", str(self.folder / who)]
        return CliRunner().invoke(app, arguments, env={"HOME": str(self.folder), "MUSTER_SERVER": None})

    def answered(self, who: str, gang: str) -> bool:
        """Tell whether the answer has a gang; a question without an answer ends with one line."""
        done = self.ask(who)
        assert done.exit_code == 0 or done.stderr.count("\n") == 1, done.stderr
        return done.exit_code == 0 and gang in done.stdout.split()


@pytest.fixture
def pair(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Run two replicas on a control plane whose way to pods leads to them; the Service is the shipped one."""
    folder = tmp_path_factory.mktemp("f")
    views = dict(zip(PODS_OF_MUSTER, free_ports(2), strict=True))
    network = PodNetwork(folder / "egress", {f"{PODS_OF_MUSTER[name]}:10263": port for name, port in views.items()})
    (folder / "egress.yaml").write_text(yaml.safe_dump(network.selection), encoding="utf-8")
    options = ApiServerOptions({}, {}, [f"--egress-selector-config-file={folder / 'egress.yaml'}"])
    with (
        network.running(),
        LocalCluster(tmp_path, built_binaries(), options, kubelets=False) as running,
        contextlib.ExitStack() as stack,
    ):
        make_pods(running.admin, pod_template(running.binaries[Binary.KUBECTL], folder))
        for file in ("service.yaml", "rbac.yaml"):
            text = (MANIFESTS / "components" / "read-service" / file).read_text(encoding="utf-8")
            for item in yaml.safe_load_all(text):
                running.admin.create(item)
        make_caller(running, "viewer", "muster-view").write_kubeconfig(folder / "viewer")
        make_caller(running, "narrow", None).write_kubeconfig(folder / "narrow")
        rule = {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": ["muster-read:view"]}
        meta = {"name": "narrow", "namespace": MUSTER_NAMESPACE}
        kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        running.admin.create({**kind, "metadata": meta, "rules": [{**rule, "verbs": ["get"]}]})
        subject = {"kind": "ServiceAccount", "name": "narrow"}
        running.admin.create(role_binding(MUSTER_NAMESPACE, "Role", "narrow", subject))
        members = []
        for name, port in views.items():
            arguments = ["--view-port", str(port), "--read-slice", f"{MUSTER_NAMESPACE}/muster-read"]
            pod = {"POD_NAME": name, "POD_IP": PODS_OF_MUSTER[name]}
            members.append(Replica(running, name, arguments=arguments, environment=pod))
            stack.callback(members[-1].kill)
        running.admin.create(GANG)
        yield Pair(running, network, folder, Replicas(running.admin, members))


def test_questions_are_answered_after_the_leader_is_killed(pair: Pair) -> None:
    """Both by the Service alone and with the right to pods; a watch that is open goes on with the next leader."""
    leader = pair.replicas.start()
    (standby,) = pair.replicas.others(leader)
    wait_until(lambda: pair.answered("narrow", "default/train"), timeout_seconds=TAKEOVER, description="first answer")
    assert set(pair.network.asked) == {f"{PODS_OF_MUSTER[leader.hostname]}:10263"}
    assert pair.answered("viewer", "default/train")
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "extender", "gangs", "-w", "-o", "name", "-A"]
    command += ["--kubeconfig", str(pair.folder / "narrow")]
    environment = {name: value for name, value in os.environ.items() if name != "MUSTER_SERVER"}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "default/train\n"
        leader.kill()
        pair.network.asked.clear()
        pair.replicas.wait_leader([standby])
        meta = {"name": "later-0", "labels": {"muster.dev/gang": "later"}}
        pair.running.admin.create(GANG | {"metadata": GANG["metadata"] | meta})
        for who in ("viewer", "narrow"):
            wait_until(
                partial(pair.answered, who, "default/later"),
                timeout_seconds=TAKEOVER,
                description=f"the next leader answers {who}",
            )
        assert f"{PODS_OF_MUSTER[standby.hostname]}:10263" in pair.network.asked
        # The next leader may see the first gang otherwise, and then its row comes again before.
        assert "default/later\n" in iter(watch.stdout.readline, "")
        watch.send_signal(signal.SIGINT)
        _, complaints = watch.communicate(timeout=HANGS)
    assert watch.returncode == 0
    assert all("trying again in 2 s" in line for line in complaints.splitlines()), complaints


def test_a_service_that_leads_nowhere_is_passed_by(pair: Pair) -> None:
    """Without its slice who may look for the leader finds it; who may not is told which right is missing."""
    pair.replicas.start()
    wait_until(lambda: pair.answered("viewer", "default/train"), timeout_seconds=TAKEOVER, description="first answer")
    pair.running.admin.request("DELETE", SLICES.path(MUSTER_NAMESPACE, "muster-read"))
    assert pair.answered("viewer", "default/train")
    refused = pair.ask("narrow")
    assert (refused.exit_code, "the right to list pods" in refused.stderr) == (1, True)


def test_a_muster_that_hangs_is_told(pair: Pair) -> None:
    """Within its bound, in one sentence with what to do; when it goes on so do the answers."""
    leader = pair.replicas.start()
    wait_until(lambda: pair.answered("viewer", "default/train"), timeout_seconds=TAKEOVER, description="first answer")
    leader.muster.pause()
    try:
        done = pair.ask("viewer")
    finally:
        leader.muster.resume()
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "muster gangs: no answer through the API server within 10 s; try again, or take another way with "
        "--via port-forward\n"
    )
    wait_until(lambda: pair.answered("viewer", "default/train"), timeout_seconds=TAKEOVER, description="it goes on")
