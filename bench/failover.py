"""Failover: both processes of the leading replica killed under load, until its successor writes the first Binding.

Two replicas on a real control plane follow the shipped Lease. In each trial gangs arrive all the while; what was on its
way when the leader died has to end whole.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from bench.figures import Figure
from bench.options import Options, Say
from localcluster.build import ensure_binaries
from localcluster.cluster import LocalCluster
from localcluster.errors import LocalClusterError, NotInTimeError
from localcluster.replica import LEASES, Replica, Replicas
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.watching import LiveView, Signal

#: The promise, in seconds at the 95th percentile.
BOUND_SECONDS = 10.0

#: Seconds. A trial that takes longer than this failed.
GIVE_UP_SECONDS = 60.0

#: There is one thing to measure.
CASES: Mapping[str, str] = {"kill": "the leading one of two replicas is killed: how long until gangs start again"}

#: A 95th percentile of twenty leaves one trial out.
_TRIALS, _SHORT_TRIALS = 20, 2

_NODES, _GPUS = 16, 8
_MEMBERS = 4
#: Between two gangs (seconds), and how long each runs. A tenth of the GPUs is in use.
_PAUSE_SECONDS, _RUN_SECONDS = 0.25, 1


@dataclass(frozen=True, slots=True)
class Takeover:
    """One trial, in seconds after the kill: when the successor got the Lease, and when its first Binding was seen."""

    lease: float
    binding: float


def figures(takeovers: Sequence[Takeover]) -> list[Figure]:
    """Return the 50th and the 95th percentile of the whole time and of its two parts, each with least and most."""
    whole = [takeover.binding for takeover in takeovers]
    lease = [takeover.lease for takeover in takeovers]
    rest = [takeover.binding - takeover.lease for takeover in takeovers]
    return [
        _percentile("failover_p50", whole, 50),
        _percentile("failover_p95", whole, 95, BOUND_SECONDS),
        _percentile("failover_lease_p50", lease, 50),
        _percentile("failover_lease_p95", lease, 95),
        _percentile("failover_first_binding_p50", rest, 50),
        _percentile("failover_first_binding_p95", rest, 95),
    ]


def measure(options: Options, say: Say) -> list[Figure]:
    """Run as many trials as `options` has repeats, twenty by default, on a control plane of their own.

    Raises LocalClusterError if a server does not start, nobody takes over, or a gang does not end whole.
    """
    trials = options.repeats or (_SHORT_TRIALS if options.short else _TRIALS)
    folder = Path(tempfile.mkdtemp(prefix="muster-failover-"))
    takeovers = []
    with LocalCluster(folder, ensure_binaries()) as cluster, Sandbox(cluster.admin) as sandbox:
        replicas = Replicas(cluster.admin, [Replica(cluster, f"replica-{letter}") for letter in "ab"])
        replicas.start()
        with LiveView(cluster.admin, LEASES, Signal()) as leases:
            for number in range(1, trials + 1):
                taken = Trial(sandbox, replicas, leases, Random(number)).run()
                say(f"trial {number} of {trials}: Lease after {taken.lease:.2f} s, Binding after {taken.binding:.2f} s")
                takeovers.append(taken)
    return figures(takeovers)


class Trial:
    """One kill: the leader at a random moment of a steady arrival of gangs."""

    def __init__(self, sandbox: Sandbox, replicas: Replicas, leases: LiveView, random: Random) -> None:
        """Play in `sandbox`, which is emptied; `leases` has followed the Lease from before."""
        self._sandbox = sandbox
        self._replicas = replicas
        self._leases = leases
        self._random = random

    def run(self) -> Takeover:
        """Let gangs arrive, kill the leader, wait until its successor works and every gang is whole."""
        self._sandbox.reset()
        self._sandbox.nodes(_NODES, gpus=_GPUS)
        self._replicas.start()
        arriving = self._arrivals()
        gangs = list(itertools.islice(arriving, 2 + self._random.randrange(4)))
        leader = self._replicas.wait_leader()
        time.sleep(self._random.uniform(0.0, _PAUSE_SECONDS))
        killed = time.monotonic()
        leader.kill()
        takeover = None
        while takeover is None:
            gangs.append(next(arriving))
            takeover = self._takeover(leader, killed)
            self._look_after(leader, killed, f"a Binding after the death of {leader!r}")
        while waiting := [gang for gang in gangs if not gang.whole]:
            time.sleep(_PAUSE_SECONDS)
            self._look_after(leader, killed, f"all of {waiting} whole")
        peak = max(self._sandbox.peak_gpus().values())
        if peak > _GPUS:
            raise LocalClusterError(f"{peak} GPUs of one node were in use at once, of {_GPUS}")
        return takeover

    def _look_after(self, dead: Replica, killed: float, wanted: str) -> None:
        """Restart what has ended by itself, as a kubelet does: a kube-scheduler that has lost its Lease ends."""
        if time.monotonic() - killed > GIVE_UP_SECONDS:
            raise NotInTimeError(f"{wanted}: not within {GIVE_UP_SECONDS:g} s of the kill")
        for replica in self._replicas.others(dead):
            replica.launch()

    def _arrivals(self) -> Iterator[Gang]:
        """Create a gang, then another a little later, and so on."""
        for number in itertools.count():
            yield self._sandbox.gang(
                f"gang-{number}", members=_MEMBERS, gpus=1, cpu="100m", memory="64Mi", run_seconds=_RUN_SECONDS
            )
            time.sleep(_PAUSE_SECONDS)

    def _takeover(self, leader: Replica, killed: float) -> Takeover | None:
        """Return when the Lease changed hands after the kill, and the next Binding, as soon as both have happened."""
        changed = (
            change.at
            for change in self._leases.history()
            if change.at > killed and self._replicas.holder_of(change.object) not in {None, leader}
        )
        lease_at = next(changed, None)
        if lease_at is None:
            return None
        bound = (binding.at for binding in self._sandbox.bindings() if binding.at > lease_at)
        binding_at = next(bound, None)
        return None if binding_at is None else Takeover(lease_at - killed, binding_at - killed)


def _percentile(name: str, seconds: Sequence[float], rank: int, bound: float | None = None) -> Figure:
    value = float(np.percentile(seconds, rank))
    return Figure(name, "s", value, min(seconds), max(seconds), bound, exclusive=True)
