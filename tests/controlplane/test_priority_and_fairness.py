"""API Priority and Fairness of the real API server: Muster without a seat, and with those of a kube-scheduler."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
import pytest
import yaml

from localcluster.client import JsonObject, Resource
from localcluster.cluster import MUSTER_NAMESPACE, LocalCluster
from localcluster.credentials import Connection
from localcluster.manifests import MANIFESTS
from localcluster.metrics import read_metric
from localcluster.ports import LOOPBACK
from localcluster.processes import Server
from localcluster.replica import Replica, Replicas
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.blows import Record, start_evict_and_wait
from tests.controlplane.conftest import StartMuster, explained
from tests.judge import Tolerance

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

_GROUP = "flowcontrol.apiserver.k8s.io/v1"
FLOW_SCHEMAS = Resource(_GROUP, "FlowSchema", "flowschemas", namespaced=False)
LEVELS = Resource(_GROUP, "PriorityLevelConfiguration", "prioritylevelconfigurations", namespaced=False)

#: The level of these tests, and one whose shares leave it a single seat: 600 * 1 / (245 + 1 + 400) is rounded up to 1.
#: Source: 600 is --max-requests-inflight and its mutating twin, 245 what the levels of k8s.io/apiserver
#: pkg/apis/flowcontrol/bootstrap have.
NARROW, BALLAST = "narrow", "ballast"
_BALLAST_SHARES = 400

#: An account that has nothing to do with Muster, and may do anything in one namespace.
_STRANGER: JsonObject = {"name": "stranger", "namespace": "default"}
STRANGER: tuple[JsonObject, ...] = (
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _STRANGER},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _STRANGER,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **_STRANGER}],
    },
)

REJECT: JsonObject = {"type": "Reject"}
QUEUE: JsonObject = {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1}}

#: The precedence before all others, but for that of the schema called "exempt".
_FIRST = 2

#: Seconds in which a request without a seat is refused.
_SEATED = 1.0

#: Seconds after which a Lease of the shipped configuration is lost: its renewDeadline is 4.
_LEASE_LOST = 8.0


def level(name: str, shares: int, response: JsonObject, *, lendable: int = 0) -> JsonObject:
    """Return a priority level that borrows no seats, and lends so many percent of its own."""
    limited = {"nominalConcurrencyShares": shares, "borrowingLimitPercent": 0, "lendablePercent": lendable}
    spec = {"type": "Limited", "limited": limited | {"limitResponse": response}}
    return {"apiVersion": _GROUP, "kind": LEVELS.kind, "metadata": {"name": name}, "spec": spec}


def schema(accounts: Sequence[str]) -> JsonObject:
    """Return the FlowSchema that puts all requests of these accounts into the narrow level, before any other."""
    subjects = [
        {"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": MUSTER_NAMESPACE}} for name in accounts
    ]
    resources = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
        "verbs": ["*"],
    }
    rules = [{"subjects": subjects, "resourceRules": [resources]}]
    spec = {"priorityLevelConfiguration": {"name": NARROW}, "matchingPrecedence": _FIRST, "rules": rules}
    return {"apiVersion": _GROUP, "kind": FLOW_SCHEMAS.kind, "metadata": {"name": NARROW}, "spec": spec}


class Requests:
    """One account's requests, without what a client does about refusals."""

    def __init__(self, connection: Connection) -> None:
        """Prepare a pool of connections."""
        self._headers = {"Authorization": f"Bearer {connection.token}"}
        self._context = ssl.create_default_context(cafile=connection.certificate_authority)
        self._http = httpx.Client(base_url=connection.url, headers=self._headers, verify=self._context, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @contextmanager
    def holding_a_seat(self) -> Iterator[None]:
        """Hold a seat by a request whose body does not come, for the minute at most that a request may take.

        A level without shares would not do: it serves one request as long as it serves no other.
        """
        url = self._http.base_url
        with contextlib.closing(
            http.client.HTTPSConnection(url.host, url.port, context=self._context, timeout=_SEATED)
        ) as request:
            while True:
                body = {"Content-Type": "application/json", "Content-Length": "1000"}
                request.request(
                    "POST", "/apis/events.k8s.io/v1/namespaces/default/events", headers=self._headers | body
                )
                try:
                    request.getresponse()
                except TimeoutError:  # no answer: it waits for the body
                    break
                request.close()
            yield

    def get(self, path: str, timeout: float = 30) -> httpx.Response:
        """Return the answer to a GET."""
        return self._http.get(path, timeout=timeout)

    def schema_uid(self, path: str = "/api/v1/pods?limit=1") -> str:
        """Return the UID of the FlowSchema that a GET falls under."""
        return self.get(path).headers["X-Kubernetes-PF-FlowSchema-UID"]


class Waves:
    """Take the seat of an account's level for a second, every third second, until the end.

    Attributes:
        refusals: the Retry-After of what was answered with 429 meanwhile.
    """

    def __init__(self, requests: Requests) -> None:
        """Begin."""
        self.refusals: list[str] = []
        self._requests = requests
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leave the seat to others."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(2 * _SEATED):
            with self._requests.holding_a_seat(), contextlib.suppress(httpx.TimeoutException):
                answer = self._requests.get("/api/v1/pods", timeout=_SEATED)
                if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    self.refusals.append(answer.headers["Retry-After"])


@contextmanager
def narrowed(cluster: LocalCluster, response: JsonObject, flow_schema: JsonObject, probe: Requests) -> Iterator[None]:
    """Put what `flow_schema` says, of which `probe` sends some, into a level with one seat."""
    api = cluster.admin
    made = [level(BALLAST, _BALLAST_SHARES, REJECT, lendable=100), level(NARROW, 1, response), flow_schema]
    with contextlib.ExitStack() as stack:
        for item in made:
            api.create(item)
            stack.callback(api.delete, api.resource_of(item), item["metadata"]["name"])
        uid = api.get(FLOW_SCHEMAS, NARROW)["metadata"]["uid"]
        wait_until(lambda: probe.schema_uid() == uid, timeout_seconds=10, description="the level is in force")
        yield
    wait_until(lambda: probe.schema_uid() != uid, timeout_seconds=10, description="the level is gone")


@pytest.fixture
def tolerance() -> Tolerance:
    """Return how late writes may be: the API server asks for pauses of up to 8 s."""
    return Tolerance(news=5, write=40, eviction=40)


@pytest.fixture
def account(local_cluster: LocalCluster) -> Iterator[Requests]:
    """Prepare requests as Muster's account."""
    with contextlib.closing(Requests(local_cluster.service_account("muster"))) as requests:
        yield requests


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "response",
    [pytest.param(REJECT, id="reject"), pytest.param(QUEUE, id="queue", marks=pytest.mark.nightly)],
)
def test_gangs_start_whole_though_the_only_seat_is_often_taken(  # noqa: PLR0917 - what a story needs
    cluster: Sandbox,
    muster: Server,
    local_cluster: LocalCluster,
    account: Requests,
    response: JsonObject,
    record_property: Record,
) -> None:
    """Others of Muster's own account take the level's seat: its requests meet real 429s, and gangs start whole."""
    refusals: list[str] = []

    @contextmanager
    def often_without_a_seat() -> Iterator[None]:
        with narrowed(local_cluster, response, schema(["muster"]), account):
            waves = Waves(account)
            try:
                yield
            finally:
                waves.end()
                refusals.extend(waves.refusals)

    start_evict_and_wait(cluster, often_without_a_seat(), record_property)
    metrics = f"http://{LOOPBACK}:{local_cluster.muster_port}/metrics"
    kinds = ("nomination", "binding", "eviction", "status", "event")
    retried = [read_metric(metrics, f'muster_writes_total{{kind="{kind}",result="retried"}}') for kind in kinds]
    record_property("writes of Muster that met a 429", sum(retried))
    assert all(int(seconds) >= 1 for seconds in refusals)
    assert sum(retried) > 0
    muster.check()


@pytest.mark.timeout(300)
def test_without_any_seat_gangs_wait_and_say_so(
    cluster: Sandbox, muster: Server, local_cluster: LocalCluster, account: Requests
) -> None:
    """What waits names the 429; a Muster that starts meanwhile is not ready; all goes on when there are seats again."""
    cluster.nodes(4, gpus=8)
    with narrowed(local_cluster, REJECT, schema(["muster"]), account), account.holding_a_seat():
        gang = cluster.gang("gang", members=4, gpus=8)
        wait_until(lambda: "429" in explained(local_cluster, gang), timeout_seconds=30, description="the 429 is told")
        assert explained(local_cluster, gang).startswith("BindingRefused: ")
        assert not gang.bound
        muster.kill()
        muster.launch()
        address = f"http://{LOOPBACK}:{local_cluster.muster_port}/readyz"

        def unready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return "not synced" in httpx.get(address, trust_env=False).text
            return False

        wait_until(unready, timeout_seconds=30, description="Muster waits for its lists")
    muster.wait_ready()
    gang.wait_bound(4, timeout=60)
    bound = [binding.uid for binding in cluster.bindings()]
    assert len(bound) == len(set(bound)) == 4


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_lease_that_cannot_be_renewed_is_regained(
    cluster: Sandbox, local_cluster: LocalCluster, account: Requests
) -> None:
    """Without seats kube-scheduler loses the Lease and ends, and Muster stands by; then one gang ends whole, once."""
    other = local_cluster.muster_scheduler
    replaced = other.running
    other.kill()
    replica = Replica(local_cluster, "narrow-a")
    replicas = Replicas(local_cluster.admin, [replica])
    try:
        replicas.start()
        cluster.nodes(4, gpus=8)
        both = schema(["muster", "muster-scheduler"])
        with narrowed(local_cluster, REJECT, both, account), account.holding_a_seat():
            gang = cluster.gang("gang", members=4, gpus=8)
            wait_until(lambda: not replica.leading, timeout_seconds=30, description="Muster stands by")
            wait_until(lambda: not replica.scheduler.running, timeout_seconds=30, description="kube-scheduler ended")
            time.sleep(_LEASE_LOST)
            assert not gang.bound
            replica.scheduler.launch()  # as a kubelet does
        replicas.wait_leader()
        gang.wait_bound(4, timeout=60)
    finally:
        replica.kill()
        if replaced:
            other.start()
    bound = [binding.uid for binding in cluster.bindings()]
    assert len(bound) == len(set(bound)) == 4


def test_with_its_flow_schemas_muster_starts_gangs_while_other_accounts_have_no_seat(
    cluster: Sandbox, start_muster: StartMuster, local_cluster: LocalCluster, account: Requests
) -> None:
    """The component puts its requests and its Lease into a kube-scheduler's levels, by the API server's own account."""
    api = local_cluster.admin
    text = (MANIFESTS / "components" / "flow-control" / "flowschemas.yaml").read_text(encoding="utf-8")
    schemas: list[JsonObject] = list(yaml.safe_load_all(text))
    everyone = schema([])
    everyone["spec"]["rules"][0]["subjects"] = [{"kind": "Group", "group": {"name": "system:serviceaccounts"}}]
    everyone["spec"]["matchingPrecedence"] = 1000
    with contextlib.ExitStack() as stack:

        def requests_of(name: str, namespace: str = MUSTER_NAMESPACE) -> Requests:
            connection = local_cluster.service_account(name, namespace)
            return stack.enter_context(contextlib.closing(Requests(connection)))

        for item in (*STRANGER, *schemas):
            api.apply(item)
            namespace = item["metadata"].get("namespace")
            stack.callback(api.delete, api.resource_of(item), item["metadata"]["name"], namespace)
        stranger, scheduler = requests_of("stranger", "default"), requests_of("muster-scheduler")
        uid = api.get(FLOW_SCHEMAS, "muster")["metadata"]["uid"]
        wait_until(lambda: account.schema_uid() == uid, timeout_seconds=10, description="the FlowSchema is in force")
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{MUSTER_NAMESPACE}/leases/muster"
        assert scheduler.schema_uid(lease) == api.get(FLOW_SCHEMAS, "muster-leader-election")["metadata"]["uid"]
        with narrowed(local_cluster, REJECT, everyone, stranger), stranger.holding_a_seat():
            assert stranger.get("/api/v1/pods").status_code == httpx.codes.TOO_MANY_REQUESTS
            muster = start_muster()
            cluster.nodes(4, gpus=8)
            cluster.gang("gang", members=4, gpus=8).wait_bound(4)
            muster.check()
        with contextlib.closing(Requests(local_cluster.control_plane.admin)) as admin:
            served = admin.get("/metrics").text
    series = [line for line in served.splitlines() if line.startswith("apiserver_flowcontrol_dispatched_requests")]
    assert any('flow_schema="muster"' in line and 'priority_level="workload-high"' in line for line in series)
