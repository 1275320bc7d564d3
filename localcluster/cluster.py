"""One whole local cluster: control plane, kwok, Muster's manifests and identity, and the schedulers to choose from."""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster.client import NAMESPACES, SERVICE_ACCOUNTS, ApiClient
from localcluster.components import (
    MUSTER_COMMAND,
    SCHEDULER_CONFIGS,
    SchedulerProfile,
    karpenter,
    kube_controller_manager,
    kube_scheduler,
    kwok,
    muster,
    operator,
)
from localcluster.controlplane import STOCK_API_SERVER, ApiServerOptions, ControlPlane
from localcluster.credentials import Connection
from localcluster.errors import ApiError
from localcluster.manifests import apply_all, render
from localcluster.ports import free_ports
from localcluster.processes import Server
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from localcluster.startable import Startable
from localcluster.waiting import wait_until

MUSTER_NAMESPACE = "muster-system"
MUSTER_SERVICE_ACCOUNT = "muster"

#: Longer than any run here; the API server allows a day for the asking.
TOKEN_SECONDS = 24 * 3600

#: How long the API server may take to make the namespace `default` after it is ready, in seconds.
NAMESPACE_TIMEOUT_SECONDS = 10.0


class LocalCluster(Startable):
    """A Kubernetes cluster without machines, on loopback ports, in one folder that goes away with it.

    After `start`, API server and kwok run and Muster's manifests are applied. The servers `stock_scheduler` and
    `muster_scheduler` are ready to be started; `muster()` makes the third, which listens on `muster_port` ever again.
    `kwok` and `controllers` (None without any) are there to be killed and stopped.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Mapping[Binary, Path],
        options: ApiServerOptions = STOCK_API_SERVER,
        *,
        kubelets: bool = True,
        controllers: bool = False,
    ) -> None:
        """Prepare keys, tokens and command lines; nothing runs before `start`.

        Without `kubelets` kwok does not run: nodes stay as they were created, bound pods never start. Benchmarks do
        without it, since it would take part of the processors that they measure. With `controllers` there are those of
        claims of devices, for which `binaries` must have a kube-controller-manager.
        """
        self.folder = folder
        self.options = options
        self.binaries = binaries
        self._reaper = Reaper()
        self._reaper.watch_folder(folder)
        self.control_plane = ControlPlane(self.binaries, folder, self._reaper, options)
        self.muster_port, self._kwok_port = free_ports(2)
        admin = self.control_plane.admin
        self.kwok = kwok(self.binaries[Binary.KWOK], folder, self._reaper, port=self._kwok_port, connection=admin)
        self._helpers = [self.kwok] if kubelets else []
        self.controllers: Server | None = None
        if controllers:
            self.controllers = kube_controller_manager(
                self.binaries[Binary.KUBE_CONTROLLER_MANAGER],
                folder,
                self._reaper,
                port=free_ports(1)[0],
                connection=admin,
                feature_gates=options.feature_gates,
            )
            self._helpers.append(self.controllers)
        self._servers: list[Server] = [*self._helpers]
        self._schedulers: list[Server] = []
        self._admin: ApiClient | None = None
        self.stock_scheduler = self.scheduler("stock-scheduler", SchedulerProfile(SCHEDULER_CONFIGS / "stock.yaml"))
        self.muster_scheduler = self.scheduler(
            "muster-scheduler", SchedulerProfile(SCHEDULER_CONFIGS / "muster.yaml", extender_port=self.muster_port)
        )

    @property
    def admin(self) -> ApiClient:
        """Return a client with all rights."""
        if self._admin is None:
            self._admin = ApiClient(self.control_plane.admin)
        return self._admin

    @property
    def admin_kubeconfig(self) -> Path:
        """Return a kubeconfig file with all rights, for kubectl."""
        return self.control_plane.admin.write_kubeconfig(self.folder / "admin.kubeconfig")

    def start(self) -> float:
        """Start the API server, kwok and controllers, apply the manifests, and return the seconds that took."""
        started = time.monotonic()
        self.control_plane.start()
        wait_until(
            self._default_namespace_exists, timeout_seconds=NAMESPACE_TIMEOUT_SECONDS, description="namespace default"
        )
        for server in self._helpers:
            server.launch()
        apply_all(self.admin, render(self.binaries[Binary.KUBECTL]))
        for server in self._helpers:
            server.wait_ready()
        return time.monotonic() - started

    def stop(self) -> None:
        """Stop everything and remove the folder."""
        for server in reversed(self._servers):
            server.kill()
        if self._admin is not None:
            self._admin.close()
        self.control_plane.stop()
        self._reaper.forget_folder(self.folder)
        self._reaper.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check(self) -> None:
        """Raise LocalClusterError with the end of the log if etcd, the API server, kwok or controllers have ended."""
        self.control_plane.check()
        for server in self._helpers:
            server.check()

    def scheduler(  # noqa: PLR0913 - the parts of a command line, by keyword
        self,
        name: str,
        profile: SchedulerProfile,
        connection: Connection | None = None,
        launcher: Sequence[str] = (),
        *,
        feature_gates: Mapping[str, bool] | None = None,
        port: int | None = None,
    ) -> Server:
        """Return a further kube-scheduler, to be started; it ends with the cluster.

        It is the user `system:kube-scheduler` unless another `connection` is given, and has the API server's feature
        gates unless others are. `launcher` is a command that becomes the kube-scheduler. It serves health and metrics
        at `port`, a free one unless given.
        """
        server = kube_scheduler(
            self.binaries[Binary.KUBE_SCHEDULER],
            self.folder,
            self._reaper,
            name=name,
            port=port or free_ports(1)[0],
            connection=connection or self.control_plane.kube_scheduler,
            profile=profile,
            feature_gates=self.options.feature_gates if feature_gates is None else feature_gates,
            launcher=launcher,
        )
        self._schedulers.append(server)
        self._servers.append(server)
        return server

    def operator(self, executable: Path) -> Server:
        """Return an operator's controllers with all rights, to be started; their definitions are there already."""
        server = operator(
            executable, self.folder, self._reaper, port=free_ports(1)[0], connection=self.control_plane.admin
        )
        self._servers.append(server)
        return server

    def muster(  # noqa: PLR0913 - the parts of a command line, by keyword
        self,
        extra_arguments: Sequence[str] = (),
        command: Sequence[str] = MUSTER_COMMAND,
        connection: Connection | None = None,
        health_port: int | None = None,
        *,
        name: str = "muster",
        port: int | None = None,
    ) -> Server:
        """Return a Muster at `muster_port`, to be started, or a further one of another `name` at another `port`.

        It is its shipped ServiceAccount unless another `connection` is given, such as one through a fault proxy.
        `health_port` is where it is asked whether it is ready, if that is not where it answers the verbs.
        """
        server = muster(
            self.folder,
            self._reaper,
            port=port or self.muster_port,
            connection=connection or self.service_account(MUSTER_SERVICE_ACCOUNT),
            command=command,
            extra_arguments=extra_arguments,
            health_port=health_port,
            name=name,
        )
        server.command.log_path.unlink(missing_ok=True)
        self._servers.append(server)
        return server

    def karpenter(self, executable: Path, instance_types: Path) -> Server:
        """Return a Karpenter with all rights, to be started, that makes nodes of these types (a JSON file)."""
        admin = self.control_plane.admin
        server = karpenter(executable, self.folder, self._reaper, connection=admin, instance_types=instance_types)
        self._servers.append(server)
        return server

    def restart_clients(self) -> None:
        """Start kwok, controllers and every running scheduler anew.

        After an outage of the API server they may take half a minute to notice that it is back. Muster goes on.
        """
        clients = [*self._helpers, *self._schedulers]
        restarted = [server for server in clients if server.running]
        for server in restarted:
            server.kill()
            server.launch()
        for server in restarted:
            server.wait_ready()

    def log_tails(self) -> dict[str, str]:
        """Return the end of every server's log, by server, without the API server's and etcd's."""
        return {server.command.name: server.log_tail() for server in self._servers}

    def service_account(self, name: str, namespace: str = MUSTER_NAMESPACE) -> Connection:
        """Return the connection of a ServiceAccount, with a token asked of the API server."""
        answer = self.admin.request(
            "POST",
            SERVICE_ACCOUNTS.path(namespace, name, "token"),
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
        )
        return self.control_plane.connection(answer["status"]["token"])

    def _default_namespace_exists(self) -> bool:
        try:
            self.admin.get(NAMESPACES, "default")
        except ApiError:
            return False
        return True
