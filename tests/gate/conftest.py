"""What the gate's tests look at: the repository and the files that belong to it."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def pyproject(repository: Path) -> dict[str, Any]:
    """Return pyproject.toml as a mapping."""
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def project_files(repository: Path) -> tuple[Path, ...]:
    """Return the files that are tracked, or would be with `git add --all`; sorted, absolute."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = [repository / name for name in listing.split("\0") if name]
    return tuple(sorted(file for file in files if file.is_file()))


@pytest.fixture(scope="session")
def python_files(project_files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the project's Python files."""
    return tuple(file for file in project_files if file.suffix == ".py")
