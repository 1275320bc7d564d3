"""What a release is made of: the workflow's steps are the Makefile's, and krew can read the plugin's manifest."""

import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

PLATFORMS = ["darwin-arm64", "linux-amd64", "linux-arm64"]


@pytest.fixture(scope="module")
def workflow(repository: Path) -> str:
    """Return the workflow that makes a release."""
    return (repository / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Return a folder with an archive for each platform, and others beside them."""
    for platform in PLATFORMS:
        (tmp_path / f"kubectl-muster-1.2.3-{platform}.tar.gz").write_text(platform)
    (tmp_path / "muster-1.2.3.tar.gz").touch()
    return tmp_path


def krew(repository: Path, folder: Path, version: str = "1.2.3") -> subprocess.CompletedProcess[str]:
    """Have the manifest printed for the archives in a folder; never raise."""
    command = [str(repository / "release" / "krew.sh"), version, "https://example.com/muster", str(folder)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_krew_finds_an_archive_for_each_platform(repository: Path, archives: Path) -> None:
    """Each with its checksum, and the name of the program in it; what krew's index demands of the text is kept."""
    manifest: dict[str, Any] = yaml.safe_load(krew(repository, archives).stdout)
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    spec = manifest["spec"]
    assert manifest["metadata"] == {"name": "muster"}
    assert spec.keys() <= {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) < 50
    assert not spec["shortDescription"].endswith(".")
    assert len(spec["platforms"]) == len(PLATFORMS)
    for platform, entry in zip(PLATFORMS, spec["platforms"], strict=True):
        system, architecture = platform.split("-")
        name = f"kubectl-muster-1.2.3-{platform}.tar.gz"
        assert entry == {
            "selector": {"matchLabels": {"os": system, "arch": architecture}},
            "uri": f"https://example.com/muster/releases/download/v1.2.3/{name}",
            "sha256": hashlib.sha256((archives / name).read_bytes()).hexdigest(),
            "bin": "kubectl-muster/kubectl-muster",
        }


def test_no_manifest_without_archives(repository: Path, archives: Path) -> None:
    """Archives of another version are none, and the script fails."""
    assert krew(repository, archives, "1.2.4").returncode != 0


def test_what_the_workflow_makes_is_in_the_makefile(repository: Path, workflow: str) -> None:
    """Each target that it calls is there, and `make release` makes all of them that need no container engine."""
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    called = {word for line in re.findall(r"run: make (.*)", workflow) for word in line.split() if "=" not in word}
    everything = re.search(r"^release: (.*?) ##", makefile, re.MULTILINE)
    assert everything
    made = called - {"audit"}
    assert made == set(everything[1].split())
    assert made <= set(re.findall(r"^(release-\w+):", makefile, re.MULTILINE))


def test_the_workflow_runs_nothing_that_can_change(workflow: str) -> None:
    """Actions are named by commit, with the version beside it; programs by version; each job names its rights."""
    used = re.findall(r"uses: (.*)", workflow)
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)] == []
    assert [line for line in re.findall(r"go install (\S+)", workflow) if "@v" not in line] == []
    document = yaml.safe_load(workflow)
    assert document["permissions"] == {}
    assert all(job["permissions"] for job in document["jobs"].values())
    assert document["jobs"]["draft"]["needs"] == "gate"
