"""Leader election as kube-scheduler does it: a Lease that is taken, renewed, and lost.

Source: k8s.io/client-go tools/leaderelection: tryAcquireOrRenew, renew; kube-scheduler's defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from extender.clock import Clock
from extender.control.ports import ApiError, WatchedKind
from muster_lab.simulation.cluster import Cluster
from tests.properties.faults.population import Json

_NAMESPACE, _NAME = "kube-system", "kube-scheduler"
#: The Lease (NAMESPACE/NAME).
LEASE = f"{_NAMESPACE}/{_NAME}"
#: leaseDuration, renewDeadline and retryPeriod (seconds).
LEASE_SECONDS, _DEADLINE, _RETRY = 15, 10.0, 2.0


class Election:
    """One candidate's part in it."""

    def __init__(self, cluster: Cluster, clock: Clock, identity: str, reaches: Callable[[], bool]) -> None:
        """Stand as `identity`; `reaches` tells whether the API server can be reached."""
        self._cluster = cluster
        self._clock = clock
        self._identity = identity
        self._reaches = reaches
        self._seen: tuple[Json, float] | None = None

    async def win(self) -> None:
        """Return once the Lease is held."""
        while True:
            if self._take():
                return
            await asyncio.sleep(_RETRY)

    async def keep(self) -> None:
        """Renew the Lease, and return once that has not succeeded for too long."""
        renewed = self._clock.monotonic()
        while self._clock.monotonic() < renewed + _DEADLINE:
            await asyncio.sleep(_RETRY)
            if self._take():
                renewed = self._clock.monotonic()

    def _take(self) -> bool:
        """Take or renew the Lease, if no other candidate holds it."""
        if not self._reaches():
            return False
        mine = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": self._clock.now().isoformat(),
        }
        found = self._cluster.find(WatchedKind.LEASE, _NAMESPACE, _NAME)
        if found is None:
            with suppress(ApiError):
                metadata = {"name": _NAME, "namespace": _NAMESPACE}
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": mine}
                self._cluster.create(WatchedKind.LEASE, body)
            return True
        spec = found.json["spec"]
        if self._seen is None or self._seen[0] != spec:
            self._seen = spec, self._clock.monotonic()
        held = self._clock.monotonic() < self._seen[1] + LEASE_SECONDS
        if held and spec["holderIdentity"] not in {self._identity, ""}:
            return False
        self._cluster.update(WatchedKind.LEASE, (_NAMESPACE, _NAME), lambda json: json.update(spec=mine))
        return True
