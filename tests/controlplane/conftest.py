"""The real control plane, started once per test session, and an emptied cluster for every test.

`cluster` is what most tests need: words to fill it (`cluster.nodes(4, gpus=8)`,
`cluster.gang("job", members=4, gpus=8)`) and live views of it. `muster` and `stock_scheduler` add who schedules.
The `native_` fixtures are the same on a second control plane, whose feature gates serve native PodGroups; the
`device_` fixtures on a third one, where kube-controller-manager looks after claims of devices.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from localcluster.build import built_binaries
from localcluster.client import QUEUES
from localcluster.cluster import LocalCluster
from localcluster.components import SCHEDULER_CONFIGS, SchedulerProfile
from localcluster.controlplane import COMPOSITE_API_SERVER, STOCK_API_SERVER, ApiServerOptions
from localcluster.credentials import Connection
from localcluster.devices import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from localcluster.errors import ApiError
from localcluster.faults.api import ApiProxy
from localcluster.faults.verbs import VerbProxy
from localcluster.history import SCHEDULING, Recorder
from localcluster.ports import LOOPBACK
from localcluster.processes import Server
from localcluster.programs import DEFAULT_BINARIES, DEVICE_BINARIES, Release
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.blows import Blows
from tests.controlplane.judging import history_of
from tests.judge import Tolerance, judge, report

#: They have earlier drafts of that API: 1.35 Workloads (v1alpha1), 1.36 PodGroups in v1alpha2.
WITHOUT_NATIVE_PODGROUPS = (Release.V1_35, Release.V1_36)

#: How long a gang may take to start whose room nobody else can use (seconds): three times the aim of 5 s, since the
#: gate is to be green on a machine three times slower.
PROMPT_SECONDS = 15.0
#: Processor seconds that one turn of the loop may take: ten times the aim of 50 ms (docs/stalls.md). A pass that does
#: not yield takes seconds (1.1 s for 1,000 gangs, 24 s for 5,000), and the gate is to be green on a slower machine that
#: others use too. The figure itself is in the report.
LONGEST_TURN = 0.5

StartMuster = Callable[..., Server]


@contextmanager
def running_cluster(
    directories: pytest.TempPathFactory, name: str, options: ApiServerOptions, release: Release
) -> Iterator[LocalCluster]:
    """Run a control plane with kwok and Muster's manifests in a folder of its own."""
    with LocalCluster(directories.mktemp(name), built_binaries(release=release), options) as running:
        yield running


@contextmanager
def muster_starter(running: LocalCluster, connection: Connection | None = None) -> Iterator[StartMuster]:
    """Yield a function that starts Muster with further command-line arguments; it ends with the test."""
    started: list[Server] = []

    def start(*arguments: str) -> Server:
        server = running.muster(arguments, connection=connection)
        started.append(server)
        server.start()
        return server

    try:
        yield start
    finally:
        for server in started:
            server.kill()


@pytest.fixture(scope="session")
def release(pytestconfig: pytest.Config) -> Release:
    """Return the version of Kubernetes that `--kubernetes` asks for."""
    chosen: Release = pytestconfig.getoption("--kubernetes")
    return chosen


@pytest.fixture(scope="session")
def local_cluster(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[LocalCluster]:
    """Run a stock API server with kwok and Muster's manifests, but no scheduler yet."""
    with running_cluster(tmp_path_factory, "cluster", STOCK_API_SERVER, release) as running:
        yield running


@pytest.fixture(scope="session")
def _sandbox(local_cluster: LocalCluster) -> Iterator[Sandbox]:
    with Sandbox(local_cluster.admin) as sandbox:
        yield sandbox


@pytest.fixture
def cluster(local_cluster: LocalCluster, _sandbox: Sandbox) -> Sandbox:
    """Return the cluster, without pods, PodGroups or nodes."""
    local_cluster.check()
    _sandbox.reset()
    return _sandbox


@pytest.fixture
def tenant(cluster: Sandbox) -> Iterator[str]:
    """Return the namespace of a tenant whose gangs do not start."""
    with cluster.namespace("tenant") as name:
        yield name


@pytest.fixture
def other(cluster: Sandbox) -> Iterator[str]:
    """Return the namespace of another tenant."""
    with cluster.namespace("other") as name:
        yield name


@pytest.fixture(scope="session")
def stock_scheduler(local_cluster: LocalCluster) -> Server:
    """Start a kube-scheduler without extender for `schedulerName: default-scheduler`."""
    local_cluster.stock_scheduler.start()
    return local_cluster.stock_scheduler


@pytest.fixture(scope="session")
def muster_scheduler(local_cluster: LocalCluster) -> Server:
    """Start a kube-scheduler for `schedulerName: muster` that asks Muster, whether or not one runs."""
    local_cluster.muster_scheduler.start()
    return local_cluster.muster_scheduler


@pytest.fixture
def start_muster(local_cluster: LocalCluster, cluster: Sandbox, muster_scheduler: Server) -> Iterator[StartMuster]:
    """Start Muster under its ServiceAccount, with further command-line arguments: `start_muster("--config", path)`."""
    assert cluster.empty
    muster_scheduler.check()
    with muster_starter(local_cluster) as start:
        yield start


@pytest.fixture
def muster(start_muster: StartMuster) -> Server:
    """Start a Muster of this test's own; it may be killed, paused and started again on the same port."""
    return start_muster()


@pytest.fixture
def api_proxy(local_cluster: LocalCluster) -> Iterator[ApiProxy]:
    """Run a proxy in front of the API server, for Muster."""
    with ApiProxy(local_cluster.service_account("muster")) as proxy:
        yield proxy
        proxy.check()


@pytest.fixture(scope="module")
def _verb_proxy(local_cluster: LocalCluster) -> Iterator[VerbProxy]:
    with VerbProxy(local_cluster.muster_port) as proxy:
        yield proxy


@pytest.fixture
def verb_proxy(_verb_proxy: VerbProxy) -> Iterator[VerbProxy]:
    """Return the proxy in front of Muster, for `proxied_scheduler`: without rules, its record empty."""
    _verb_proxy.forget()
    yield _verb_proxy
    _verb_proxy.clear()
    _verb_proxy.check()


@pytest.fixture(scope="module")
def proxied_scheduler(local_cluster: LocalCluster, _verb_proxy: VerbProxy) -> Iterator[Server]:
    """Run a kube-scheduler that asks Muster through the verb proxy, instead of `muster_scheduler`, for one module."""
    direct = local_cluster.muster_scheduler
    replaced = direct.running
    direct.kill()
    profile = SchedulerProfile(SCHEDULER_CONFIGS / "muster.yaml", extender_port=_verb_proxy.port)
    server = local_cluster.scheduler("proxied-scheduler", profile)
    server.start()
    yield server
    server.kill()
    if replaced:
        direct.start()


@pytest.fixture
def start_faulty_muster(
    local_cluster: LocalCluster, cluster: Sandbox, proxied_scheduler: Server, api_proxy: ApiProxy, verb_proxy: VerbProxy
) -> Iterator[StartMuster]:
    """Start Muster between the two fault proxies, which let everything pass until they are given rules."""
    assert cluster.empty
    assert not verb_proxy.requests
    proxied_scheduler.check()
    connection = api_proxy.connection(local_cluster.service_account("muster"))
    with muster_starter(local_cluster, connection) as start:
        yield start


@pytest.fixture
def faulty_muster(start_faulty_muster: StartMuster) -> Server:
    """Start a Muster of this test's own between the two fault proxies."""
    return start_faulty_muster()


@pytest.fixture
def blows(local_cluster: LocalCluster, api_proxy: ApiProxy, verb_proxy: VerbProxy) -> Blows:
    """Return the words for what happens at named points in the way of `faulty_muster`'s gangs."""
    return Blows(f"http://127.0.0.1:{local_cluster.muster_port}", api_proxy, verb_proxy)


@pytest.fixture
def tolerance() -> Tolerance:
    """Return how much the judge overlooks; modules whose faults delay news or writes for longer say so."""
    return Tolerance()


@pytest.fixture
def judged(
    request: pytest.FixtureRequest, local_cluster: LocalCluster, cluster: Sandbox, tolerance: Tolerance
) -> Iterator[None]:
    """Record the story, and judge Muster's promises from the record at the end.

    How things end is not judged: that is what the story itself says. Bind calls and deaths of Muster count where the
    story has the proxies.
    """
    assert cluster.empty
    proxy = request.getfixturevalue("verb_proxy") if "verb_proxy" in request.fixturenames else None
    blows = request.getfixturevalue("blows") if "blows" in request.fixturenames else None
    with Recorder(local_cluster.admin, (*SCHEDULING, QUEUES)) as recorder:
        yield
        recorder.catch_up()
        calls = None if proxy is None else proxy.bind_calls()
        history = history_of(recorder, calls, end=time.monotonic(), restarts=() if blows is None else blows.deaths)
    if violations := judge(history, tolerance):
        pytest.fail(report(violations), pytrace=False)


@pytest.fixture(scope="session")
def native_local_cluster(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[LocalCluster]:
    """Run an API server that serves native PodGroups and groups of them, with kwok and Muster's manifests."""
    if release in WITHOUT_NATIVE_PODGROUPS:
        pytest.skip(
            f"Kubernetes {release} does not serve PodGroups as scheduling.k8s.io/v1beta1, all that Muster reads"
        )
    with running_cluster(tmp_path_factory, "native", COMPOSITE_API_SERVER, release) as running:
        yield running


@pytest.fixture(scope="session")
def _native_sandbox(native_local_cluster: LocalCluster) -> Iterator[Sandbox]:
    with Sandbox(native_local_cluster.admin, native_pod_groups=True) as sandbox:
        yield sandbox


@pytest.fixture
def native_cluster(native_local_cluster: LocalCluster, _native_sandbox: Sandbox) -> Sandbox:
    """Return the cluster with native PodGroups, without pods, PodGroups or nodes; its gangs are native ones."""
    native_local_cluster.check()
    _native_sandbox.reset()
    return _native_sandbox


@pytest.fixture(scope="session")
def native_stock_scheduler(native_local_cluster: LocalCluster) -> Server:
    """Start a kube-scheduler without extender that schedules native PodGroups."""
    native_local_cluster.stock_scheduler.start()
    return native_local_cluster.stock_scheduler


@pytest.fixture(scope="session")
def native_muster_scheduler(native_local_cluster: LocalCluster) -> Server:
    """Start a kube-scheduler with native PodGroups for `schedulerName: muster` that asks Muster."""
    native_local_cluster.muster_scheduler.start()
    return native_local_cluster.muster_scheduler


@pytest.fixture
def native_muster(
    native_local_cluster: LocalCluster, native_cluster: Sandbox, native_muster_scheduler: Server
) -> Iterator[Server]:
    """Start a Muster of this test's own on the control plane with native PodGroups."""
    assert native_cluster.empty
    native_muster_scheduler.check()
    with muster_starter(native_local_cluster) as start:
        yield start()


@pytest.fixture(scope="session")
def device_local_cluster(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[LocalCluster]:
    """Run an API server with kwok, Muster's manifests, and the controllers of claims of devices."""
    if not release.has_controllers:
        pytest.skip(f"no kube-controller-manager is built of Kubernetes {release}")
    binaries = built_binaries((*DEFAULT_BINARIES, *DEVICE_BINARIES), release=release)
    with LocalCluster(tmp_path_factory.mktemp("devices"), binaries, controllers=True) as running:
        yield running


@pytest.fixture(scope="session")
def _device_sandbox(device_local_cluster: LocalCluster) -> Iterator[Sandbox]:
    with Sandbox(device_local_cluster.admin) as sandbox:
        yield sandbox


@pytest.fixture
def device_cluster(device_local_cluster: LocalCluster, _device_sandbox: Sandbox) -> Sandbox:
    """Return a cluster whose controllers look after claims of devices, without pods, nodes, devices or claims."""
    device_local_cluster.check()
    _device_sandbox.reset()
    api = device_local_cluster.admin
    for item in api.list_items(RESOURCE_CLAIMS):
        about = item["metadata"]
        with contextlib.suppress(ApiError):  # a controller may be faster
            api.patch(RESOURCE_CLAIMS, about["name"], {"metadata": {"finalizers": None}}, namespace=about["namespace"])
            api.delete(RESOURCE_CLAIMS, about["name"], about["namespace"])
    for resource in (RESOURCE_SLICES, DEVICE_CLASSES):
        api.delete_all(resource)
    api.delete_all(RESOURCE_CLAIM_TEMPLATES, "default")
    return _device_sandbox


@pytest.fixture(scope="session")
def device_stock_scheduler(device_local_cluster: LocalCluster) -> Server:
    """Start a kube-scheduler without extender for `schedulerName: default-scheduler`, beside the devices."""
    device_local_cluster.stock_scheduler.start()
    return device_local_cluster.stock_scheduler


@pytest.fixture(scope="session")
def device_muster_scheduler(device_local_cluster: LocalCluster) -> Server:
    """Start a kube-scheduler for `schedulerName: muster` that asks Muster, beside the devices."""
    device_local_cluster.muster_scheduler.start()
    return device_local_cluster.muster_scheduler


@pytest.fixture
def device_muster(
    device_local_cluster: LocalCluster, device_cluster: Sandbox, device_muster_scheduler: Server
) -> Iterator[Server]:
    """Start a Muster of this test's own on the control plane with controllers of devices."""
    assert device_cluster.empty
    device_muster_scheduler.check()
    with muster_starter(device_local_cluster) as start:
        yield start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every server's log with a failed test: the folder is gone when somebody could look."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            if isinstance(value, LocalCluster):
                report.sections += [(f"end of {name}.log", tail) for name, tail in value.log_tails().items()]
    return report


def explained(cluster: LocalCluster, gang: Gang) -> str:
    """Return why a gang waits, as `muster explain` asks for it."""
    url = f"http://{LOOPBACK}:{cluster.muster_port}/api/v1/gangs/{gang.namespace}/{gang.name}/explain"
    answer = httpx.get(url, trust_env=False)
    told = answer.json()["reason"] if answer.is_success else {"code": answer.status_code, "message": answer.text}
    return "" if told is None else f"{told['code']}: {told['message']}"
