"""Objects of every watched kind, drawn from their schemas, on the real API server: Muster is well, others' gangs start.

`--hostile-seconds N` and `--hostile-seed SEED` let a storm take longer, and make another one.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from bench.soak.sampling import Sampler
from extender.objects.sources.table import SOURCES
from localcluster.client import EVENTS, NAMESPACES, NODES, QUEUES, ApiClient, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.manifests import apply_all
from localcluster.nodes import NodeShape, numbered_nodes
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import LONGEST_TURN, StartMuster
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.hostile import GOOD_RESOURCE, HostileStorm, Refused
from tests.controlplane.rounds import quantile
from tests.controlplane.test_facts import remove
from tests.controlplane.test_random_tenants import memory

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(7200)]

GOOD = "good"
_TAINT: JsonObject = {"key": "example.com/good", "effect": "NoSchedule"}
_POD: JsonObject = {
    "tolerations": [{"key": _TAINT["key"], "operator": "Exists"}],
    "nodeSelector": {"example.com/good": "true"},
    "priorityClassName": GOOD,  # a hostile PriorityClass may be the default of the others, from one pod to the next
    "containers": [{"name": "c", "image": "i", "resources": {"limits": {GOOD_RESOURCE: "1"}}}],
}
#: Kinds that describe gangs: what is wrong in them is told with the first pod that shows that they are for Muster.
OF_GANGS = frozenset(kind.name for source in SOURCES for kind in source.kinds)
#: From so many seconds on, objects of each kind are taken by the server.
THOROUGH = 60
#: A gang is given up after so many seconds; kube-scheduler's longest pause after a refusal is 10 s.
GIVEN_UP = 60.0
#: What no log may have: a mistake in Muster, or an error other than that an object cannot be read.
_WRONG = re.compile(r"Traceback \(most recent call last\)|mistake in Muster|\[critical *\]|\"level\": ?\"critical\"")


@pytest.fixture
def hostile_muster(cluster: Sandbox, start_muster: StartMuster) -> Iterator[Server]:
    """Start Muster where all other projects' CRDs are installed, which go with the test."""
    definitions = foreign_definitions()
    apply_all(cluster.api, definitions)
    yield start_muster()
    remove(cluster.api, definitions)


@pytest.fixture
def hostile(cluster: Sandbox, hostile_muster: Server) -> Iterator[str]:
    """Return the namespace of the storm; beside it there is one whose gangs have nodes and a Queue of their own."""
    hostile_muster.check()
    shape = NodeShape(gpus=0, labels={"example.com/good": "true"}, taints=(_TAINT,))
    for node in numbered_nodes(2, shape, prefix="good"):
        for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
            amounts[GOOD_RESOURCE] = "8"
        cluster.api.create(node)
    cluster.priority_class(GOOD, 5)
    resources = [{"name": GOOD_RESOURCE, "nominalQuota": 16}]
    spec = {
        "flavors": [{"name": "all", "resources": resources}],
        "namespaceSelector": {"matchLabels": {"tenant": GOOD}},
    }
    cluster.create({"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": GOOD}, "spec": spec})
    with cluster.namespace(GOOD) as good, cluster.namespace("hostile") as name:
        cluster.api.patch(NAMESPACES, good, {"metadata": {"labels": {"tenant": GOOD}}})
        yield name
    cluster.api.delete_all(NODES)


@pytest.fixture
def storm(request: pytest.FixtureRequest, local_cluster: LocalCluster, hostile: str) -> Iterator[HostileStorm]:
    """Return the storm, which is cleaned up at the end."""
    with ApiClient(local_cluster.control_plane.admin) as api:
        storm = HostileStorm(api, hostile, request.config.getoption("--hostile-seed"))
        yield storm
        storm.clean_up()


def told(log: str, events: list[JsonObject], refused: Refused) -> bool:
    """Tell whether a line of the log, a Warning or the object's status names it and what is wrong in it."""
    lines = [refused.status, *(line for line in log.splitlines() if refused.name in line)]
    lines += [
        event["note"] for event in events if event["type"] == "Warning" and event["regarding"].get("uid") == refused.uid
    ]
    return any(field in line for line in lines for field in refused.fields)


def test_gangs_start_beside_hostile_objects(
    request: pytest.FixtureRequest,
    local_cluster: LocalCluster,
    cluster: Sandbox,
    hostile_muster: Server,
    storm: HostileStorm,
) -> None:
    """Whatever valid objects there are, Muster lives, holds nothing up, starts others' gangs, and says what is odd."""
    seconds, seed = (request.config.getoption(f"--hostile-{name}") for name in ("seconds", "seed"))
    stopping, url = threading.Event(), f"http://127.0.0.1:{local_cluster.muster_port}"
    thread = threading.Thread(target=storm.run, args=(stopping,))
    took: list[float] = []
    busiest, ends = 0.0, time.monotonic() + seconds
    with Sampler(url, hostile_muster.pid) as sampler:
        thread.start()
        try:
            while time.monotonic() < ends and thread.is_alive():
                gang = cluster.gang(
                    f"good-{len(took)}", namespace=GOOD, members=4, labels={"muster.dev/queue": GOOD}, spec=_POD
                )
                took.append(gang.wait_bound(timeout=GIVEN_UP))
                gang.delete()
                hostile_muster.check()
                busiest = max(busiest, sampler.page().sum("muster_event_loop_longest_busy_seconds"))
        finally:
            stopping.set()
            thread.join()
        refused = storm.refused_by_muster()
        time.sleep(1)
        busiest = max(busiest, sampler.page().sum("muster_event_loop_longest_busy_seconds"))
        skipped = sampler.page().sum("muster_undecodable_objects_total")
    assert httpx.get(f"{url}/healthz", trust_env=False).text == "ok\n"
    log = hostile_muster.command.log_path.read_text(encoding="utf-8", errors="replace")
    events = cluster.api.list_items(EVENTS)
    silent = [each for each in refused if each.kind not in OF_GANGS and not told(log, events, each)]
    taken, rejected = sum(kind.taken for kind in storm.kinds), sum(sum(kind.refused.values()) for kind in storm.kinds)
    sys.stdout.write(
        f"HOSTILE seed {seed}: {taken} requests taken, {rejected} refused by the server, {len(took)} good gangs "
        f"p50 {quantile(took, 0.5):.2f} most {max(took):.2f} s, longest turn {busiest * 1000:.0f} ms, "
        f"{len(refused)} objects at the end with something wrong, {len(silent)} of them untold; {skipped:.0f} "
        f"objects and events could not be decoded; memory {memory(hostile_muster) / 1e6:.0f} MB\n"
        f"  by kind (taken+refused): {', '.join(map(str, storm.kinds))}\n  without: {', '.join(storm.missing)}\n"
    )
    sys.stdout.writelines(f"  the server's own: {each}\n" for each in storm.strange[:5])
    mistake = _WRONG.search(log)
    assert mistake is None, log[mistake.start() :][:3000]
    assert busiest < LONGEST_TURN
    assert not silent, "\n".join(map(str, silent))
    assert not (never := [kind.row.name for kind in storm.kinds if seconds >= THOROUGH and not kind.taken]), never
