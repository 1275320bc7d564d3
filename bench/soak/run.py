"""One soak from start to verdict: control plane, Muster, churn, samples, drain."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.soak.churn import Churn
from bench.soak.sampling import Page, Sampler
from bench.soak.standing import create_standing
from bench.soak.trend import Bounds, Line, Sample, report
from localcluster.build import ensure_binaries
from localcluster.cluster import LocalCluster
from localcluster.controlplane import STOCK_API_SERVER, ApiServerOptions
from localcluster.ports import LOOPBACK
from localcluster.processes import Server

#: Seconds between two turns of the churn, two samples, two lines of progress.
TURN_SECONDS = 0.25
SAMPLE_SECONDS = 5.0
PROGRESS_SECONDS = 30.0
#: Seconds that the last pods may take to end and the state of Muster to become empty.
DRAIN_SECONDS = 90.0

#: Events are most of what is written; etcd would keep them for an hour, and grow.
_API_SERVER = ApiServerOptions(
    feature_gates=STOCK_API_SERVER.feature_gates,
    runtime_config=STOCK_API_SERVER.runtime_config,
    extra_arguments=("--event-ttl=2m",),
)
#: What must be 0 when nothing is left in the cluster: state that is kept for pods that have gone is a leak.
_EMPTY_AT_THE_END = ("muster_gangs", "muster_reserved_unbound", "muster_binds_held", "muster_write_queue")


@dataclass(frozen=True, slots=True)
class Soak:
    """How long and how hard.

    Seconds of churn, nodes of eight GPUs, new pods a minute, the seed of the workloads, and how many pods on nodes of
    their own are there before and stay.
    """

    seconds: float
    nodes: int = 100
    pods_per_minute: float = 2000.0
    seed: int = 1
    standing_pods: int = 0
    sample_seconds: float = SAMPLE_SECONDS

    def run(self, bounds: Bounds, say: Callable[[str], None]) -> list[Line]:
        """Start everything, soak, and return the report; raise LocalClusterError if a server fails."""
        folder = Path(tempfile.mkdtemp(prefix="muster-soak-"))
        with LocalCluster(folder, ensure_binaries(), _API_SERVER) as cluster:
            muster = cluster.muster()
            muster.start()
            cluster.muster_scheduler.start()
            return self.run_on(cluster, muster, bounds, say)

    def run_on(self, cluster: LocalCluster, muster: Server, bounds: Bounds, say: Callable[[str], None]) -> list[Line]:
        """Soak a Muster that runs on a cluster without nodes and pods; its nodes stay behind."""
        with (
            Churn(cluster.admin, self.nodes, self.pods_per_minute, Random(self.seed)) as churn,
            Sampler(f"http://{LOOPBACK}:{cluster.muster_port}", muster.pid) as sampler,
        ):
            create_standing(cluster.admin, self.standing_pods, say)
            churn.prepare()
            standing = _settled(sampler)
            samples = self._churn(churn, sampler, say, [cluster.check, muster.check])
            return [*report(samples, bounds), _load(churn), _drain(churn, sampler, self.seconds, standing)]

    def _churn(
        self, churn: Churn, sampler: Sampler, say: Callable[[str], None], checks: Sequence[Callable[[], None]]
    ) -> list[Sample]:
        """Keep the load up for the time of the soak, and return what was read meanwhile."""
        samples: list[Sample] = []
        began = time.monotonic()
        next_sample, next_progress = self.sample_seconds, PROGRESS_SECONDS
        while (now := time.monotonic() - began) < self.seconds:
            churn.step(now)
            if now >= next_sample:
                for check in checks:
                    check()
                next_sample = now + self.sample_seconds
                samples.append(sampler.sample(now))
            if samples and now >= next_progress:
                next_progress = now + PROGRESS_SECONDS
                say(_progress(samples[-1], churn))
            time.sleep(max(0.0, TURN_SECONDS - (time.monotonic() - began - now)))
        return samples


def _progress(sample: Sample, churn: Churn) -> str:
    return (
        f"{sample.at:6.0f} s  {churn.tally.created:6} pods created  {sample.pods_bound:6.0f} bound  "
        f"{churn.live_pods:4} live  {sample.resident / (1 << 20):6.1f} MiB  "
        f"longest lag {1000 * sample.longest_lag:5.1f} ms  "
        f"stalls {sample.stalls_busy:.0f} busy, {sample.stalls_starved:.0f} starved  "
        f"held {sample.binds_held:.0f}  queue {sample.write_queue:.0f}"
    )


def _load(churn: Churn) -> Line:
    tally = churn.tally
    words = [
        f"{tally.created} pods, {tally.gangs} gangs",
        f"{tally.succeeded} pods ended, {tally.deleted} deleted before",
        f"{tally.node_changes} changes of nodes",
        f"{tally.skipped} pods left out",
    ]
    return Line("load", "; ".join(words))


def _settled(sampler: Sampler) -> Counter[str]:
    """Return what Muster keeps for those that are there before, once it has written what it has to say of them."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while (kept := _kept(sampler.page()))["muster_write_queue"] and time.monotonic() < deadline:
        time.sleep(1.0)
    return kept


def _drain(churn: Churn, sampler: Sampler, now: float, before: Counter[str]) -> Line:
    """Let what is left end, and say whether Muster then keeps nothing but what it kept `before`."""
    began = time.monotonic()
    left = _kept(sampler.page()) - before
    while (churn.live_pods or left) and time.monotonic() - began < DRAIN_SECONDS:
        time.sleep(1.0)
        churn.clean_up(now + time.monotonic() - began)
        left = _kept(sampler.page()) - before
    taken = f"empty after {time.monotonic() - began:.0f} s"
    kept = ", ".join(f"{name} {value}" for name, value in left.items())
    return Line("left at the end", kept or taken, "nothing", holds=not left and not churn.live_pods)


def _kept(page: Page) -> Counter[str]:
    """Return what Muster keeps, by metric."""
    return Counter({name: int(page.sum(name)) for name in _EMPTY_AT_THE_END})
