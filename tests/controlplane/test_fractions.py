"""Parts of GPUs that another extender accounts for, on the real control plane: HAMi's and KAI's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from extender.objects.requests import amount
from localcluster.client import NODES, PODS, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.ports import LOOPBACK
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.conftest import StartMuster, muster_starter

pytestmark = pytest.mark.controlplane
#: The judge reads what nodes list, and of parts they list nothing.
judged = pytest.mark.usefixtures("judged")

GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
#: What each node of the other extender has (MiB), and how its device plugin writes it.
HAS = 80_000
REGISTER = json.dumps([{"id": "GPU-a", "count": 10, "devmem": HAS, "devcore": 100, "health": True}])


class PartsExtender:
    """An extender that counts GPU memory as HAMi's does: in its filter, by what it let pass before."""

    def __init__(self, alive: Callable[[], set[str]]) -> None:
        """Serve; `alive` returns the UIDs of the pods that there are."""
        self.refused: frozenset[str] = frozenset()
        self._alive = alive
        self._given: dict[str, tuple[str, int]] = {}
        extender = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(extender.filter(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Write no log."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def filter(self, arguments: JsonObject) -> JsonObject:
        """Let the first node pass that has room for the pod."""
        pod, names = arguments["Pod"], arguments["NodeNames"]
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        asked, uid = amount(MEMORY, requests[MEMORY]), pod["metadata"]["uid"]
        alive = self._alive() - {uid}
        self._given = {uid: given for uid, given in self._given.items() if uid in alive}
        for name in names:
            taken = sum(given for node, given in self._given.values() if node == name)
            if name not in self.refused and taken + asked <= HAS:
                self._given[uid] = name, asked
                return {"NodeNames": [name]}
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(names, "CardInsufficientMemory")}

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def parts(cluster: Sandbox) -> Iterator[PartsExtender]:
    """Run the other extender."""
    extender = PartsExtender(lambda: {pod["metadata"]["uid"] for pod in cluster.api.list_items(PODS)})
    yield extender
    extender.close()


@pytest.fixture
def shared_muster(
    local_cluster: LocalCluster, cluster: Sandbox, parts: PartsExtender, tmp_path: Path
) -> Iterator[Server]:
    """Start Muster, and a kube-scheduler that asks it and then the other extender."""
    assert cluster.empty
    direct, replaced = local_cluster.muster_scheduler, local_cluster.muster_scheduler.running
    direct.kill()
    document = yaml.safe_load((SCHEDULER_CONFIGS / "muster.yaml").read_text(encoding="utf-8"))
    document["extenders"][0]["urlPrefix"] = f"http://{LOOPBACK}:{local_cluster.muster_port}/v1"
    document["extenders"].append(
        {
            "urlPrefix": parts.url,
            "filterVerb": "filter",
            "nodeCacheCapable": True,
            "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
        }
    )
    config = tmp_path / "shared.yaml"
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    scheduler = local_cluster.scheduler("shared-scheduler", SchedulerProfile(config))
    scheduler.start()
    with muster_starter(local_cluster) as start:
        yield start()
    scheduler.kill()
    if replaced:
        direct.start()


def gang_of_parts(cluster: Sandbox, name: str, members: int, memory: int) -> Gang:
    """Create a gang whose members ask for a GPU and so much of its memory (MiB) each."""
    amounts = {"cpu": "1", GPU: "1", MEMORY: str(memory)}
    container = {"name": "main", "image": "registry.example/trainer:1"}
    container["resources"] = {"requests": amounts, "limits": amounts}  # type: ignore[assignment]  # JSON
    return cluster.gang(name, members=members, spec={"containers": [container]})


def test_gang_with_parts_that_nobody_publishes_starts_where_their_extender_lets_it(
    cluster: Sandbox, shared_muster: Server, parts: PartsExtender
) -> None:
    """Muster plans by all else; the node that the other extender refuses is left out, and the gang starts whole."""
    cluster.nodes(3, gpus=10)
    parts.refused = frozenset({"node-0"})
    gang = gang_of_parts(cluster, "gang", 2, 60_000)
    gang.wait_bound(2, timeout=15)
    assert sorted(gang.nodes) == ["node-1", "node-2"]
    shared_muster.check()


def test_gang_with_parts_goes_where_they_are_registered(cluster: Sandbox, shared_muster: Server) -> None:
    """Nodes that say how much they have are planned on by it; what has no room for now waits, and starts later."""
    cluster.nodes(4, gpus=10)
    for name in ("node-2", "node-3"):
        cluster.api.patch(NODES, name, {"metadata": {"annotations": {"hami.io/node-nvidia-register": REGISTER}}})
    first = gang_of_parts(cluster, "first", 4, 30_000)
    first.wait_bound(4)
    assert sorted(first.nodes) == ["node-2", "node-2", "node-3", "node-3"]
    second = gang_of_parts(cluster, "second", 2, 30_000)
    second.wait_condition("False", "InsufficientCapacity")
    third = gang_of_parts(cluster, "third", 5, 30_000)
    third.wait_condition("False", "ExceedsCluster")
    first.delete()
    second.wait_bound(2)
    shared_muster.check()


@judged
def test_without_the_other_extender_kube_scheduler_says_what_is_missing(
    cluster: Sandbox, start_muster: StartMuster, tmp_path: Path
) -> None:
    """kube-scheduler counts the resource itself: the gang is told so in its words, and is not called impossible."""
    config = tmp_path / "muster.yaml"
    config.write_text("reservation_timeout_seconds: 3\n", encoding="utf-8")
    muster = start_muster("--config", str(config))
    cluster.nodes(2, gpus=10)
    gang = gang_of_parts(cluster, "gang", 2, 30_000)
    gang.wait_message(f"Insufficient {MEMORY}", timeout=60)
    assert not any("ExceedsCluster" in message for message in gang.messages)
    muster.check()


@judged
def test_gpus_that_kai_shares_out_are_taken_and_its_words_are_answered(cluster: Sandbox, muster: Server) -> None:
    """A reservation pod of KAI holds a GPU like any pod; a pod of Muster's that asks KAI for half a GPU is told so."""
    cluster.nodes(2, gpus=1)
    cluster.pod("gpu-reservation-node-0-a", gpus=1, node_name="node-0", scheduler="kai-scheduler")
    cluster.pod("half", node_name="node-0", scheduler="kai-scheduler", annotations={"gpu-fraction": "0.5"})
    whole = cluster.gang("whole", members=1, gpus=1)
    whole.wait_bound(1)
    assert whole.nodes == ["node-1"]
    asking = cluster.pod("asking", annotations={"gpu-fraction": "0.5"})
    asking.wait_message("metadata.annotations[gpu-fraction]: gives the pod no GPU")
    asking.wait_bound()
    muster.check()
