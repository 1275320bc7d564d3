"""etcd and kube-apiserver: an empty Kubernetes that only answers to its own tokens."""

import shutil
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from localcluster.credentials import (
    Connection,
    User,
    write_server_certificate,
    write_service_account_key,
    write_token_file,
)
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Command, Server
from localcluster.programs import Binary
from localcluster.reaper import Reaper
from localcluster.startable import Startable

#: Left out of the API server's defaults. ServiceAccount would refuse pods until a controller has made each namespace's
#: default account. TaintNodesByCondition would taint every new node not-ready until a controller takes the taint away.
DISABLED_ADMISSION_PLUGINS = ("ServiceAccount", "TaintNodesByCondition")

#: One attempt of a readiness probe may take this long, in seconds.
PROBE_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """What a test may choose about the API server; the default is a stock one."""

    feature_gates: Mapping[str, bool]
    runtime_config: Mapping[str, bool]
    extra_arguments: Sequence[str] = ()


STOCK_API_SERVER = ApiServerOptions(feature_gates={}, runtime_config={})

#: Serves native PodGroups: from 1.37 on, and off by default. Schedulers need the same gate.
NATIVE_PODGROUP_GATES: Mapping[str, bool] = {"GenericWorkload": True}
NATIVE_PODGROUP_API_SERVER = ApiServerOptions(
    feature_gates=NATIVE_PODGROUP_GATES, runtime_config={"scheduling.k8s.io/v1beta1": True}
)

#: Serves groups of them too, which are alpha in 1.37.
COMPOSITE_API_SERVER = ApiServerOptions(
    feature_gates={**NATIVE_PODGROUP_GATES, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True},
    runtime_config={**NATIVE_PODGROUP_API_SERVER.runtime_config, "scheduling.k8s.io/v1alpha3": True},
)


class ControlPlane(Startable):
    """One etcd and one kube-apiserver on free loopback ports, with their data, logs and keys in one folder."""

    def __init__(
        self,
        binaries: Mapping[Binary, Path],
        folder: Path,
        reaper: Reaper,
        options: ApiServerOptions = STOCK_API_SERVER,
    ) -> None:
        """Prepare keys, tokens and command lines; nothing runs before `start`."""
        self._folder = folder
        self.options = options
        self._admin = User("admin", ("system:masters",))
        self._kube_scheduler = User("system:kube-scheduler")
        etcd_port, peer_port, self._port = free_ports(3)
        etcd_url = f"http://{LOOPBACK}:{etcd_port}"
        self.etcd = Server(
            Command("etcd", _etcd_arguments(binaries[Binary.ETCD], folder, etcd_url, peer_port), folder),
            reaper,
            lambda: probe(f"{etcd_url}/readyz"),
        )
        arguments = self._api_server_arguments(binaries[Binary.KUBE_APISERVER], etcd_url)
        self.api_server = Server(
            Command("kube-apiserver", arguments, folder), reaper, self._api_server_ready, ready_timeout_seconds=60.0
        )

    @property
    def url(self) -> str:
        """Return the API server's base URL."""
        return f"https://{LOOPBACK}:{self._port}"

    @property
    def admin(self) -> Connection:
        """Return the connection of a cluster administrator (group system:masters)."""
        return self.connection(self._admin.token)

    @property
    def kube_scheduler(self) -> Connection:
        """Return the connection of `system:kube-scheduler`, with the rights the API server itself gives that name."""
        return self.connection(self._kube_scheduler.token)

    def connection(self, token: str) -> Connection:
        """Return how the bearer of `token` reaches this API server."""
        return Connection(self.url, self._folder / "apiserver.crt", token)

    def start(self) -> float:
        """Start etcd and the API server together, wait for both, and return the seconds that took."""
        started = time.monotonic()
        self.etcd.launch()
        self.api_server.launch()
        self.etcd.wait_ready()
        self.api_server.wait_ready()
        return time.monotonic() - started

    def check(self) -> None:
        """Raise LocalClusterError with the end of the log if etcd or the API server has ended."""
        self.etcd.check()
        self.api_server.check()

    def stop(self) -> None:
        """Stop the API server, then etcd. At once: there is nothing to save."""
        self.api_server.kill()
        self.etcd.kill()

    def save(self) -> Path:
        """Copy etcd's data, as a snapshot does, and return the copy; etcd and the API server are away meanwhile."""
        self.stop()
        saved = self._folder / "etcd-saved"
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(self._folder / "etcd", saved)
        self.start()
        return saved

    def restore(self, saved: Path) -> None:
        """Put etcd back into the state that `save` copied: versions go on from there."""
        self.stop()
        shutil.rmtree(self._folder / "etcd")
        shutil.copytree(saved, self._folder / "etcd")
        self.start()

    def _api_server_ready(self) -> bool:
        return probe(f"{self.url}/readyz", self.admin)

    def _api_server_arguments(self, executable: Path, etcd_url: str) -> list[str]:
        folder = self._folder
        # The API server takes these from its --cert-dir.
        write_server_certificate(folder / "apiserver.crt", folder / "apiserver.key", LOOPBACK)
        key = write_service_account_key(folder / "service-account.key")
        tokens = write_token_file([self._admin, self._kube_scheduler], folder / "tokens.csv")
        arguments = [
            str(executable),
            f"--etcd-servers={etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._port}",
            f"--cert-dir={folder}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={','.join(DISABLED_ADMISSION_PLUGINS)}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # One after the other, by default: emptying the cluster between tests would take seconds.
            "--delete-collection-workers=8",
            # No Endpoints for the `kubernetes` Service: a loopback address is not allowed in them.
            "--endpoint-reconciler-type=none",
            f"--advertise-address={LOOPBACK}",
        ]
        if self.options.feature_gates:
            arguments.append(f"--feature-gates={key_values(self.options.feature_gates)}")
        if self.options.runtime_config:
            arguments.append(f"--runtime-config={key_values(self.options.runtime_config)}")
        return [*arguments, *self.options.extra_arguments]


def probe(url: str, connection: Connection | None = None) -> bool:
    """Return whether `GET url` answers 200, verifying TLS and authenticating as `connection` says."""
    verify: ssl.SSLContext | bool = True
    headers = {}
    if connection is not None:
        try:
            verify = ssl.create_default_context(cafile=connection.certificate_authority)
        except ssl.SSLError:  # a server that makes its certificate itself has not finished writing it
            return False
        headers["Authorization"] = f"Bearer {connection.token}"
    try:
        answer = httpx.get(url, headers=headers, verify=verify, timeout=PROBE_TIMEOUT_SECONDS, trust_env=False)
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK


def key_values(switches: Mapping[str, bool]) -> str:
    """Return `A=true,B=false`, the form of `--feature-gates` and `--runtime-config`."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in switches.items())


def _etcd_arguments(executable: Path, folder: Path, url: str, peer_port: int) -> list[str]:
    peer_url = f"http://{LOOPBACK}:{peer_port}"
    return [
        str(executable),
        "--name=default",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--log-level=warn",
        # The data is worth nothing after the run; waiting for the disk would be most of a write's latency.
        "--unsafe-no-fsync",
    ]
