"""The version of Kubernetes that the control plane runs, and what Muster says of it."""

from __future__ import annotations

import subprocess

import pytest

from extender.kube.version import NEWEST_TESTED, OLDEST_TESTED, Minor
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.programs import NEWEST, Binary, Release
from localcluster.waiting import wait_until

pytestmark = pytest.mark.controlplane


def test_control_plane_is_the_release_that_was_asked_for(local_cluster: LocalCluster, release: Release) -> None:
    """API server and kube-scheduler are of one and the same version, that of `--kubernetes`."""
    served = local_cluster.admin.request("GET", "/version")["gitVersion"]
    command = [str(local_cluster.binaries[Binary.KUBE_SCHEDULER]), "--version"]
    scheduler = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert scheduler == f"Kubernetes {served}"
    assert str(Minor.parse(served)) == release


def test_muster_may_read_the_version(local_cluster: LocalCluster, muster: Server) -> None:
    """Under its ServiceAccount Muster reads which version it runs on and logs it, without a right of its own for it."""
    served = local_cluster.admin.request("GET", "/version")["gitVersion"]
    wait_until(lambda: served in muster.log_tail(1000), timeout_seconds=10, description="version in the log")
    (line,) = (line for line in muster.log_tail(1000).splitlines() if served in line)
    assert '"event":"Kubernetes"' in line
    assert '"level":"info"' in line
    muster.check()


def test_every_release_counts_as_tested() -> None:
    """The span that Muster calls tested is the one that can be run here."""
    assert (str(OLDEST_TESTED), str(NEWEST_TESTED)) == (min(Release), NEWEST)
