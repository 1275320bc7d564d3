"""Why a gang waits on a real control plane, what would help, and that it does."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.commands import app
from localcluster.client import POD_GROUPS
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.builders import Json
from tests.explain.hypothetical import objects

pytestmark = pytest.mark.controlplane


def explain(local_cluster: LocalCluster, *arguments: str, stdin: str = "", code: int = 0) -> Json:
    """Run `muster explain` against the running Muster, and return what it prints as JSON."""
    server = f"http://127.0.0.1:{local_cluster.muster_port}"
    result = CliRunner().invoke(app, ["explain", *arguments, "--server", server, "-o", "json"], input=stdin)
    assert result.exit_code == code, result.stderr
    found: Json = json.loads(result.stdout)
    return found


def test_the_first_suggestion_has_a_waiting_gang_start(
    local_cluster: LocalCluster, cluster: Sandbox, muster: Server
) -> None:
    """What was said of it before it was submitted holds when it is; it starts with the change, and not before."""
    cluster.nodes(3, gpus=8)
    cluster.gang("old", members=1, gpus=8).wait_running(1)
    what = yaml.safe_dump_all(objects(4, min_member=3))  # it can do with fewer than it has
    (asked,) = explain(local_cluster, "-f", "-", "--dry-run", stdin=what, code=4)["gangs"]
    gang = cluster.gang("new", members=4, min_member=3, gpus=8)
    gang.wait_condition("False", "InsufficientCapacity")
    told = explain(local_cluster, "default/new")
    assert (asked["hypothetical"], told["hypothetical"]) == (True, False)
    assert asked["reason"] == told["reason"]
    assert (told["reason"]["code"], told["queue"]["position"]) == ("InsufficientCapacity", 1)
    (fall,) = told["waterfall"]
    assert (fall["nodes"], fall["usable"], fall["fits"]) == (3, 2, 2)
    assert sum(step["nodes"] for step in fall["steps"]) + fall["usable"] == fall["nodes"]
    assert [holder["gang"] for holder in told["holders"]] == ["default/old"]
    first, *_ = told["suggestions"]
    assert (first["change"], first["from"], first["to"]) == ("minMember", 3, 2)
    assert first == asked["suggestions"][0]
    assert not gang.bound
    gang.edit_group(first["to"])
    gang.wait_bound(2)
    gang.wait_condition("True", "Started")
    placed = explain(local_cluster, "default/new")
    assert sum(placed["placement"]["gpusPerNode"].values()) == 16
    (more,) = placed["suggestions"]  # for its two others, which have no room
    assert placed["reason"]["code"] == "InsufficientCapacity"
    assert (more["change"], more["from"], more["to"]) == ("nodes", 3, 5)
    muster.check()


def test_a_gang_that_would_start_goes_where_was_said(
    local_cluster: LocalCluster, cluster: Sandbox, muster: Server
) -> None:
    """The question leaves nothing in the cluster, and the gang gets the nodes of the answer."""
    cluster.nodes(4, gpus=8)
    cluster.gang("old", members=1, gpus=8).wait_running(1)
    what = yaml.safe_dump_all(objects(2))
    (asked,) = explain(local_cluster, "-f", "-", "--dry-run", stdin=what)["gangs"]
    assert [group["metadata"]["name"] for group in cluster.api.list_items(POD_GROUPS, "default")] == ["old"]
    gang = cluster.gang("new", members=2, gpus=8)
    gang.wait_bound(2)
    assert sorted(gang.nodes) == sorted(pod["node"] for pod in asked["pods"])
    muster.check()
