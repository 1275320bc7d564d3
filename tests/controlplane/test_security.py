"""Who may call Muster, what Muster may do, and what it never says: on a control plane with an audit log, over TLS."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from extender.objects.keys import ADMISSION_GATE
from localcluster.build import built_binaries
from localcluster.client import EVENTS, NAMESPACES, POD_GROUPS, PODS, JsonObject
from localcluster.cluster import MUSTER_NAMESPACE, MUSTER_SERVICE_ACCOUNT, LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.controlplane import COMPOSITE_API_SERVER, ApiServerOptions
from localcluster.manifests import apply_all
from localcluster.metrics import read_metric
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.waiting import wait_until
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.reaching import make_caller, role_binding
from tests.controlplane.volumes import VOLUMES, bind_claim, claim, mount, storage_class, volume
from tests.kube.certificates import Certificate, make_certificate

pytestmark = pytest.mark.controlplane

USER = f"system:serviceaccount:{MUSTER_NAMESPACE}:{MUSTER_SERVICE_ACCOUNT}"

#: Every request of Muster's, without its content.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [USER]}],
}

#: What every client that is authenticated may ask about itself, by the ClusterRole system:basic-user.
OWN_RIGHTS = ("authorization.k8s.io", "selfsubjectrulesreviews", "create")
#: Grove has renamed this kind: a cluster serves it by one of two names, here by the newer.
OTHER_NAMES = {("grove.io", "clustertopologies", verb) for verb in ("list", "watch")}
#: What the authorizers decided about a request, in the audit log. A 403 has other causes: a namespace that is being
#: deleted takes no new events.
DECISION = "authorization.k8s.io/decision"

#: A Queue for all namespaces, without quota.
QUEUE: JsonObject = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "everybody"},
    "spec": {"default": True},
}

#: (API group, resource with subresource, verb), as in RBAC and in the audit log.
Right = tuple[str, str, str]


@dataclass(frozen=True)
class Secured:
    """A control plane whose kube-scheduler calls Muster with a client certificate, and the files of both."""

    running: LocalCluster
    folder: Path
    audit_log: Path
    health_port: int
    certificates: dict[str, Certificate]

    def mount(self, serving: str, client: str) -> None:
        """Put these certificates in both parties' places; each file is replaced in one step."""
        server, caller = self.certificates[serving], self.certificates[client]
        for source, name in (
            (server.certificate, "tls.crt"),
            (server.key, "tls.key"),
            (caller.certificate, "client-ca.crt"),
            (caller.certificate, "client.crt"),
            (caller.key, "client.key"),
        ):
            new = self.folder / f"{name}.new"
            shutil.copy(source, new)
            new.replace(self.folder / name)

    def muster(self, *arguments: str) -> Server:
        """Return a Muster that takes the verbs over mutual TLS, to be started."""
        settings = self.folder / "settings.yaml"
        settings.write_text("certificate_check_seconds: 0.1\nveto_seconds: 1\n", encoding="utf-8")
        return self.running.muster(
            [
                *("--config", str(settings), "--metrics-port", str(self.health_port)),
                *("--scheduler-lease", f"{MUSTER_NAMESPACE}/muster"),
                *("--tls-cert-file", str(self.folder / "tls.crt")),
                *("--tls-private-key-file", str(self.folder / "tls.key")),
                *("--client-ca-file", str(self.folder / "client-ca.crt")),
                *arguments,
            ],
            health_port=self.health_port,
        )

    def caller(self, client: str | None) -> httpx.Client:
        """Return a client that shows the certificate of this name."""
        tls = ssl.create_default_context(cafile=self.folder / "servers.crt")
        if client is not None:
            tls.load_cert_chain(self.certificates[client].certificate, self.certificates[client].key)
        return httpx.Client(base_url=f"https://127.0.0.1:{self.running.muster_port}", verify=tls, trust_env=False)

    def metric(self, series: str) -> float:
        """Read one series of Muster's metrics, 0 where it does not exist yet."""
        return read_metric(self.metrics_url, series)

    def metrics(self) -> str:
        """Return all of Muster's metrics."""
        return httpx.get(self.metrics_url, trust_env=False).text

    @property
    def metrics_url(self) -> str:
        """Return where Muster's metrics are."""
        return f"http://127.0.0.1:{self.health_port}/metrics"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Run a control plane with an audit log, which serves all kinds of PodGroups, and a kube-scheduler for TLS."""
    folder = tmp_path_factory.mktemp("security")
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT_POLICY), encoding="utf-8")
    arguments = [f"--audit-policy-file={folder / 'audit.yaml'}", f"--audit-log-path={folder / 'audit.log'}"]
    arguments.append("--feature-gates=WatchList=false")  # an older server's way: it is listed, then watched
    native = COMPOSITE_API_SERVER
    options = ApiServerOptions(native.feature_gates, native.runtime_config, arguments)
    certificates = {name: make_certificate(folder, name) for name in ("server-1", "server-2", "client-1", "client-2")}
    servers = [certificates[name].certificate.read_text() for name in ("server-1", "server-2")]
    (folder / "servers.crt").write_text("".join(servers), encoding="utf-8")
    with LocalCluster(tmp_path_factory.mktemp("secured"), built_binaries(), options) as running:
        apply_all(running.admin, foreign_definitions())  # what is not installed is never listed
        (health_port,) = free_ports(1)
        made = Secured(running, folder, folder / "audit.log", health_port, certificates)
        made.mount("server-1", "client-1")
        profile = SchedulerProfile(_tls_config(made), leader_election=True)
        running.scheduler("tls-scheduler", profile, running.service_account("muster-scheduler")).start()
        yield made


def _tls_config(secured: Secured) -> Path:
    """Write the shipped scheduler configuration with what TLS needs, as docs/security.md has it."""
    document: JsonObject = yaml.safe_load((SCHEDULER_CONFIGS / "muster.yaml").read_text(encoding="utf-8"))
    (extender,) = document["extenders"]
    extender["urlPrefix"] = f"https://127.0.0.1:{secured.running.muster_port}/v1"
    extender["enableHTTPS"] = True
    extender["tlsConfig"] = {
        "certFile": str(secured.folder / "client.crt"),
        "keyFile": str(secured.folder / "client.key"),
        "caFile": str(secured.folder / "servers.crt"),
    }
    path = secured.folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def _sandbox(secured: Secured) -> Iterator[Sandbox]:
    with Sandbox(secured.running.admin) as sandbox:
        yield sandbox


@pytest.fixture
def cluster(secured: Secured, _sandbox: Sandbox) -> Sandbox:
    """Return the cluster, without pods, PodGroups or nodes."""
    secured.running.check()
    _sandbox.reset()
    secured.mount("server-1", "client-1")
    return _sandbox


@pytest.fixture
def start_muster(secured: Secured, cluster: Sandbox) -> Iterator[Callable[..., Server]]:
    """Start Muster for mutual TLS with further arguments; it ends with the test."""
    assert cluster.empty
    started: list[Server] = []

    def start(*arguments: str) -> Server:
        started.append(secured.muster(*arguments))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.kill()


def test_a_gang_starts_over_mutual_tls_while_all_certificates_are_replaced(
    secured: Secured, cluster: Sandbox, start_muster: Callable[..., Server]
) -> None:
    """A bind that is held under the old certificates is answered, and the last member comes with the new ones."""
    muster = start_muster("--allowed-client-name", "client-1", "--allowed-client-name", "client-2")
    cluster.nodes(2, gpus=8)
    cluster.create(storage_class())
    cluster.create(volume("volume-0", "node-1"))
    cluster.api.patch(VOLUMES, "volume-0", {"status": {"phase": "Available"}}, subresource="status")
    cluster.create(claim("data"))
    free = cluster.role("free", 1, gpus=1)
    last = cluster.role("last", 1, gpus=1, spec=mount("data"))  # kube-scheduler binds it after its volume
    gang = cluster.gang("gang", roles=[free, last])
    wait_until(
        lambda: "claimRef" in cluster.api.get(VOLUMES, "volume-0")["spec"],
        timeout_seconds=15,
        description="kube-scheduler has chosen the volume",
    )
    wait_until(lambda: secured.metric("muster_binds_held") == 1, timeout_seconds=10, description="one bind held")
    secured.mount("server-2", "client-2")
    expiry = secured.metric('muster_certificate_expiry_seconds{certificate="serving"}')
    wait_until(
        lambda: secured.metric('muster_certificate_reloads_total{result="ok"}') >= 1,
        timeout_seconds=5,
        description="certificates read again",
    )
    bind_claim(cluster, "data", "volume-0")
    gang.wait_bound(2, timeout=40)
    assert len([binding for binding in cluster.bindings() if binding.pod.startswith("gang-")]) == 2
    assert expiry > 0
    with secured.caller("client-2") as caller:
        assert caller.get("/healthz").status_code == httpx.codes.OK
    with secured.caller("client-1") as caller, pytest.raises(httpx.TransportError):
        caller.get("/healthz")
    muster.check()


def test_who_shows_no_certificate_or_a_wrong_one_cannot_bind(
    secured: Secured, cluster: Sandbox, start_muster: Callable[..., Server]
) -> None:
    """Neither a stranger's certificate nor an allowed authority's other client gets as far as a verb."""
    start_muster("--allowed-client-name", "kube-scheduler")
    cluster.nodes(1, gpus=8)
    pod = cluster.pod("pod", gpus=8, gates=("example.org/wait",))
    call = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": "node-0"}
    for stranger in (None, "client-2"):
        with secured.caller(stranger) as caller, pytest.raises(httpx.TransportError):
            caller.post("/v1/bind", json=call)
    with secured.caller("client-1") as caller:
        answer = caller.post("/v1/bind", json=call)
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert "client-1 is not among the allowed client names" in answer.text
    plain = httpx.get(f"http://127.0.0.1:{secured.health_port}/v1/bind", trust_env=False)
    assert plain.status_code == httpx.codes.NOT_FOUND
    assert "muster_verb_seconds_count{" not in secured.metrics()


def suspended(namespace: str) -> Iterator[JsonObject]:
    """Yield an object of one pod of each kind that can be suspended; all are, and wait in the queue."""
    container = {"name": "worker", "image": "worker", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "job", "namespace": namespace, "labels": {"muster.dev/queue": QUEUE["metadata"]["name"]}}
    jobs = [{"name": "workers", "template": {"spec": {"template": template}}}]
    cluster = {"headGroupSpec": {"template": template}}
    ray_job = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    for api_version, kind, spec in (
        ("batch/v1", "Job", {"suspend": True, "template": template}),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"suspend": True, "replicatedJobs": jobs}),
        ("ray.io/v1", "RayCluster", {"suspend": True, "headGroupSpec": {"template": template}}),
        ("ray.io/v1", "RayJob", ray_job),
    ):
        yield {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    for kind, field in (
        ("PyTorchJob", "pytorchReplicaSpecs"),
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("PaddleJob", "paddleReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
        ("MPIJob", "mpiReplicaSpecs"),
    ):
        spec = {"runPolicy": {"suspend": True}, field: {"Worker": {"replicas": 1, "template": template}}}
        version = "v2beta1" if kind == "MPIJob" else "v1"
        own = metadata | {"name": kind.lower()}  # Kubeflow's pods do not say of which kind their job is
        yield {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": own, "spec": spec}


def test_muster_uses_every_right_that_it_is_granted_and_needs_no_other(
    secured: Secured, cluster: Sandbox, start_muster: Callable[..., Server]
) -> None:
    """After a story with everything in it the audit log has each rule of the manifests, and not one refusal."""
    muster = start_muster()
    cluster.nodes(1, gpus=8)
    gang = cluster.gang("gang", members=2, gpus=8)
    gang.wait_condition("False", "ExceedsCluster")
    gang.members[1].delete()
    gang.wait_condition("False", "MembersMissing")
    gang.members[1].create()
    wait_until(
        lambda: ("events.k8s.io", "events", "patch") in _used(secured),
        timeout_seconds=10,
        description="an event that came again is counted",
    )
    cluster.nodes(2, gpus=8)
    gang.wait_bound(2)
    gang.wait_condition("True", "Started")
    muster.kill()
    muster.start()
    cluster.pod("single", gpus=8).wait_bound()
    cluster.create(QUEUE)
    urgent = cluster.priority_class("urgent", 1000)
    cluster.gang("urgent", members=1, gpus=8, priority_class=urgent, gates=(ADMISSION_GATE,)).wait_bound(1)
    wait_until(
        lambda: ("muster.dev", "queues/status", "patch") in _used(secured),
        timeout_seconds=10,
        description="the status of a Queue is written",
    )
    cluster.nodes(1, gpus=8, prefix="more")
    with cluster.namespace("jobs") as namespace:
        cluster.api.patch(NAMESPACES, namespace, {"metadata": {"labels": {"muster.dev/manage-jobs": "true"}}})
        objects = [(cluster.api.resource_of(item), cluster.api.create(item)) for item in suspended(namespace)]

        def waiting() -> list[str]:
            found = [cluster.api.get(resource, item["metadata"]["name"], namespace) for resource, item in objects]
            return [item["kind"] for item in found if item["spec"].get("runPolicy", item["spec"])["suspend"]]

        wait_until(lambda: not waiting(), timeout_seconds=20, description="each of them is resumed")
        for resource, item in objects:
            cluster.api.delete(resource, item["metadata"]["name"], namespace)
    muster.check()

    decisions = [(entry["annotations"][DECISION], entry["verb"], entry["requestURI"]) for entry in _audit(secured)]
    assert [request for decision, *request in decisions if decision != "allow"] == []
    assert _used(secured) - _granted(secured) == {OWN_RIGHTS}, "used, and granted to every client by chance"
    assert _granted(secured) - _used(secured) == OTHER_NAMES, "granted in manifests/rbac.yaml, and never used"


def _audit(secured: Secured) -> list[JsonObject]:
    """Return the entries of the audit log, but for a line that is being written."""
    lines = secured.audit_log.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _used(secured: Secured) -> set[Right]:
    """Return what Muster has done, by the audit log; only requests about resources have an `objectRef`."""
    return {
        (about.get("apiGroup", ""), _with_subresource(about), entry["verb"])
        for entry in _audit(secured)
        if (about := entry.get("objectRef")) is not None
    }


def _with_subresource(about: JsonObject) -> str:
    return "/".join(part for part in (about["resource"], about.get("subresource")) if part)


def _granted(secured: Secured) -> set[Right]:
    """Return what the roles bound to Muster's ServiceAccount allow, at the API server."""
    rights: set[Right] = set()
    api, root = secured.running.admin, "/apis/rbac.authorization.k8s.io/v1"
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in api.request("GET", f"{root}/{kind}")["items"]:
            if not any(_is_muster(subject) for subject in binding.get("subjects", [])):
                continue
            role, namespace = binding["roleRef"], binding["metadata"].get("namespace")
            where = "clusterroles" if role["kind"] == "ClusterRole" else f"namespaces/{namespace}/roles"
            for rule in api.request("GET", f"{root}/{where}/{role['name']}")["rules"]:
                rights |= {
                    (group, resource, verb)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for verb in rule["verbs"]
                }
    return rights


def _is_muster(subject: JsonObject) -> bool:
    identity = (subject["kind"], subject["name"], subject.get("namespace"))
    return identity == ("ServiceAccount", MUSTER_SERVICE_ACCOUNT, MUSTER_NAMESPACE)


def test_no_secret_is_ever_told(secured: Secured, cluster: Sandbox, start_muster: Callable[..., Server]) -> None:
    """With every line logged, environment, annotations and tokens show up nowhere: logs, metrics, answers, objects."""
    start_muster("--log-level", "debug")
    mark = "hunter2-marked-value"
    container: JsonObject = {"name": "main", "image": "registry.example/x:1", "command": ["run", mark]}
    amounts = {"nvidia.com/gpu": "8"}
    container |= {"env": [{"name": "PASSWORD", "value": mark}], "resources": {"requests": amounts, "limits": amounts}}
    options: dict[str, Any] = {"annotations": {"example.org/token": mark}, "spec": {"containers": [container]}}
    cluster.nodes(1, gpus=8)
    gang = cluster.gang("gang", members=2, **options)
    gang.wait_message("ExceedsCluster")
    cluster.nodes(2, gpus=8)
    gang.wait_bound(2)
    single = cluster.pod("single", **options)
    single.wait_bound()
    pod = secured.running.admin.get(PODS, single.name, single.namespace)
    garbled = {"Pod": pod | {"spec": {"containers": mark}}, "NodeNames": ["node-0"]}
    bodies: list[bytes] = [
        json.dumps({"Pod": pod, "NodeNames": ["node-0", "node-1"]}).encode(),
        json.dumps(garbled).encode(),
        json.dumps(
            {"Pod": pod, "NodeNameToMetaVictims": {"node-0": {"Pods": [{"UID": pod["metadata"]["uid"]}]}}}
        ).encode(),
        json.dumps(
            {"PodName": single.name, "PodUID": single.uid, "PodNamespace": "default", "Node": "node-0"}
        ).encode(),
        f'{{"Pod": {{"spec": "{mark}"'.encode(),
    ]
    answers = []
    with secured.caller("client-1") as caller:
        headers = {"Authorization": f"Bearer {mark}"}
        for verb in ("filter", "prioritize", "bind", "preempt"):
            answers += [caller.post(f"/v1/{verb}", content=body, headers=headers).text for body in bodies]
    token = yaml.safe_load((secured.running.folder / "muster.kubeconfig").read_text())["users"][0]["user"]["token"]
    log = (secured.running.folder / "muster.log").read_text(encoding="utf-8")
    told = json.dumps(
        [
            log,
            secured.metrics(),
            answers,
            secured.running.admin.list_items(EVENTS),
            [group.get("status") for group in secured.running.admin.list_items(POD_GROUPS)],
        ]
    )
    assert "default/single" in log
    assert "cannot read ExtenderArgs" in log
    for secret in (mark, token, "BEGIN PRIVATE KEY", "BEGIN EC PRIVATE KEY"):
        assert secret not in told


def test_metrics_of_kube_scheduler_are_for_who_monitors(local_cluster: LocalCluster) -> None:
    """With `kubeScheduler.openMetrics: false` of the chart: the token of one in system:monitoring."""
    (port,) = free_ports(1)
    server = local_cluster.scheduler("guarded-scheduler", SchedulerProfile(SCHEDULER_CONFIGS / "stock.yaml"), port=port)
    (opened,) = (each for each in server.command.arguments if each.startswith("--authorization-always-allow-paths="))
    arguments = [each.removesuffix(",/metrics") if each == opened else each for each in server.command.arguments]
    server.command = replace(server.command, arguments=arguments)
    server.start()
    admin, name = local_cluster.admin, "prometheus"
    tokens = {each: make_caller(local_cluster, each, None).token for each in (name, "other")}
    binding = role_binding("", "ClusterRole", "system:monitoring", {"kind": "ServiceAccount", "name": name})
    admin.create({**binding, "kind": "ClusterRoleBinding", "metadata": {"name": "muster-prometheus"}})
    trusted = ssl.create_default_context(cafile=local_cluster.folder / "guarded-scheduler" / "kube-scheduler.crt")

    def asked(token: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"https://{LOOPBACK}:{port}/metrics", headers=headers, verify=trusted, trust_env=False)

    try:
        wait_until(lambda: asked(tokens[name]).is_success, timeout_seconds=20, description="its token is let in")
        assert "scheduler_pending_pods" in asked(tokens[name]).text
        assert [asked(token).status_code for token in ("", tokens["other"], "forged")] == [403, 403, 401]
    finally:
        server.kill()
        admin.request("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/muster-prometheus")
