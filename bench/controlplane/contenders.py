"""The systems that are compared: each is a kube-scheduler on the same control plane, some with something beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import yaml

from localcluster.client import NATIVE_POD_GROUPS, POD_GROUPS, Resource
from localcluster.cluster import LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.controlplane import NATIVE_PODGROUP_GATES
from localcluster.credentials import Connection
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Server


class Contender(StrEnum):
    """A system under comparison. The value names it in figures.

    All may send 1,000 requests a second: kube-scheduler's default of 50 would be the slowest part of each. How many
    nodes kube-scheduler looks at for a pod is its own default (adaptive) unless said otherwise.
    """

    STOCK = "stock"
    """kube-scheduler alone: pods one by one, gangs unknown."""

    STOCK_100 = "stock_100"
    """The same with percentageOfNodesToScore: 100."""

    NATIVE = "native"
    """kube-scheduler's own gang scheduling: feature gate GenericWorkload, PodGroups of scheduling.k8s.io/v1beta1."""

    NATIVE_100 = "native_100"
    """The same with percentageOfNodesToScore: 100."""

    FLOOR = "floor"
    """What nominating costs at least: kube-scheduler alone, told each pod's node by the one who creates the pods."""

    MUSTER = "muster"
    """kube-scheduler with Muster as its extender, both as shipped; PodGroups of scheduling.x-k8s.io/v1alpha1."""

    @property
    def label(self) -> str:
        """Return what people call it."""
        return _LABELS[self]

    @property
    def native(self) -> bool:
        """Tell whether kube-scheduler's own gang scheduling is on."""
        return self in (Contender.NATIVE, Contender.NATIVE_100)

    @property
    def looks_at_all_nodes(self) -> bool:
        """Tell whether kube-scheduler is made to look at all nodes for each pod, instead of its own default."""
        return self in (Contender.STOCK_100, Contender.NATIVE_100)

    @property
    def scheduler_name(self) -> str:
        """Return what its pods have as schedulerName."""
        return "muster" if self is Contender.MUSTER else "default-scheduler"

    @property
    def groups(self) -> Resource | None:
        """Return the resource of its PodGroups, None if it knows no gangs."""
        if self.native:
            return NATIVE_POD_GROUPS
        return POD_GROUPS if self is Contender.MUSTER else None

    @property
    def profile(self) -> SchedulerProfile:
        """Return how its kube-scheduler is configured; Muster's port is left to the file."""
        name = "muster.yaml" if self is Contender.MUSTER else "stock.yaml"
        return SchedulerProfile(
            SCHEDULER_CONFIGS / name, percentage_of_nodes_to_score=100 if self.looks_at_all_nodes else None
        )


_LABELS: Mapping[Contender, str] = {
    Contender.STOCK: "stock",
    Contender.STOCK_100: "stock, 100 %",
    Contender.NATIVE: "native gang",
    Contender.NATIVE_100: "native gang, 100 %",
    Contender.FLOOR: "floor",
    Contender.MUSTER: "Muster",
}

#: What each is, for people who choose.
EXPLAINED = (
    "contenders: stock: kube-scheduler alone, at its own defaults; native: the same with its own gang scheduling"
    " (GenericWorkload); stock_100, native_100: the same made to look at all nodes (percentageOfNodesToScore: 100);"
    " floor: kube-scheduler alone, told the node of each pod by who creates it; muster: Muster as shipped. All may send"
    " 1,000 requests a second"
)


@dataclass(slots=True)
class Team:
    """The processes of one contender on one cluster, to be started and killed again and again."""

    contender: Contender
    scheduler: Server
    scheduler_address: Connection
    muster: Server | None = None
    muster_url: str = ""

    @property
    def servers(self) -> dict[str, Server]:
        """Return the processes by their role, Muster first."""
        servers = {"muster": self.muster} if self.muster is not None else {}
        return {**servers, "scheduler": self.scheduler}

    def start(self) -> None:
        """Start everything and wait until it is ready."""
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_ready()

    def kill(self) -> None:
        """End everything at once."""
        for server in self.servers.values():
            server.kill()

    def check(self) -> None:
        """Raise LocalClusterError with the end of its log if a process has ended."""
        for server in self.servers.values():
            server.check()


#: How much longer than a bind call is held kube-scheduler waits for its answer, as with the defaults (seconds).
_ANSWER_SECONDS = 10


@dataclass(slots=True)
class Teams:
    """The teams of one cluster, each made when it is first asked for."""

    cluster: LocalCluster
    _teams: dict[tuple[Contender, int | None], Team] = field(default_factory=dict)

    def of(self, contender: Contender, hold_seconds: int | None = None) -> Team:
        """Return the processes of `contender`, not started.

        Muster holds bind calls for `hold_seconds`, and kube-scheduler waits for longer; with None both are as shipped.
        """
        if (contender, hold_seconds) not in self._teams:
            self._teams[contender, hold_seconds] = self._team(contender, hold_seconds)
        return self._teams[contender, hold_seconds]

    def _team(self, contender: Contender, hold_seconds: int | None) -> Team:
        cluster = self.cluster
        extender = contender is Contender.MUSTER
        profile = replace(contender.profile, extender_port=cluster.muster_port if extender else None)
        if hold_seconds is not None:
            profile = replace(profile, extender_timeout_seconds=hold_seconds + _ANSWER_SECONDS)
        gates = NATIVE_PODGROUP_GATES if contender.native else {}
        name, (port,) = f"{contender}-contender", free_ports(1)
        scheduler = cluster.scheduler(name, profile, feature_gates=gates, port=port)
        address = Connection(f"https://{LOOPBACK}:{port}", cluster.folder / name / "kube-scheduler.crt", "")
        if not extender:
            return Team(contender, scheduler, address)
        muster = cluster.muster([] if hold_seconds is None else [f"--config={_settings(cluster.folder, hold_seconds)}"])
        return Team(contender, scheduler, address, muster, f"http://{LOOPBACK}:{cluster.muster_port}")


def _settings(folder: Path, hold_seconds: int) -> Path:
    """Write Muster's settings where it holds bind calls for so long, and return the file."""
    file = folder / f"hold-{hold_seconds}.yaml"
    settings = {"bind_hold_seconds": hold_seconds, "http_timeout_seconds": hold_seconds + _ANSWER_SECONDS}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file
