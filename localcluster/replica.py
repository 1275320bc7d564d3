"""Replicas of Muster, each with the kube-scheduler that elects it, side by side on one machine."""

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from localcluster.client import ApiClient, JsonObject, Resource
from localcluster.cluster import MUSTER_NAMESPACE, LocalCluster
from localcluster.components import MUSTER_COMMAND, SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.credentials import Connection
from localcluster.errors import ApiError, LocalClusterError
from localcluster.metrics import read_metric
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Server
from localcluster.startable import Startable
from localcluster.waiting import wait_until

LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", namespaced=True)

#: The Lease of the shipped scheduler-config/muster.yaml, in MUSTER_NAMESPACE.
LEASE_NAME = "muster"

#: Who may take that Lease: the shipped ServiceAccount of the pod that holds both processes.
SCHEDULER_SERVICE_ACCOUNT = "muster-scheduler"

#: How long one of two replicas may take to lead, in seconds: the Lease of a dead one has to run out first.
LEADING_TIMEOUT_SECONDS = 30.0

#: Ways into a UTS namespace, where a process may have a hostname of its own: as root, and as any other user.
_UNSHARE_OPTIONS = (("--uts",), ("--map-root-user", "--uts"))

#: `sh -c` with the name as $0. exec twice: the process that localcluster starts is the server itself in the end.
_RENAME_AND_BECOME = 'hostname "$0" && exec "$@"'


def on_host(name: str) -> list[str]:
    """Return a command that becomes the command in its arguments, on what looks like a host of this name.

    kube-scheduler calls itself by its hostname in a Lease. Raises LocalClusterError that says what to do if this
    machine cannot give a process a hostname of its own.
    """
    return [*_unshare(), "sh", "-c", _RENAME_AND_BECOME, name]


class Replica(Startable):
    """What one pod of the shipped Deployment runs: a kube-scheduler and its Muster, under a hostname of their own.

    Only the kube-scheduler takes part in the election. `muster_connection` is how Muster reaches the API server, as its
    shipped ServiceAccount unless given, `scheduler_connection` how kube-scheduler does, as its own. `port` is where
    Muster answers the verbs, a free one unless given, and `extender_port` where the kube-scheduler asks them, if there
    is a proxy in between. `lease_seconds` replaces how long the Lease is good. `arguments` are further ones of Muster,
    `environment` what the kubelet would set for it.
    """

    def __init__(  # noqa: PLR0913 - the parts of a pod, by keyword
        self,
        cluster: LocalCluster,
        hostname: str,
        *,
        muster_connection: Connection | None = None,
        scheduler_connection: Connection | None = None,
        lease_seconds: int | None = None,
        port: int | None = None,
        extender_port: int | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare both processes; nothing runs before `start`. They end with the cluster."""
        self.hostname = hostname
        self.port = port or free_ports(1)[0]
        launcher = on_host(hostname)
        self.muster = cluster.muster(
            ("--scheduler-lease", f"{MUSTER_NAMESPACE}/{LEASE_NAME}", *arguments),
            (*launcher, "env", *(f"{name}={value}" for name, value in (environment or {}).items()), *MUSTER_COMMAND),
            muster_connection,
            name=f"muster-{hostname}",
            port=self.port,
        )
        profile = SchedulerProfile(
            SCHEDULER_CONFIGS / "muster.yaml",
            extender_port=extender_port or self.port,
            leader_election=True,
            lease_seconds=lease_seconds,
        )
        connection = scheduler_connection or cluster.service_account(SCHEDULER_SERVICE_ACCOUNT)
        self.scheduler = cluster.scheduler(f"scheduler-{hostname}", profile, connection, launcher)

    def __repr__(self) -> str:
        """Show the name and which processes run."""
        running = [server.command.name for server in self.servers if server.running]
        return f"<Replica {self.hostname}: {', '.join(running) or 'nothing'} running>"

    @property
    def servers(self) -> tuple[Server, Server]:
        """Return both processes, Muster first."""
        return self.muster, self.scheduler

    @property
    def leading(self) -> bool:
        """Return whether Muster says that it leads; one that does not answer does not."""
        try:
            return self.metric("muster_leading") == 1
        except httpx.TransportError:
            return False

    def start(self) -> float:
        """Start what does not run, wait until both are ready (leading or not), and return the seconds that took."""
        started = time.monotonic()
        self.launch()
        self.wait_ready()
        return time.monotonic() - started

    def launch(self) -> None:
        """Launch what does not run, without waiting until it is ready."""
        for server in self.servers:
            if not server.running:
                server.launch()

    def wait_ready(self) -> None:
        """Wait until both are ready, leading or not."""
        for server in self.servers:
            server.wait_ready()

    def stop(self) -> None:
        """End both with SIGTERM at the same time, as a kubelet does, and wait for both."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            list(pool.map(Server.stop, self.servers))

    def kill(self) -> None:
        """End both at once with SIGKILL, as the loss of their machine would: neither sees the other's end."""
        for server in self.servers:
            if server.running:
                server.pause()
        for server in self.servers:
            server.kill()

    def pause(self) -> None:
        """Freeze both with SIGSTOP, as the pause of a virtual machine would."""
        for server in self.servers:
            server.pause()

    def resume(self) -> None:
        """Let both go on."""
        for server in self.servers:
            server.resume()

    def metric(self, series: str) -> float:
        """Return one series of Muster's metrics, 0 where it does not exist yet."""
        return read_metric(f"http://{LOOPBACK}:{self.port}/metrics", series)


class Replicas:
    """Several replicas that follow one Lease."""

    def __init__(self, api: ApiClient, members: Sequence[Replica]) -> None:
        """Know the replicas; `api` may read the Lease."""
        self._api = api
        self.members = members

    def start(self) -> Replica:
        """Start what does not run of all of them, and return the one that leads."""
        for replica in self.members:
            replica.launch()
        for replica in self.members:
            replica.wait_ready()
        return self.wait_leader()

    def holder(self) -> Replica | None:
        """Return the replica that holds the Lease, by the API server; None if none does."""
        try:
            lease = self._api.get(LEASES, LEASE_NAME, MUSTER_NAMESPACE)
        except ApiError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise
        return self.holder_of(lease)

    def holder_of(self, lease: JsonObject) -> Replica | None:
        """Return the replica that this Lease names, None if it names none."""
        identity = str(lease["spec"].get("holderIdentity") or "")
        return next((replica for replica in self.members if identity.startswith(f"{replica.hostname}_")), None)

    def others(self, replica: Replica) -> list[Replica]:
        """Return all but one."""
        return [other for other in self.members if other is not replica]

    def wait_leader(
        self, among: Sequence[Replica] | None = None, timeout_seconds: float = LEADING_TIMEOUT_SECONDS
    ) -> Replica:
        """Return the replica whose kube-scheduler holds the Lease and whose Muster knows; one of `among`, if given."""
        candidates = self.members if among is None else among
        found: list[Replica] = []

        def leads() -> bool:
            found[:] = [replica for replica in candidates if replica is self.holder() and replica.leading]
            return bool(found)

        wait_until(leads, timeout_seconds=timeout_seconds, description=f"one of {list(candidates)} leads")
        return found[0]


def _unshare() -> tuple[str, ...]:
    """Return the `unshare` command that this machine allows."""
    for program, package in (("unshare", "util-linux"), ("hostname", "hostname")):
        if shutil.which(program) is None:
            raise LocalClusterError(
                f"`{program}` is needed for two replicas on one machine. Install it with `apt-get install {package}`."
            )
    refusals = []
    for options in _UNSHARE_OPTIONS:
        command = ("unshare", *options)
        attempt = [*command, "hostname", "replica"]
        tried = subprocess.run(attempt, check=False, capture_output=True, text=True)  # noqa: S603 - written above
        if tried.returncode == 0:
            return command
        refusals.append(f"`{' '.join(command)}`: {tried.stderr.strip()}")
    raise LocalClusterError(
        "two replicas on one machine need a hostname each, and this machine allows no UTS namespace. Run as root, or "
        "allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`); a container needs `--cap-add SYS_ADMIN`. "
        f"Refused: {'; '.join(refusals)}"
    )
