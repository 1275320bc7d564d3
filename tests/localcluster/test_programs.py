"""Which programs there are, what they are built from, and which go together."""

import re

import pytest

from localcluster.errors import LocalClusterError
from localcluster.programs import (
    CHECKING_BINARIES,
    DEFAULT_BINARIES,
    KUBERNETES,
    KWOK,
    OPERATOR_BINARIES,
    Binary,
    Release,
)


def pinned(release: Release, name: Binary) -> str:
    """Return the version of Kubernetes that a program of a release is built from."""
    (module,) = (module for module in release.modules if name in module.packages)
    return module.required_version("k8s.io/kubernetes")


def test_kubernetes_programs_are_linked_with_their_version() -> None:
    """The version that go.mod pins is what the programs say they are."""
    package = "k8s.io/component-base/version"
    assert f"-X {package}.gitVersion=v1.37.0 -X {package}.gitMajor=1 -X {package}.gitMinor=37" in KUBERNETES.ldflags()
    assert "-X" not in KWOK.ldflags()


def test_unknown_dependency_is_an_error_that_names_the_file() -> None:
    """Asking for a version that go.mod does not pin is a mistake, not an empty string."""
    with pytest.raises(LocalClusterError, match=r"kwok/go\.mod does not require k8s\.io/kubernetes"):
        KWOK.required_version("k8s.io/kubernetes")


@pytest.mark.parametrize("release", Release)
def test_release_is_what_its_name_says(release: Release) -> None:
    """API server and scheduler of a release have its version, and the same one."""
    assert pinned(release, Binary.KUBE_APISERVER).startswith(f"v{release}.")
    assert pinned(release, Binary.KUBE_SCHEDULER) == pinned(release, Binary.KUBE_APISERVER)


@pytest.mark.parametrize("release", Release)
def test_staging_modules_are_those_of_the_release(release: Release) -> None:
    """No library of Kubernetes comes from another release than the program that it is linked into."""
    module = release.modules[0]
    go_mod = (module.directory / "go.mod").read_text(encoding="utf-8")
    versions = set(re.findall(r"=> k8s\.io/\S+ (v\S+)", go_mod))
    assert versions == {module.required_version("k8s.io/kubernetes").replace("v1.", "v0.")}


@pytest.mark.parametrize("release", Release)
def test_release_has_every_program_once(release: Release) -> None:
    """Whatever the tests run comes from one module of the release, and that one pins every dependency's checksum."""
    for name in (*DEFAULT_BINARIES, *CHECKING_BINARIES, *OPERATOR_BINARIES, Binary.OAUTH2_PROXY):
        (module,) = (module for module in release.modules if name in module.packages)
        assert (module.directory / "go.sum").stat().st_size > 0


def test_older_release_has_no_newer_controller_manager() -> None:
    """kube-controller-manager must not be newer than its API server: those that offer one build it of their own."""
    offering = [r for r in Release if any(Binary.KUBE_CONTROLLER_MANAGER in module.packages for module in r.modules)]
    assert offering == [each for each in Release if each.has_controllers]
    for release in offering:
        (module,) = (each for each in release.modules if Binary.KUBE_CONTROLLER_MANAGER in each.packages)
        assert Binary.KUBE_APISERVER in module.packages
