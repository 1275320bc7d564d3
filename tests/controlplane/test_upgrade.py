"""A rolling upgrade and the way back while gangs start: two versions of Muster side by side on a real control plane."""

from __future__ import annotations

import contextlib
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.components import REPOSITORY
from localcluster.history import Recorder
from localcluster.replica import Replicas
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.plans import count_plans, left_plan
from tests.controlplane.test_failover import ZONE, Site, Stage, assert_bound_once, between_proxies

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

#: The version that is upgraded from: before there was a history, limits for users in Queues, notices in the API.
OLDER = "43b8393a016bf29e6edd5d64f79308740e0d10cd"
CRDS = ("podgroup-crd.yaml", "queue-crd.yaml")
GANGS, MEMBERS = 20, 4
#: Between two pods that are created (seconds): the last ones come when the last replica has been replaced.
PAUSE = 0.15


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the older version; fail where this clone does not have it."""
    git = ("git", "-C", str(REPOSITORY))
    if subprocess.run([*git, "cat-file", "-e", f"{OLDER}^{{commit}}"], check=False, capture_output=True).returncode:
        pytest.fail(
            f"this clone lacks the version that is upgraded from; get it with: git fetch --depth=1 origin {OLDER}"
        )
    folder = tmp_path_factory.mktemp("older")
    archive = folder / "older.tar"
    subprocess.run([*git, "archive", f"--output={archive}", OLDER, "extender", "muster_lab", "manifests"], check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder


def apply_crds(cluster: LocalCluster, checkout: Path) -> None:
    """Apply the definitions of PodGroups and Queues of one version."""
    for name in CRDS:
        cluster.admin.apply(yaml.safe_load((checkout / "manifests" / name).read_text(encoding="utf-8")))


class Load(threading.Thread):
    """Create gangs all the while, the members of four at a time in turn."""

    def __init__(self, gangs: Sequence[Gang]) -> None:
        """Prepare; nothing is created before `start`."""
        super().__init__(name="load", daemon=True)
        self._gangs = gangs

    def run(self) -> None:
        """Create one pod after the other."""
        for first in range(0, len(self._gangs), 4):
            for gang in MEMBERS * list(self._gangs[first : first + 4]):
                gang.create_next()
                time.sleep(PAUSE)


@contextlib.contextmanager
def staged(
    local_cluster: LocalCluster, cluster: Sandbox, environments: Mapping[str, Mapping[str, str]]
) -> Iterator[Stage]:
    """Prepare replicas between proxies, by their hostnames."""
    with between_proxies(local_cluster, environments) as sites, Recorder(local_cluster.admin) as recorder:
        for site in sites:
            site.replica.muster.command.log_path.unlink(missing_ok=True)  # of the last test
        cluster.nodes(24, gpus=8, labels=ZONE)
        yield Stage(cluster, recorder, Replicas(local_cluster.admin, [site.replica for site in sites]), sites)


@pytest.fixture
def stage(local_cluster: LocalCluster, cluster: Sandbox, older: Path) -> Iterator[Stage]:
    """Prepare two replicas of either version."""
    as_older = {"PYTHONPATH": str(older)}
    replicas = {"older-a": as_older, "older-b": as_older, "newer-a": {}, "newer-b": {}}
    with staged(local_cluster, cluster, replicas) as prepared:
        yield prepared
    apply_crds(local_cluster, REPOSITORY)


def roll(stage: Stage, before: Sequence[Site], after: Sequence[Site], *, leader_first: bool) -> list[float]:
    """Replace one replica after the other, as the shipped Deployment does: stop one, and start one in its place.

    Return when it was the leader's turn (`time.monotonic` seconds).
    """
    active, hand_overs = stage.active, list[float]()
    for site, successor in zip(sorted(before, key=lambda site: (site is active) != leader_first), after, strict=True):
        if stage.active is site:
            hand_overs.append(time.monotonic())
        stage.depose(site)
        site.replica.stop()
        successor.replica.start()
        stage.replicas.wait_leader([each.replica for each in (*before, *after) if each.replica.muster.running])
    return hand_overs


def start_while_rolled(
    stage: Stage, before: Sequence[Site], after: Sequence[Site], count: int, *, leader_first: bool
) -> None:
    """Create gangs while replicas are replaced: they start whole, bound once, where they were planned, by one plan."""
    gangs = [stage.cluster.gang(f"gang-{number}", members=MEMBERS, gpus=2, create=0) for number in range(count)]
    load = Load(gangs)
    load.start()
    hand_overs = roll(stage, before, after, leader_first=leader_first)
    load.join()
    stage.assert_whole(*gangs)
    assert_bound_once(stage, *gangs)
    assert not left_plan(stage.recorder, hand_overs, whole=MEMBERS)
    plans = count_plans((site.replica.muster for site in stage.sites), MEMBERS)
    assert len(plans.made) == count
    assert not plans.needless
    for site in after:
        site.replica.muster.check()
        assert "Traceback" not in site.replica.muster.command.log_path.read_text(encoding="utf-8")


def test_gangs_start_while_muster_is_restarted(local_cluster: LocalCluster, cluster: Sandbox) -> None:
    """One replica takes the place of another of this version: four gangs start whole meanwhile."""
    with staged(local_cluster, cluster, {"before": {}, "after": {}}) as stage:
        before, after = stage.sites[:1], stage.sites[1:]
        before[0].replica.start()
        stage.replicas.wait_leader([before[0].replica])
        start_while_rolled(stage, before, after, 4, leader_first=True)


@pytest.mark.nightly
@pytest.mark.parametrize("leader_first", [True, False], ids=["leader first", "standby first"])
@pytest.mark.parametrize("back", [False, True], ids=["upgrade", "downgrade"])
def test_twenty_gangs_start_meanwhile(
    local_cluster: LocalCluster, stage: Stage, older: Path, *, back: bool, leader_first: bool
) -> None:
    """All start whole, bound once, on the nodes that were planned for them, and none is planned without a reason."""
    old, new = stage.sites[:2], stage.sites[2:]
    before, after = (new, old) if back else (old, new)
    if not back:
        apply_crds(local_cluster, older)
    for site in before:
        site.replica.start()
    stage.replicas.wait_leader([site.replica for site in before])
    apply_crds(local_cluster, REPOSITORY)  # first, as docs/upgrade.md says; a roll back leaves them in place
    start_while_rolled(stage, before, after, GANGS, leader_first=leader_first)
