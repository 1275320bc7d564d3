"""Two replicas that follow one Lease on the real control plane: killed, stopped, paused, cut off; gangs end whole."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import pytest

from localcluster.cluster import LocalCluster
from localcluster.faults.api import ApiProxy
from localcluster.faults.fault import Call, HalfOpen, Hold
from localcluster.faults.request import Exchange
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.faults.verbs import BindCall, VerbProxy
from localcluster.history import Recorder
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Server
from localcluster.replica import Replica, Replicas
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.waiting import wait_until
from tests.controlplane.blows import POINTS, Blow, Point
from tests.controlplane.judging import history_of
from tests.controlplane.plans import count_plans, left_plan
from tests.judge import Tolerance, judge, report

pytestmark = pytest.mark.controlplane

ZONE = {"topology.kubernetes.io/zone": "here"}

#: Seconds within which a gang must be whole after its replica is gone: the Lease has to run out, and members that
#: failed at kube-scheduler come back within ten.
RECOVERY = 30.0

#: For a successor nothing may depend on what the old leader knew; nothing here delays news or writes.
_TOLERANCE = Tolerance(news=2.0, write=3.0)


@dataclass(frozen=True, slots=True)
class Site:
    """One replica, with a proxy on either side of its Muster."""

    replica: Replica
    api: ApiProxy
    verbs: VerbProxy

    def binds_refused(self) -> float:
        """Return how many bind calls its Muster has refused."""
        return self.replica.metric('muster_verb_seconds_count{outcome="refused",verb="bind"}')

    def times_leading(self) -> float:
        """Return how often its Muster has begun to lead."""
        return self.replica.metric('muster_leadership_changes_total{change="began"}')


@dataclass(slots=True)
class Stage:
    """Where a story plays: the cluster, what happens in it, and two replicas of which one leads."""

    cluster: Sandbox
    recorder: Recorder
    replicas: Replicas
    sites: list[Site]
    deposed: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def active(self) -> Site:
        """Return the site that leads."""
        leader = self.replicas.wait_leader()
        return next(site for site in self.sites if site.replica is leader)

    def standby_of(self, active: Site) -> Site:
        """Return the other site."""
        return next(site for site in self.sites if site is not active)

    def depose(self, site: Site) -> None:
        """Note, before it is struck, that a site does not count: what was asked of its Muster has to be asked anew."""
        self.deposed[site.replica.hostname].append(time.monotonic())

    def kill_at(self, active: Site, point: Point) -> Blow:
        """Have both processes of a site killed at a named point of its gangs' way; what it was sending is lost."""

        def strike() -> None:
            self.depose(active)
            active.replica.kill()

        blow = Blow(f"http://{LOOPBACK}:{active.replica.port}", point, strike)
        active.api.add(blow.rule(lost=True))
        return blow

    def gang_in_barrier(self, active: Site) -> Gang:
        """Return a gang with all members but one held: kube-scheduler refuses that one until `open_barrier`.

        It looks at the members once all are planned, in the order of their creation. Muster hears that it refused the
        last one when the others are held: before that, the gang would give its places back.
        """
        gang = self.cluster.gang("held", members=4, gpus=8, create=0)
        term = {"labelSelector": {"matchLabels": {"key": "turned"}}, "topologyKey": next(iter(ZONE))}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        gang.members[3].manifest["spec"]["affinity"] = affinity
        active.replica.scheduler.pause()
        gang.create()
        wait_until(
            lambda: all(member.nominated_node for member in gang.members),
            timeout_seconds=RECOVERY,
            description="all members are planned",
        )
        active.api.add(Rule(Match("watch pods"), HalfOpen()))
        active.replica.scheduler.resume()
        self.wait_held(active, 3)
        active.api.clear()
        return gang

    def open_barrier(self) -> None:
        """Let kube-scheduler accept the gang's last member."""
        self.cluster.pod("key", cpu="100m", labels={"key": "turned"})

    @staticmethod
    def wait_held(site: Site, count: int) -> None:
        """Wait until a site's Muster holds so many bind calls."""
        wait_until(
            lambda: site.replica.metric("muster_binds_held") == count,
            timeout_seconds=RECOVERY,
            description=f"{count} binds held by {site.replica}",
        )

    def assert_whole(self, *gangs: Gang) -> None:
        """Wait until gangs are whole, and judge everything that the API server has seen."""
        quiet = time.monotonic()
        for gang in gangs:
            gang.wait_bound(timeout=RECOVERY)
        self.recorder.catch_up()
        calls = [call for site in self.sites for call in self._calls(site)]
        restarts = sorted(chain.from_iterable(self.deposed.values()))
        history = history_of(self.recorder, calls, end=time.monotonic(), restarts=restarts, quiet=quiet)
        assert not report(judge(history, _TOLERANCE))

    def _calls(self, site: Site) -> Iterator[BindCall]:
        """Iterate over a site's bind calls; those that it held when it was deposed ended with that."""
        for call in site.verbs.bind_calls():
            ended = math.inf if call.ended is None else call.ended
            deposed = min((at for at in self.deposed[site.replica.hostname] if at > call.at), default=math.inf)
            cut_off = deposed < ended
            yield dataclasses.replace(call, ended=deposed) if cut_off else call


@contextlib.contextmanager
def between_proxies(local_cluster: LocalCluster, environments: Mapping[str, Mapping[str, str]]) -> Iterator[list[Site]]:
    """Prepare replicas by hostname, each in an environment of its own; they alone have a kube-scheduler."""
    other = local_cluster.muster_scheduler
    replaced = other.running
    other.kill()
    account = local_cluster.service_account("muster")
    prepared: list[Site] = []
    with contextlib.ExitStack() as stack:
        for hostname, environment in environments.items():
            (port,) = free_ports(1)
            api, verbs = stack.enter_context(ApiProxy(account)), stack.enter_context(VerbProxy(port))
            replica = Replica(
                local_cluster,
                hostname,
                muster_connection=api.connection(account),
                port=port,
                extender_port=verbs.port,
                environment=environment,
            )
            stack.callback(replica.kill)
            prepared.append(Site(replica, api, verbs))
        yield prepared
    if replaced:
        other.start()


@contextlib.contextmanager
def acting(local_cluster: LocalCluster, cluster: Sandbox, sites: list[Site]) -> Iterator[Stage]:
    """Start what does not run of some replicas, on twelve nodes, and record what happens from now on."""
    replicas = Replicas(local_cluster.admin, [site.replica for site in sites])
    replicas.start()
    for site in sites:
        site.api.forget()
        site.verbs.forget()
    with Recorder(local_cluster.admin) as recorder:
        cluster.nodes(12, gpus=8, labels=ZONE)
        yield Stage(cluster, recorder, replicas, sites)


@pytest.fixture(scope="module")
def sites(local_cluster: LocalCluster) -> Iterator[list[Site]]:
    """Prepare two replicas between proxies, for one module."""
    with between_proxies(local_cluster, {"replica-a": {}, "replica-b": {}}) as prepared:
        yield prepared


@pytest.fixture
def stage(local_cluster: LocalCluster, cluster: Sandbox, sites: list[Site]) -> Iterator[Stage]:
    """Start what does not run of both replicas, on an emptied cluster, and record what happens."""
    with acting(local_cluster, cluster, sites) as stage:
        yield stage
    for site in sites:
        site.api.clear()
        site.api.check()
        site.verbs.check()
        for server in site.replica.servers:
            if server.running:
                server.resume()


def load(stage: Stage) -> list[Gang]:
    """Create gangs, member by member in turn, and return them."""
    gangs = [stage.cluster.gang(f"load-{number}", members=4, gpus=2, create=0) for number in range(4)]
    stage.cluster.interleave(*gangs)
    return gangs


def assert_bound_once(stage: Stage, *gangs: Gang) -> None:
    """Check that every member was bound, and by one Binding."""
    bound = sorted(binding.pod for binding in stage.cluster.bindings() if binding.pod != "key")
    assert bound == sorted(member.name for gang in gangs for member in gang.members)


@pytest.mark.parametrize(
    "name", [pytest.param("before the first Binding", marks=pytest.mark.nightly), "between two Bindings"]
)
def test_standby_finishes_what_a_killed_replica_began(
    stage: Stage, name: str, record_property: Callable[[str, object], None]
) -> None:
    """SIGKILL of both processes while gangs arrive, bind and are held: the standby takes over and all end whole."""
    active = stage.active
    standby = stage.standby_of(active)
    held = stage.gang_in_barrier(active)
    blow = stage.kill_at(active, POINTS[name])
    gangs = load(stage)
    blow.wait()
    died = time.monotonic()
    gangs.append(stage.cluster.gang("late", members=4, gpus=8))
    stage.replicas.wait_leader([standby.replica])
    record_property("seconds to lead", round(time.monotonic() - died, 2))
    active.replica.launch()  # as a kubelet does
    gangs[-1].wait_bound(timeout=RECOVERY)
    record_property("seconds to the first gang bound", round(time.monotonic() - died, 2))
    stage.open_barrier()
    stage.assert_whole(held, *gangs)
    assert_bound_once(stage, held, *gangs)


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])])
def test_plans_that_are_handed_over_are_not_made_again(stage: Stage, rounds: int) -> None:
    """SIGKILL when some gangs are nominated and one is half bound: the standby finishes all on the nodes they have."""
    gangs: list[Gang] = []
    for number in range(rounds):
        active = stage.active
        active.replica.scheduler.pause()
        names = [f"plan-{rounds}-{number}-{index}" for index in range(3)]
        wave = [stage.cluster.gang(name, members=4, gpus=4, run_seconds=1) for name in names]
        for gang in wave:
            stage.cluster.wait_until(partial(_is_planned, gang), f"{gang!r} planned", RECOVERY)
        blow = stage.kill_at(active, POINTS["between two Bindings"])
        active.replica.scheduler.resume()
        blow.wait()
        stage.replicas.wait_leader([stage.standby_of(active).replica])
        active.replica.launch()  # as a kubelet does
        for gang in wave:
            gang.wait_bound(timeout=RECOVERY)
        active.replica.wait_ready()
        active.api.clear()
        gangs += wave
    stage.assert_whole(*gangs)
    assert_bound_once(stage, *gangs)
    assert not left_plan(stage.recorder, list(chain.from_iterable(stage.deposed.values())))
    plans = count_plans((site.replica.muster for site in stage.sites), members=4)
    assert {gang.name: plans.made[f"default/{gang.name}"] for gang in gangs} == {gang.name: 1 for gang in gangs}
    assert not [gang for gang in gangs if f"default/{gang.name}" not in plans.taken_over]


def test_stopped_replica_hands_over(stage: Stage) -> None:
    """On SIGTERM kube-scheduler gives the Lease up, so that the standby need not wait for it to run out."""
    active = stage.active
    standby = stage.standby_of(active)
    held = stage.gang_in_barrier(active)
    stage.depose(active)
    standby.replica.scheduler.pause()  # it could take the Lease before it is looked at
    active.replica.stop()
    assert stage.replicas.holder() is None
    standby.replica.scheduler.resume()
    stage.replicas.wait_leader([standby.replica])
    active.replica.launch()  # as a kubelet does
    stage.open_barrier()
    stage.assert_whole(held)
    assert_bound_once(stage, held)


def test_muster_killed_alone_leads_again(stage: Stage) -> None:
    """A Muster that dies beside a kube-scheduler that lives takes up its work again; the standby stays one."""
    active = stage.active
    standby = stage.standby_of(active)
    began = standby.times_leading()
    held = stage.gang_in_barrier(active)
    stage.depose(active)
    active.replica.muster.kill()
    active.replica.muster.start()
    assert stage.active is active
    stage.open_barrier()
    stage.assert_whole(held)
    assert_bound_once(stage, held)
    assert standby.times_leading() == began


def test_paused_leader_does_no_harm_when_it_wakes(stage: Stage) -> None:
    """A leader stopped with one gang held and one half bound finds itself deposed; its successor finishes both.

    The rest of its Bindings are on the wire meanwhile, and come late.
    """
    active = stage.active
    standby = stage.standby_of(active)
    held = stage.gang_in_barrier(active)

    def pause(_exchange: Exchange) -> None:
        stage.depose(active)
        active.replica.pause()

    # Of the last two Bindings one may be sent only when Muster wakes: it was about to. The API server refuses it.
    bindings = Match(kind="binding")
    active.api.add(Rule(bindings, Call(pause), after=2), Rule(bindings, Hold(), FOREVER, after=2))
    half = stage.cluster.gang("half", members=4, gpus=8)
    half.wait_bound(2)
    stage.replicas.wait_leader([standby.replica])
    half.wait_bound(timeout=RECOVERY)
    stage.wait_held(standby, 3)

    refused = active.binds_refused
    active.replica.muster.resume()
    wait_until(lambda: refused() == 3, timeout_seconds=10, description="held binds refused")
    assert not active.replica.leading
    active.api.clear()
    late = active.api.matching(bindings)[2:]
    wait_until(lambda: all(call.upstream_status for call in late), timeout_seconds=10, description="late Bindings sent")
    assert {call.upstream_status for call in late} == {409}
    active.replica.resume()
    wait_ended(active.replica.scheduler)
    assert "leaderelection lost" in active.replica.scheduler.log_tail().lower()
    stage.open_barrier()
    stage.assert_whole(held, half)
    assert_bound_once(stage, held, half)
    assert stage.active is standby
    assert not active.replica.leading


def test_lease_lost_with_the_api_server_is_regained(stage: Stage, local_cluster: LocalCluster) -> None:
    """While the API server is away nobody leads; when it is back, somebody does, and a half bound gang ends whole."""
    active = stage.active
    api_server = local_cluster.control_plane.api_server
    blow = Blow("", POINTS["between two Bindings"], api_server.pause)
    active.api.add(blow.rule(lost=False))
    gang = stage.cluster.gang("gang", members=4, gpus=8)
    try:
        blow.wait()
        away = time.monotonic()
        wait_ended(active.replica.scheduler)
        wait_until(lambda: not active.replica.leading, timeout_seconds=5, description="leadership lost")
        # As a kubelet does; it cannot become ready before the API server is back.
        active.replica.scheduler.launch()
        time.sleep(max(0.0, away + 8.0 - time.monotonic()))
        assert not any(site.replica.leading for site in stage.sites)
    finally:
        api_server.resume()
    stage.replicas.wait_leader()
    stage.assert_whole(gang)
    assert_bound_once(stage, gang)


def wait_ended(server: Server) -> None:
    """Wait until a server has ended by itself."""
    wait_until(lambda: not server.running, timeout_seconds=15, description=f"{server.command.name} ended")


def _is_planned(gang: Gang) -> bool:
    return all(member.nominated_node for member in gang.members)
