"""Rules about the kube-scheduler process: who acts, how fast it may speak, how long it lets pods rest."""

from __future__ import annotations

from collections.abc import Iterator

from extender.objects.text import parse_go_duration
from muster_lab.tools.schedulerconfig.document import (
    ClientConnection,
    LeaderElection,
    SchedulerConfiguration,
    SchedulerProfile,
)
from muster_lab.tools.schedulerconfig.finding import Expectations, Finding, error, warning
from muster_lab.tools.schedulerconfig.profiles import DEFAULT_SCHEDULER, names_of

#: The Lease of a kube-scheduler that names none: the cluster's own. Source: SchedulerDefaultLockObject*.
DEFAULT_LEASE = "kube-system/kube-scheduler"
#: kube-scheduler's requests a second, and at once, where 0 or nothing is given.
DEFAULT_QPS = 50.0
DEFAULT_BURST = 100
#: Below this, the limit shows in the start of a gang of some hundred pods: each needs about three requests.
LOWEST_QPS = 500.0
#: Seconds. Defaults of kube-scheduler, and of its leader election (RecommendedDefaultLeaderElectionConfiguration).
DEFAULT_INITIAL_BACKOFF = 1
DEFAULT_MAX_BACKOFF = 10
DEFAULT_LEASE_DURATION = 15.0
DEFAULT_RENEW_DEADLINE = 10.0
DEFAULT_RETRY_PERIOD = 2.0
#: client-go waits up to this many retry periods between two tries. Source: leaderelection.JitterFactor.
JITTER_FACTOR = 1.2


def check_process(config: SchedulerConfiguration, expected: Expectations) -> Iterator[Finding]:
    """Yield what is wrong with leader election, the client connection and the pauses."""
    yield from _check_leader(config, expected)
    yield from _check_client(config.client_connection or ClientConnection())
    yield from _check_backoff(config, expected)
    if config.parallelism is not None and config.parallelism <= 0:
        yield error("parallelism", "kube-scheduler refuses to start: it must be above 0", "16, or nothing")
    if config.delay_cache_until_active:
        problem = "a standby starts to list the cluster only once it leads: nothing starts for that long at a failover"
        yield warning("delayCacheUntilActive", problem, "false")


def _check_leader(config: SchedulerConfiguration, expected: Expectations) -> Iterator[Finding]:
    election = config.leader_election or LeaderElection()
    if election.leader_elect is False:
        find = error if expected.replicas > 1 or expected.lease is not None else warning
        yield find(
            "leaderElection.leaderElect",
            "two of these, as during an update, place the same pods, and two Musters each hold a part of a gang",
            "true",
        )
        return
    if election.resource_lock not in {"", "leases"}:
        problem = f"{election.resource_lock} is refused; kube-scheduler does not start"
        yield error("leaderElection.resourceLock", problem, "leases, or nothing")
    yield from _check_lease(config, election, expected)
    yield from _check_lease_times(election)


def _check_lease(config: SchedulerConfiguration, election: LeaderElection, expected: Expectations) -> Iterator[Finding]:
    namespace, name = DEFAULT_LEASE.split("/")
    lease = f"{election.resource_namespace or namespace}/{election.resource_name or name}"
    wanted = expected.lease or "muster-system/muster"
    told = "resourceNamespace: {}, resourceName: {}".format(*wanted.split("/"))
    if lease == DEFAULT_LEASE and DEFAULT_SCHEDULER not in names_of(config.profiles or [SchedulerProfile()]):
        yield error(
            "leaderElection.resourceName",
            f"{lease} is the Lease of the cluster's own kube-scheduler: while that one holds it, this one waits",
            told,
        )
    elif expected.lease is not None and lease != expected.lease:
        problem = f"the Lease is {lease}, and Muster looks at {expected.lease}: it never learns that it leads"
        yield error("leaderElection.resourceName", problem, f"{told}; or --scheduler-lease={lease} for Muster")


def _check_lease_times(election: LeaderElection) -> Iterator[Finding]:
    given = {
        "leaseDuration": (election.lease_duration, DEFAULT_LEASE_DURATION),
        "renewDeadline": (election.renew_deadline, DEFAULT_RENEW_DEADLINE),
        "retryPeriod": (election.retry_period, DEFAULT_RETRY_PERIOD),
    }
    seconds: dict[str, float] = {}
    for field, (text, default) in given.items():
        parsed = parse_go_duration(text) if text else default
        if parsed is None or parsed < 0:
            problem = f"{text!r} is no duration that can be waited; kube-scheduler refuses to start"
            yield error(f"leaderElection.{field}", problem, f"{default:g}s")
        else:
            seconds[field] = parsed or default
    if len(seconds) < len(given):
        return
    if seconds["leaseDuration"] <= seconds["renewDeadline"]:
        problem = f"kube-scheduler refuses to start: it must be above renewDeadline ({seconds['renewDeadline']:g} s)"
        yield error("leaderElection.leaseDuration", problem, "more than renewDeadline")
    if seconds["renewDeadline"] <= JITTER_FACTOR * seconds["retryPeriod"]:
        retry = f"{JITTER_FACTOR:g} x retryPeriod ({seconds['retryPeriod']:g} s)"
        problem = f"kube-scheduler ends at once: it must be above {retry}"
        yield error("leaderElection.renewDeadline", problem, "a longer renewDeadline, or a shorter retryPeriod")


def _check_client(client: ClientConnection) -> Iterator[Finding]:
    if client.burst < 0:
        yield error("clientConnection.burst", "kube-scheduler refuses to start: it may not be negative", "2000")
    if client.qps < 0:  # no limit at all
        return
    qps, burst = client.qps or DEFAULT_QPS, client.burst or DEFAULT_BURST
    if qps < LOWEST_QPS:
        told = f"{qps:g} requests a second" + ("" if client.qps else ", where nothing is given")
        problem = f"{told}: events and status of a gang's pods wait for each other, and so does the next gang"
        yield warning("clientConnection.qps", problem, "1000")
    if 0 <= burst < LOWEST_QPS:
        told = f"{burst} requests at once" + ("" if client.burst else ", where nothing is given")
        yield warning("clientConnection.burst", f"{told}: a gang comes in a burst", "2000")


def _check_backoff(config: SchedulerConfiguration, expected: Expectations) -> Iterator[Finding]:
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial is not None and initial <= 0:
        yield error("podInitialBackoffSeconds", "kube-scheduler refuses to start: it must be above 0", "1, or nothing")
    effective = DEFAULT_MAX_BACKOFF if longest is None else longest
    if effective < (DEFAULT_INITIAL_BACKOFF if initial is None else initial):
        problem = "kube-scheduler refuses to start: it may not be below podInitialBackoffSeconds"
        yield error("podMaxBackoffSeconds", problem, "10, or nothing")
    elif effective > DEFAULT_MAX_BACKOFF:
        timeout = expected.reservation_timeout_seconds
        problem = f"a member that was refused often rests for up to {effective} s, and its gang waits for it that long"
        if effective >= timeout:
            problem += f": not before its reservation expires ({timeout:g} s, reservation_timeout_seconds)"
            yield error("podMaxBackoffSeconds", problem, "10, or nothing")
        else:
            yield warning("podMaxBackoffSeconds", problem, "10, or nothing")
