"""The real control plane, started once per test session, and an emptied cluster for every test.

`cluster` is what most tests need: words to fill it (`cluster.nodes(4, gpus=8)`,
`cluster.gang("job", members=4, gpus=8)`) and live views of it. `muster` and `stock_scheduler` add who schedules.
The `native_` fixtures are the same on a second control plane, whose feature gates serve native PodGroups.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

from localcluster.build import built_binaries
from localcluster.cluster import LocalCluster
from localcluster.controlplane import NATIVE_PODGROUP_API_SERVER, STOCK_API_SERVER, ApiServerOptions
from localcluster.processes import Server
from localcluster.sandbox import Sandbox

StartMuster = Callable[..., Server]


@contextmanager
def running_cluster(
    directories: pytest.TempPathFactory, name: str, options: ApiServerOptions
) -> Iterator[LocalCluster]:
    """Run a control plane with kwok and Muster's manifests in a folder of its own."""
    with LocalCluster(directories.mktemp(name), built_binaries(), options) as running:
        yield running


@contextmanager
def muster_starter(running: LocalCluster) -> Iterator[StartMuster]:
    """Yield a function that starts Muster with further command-line arguments; it ends with the test."""
    started: list[Server] = []

    def start(*arguments: str) -> Server:
        server = running.muster(arguments)
        started.append(server)
        server.start()
        return server

    try:
        yield start
    finally:
        for server in started:
            server.kill()


@pytest.fixture(scope="session")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run a stock 1.37 API server with kwok and Muster's manifests, but no scheduler yet."""
    with running_cluster(tmp_path_factory, "cluster", STOCK_API_SERVER) as running:
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


@pytest.fixture(scope="session")
def native_local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run a 1.37 API server that serves native PodGroups, with kwok and Muster's manifests."""
    with running_cluster(tmp_path_factory, "native", NATIVE_PODGROUP_API_SERVER) as running:
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every server's log with a failed test: the folder is gone when somebody could look."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            if isinstance(value, LocalCluster):
                report.sections += [(f"end of {name}.log", tail) for name, tail in value.log_tails().items()]
    return report
