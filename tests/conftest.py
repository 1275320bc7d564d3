"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from localcluster.programs import NEWEST, Release
from tests.examples import register_profiles
from tests.worlds import World

register_profiles()

#: Folders and files that `make test` leaves to `make nightly`: they test the instruments, not Muster, or they repeat
#: on the real control plane what shorter stories decide.
NIGHTLY = (
    "bench",
    "image",
    "kind",
    "localcluster",
    "docs/test_site.py",
    "fuzz/test_guided.py",
    "controlplane/test_adapters.py",
    "controlplane/test_benchmark.py",
    "controlplane/test_facts.py",
    "controlplane/test_helm.py",
    "controlplane/test_kind.py",
    "controlplane/test_reference_cluster.py",
    "controlplane/test_scale.py",
    "controlplane/test_soak.py",
    "controlplane/test_storm.py",
    "controlplane/test_versions.py",
)
#: Of tests/controlplane/test_storm.py.
STORM_OPTIONS = (
    ("--storm-gangs", 40, "how many gangs a storm has"),
    ("--storm-seed", 1, "the first storm's seed"),
    ("--storm-seeds", 1, "how many storms there are, of successive seeds"),
)
#: Of tests/controlplane/test_device_mixes.py.
DEVICE_OPTIONS = (
    ("--device-rounds", 2, "how many mixes of gangs with devices there are, of successive seeds"),
    ("--device-seed", 1, "the seed of the first of them"),
)
#: Of tests/controlplane/test_random_tenants.py.
TENANT_OPTIONS = (
    ("--tenant-seed", 1, "the first seed of the rounds of a bad tenant"),
    ("--tenant-rounds", 5, "how many rounds there are, of successive seeds"),
)
#: Of tests/controlplane/test_hostile_objects.py.
HOSTILE_OPTIONS = (
    ("--hostile-seed", 1, "the seed of the storm of objects"),
    ("--hostile-seconds", 15, "how long it goes on"),
)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Let Ctrl-C reach the programs that tests start: a shell's background job ignores SIGINT, and so would they."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what a test that runs a whole command does to the logging of its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def world() -> World:
    """Return an empty world that has been rebuilt."""
    return World()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only `make nightly` runs."""
    tests = Path(__file__).parent
    for item in items:
        if any(item.path.is_relative_to(tests / name) for name in NIGHTLY):
            item.add_marker(pytest.mark.nightly)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the version of the real control plane and the size of storms.

    Here, as pytest asks only this folder's conftest for options.
    """
    parser.addoption(
        "--kubernetes",
        type=Release,
        choices=list(Release),
        default=NEWEST,
        help=f"minor version of Kubernetes for the control-plane tests [default: {NEWEST}]",
    )
    parser.addoption("--storm-flavours", default="alone,outages,replicas", help="storms to play [default: %(default)s]")
    parser.addoption("--storm-record", type=Path, help="file of the storms that were played; others are, and added")
    parser.addoption("--long", action="store_true", help="let the stories of outages and of scale take minutes")
    parser.addoption("--reclaims", type=int, default=1, help="how often quota is reclaimed [default: 1]")
    parser.addoption("--tenant-gates", action="store_true", help="give the pods of both tenants Muster's gate")
    for name, default, text in (*STORM_OPTIONS, *TENANT_OPTIONS, *DEVICE_OPTIONS, *HOSTILE_OPTIONS):
        parser.addoption(name, type=int, default=default, help=f"{text} [default: {default}]")
