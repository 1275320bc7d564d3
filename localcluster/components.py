"""What runs against the API server: kube-scheduler, a few controllers, kwok in the kubelets' place, and Muster."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from localcluster.client import JsonObject
from localcluster.controlplane import key_values, probe
from localcluster.credentials import Connection
from localcluster.errors import LocalClusterError
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Command, Server
from localcluster.reaper import Reaper

REPOSITORY = Path(__file__).parent.parent
SCHEDULER_CONFIGS = REPOSITORY / "scheduler-config"
KWOK_STAGES = Path(__file__).parent / "kwok" / "stages.yaml"

#: The controllers that run where any do. The first makes claims of devices of templates and ends their allocations, the
#: second deletes those whose pod is gone, the others make pods of Jobs and StatefulSets.
CONTROLLERS = (
    "resourceclaim-controller",
    "garbage-collector-controller",
    "job-controller",
    "statefulset-controller",
)

#: How the Muster of this checkout is started, without an installed `muster` command.
MUSTER_COMMAND = (sys.executable, "-m", "extender")


@dataclass(frozen=True, slots=True)
class SchedulerProfile:
    """Which KubeSchedulerConfiguration a kube-scheduler runs with, and what differs on this machine.

    `extender_port` replaces the port in every extender's urlPrefix, `percentage_of_nodes_to_score` how many of the
    nodes are looked at for a pod, `extender_timeout_seconds` every extender's httpTimeout; None leaves the file's own.
    `scheduler_name` replaces the name of the only profile.
    Without `leader_election` the scheduler serves at once; `lease_seconds`, 3 or more, replaces how long its Lease is
    good without a renewal, which is given up a second before.
    """

    config: Path
    extender_port: int | None = None
    scheduler_name: str | None = None
    leader_election: bool = False
    lease_seconds: int | None = None
    percentage_of_nodes_to_score: int | None = None
    extender_timeout_seconds: int | None = None

    def render(self, kubeconfig: Path) -> JsonObject:
        """Return the configuration as this run needs it: same file, with other addresses."""
        rendered: JsonObject = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        rendered["leaderElection"]["leaderElect"] = self.leader_election
        if self.lease_seconds is not None:
            lease = {"leaseDuration": f"{self.lease_seconds}s", "renewDeadline": f"{self.lease_seconds - 1}s"}
            rendered["leaderElection"] |= lease
        rendered["clientConnection"]["kubeconfig"] = str(kubeconfig)
        if self.scheduler_name is not None:
            (profile,) = rendered["profiles"]
            profile["schedulerName"] = self.scheduler_name
        if self.percentage_of_nodes_to_score is not None:
            rendered["percentageOfNodesToScore"] = self.percentage_of_nodes_to_score
        if self.extender_timeout_seconds is not None:
            for extender in rendered["extenders"]:
                extender["httpTimeout"] = f"{self.extender_timeout_seconds}s"
        if self.extender_port is not None:
            for extender in rendered["extenders"]:
                _, _, path = extender["urlPrefix"].removeprefix("http://").partition("/")
                extender["urlPrefix"] = f"http://{LOOPBACK}:{self.extender_port}/{path}"
        return rendered


def kube_scheduler(  # noqa: PLR0913 - the parts of a command line, by keyword
    executable: Path,
    folder: Path,
    reaper: Reaper,
    *,
    name: str,
    port: int,
    connection: Connection,
    profile: SchedulerProfile,
    feature_gates: Mapping[str, bool],
    launcher: Sequence[str] = (),
) -> Server:
    """Return a kube-scheduler that serves health and metrics on `port`; `name` tells it from others in one folder.

    `launcher` is a command that takes the kube-scheduler's as its arguments and becomes it.
    """
    kubeconfig = connection.write_kubeconfig(folder / f"{name}.kubeconfig")
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(profile.render(kubeconfig), sort_keys=False), encoding="utf-8")
    arguments = [
        *launcher,
        str(executable),
        f"--config={config}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder / name}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        # This API server has no certificate authority for clients that could be looked up.
        "--authentication-skip-lookup=true",
        # Benchmarks read its metrics without an identity.
        "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
    ]
    if feature_gates:
        arguments.append(f"--feature-gates={key_values(feature_gates)}")
    certificate = folder / name / "kube-scheduler.crt"
    address = Connection(f"https://{LOOPBACK}:{port}", certificate, connection.token)
    return Server(
        Command(name, arguments, folder),
        reaper,
        # The certificate is the scheduler's own work, so it may not be there yet.
        lambda: certificate.exists() and probe(f"{address.url}/readyz", address),
    )


def kube_controller_manager(  # noqa: PLR0913 - the parts of a command line, by keyword
    executable: Path,
    folder: Path,
    reaper: Reaper,
    *,
    port: int,
    connection: Connection,
    feature_gates: Mapping[str, bool],
) -> Server:
    """Return a kube-controller-manager with CONTROLLERS alone, all of them with the rights of `connection`."""
    name = "kube-controller-manager"
    kubeconfig = connection.write_kubeconfig(folder / f"{name}.kubeconfig")
    arguments = [
        str(executable),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder / name}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        # By default 20 a second: claims for a gang of 64 would be there after five seconds, whoever schedules it.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
    if feature_gates:
        arguments.append(f"--feature-gates={key_values(feature_gates)}")
    certificate = folder / name / "kube-controller-manager.crt"
    address = Connection(f"https://{LOOPBACK}:{port}", certificate, connection.token)
    return Server(
        Command(name, arguments, folder),
        reaper,
        lambda: certificate.exists() and probe(f"{address.url}/healthz", address),
    )


def kwok(executable: Path, folder: Path, reaper: Reaper, *, port: int, connection: Connection) -> Server:
    """Return kwok, which keeps every node ready and every bound pod running."""
    kubeconfig = connection.write_kubeconfig(folder / "kwok.kubeconfig")
    arguments = [
        str(executable),
        f"--kubeconfig={kubeconfig}",
        f"--config={KWOK_STAGES}",
        "--manage-all-nodes=true",
        # No Leases: nothing here watches them, and each node would renew one every ten seconds.
        "--node-lease-duration-seconds=0",
        f"--server-address={LOOPBACK}:{port}",
    ]
    # kwok would add the stages of a configuration in the user's home directory to these.
    environment = {**os.environ, "HOME": str(folder)}
    return Server(
        Command("kwok", arguments, folder, environment), reaper, lambda: probe(f"http://{LOOPBACK}:{port}/healthz")
    )


def operator(executable: Path, folder: Path, reaper: Reaper, *, port: int, connection: Connection) -> Server:
    """Return the controllers of an operator that makes pods, a program of OPERATOR_BINARIES."""
    name = executable.name
    kubeconfig = connection.write_kubeconfig(folder / f"{name}.kubeconfig")
    address = f"{LOOPBACK}:{port}"
    arguments = [str(executable), f"--kubeconfig={kubeconfig}", f"--health-probe-bind-address={address}"]
    return Server(Command(name, arguments, folder), reaper, lambda: probe(f"http://{address}/healthz"))


def karpenter(
    executable: Path, folder: Path, reaper: Reaper, *, connection: Connection, instance_types: Path
) -> Server:
    """Return a Karpenter that makes nodes of these types (a JSON file), which kwok keeps alive."""
    kubeconfig = connection.write_kubeconfig(folder / "karpenter.kubeconfig")
    metrics, health = free_ports(2)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "INSTANCE_TYPES_FILE_PATH": str(instance_types),
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "DISABLE_LEADER_ELECTION": "true",
        "SYSTEM_NAMESPACE": "kube-system",
        "KUBERNETES_MIN_VERSION": "1.19.0-0",
    }
    return Server(
        Command("karpenter", [str(executable)], folder, environment),
        reaper,
        lambda: probe(f"http://{LOOPBACK}:{health}/healthz"),
    )


def muster(  # noqa: PLR0913 - the parts of a command line, by keyword
    folder: Path,
    reaper: Reaper,
    *,
    port: int,
    connection: Connection,
    command: Sequence[str] = MUSTER_COMMAND,
    extra_arguments: Sequence[str] = (),
    health_port: int | None = None,
    name: str = "muster",
) -> Server:
    """Return Muster as `connection`'s identity, serving the extender's verbs on `port`.

    `name` tells it from others in one folder. It is asked on `port` whether it is ready, or at `health_port`, for one
    whose verbs want a client certificate.
    """
    if not command:
        raise LocalClusterError("the command that starts Muster is empty")
    kubeconfig = connection.write_kubeconfig(folder / f"{name}.kubeconfig")
    arguments = [*command, "serve", "--kubeconfig", str(kubeconfig), "--host", LOOPBACK, "--port", str(port)]
    return Server(
        Command(name, [*arguments, *extra_arguments], folder),
        reaper,
        lambda: probe(f"http://{LOOPBACK}:{health_port or port}/readyz"),
    )
