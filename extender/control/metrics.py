"""What Muster counts and times: every Prometheus instrument, in one registry per app."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from extender import __version__
from extender.control.recent import RecentTimes

#: Seconds. Half a millisecond to five seconds: the budget of a verb is 1 to 5 ms, a held bind takes seconds.
_BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
#: Seconds. A bind waits for the rest of its gang: `bind_hold_seconds` (20 s), and kube-scheduler gives up after its
#: `httpTimeout` (30 s). The bounds are beside those two, so that a quantile tells on which side of each it is.
_VERB_BUCKETS = (*_BUCKETS, 10.0, 21.0, 25.0, 30.0)
#: Seconds. The loop's timers have a resolution of 1 ms; from 10 ms on it is a stall.
_LAG_BUCKETS = (0.001, 0.002, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
#: Seconds. With spares a repair takes a second or two; without, as long as it takes until others end.
_REPAIR_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
#: Seconds. A gang waits for other gangs: from milliseconds to a day.
_WAITING_BUCKETS = (0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)


#: What the admission pass is called among the verbs.
ADMISSION_PASS = "pass"  # noqa: S105 - no password


class Metrics:
    """Hold the instruments; labels are bounded sets, never pods, nodes or gangs.

    Everything that can be read off the state is a gauge set when `/metrics` is asked, not kept in step on the way.
    """

    def __init__(self) -> None:  # noqa: PLR0915 - one statement for each metric
        """Register everything in a registry of its own, so that tests can build many apps."""
        # One more series for each of the others, which no query needs; the library asks for all of a process at once.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it without types
        self.registry = CollectorRegistry()
        #: Verbs and passes of the last minute, for people; Prometheus has the history.
        self.recent = RecentTimes(_VERB_BUCKETS)
        self.build_info = Gauge(
            "muster_build_info", "1, for the version of Muster and of the Python that runs it.",
            ("version", "python"), registry=self.registry,
        )  # fmt: skip
        self.build_info.labels(__version__, platform.python_version()).set(1)
        self.verb_seconds = Histogram(
            "muster_verb_seconds", "Time to answer an extender call, holding a bind at the barrier included.",
            ("verb", "outcome"), buckets=_VERB_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.pass_seconds = Histogram(
            "muster_pass_seconds",
            "Time of one admission pass over all waiting gangs.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.plan_seconds = Histogram(
            "muster_plan_seconds", "Time to place one gang, or to find that it does not fit.",
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.gang_wait_seconds = Histogram(
            "muster_gang_wait_seconds", "Time from first seeing a gang until its minMember members may bind.",
            buckets=_WAITING_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.expected_start_error = Histogram(
            "muster_expected_start_error_seconds",
            "How much earlier or later gangs started than they were told when that was first known.",
            ("direction",), buckets=_WAITING_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.forecast_seconds = Histogram(
            "muster_forecast_seconds", "Processor time of working out when all gangs that wait will start.",
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.gangs = Gauge(
            "muster_gangs",
            "Gangs by phase; a pod that names no group counts while it waits.",
            ("phase",),
            registry=self.registry,
        )
        self.gangs_waiting = Gauge(
            "muster_gangs_waiting", "Waiting gangs by reason.", ("reason",), registry=self.registry
        )
        self.longest_wait = Gauge(
            "muster_longest_wait_seconds",
            "How long the gang has waited without a break that has waited longest, by its reason now.",
            ("reason",), registry=self.registry,
        )  # fmt: skip
        self.gang_waiting_seconds = Counter(
            "muster_gang_waiting_seconds",
            "Time that gangs have waited, summed over gangs, by the reason that held meanwhile.",
            ("reason",), registry=self.registry,
        )  # fmt: skip
        self.gang_waiting_gpu_seconds = Counter(
            "muster_gang_waiting_gpu_seconds",
            "The same times the GPUs that their members without a promised node ask for.",
            ("reason",), registry=self.registry,
        )  # fmt: skip
        self.unmet_demand_pods = Gauge(
            "muster_unmet_demand_pods", "Pods without which gangs cannot start, and that wait for capacity.",
            registry=self.registry,
        )  # fmt: skip
        self.unmet_demand = Gauge(
            "muster_unmet_demand", "What these pods ask for (cores, bytes, counts).", ("resource",),
            registry=self.registry,
        )  # fmt: skip
        self.reserved = Gauge(
            "muster_reserved_unbound",
            "What is reserved for pods that are not bound yet (cores, bytes, counts).",
            ("resource",), registry=self.registry,
        )  # fmt: skip
        self.gpus = Gauge(
            "muster_gpus", "GPUs of the nodes by what they are: allocatable, and of those used, reserved, free.",
            ("state",), registry=self.registry,
        )  # fmt: skip
        quota = ("queue", "flavor", "resource")
        self.queue_nominal = Gauge(
            "muster_queue_nominal", "Nominal quota of a Queue (cores, bytes, counts).",
            quota, registry=self.registry,
        )  # fmt: skip
        self.queue_used = Gauge(
            "muster_queue_used", "What gangs of a Queue and its children have of its quota, or beyond it.",
            quota, registry=self.registry,
        )  # fmt: skip
        self.queue_borrowed = Gauge(
            "muster_queue_borrowed", "What of it is above the nominal quota.", quota, registry=self.registry
        )
        self.queue_lent = Gauge(
            "muster_queue_lent", "What others have of the nominal quota.", quota, registry=self.registry
        )
        self.queue_share = Gauge(
            "muster_queue_share", "Weighted dominant share, by which Queues are ordered.",
            ("queue",), registry=self.registry,
        )  # fmt: skip
        self.queue_pending = Gauge(
            "muster_queue_pending_gangs", "Waiting gangs by Queue.", ("queue",), registry=self.registry
        )
        self.queue_admitted = Gauge(
            "muster_queue_admitted_gangs", "Gangs that hold nodes, or are promised some, by Queue.",
            ("queue",), registry=self.registry,
        )  # fmt: skip
        self.evictions = Counter("muster_evictions", "Pods evicted, by reason.", ("reason",), registry=self.registry)
        self.eviction_notices = Counter(
            "muster_eviction_notices",
            "Notices of eviction that ended, one for each gang: acknowledged, expired or withdrawn.",
            ("outcome",), registry=self.registry,
        )  # fmt: skip
        self.binds_held = Gauge(
            "muster_binds_held", "Bind calls that wait for the rest of their gang.", registry=self.registry
        )
        self.reservations_expired = Counter(
            "muster_reservations_expired", "Reservations given up at their deadline.", registry=self.registry
        )
        self.vetoes = Gauge(
            "muster_vetoes",
            "Nodes avoided for a pod shape because kube-scheduler refused them.",
            registry=self.registry,
        )
        self.kubelet_refusals = Counter(
            "muster_kubelet_refusals", "Pods that a kubelet rejected although they had room on its node, by reason.",
            ("reason",), registry=self.registry,
        )  # fmt: skip
        self.predicted_zones = Counter(
            "muster_predicted_zones", "Pods whose NUMA zones were observed after they had been predicted.",
            ("outcome",), registry=self.registry,
        )  # fmt: skip
        self.predicted_gpus = Counter(
            "muster_predicted_gpus", "Pods whose GPUs were observed after they had been predicted.",
            ("outcome",), registry=self.registry,
        )  # fmt: skip
        self.renominations = Counter(
            "muster_renominations",
            "Members nominated again because they did not come back to filter.",
            registry=self.registry,
        )
        self.watch_restarts = Counter(
            "muster_watch_restarts", "Watches started again.", ("kind", "cause"), registry=self.registry
        )
        self.undecodable = Counter(
            "muster_undecodable_objects", "Objects and watch events left out because they could not be decoded.",
            ("kind",), registry=self.registry,
        )  # fmt: skip
        self.watch_age = Gauge(
            "muster_watch_age_seconds",
            "Time since the watch of a kind was last heard of.",
            ("kind",),
            registry=self.registry,
        )
        self.writes = Counter("muster_writes", "Writes to the API server.", ("kind", "result"), registry=self.registry)
        self.write_queue = Gauge("muster_write_queue", "Writes waiting or under way.", registry=self.registry)
        self.write_window = Gauge(
            "muster_write_window", "Writes that may be under way at once; fewer after answers 429.",
            registry=self.registry,
        )  # fmt: skip
        self._register_of_parts()
        self.loop_lag = Histogram(
            "muster_event_loop_lag_seconds", "How late the event loop turns, looked at every 5 ms.",
            buckets=_LAG_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.loop_lag_longest, self.loop_busy_longest = (
            Gauge(
                "muster_event_loop_longest_lag_seconds",
                "The latest that the event loop turned within the last 30 to 60 s.",
                registry=self.registry,
            ),
            Gauge(
                "muster_event_loop_longest_busy_seconds",
                "The longest that Muster itself computed in one turn of the event loop within the last 30 to 60 s.",
                registry=self.registry,
            ),
        )
        self.loop_stalls = Counter(
            "muster_event_loop_stalls", "Turns of the event loop that were more than 10 ms late, by cause.",
            ("cause",), registry=self.registry,
        )  # fmt: skip
        self.connections_refused = Counter(
            "muster_connections_refused", "Connections that were ended because of a limit, by cause.",
            ("cause",), registry=self.registry,
        )  # fmt: skip
        self.log_lines_dropped = Counter(
            "muster_log_lines_dropped", "Log lines that were not written, by cause.", ("cause",), registry=self.registry
        )
        self.certificate_expiry = Gauge(
            "muster_certificate_expiry_seconds",
            "When a certificate ends (Unix time); of several in a file the earliest, of a chain its first.",
            ("certificate",), registry=self.registry,
        )  # fmt: skip
        self.certificate_reloads = Counter(
            "muster_certificate_reloads", "Changed certificate files read again.",
            ("result",), registry=self.registry,
        )  # fmt: skip
        self.ready = Gauge("muster_ready", "1 when caches are synced and fresh, else 0.", registry=self.registry)
        self.leading = Gauge(
            "muster_leading", "1 while this replica decides and writes, else 0.", registry=self.registry
        )
        self.leadership_changes = Counter(
            "muster_leadership_changes",
            "How often this replica began or ceased to decide, by which.",
            ("change",), registry=self.registry,
        )  # fmt: skip
        self.degraded = Gauge(
            "muster_degraded", "1 for the state that keeps Muster from its work, if any.", ("state",),
            registry=self.registry,
        )  # fmt: skip

    def _register_of_parts(self) -> None:
        self.recording = Gauge(
            "muster_recording", "1 while what decisions rest on is recorded for replay, else 0.", registry=self.registry
        )
        self.recording_bytes = Gauge(
            "muster_recording_bytes", "Memory that the recording takes, at most recording_megabytes.",
            registry=self.registry,
        )  # fmt: skip
        self.repair_seconds = Histogram(
            "muster_repair_seconds", "Time from the loss of a node until another pod is bound in a member's stead.",
            buckets=_REPAIR_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.lost_nodes = Gauge("muster_lost_nodes", "Nodes that count as lost.", registry=self.registry)
        self.lost_members = Gauge(
            "muster_lost_members", "Members on lost nodes, by whether they have another place or not.",
            ("place",), registry=self.registry,
        )  # fmt: skip
        self.gpu_seconds = Counter(
            "muster_gpu_seconds",
            "GPUs times seconds, by the queue and the namespace of the gang: used by bound pods, of these lost with "
            "evictions, and reserved for pods that were not bound yet. Beyond the first 500 pairs without names.",
            ("queue", "gang_namespace", "use"), registry=self.registry,
        )  # fmt: skip
        self.history_up = Gauge(
            "muster_history_up", "0 while the history is to be kept and cannot be written, else 1.",
            registry=self.registry,
        )  # fmt: skip
        self.history_up.set(1)
        self.history_dropped = Counter(
            "muster_history_dropped",
            "Gangs and sums of an hour that the history lacks, because its store was away for too long.",
            registry=self.registry,
        )  # fmt: skip
        self.spare_nodes = Gauge(
            "muster_spare_nodes", "Nodes that a Queue keeps for repairs, by whether they are free, lent or missing.",
            ("queue", "state"), registry=self.registry,
        )  # fmt: skip
