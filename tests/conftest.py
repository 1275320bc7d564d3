"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from localcluster.programs import NEWEST, Release

# Two workers share two cores with everything else: how long one example takes says nothing.
settings.register_profile("muster", deadline=None)
settings.load_profile("muster")

#: Of tests/controlplane/test_storm.py.
STORM_OPTIONS = (
    ("--storm-gangs", 40, "how many gangs a storm has"),
    ("--storm-seed", 1, "the first storm's seed"),
    ("--storm-seeds", 1, "how many storms there are, of successive seeds"),
)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what a test that runs a whole command does to the logging of its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


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
    parser.addoption("--long", action="store_true", help="let the stories of outages and of scale take minutes")
    parser.addoption("--reclaims", type=int, default=2, help="how often quota is reclaimed [default: 2]")
    for name, default, text in STORM_OPTIONS:
        parser.addoption(name, type=int, default=default, help=f"{text} [default: {default}]")
