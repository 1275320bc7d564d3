"""Where credentials are looked for."""

from pathlib import Path

import pytest

from extender.kube.credentials import CredentialsError, InCluster, KubeConfig, find_credentials, read_namespace

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a file that could be a kubeconfig."""
    path = tmp_path / "config"
    path.write_text("{}", encoding="utf-8")
    return path


def test_named_file_comes_before_everything(config: Path) -> None:
    """A kubeconfig that the caller names is used, in a pod as well."""
    found = find_credentials({**IN_POD, "KUBECONFIG": "/elsewhere"}, kubeconfig=config)
    assert found == KubeConfig((config,))
    assert str(found) == f"kubeconfig {config}"


def test_pod_uses_its_service_account(tmp_path: Path) -> None:
    """In a pod, the ServiceAccount comes before KUBECONFIG."""
    found = find_credentials({**IN_POD, "KUBECONFIG": "/elsewhere"}, service_account=tmp_path)
    assert found == InCluster("10.96.0.1", "443", tmp_path)
    assert str(found) == f"the pod's ServiceAccount ({tmp_path})"


def test_context_asks_for_a_kubeconfig(config: Path) -> None:
    """A named context means a kubeconfig, in a pod as well: a ServiceAccount has no contexts."""
    found = find_credentials({**IN_POD, "KUBECONFIG": str(config)}, context="east")
    assert found == KubeConfig((config,), "east")
    assert str(found) == f"context east of kubeconfig {config}"


def test_kubeconfig_variable_may_list_several_files(config: Path, tmp_path: Path) -> None:
    """KUBECONFIG is a list of paths; those that do not exist are left out, as kubectl does."""
    other = tmp_path / "other"
    other.write_text("{}", encoding="utf-8")
    listed = f"{config}:{tmp_path / 'missing'}::{other}"
    assert find_credentials({"KUBECONFIG": listed}) == KubeConfig((config, other))


def test_home_directory_is_the_last_resort(tmp_path: Path) -> None:
    """Without anything else, `~/.kube/config` is used."""
    (tmp_path / ".kube").mkdir()
    path = tmp_path / ".kube" / "config"
    path.write_text("{}", encoding="utf-8")
    assert find_credentials({"HOME": str(tmp_path)}) == KubeConfig((path,))


def test_named_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """A kubeconfig that is not there is not passed over: the message names it and what to do."""
    with pytest.raises(CredentialsError, match=r"missing \(the file that was asked for\) is not a file; name one with"):
        find_credentials({}, kubeconfig=tmp_path / "missing")


def test_nothing_at_all_is_an_error(tmp_path: Path) -> None:
    """With neither a pod's ServiceAccount nor a kubeconfig the message names the default place."""
    with pytest.raises(CredentialsError, match=r"no kubeconfig: .*/\.kube/config \(the default\)"):
        find_credentials({"HOME": str(tmp_path)})


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    """Of the named one, else of the current one of the first file that has one; `default` if it says nothing."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("contexts: [{name: east, context: {namespace: team-e}}, {name: bare, context: {}}]")
    second.write_text("current-context: west\ncontexts: [{name: west, context: {namespace: team-w}}]")
    both = (first, second)
    assert read_namespace(KubeConfig(both)) == "team-w"
    assert read_namespace(KubeConfig(both, "east")) == "team-e"
    assert read_namespace(KubeConfig(both, "bare")) == read_namespace(KubeConfig(both, "gone")) == "default"


def test_the_namespace_of_a_pod_is_its_own(tmp_path: Path) -> None:
    """As the kubelet mounts it."""
    (tmp_path / "namespace").write_text("team-p\n")
    assert read_namespace(InCluster("h", "1", tmp_path)) == "team-p"


def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With what is wrong."""
    broken = tmp_path / "broken"
    for text in ("contexts: [", "contexts: [{}]", "- a"):
        broken.write_text(text)
        with pytest.raises(CredentialsError, match="broken cannot be used"):
            read_namespace(KubeConfig((broken,)))
