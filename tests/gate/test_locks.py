"""The lock files: complete, hashed, and silent about where packages come from."""

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = ["requirements.lock", "requirements-build.lock", "requirements-dev.lock", "requirements-release.lock"]
MAKE_LOCK = "run `make lock`"


def entries(lock: Path) -> list[str]:
    """Return the requirements of a lock file, each with its hashes on one line, without comments."""
    lines = [line for line in lock.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [entry for entry in "\n".join(lines).replace("\\\n", " ").splitlines() if entry.strip()]


def pins(lock: Path) -> set[Requirement]:
    """Return the pinned requirements of a lock file, hashes removed."""
    return {Requirement(entry.split(" --hash=")[0].strip()) for entry in entries(lock)}


def satisfied(wanted: Requirement, pinned: set[Requirement]) -> bool:
    """Tell whether every pin of the wanted package is a version it allows, and there is at least one."""
    versions = [
        clause.version
        for pin in pinned
        if canonicalize_name(pin.name) == canonicalize_name(wanted.name)
        for clause in pin.specifier
    ]
    return bool(versions) and all(wanted.specifier.contains(version) for version in versions)


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_is_pinned_and_hashed(repository: Path, name: str) -> None:
    """A lock entry is one exact version, from the index pip is set up with, and carries sha256 hashes."""
    shape = re.compile(r"[a-z0-9-]+==[\w.!+]+(?: ; [^;]+?)?(?:\s+--hash=sha256:[0-9a-f]{64})+")
    odd = [entry for entry in entries(repository / name) if not shape.fullmatch(entry.strip())]
    assert entries(repository / name)
    assert odd == []


def test_runtime_dependencies_are_locked(repository: Path, pyproject: dict[str, Any]) -> None:
    """Every dependency in pyproject.toml, and of each extra, is in requirements.lock at a version that it allows."""
    pinned, project = pins(repository / "requirements.lock"), pyproject["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    missing = [line for line in wanted if not satisfied(Requirement(line), pinned)]
    assert missing == [], MAKE_LOCK


@pytest.mark.parametrize("group", ["build", "dev", "release"])
def test_dependency_groups_are_locked(repository: Path, pyproject: dict[str, Any], group: str) -> None:
    """Every requirement of a dependency group is in that group's lock at a version that it allows."""
    pinned = pins(repository / f"requirements-{group}.lock")
    wanted = [line for line in pyproject["dependency-groups"][group] if isinstance(line, str)]
    missing = [line for line in wanted if not satisfied(Requirement(line), pinned)]
    assert missing == [], MAKE_LOCK


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_tests_run_with_the_versions_that_are_shipped(repository: Path, name: str) -> None:
    """The development lock holds the runtime and build locks, pin for pin, on the same platforms or on all."""
    development = {str(pin) for pin in pins(repository / "requirements-dev.lock")}
    shipped = pins(repository / name)
    missing = [pin for pin in shipped if not {str(pin), f"{pin.name}{pin.specifier}"} & development]
    assert missing == [], MAKE_LOCK
