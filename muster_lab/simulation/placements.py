"""What Muster predicts of gangs' placements, remembered for when they are over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from extender.admission.admission import Admission
from extender.cluster.occupancy import Held
from extender.control.ports import WatchedKind
from extender.objects.podgroup import GroupRef
from extender.placement.placement import Placement
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import ObjectChange
from muster_lab.simulation.workload import GangRun, Workload


class Predictions(Protocol):
    """Who predicts: Muster."""

    def placement_of(self, ref: GroupRef) -> Placement | None:
        """Return what is predicted of a gang as it is placed now, None while it holds no node."""
        ...

    def held(self, uid: str) -> Held | None:
        """Return what a pod holds of its node, None where nothing is known of it."""
        ...


@dataclass(frozen=True, slots=True)
class MusterPredictions:
    """What Muster predicts, by its state."""

    admission: Admission

    def placement_of(self, ref: GroupRef) -> Placement | None:
        """Return what is predicted of a gang as it is placed now, None while it holds no node."""
        return self.admission.placement_of(ref)

    def held(self, uid: str) -> Held | None:
        """Return what a pod holds of its node, None where nothing is known of it."""
        return self.admission.model.table.occupancy.held(uid)


class Placements:
    """Ask for predictions whenever a gang's pods have changed, and keep the last ones."""

    def __init__(self, predictions: Predictions, workload: Workload) -> None:
        self._predictions = predictions
        self._workload = workload
        self._placements: dict[str, Placement] = {}
        self._held: dict[tuple[str, str], Held] = {}
        self._changed: dict[GangRun, None] = {}

    def follow(self, cluster: Cluster, latency: float) -> None:
        """Ask from now on, `latency` seconds after each change: start after who predicts does, or it will be ahead."""
        cluster.watch(self._take_in, latency)

    def of(self, run: GangRun) -> Placement | None:
        """Return the placement that a gang has, or of a finished one the last that it had."""
        if run.finished_at is not None:
            return self._placements.get(run.spec.key)
        return self._predictions.placement_of(run.ref)

    def held_by(self, run: GangRun, member: str) -> Held | None:
        """Return what a member holds, or held when it was last on a node; None where nothing is known of it."""
        self._ask(run, member)
        return self._held.get((run.spec.key, member))

    def _take_in(self, change: ObjectChange) -> None:
        version = change.after
        if version is None or version.key.kind is not WatchedKind.POD or not version.pod.bound:
            return
        run = self._workload.find(version.key.namespace, version.key.name)
        if run is None or run.finished_at is not None:
            return
        self._ask(run, version.key.name)
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._remember)
        self._changed[run] = None

    def _remember(self) -> None:
        """Keep the placements of gangs that have changed: once for all members that were bound in one turn."""
        changed, self._changed = self._changed, {}
        for run in changed:
            placement = None if run.finished_at is not None else self._predictions.placement_of(run.ref)
            if placement is not None:
                self._placements[run.spec.key] = placement

    def _ask(self, run: GangRun, member: str) -> None:
        """Keep what a member was predicted to hold when it was bound; of one that was not, what is known now."""
        pod = run.members[member].pod
        if pod is None or not pod.bound:
            return
        if pod.predicted is not None:
            self._held[run.spec.key, member] = Held(pod.predicted.gpus, pod.predicted.zones, observed=False)
        elif (held := self._predictions.held(pod.uid)) is not None:
            self._held[run.spec.key, member] = held
