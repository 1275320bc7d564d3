"""Where a storm takes place: a control plane with controllers, and one replica or two between fault proxies."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from localcluster.client import JOBS, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.controlplane import ControlPlane
from localcluster.faults.api import ApiProxy
from localcluster.faults.verbs import BindCall, VerbProxy
from localcluster.history import Recorder
from localcluster.ports import free_ports
from localcluster.processes import Server
from localcluster.replica import LEASE_NAME, LEASES, SCHEDULER_SERVICE_ACCOUNT, Replica, Replicas
from localcluster.sandbox import Sandbox
from tests.controlplane.storm_script import LEASE_SECONDS, Flavour

#: The name of the only replica.
ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Site:
    """One replica: a kube-scheduler and its Muster, and the proxies between them and before the API server.

    kube-scheduler has its own way to the API server unless there are two replicas.
    """

    name: str
    muster: Server
    scheduler: Server
    verb_proxy: VerbProxy
    api_proxy: ApiProxy
    scheduler_proxy: ApiProxy | None = None

    @property
    def proxies(self) -> list[ApiProxy | VerbProxy]:
        """Return all proxies."""
        return [self.verb_proxy, self.api_proxy, *([] if self.scheduler_proxy is None else [self.scheduler_proxy])]


@dataclass(slots=True)
class Stage:
    """The cluster, its record, and all that can be hit. `others` follows what the judge does not read: Jobs, Leases."""

    cluster: Sandbox
    local_cluster: LocalCluster
    sites: list[Site]
    replicas: Replicas | None
    recorder: Recorder = field(init=False)
    others: Recorder = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the records."""
        self._record_anew()

    @property
    def control_plane(self) -> ControlPlane:
        """Return etcd and the API server."""
        return self.local_cluster.control_plane

    @property
    def proxies(self) -> list[ApiProxy | VerbProxy]:
        """Return the proxies of all sites."""
        return [proxy for site in self.sites for proxy in site.proxies]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keep the records while a storm rages."""
        with self.recorder, self.others:
            yield

    def leader(self) -> str:
        """Return the name of the site that held the Lease last, by the newest news; "" if none did."""
        return next((self._holder(lease) for lease in self.others.present(LEASES) if _is_ours(lease)), "")

    def terms(self) -> list[tuple[float, str]]:
        """Return when who began to hold the Lease, in order of time: names of sites, "" for none."""
        terms: list[tuple[float, str]] = []
        for change in self.others.changes():
            if change.object["kind"] == LEASES.kind and _is_ours(change.object):
                name = self._holder(change.object)
                if not terms or terms[-1][1] != name:
                    terms.append((change.at, name))
        return terms

    def bind_calls(self, deaths: dict[str, list[float]]) -> Iterator[BindCall]:
        """Iterate over all bind calls.

        Those of a site end at the latest when its Muster dies or another site gets the Lease: with its successor they
        count for nothing.
        """
        terms = self.terms()
        for site in self.sites:
            ends = sorted([*deaths.get(site.name, ()), *(at for at, name in terms if name not in {"", site.name})])
            for call in site.verb_proxy.bind_calls():
                ended = math.inf if call.ended is None else call.ended
                first = next((at for at in ends if at > call.at), math.inf)
                yield call if ended <= first else dataclasses.replace(call, ended=first)

    def begin_anew(self) -> None:
        """Empty the cluster and start the records anew, for another storm."""
        self.cluster.reset(timeout=60.0)
        for proxy in self.proxies:
            proxy.forget()
        self._record_anew()

    def _holder(self, lease: JsonObject) -> str:
        holder = None if self.replicas is None else self.replicas.holder_of(lease)
        return "" if holder is None else holder.hostname

    def _record_anew(self) -> None:
        self.recorder = Recorder(self.cluster.api)
        self.others = Recorder(self.cluster.api, (JOBS, LEASES))


def _is_ours(lease: JsonObject) -> bool:
    return bool(lease["metadata"]["name"] == LEASE_NAME)


@contextmanager
def staged(local_cluster: LocalCluster, cluster: Sandbox, flavour: Flavour) -> Iterator[Stage]:
    """Start what a storm of this flavour takes, on an emptied cluster; no other kube-scheduler asks a Muster."""
    direct = local_cluster.muster_scheduler
    replaced = direct.running
    direct.kill()
    with contextlib.ExitStack() as stack:
        if flavour.replicas:
            sites, replicas = _two_sites(local_cluster, stack)
        else:
            sites, replicas = [_one_site(local_cluster, stack)], None
        for site in sites:
            for server in (site.muster, site.scheduler):
                stack.callback(server.kill)
                server.launch()
        for site in sites:
            for server in (site.muster, site.scheduler):
                server.wait_ready()
        if replicas is not None:
            replicas.wait_leader()
        stage = Stage(cluster, local_cluster, sites, replicas)
        yield stage
        for proxy in stage.proxies:
            proxy.check()
    if replaced:
        direct.start()


def _one_site(local_cluster: LocalCluster, stack: contextlib.ExitStack) -> Site:
    account = local_cluster.service_account("muster")
    api, verbs = stack.enter_context(ApiProxy(account)), stack.enter_context(VerbProxy(local_cluster.muster_port))
    profile = SchedulerProfile(SCHEDULER_CONFIGS / "muster.yaml", extender_port=verbs.port)
    scheduler = local_cluster.scheduler("storm-scheduler", profile)
    return Site(ALONE, local_cluster.muster(connection=api.connection(account)), scheduler, verbs, api)


def _two_sites(local_cluster: LocalCluster, stack: contextlib.ExitStack) -> tuple[list[Site], Replicas]:
    account = local_cluster.service_account("muster")
    elector = local_cluster.service_account(SCHEDULER_SERVICE_ACCOUNT)
    sites, replicas = [], []
    for hostname in ("replica-a", "replica-b"):
        (port,) = free_ports(1)
        api, verbs = stack.enter_context(ApiProxy(account)), stack.enter_context(VerbProxy(port))
        electing = stack.enter_context(ApiProxy(elector))
        replica = Replica(
            local_cluster,
            hostname,
            muster_connection=api.connection(account),
            scheduler_connection=electing.connection(elector),
            lease_seconds=LEASE_SECONDS,
            port=port,
            extender_port=verbs.port,
        )
        replicas.append(replica)
        sites.append(Site(hostname, replica.muster, replica.scheduler, verbs, api, electing))
    return sites, Replicas(local_cluster.admin, replicas)
