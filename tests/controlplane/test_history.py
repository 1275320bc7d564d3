"""The history beside a real control plane: what gangs used is what the API server had, kill -9 or not."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from localcluster.client import PODS
from localcluster.cluster import LocalCluster
from localcluster.history import Recorder
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.waiting import wait_until
from tests.controlplane.conftest import StartMuster

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]


def bound_seconds(recorder: Recorder) -> dict[str, float]:
    """Return for how long the pods of each gang have been bound, as the API server's history has it."""
    recorder.catch_up()
    since: dict[str, tuple[str, float]] = {}
    sums: defaultdict[str, float] = defaultdict(float)
    now = time.monotonic()
    for change in recorder.changes():
        pod = change.object
        uid, gang = pod["metadata"]["uid"], pod["metadata"]["name"].rpartition("-")[0]
        holds = pod["spec"].get("nodeName") and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        if change.type == "DELETED" or not holds:
            if uid in since:
                sums[gang] += change.at - since.pop(uid)[1]
        else:
            since.setdefault(uid, (gang, change.at))
    for gang, began in since.values():
        sums[gang] += now - began
    return sums


def used_seconds(muster_port: int) -> dict[str, float]:
    """Return what Muster's history says of the same, by gang."""
    url = f"http://127.0.0.1:{muster_port}/api/v1/history"
    gangs: list[dict[str, Any]] = []
    for outcome in ("", "Running"):
        answer = httpx.get(url, params={"outcome": outcome} if outcome else {}, trust_env=False)
        assert answer.status_code == 200, answer.text
        gangs += answer.json()["gangs"]
    return {gang["name"]: gang["gpuSeconds"]["used"] / 8 for gang in gangs}


def test_what_gangs_used_is_counted_over_kill_9(
    local_cluster: LocalCluster, cluster: Sandbox, start_muster: StartMuster, tmp_path: Path
) -> None:
    """Killed while gangs run, end and go: what is known from both sides of the gap counts, the rest by its middle."""
    config, port = tmp_path / "settings.yaml", local_cluster.muster_port
    config.write_text(f"history_store: {tmp_path / 'history.db'}\nhistory_write_seconds: 0.2\n", encoding="utf-8")
    cluster.nodes(8, gpus=8)
    with Recorder(local_cluster.admin, (PODS,)) as recorder:
        muster = start_muster("--config", str(config))
        names = ("before", "over", "ended", "gone")
        created = time.monotonic()
        before, over, ended, gone = (cluster.gang(name, members=2, gpus=8) for name in names)
        for gang in (before, over, ended, gone):
            gang.wait_running()
        wait_until(lambda: _known(port, "Running") == set(names), timeout_seconds=20, description="all are known")
        starting = time.monotonic() - created
        time.sleep(2)
        late = {"before": starting + end(before, port)}
        muster.kill()
        killed = time.monotonic()
        ended.complete()
        gone.delete()
        time.sleep(3)
        muster.start()
        gap = time.monotonic() - killed
        after = cluster.gang("after", members=2, gpus=8)
        after.wait_running()
        time.sleep(2)
        late["over"] = starting + end(over, port)
        time.sleep(1)
        found, expected = used_seconds(port), bound_seconds(recorder)
    assert found.keys() == expected.keys() == {*names, "after"}
    for name in ("before", "over"):  # Muster and the recorder hear of a start and an end within what they took
        assert found[name] == pytest.approx(expected[name], abs=2 * late[name]), name
    for name in (
        "ended",
        "gone",
    ):  # kwok's pods have no conditions that tell of their end: it is in the middle of the gap
        assert found[name] == pytest.approx(expected[name], abs=2 * (gap / 2 + 0.5)), name
    assert expected["after"] - 2 < found["after"] <= expected["after"]


def end(gang: Gang, muster_port: int) -> float:
    """Let a gang complete; return how long it took until Muster's history had its end (seconds)."""
    began = time.monotonic()
    gang.complete()
    wait_until(
        lambda: gang.name in _known(muster_port, "Succeeded"), timeout_seconds=20, description=f"{gang.name} has ended"
    )
    return time.monotonic() - began


def _known(muster_port: int, outcome: str) -> set[str]:
    """Return the names of the gangs that Muster's history has with an outcome."""
    url = f"http://127.0.0.1:{muster_port}/api/v1/history"
    answer = httpx.get(url, params={"outcome": outcome}, trust_env=False)
    return {row["name"] for row in answer.json()["gangs"]} if answer.status_code == 200 else set()
