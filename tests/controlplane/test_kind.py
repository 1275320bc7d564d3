"""kind/up.sh to its end, with a docker and a kind that only take notes and a kubectl that renders for real."""

from pathlib import Path

import pytest
import yaml

from localcluster.build import built_binaries
from localcluster.programs import Binary
from tests.kind.conftest import Run, note_taker, tools, up

__all__ = ["tools", "up"]  # fixtures

pytestmark = pytest.mark.controlplane

#: Arguments come after `--context kind-muster`.
_KUBECTL = """
case "$*" in
  *"get nodes"*) echo node/muster-worker; echo node/muster-worker2 ;;
  *"get --raw /version"*) echo '{{"major": "1",'; echo '  "gitVersion": "v1.36.9",'; echo '}}' ;;
  *kustomize*) exec "{kubectl}" kustomize manifests ;;
  *apply*) cat > "{folder}/applied.yaml" ;;
esac
"""


def test_the_image_that_was_built_is_what_is_deployed(up: Run, tools: Path) -> None:
    """Built, loaded, GPUs on every worker, manifests with that image and the cluster's own version, rolled out."""
    note_taker(tools, "docker")
    note_taker(tools, "kind")
    note_taker(tools, "kubectl", _KUBECTL.format(kubectl=built_binaries()[Binary.KUBECTL], folder=tools))
    done = up()
    assert done.returncode == 0, done.stderr
    built = (tools / "docker.log").read_text(encoding="utf-8").split()[-2]
    assert built.startswith("muster:2")
    kind = (tools / "kind.log").read_text(encoding="utf-8")
    assert "create cluster --name muster --config kind/cluster.yaml" in kind
    assert f"load docker-image --name muster {built}" in kind

    asked = (tools / "kubectl.log").read_text(encoding="utf-8")
    assert asked.count("/status/allocatable/nvidia.com~1gpu") == 2
    assert asked.rstrip().endswith("rollout status deployment/muster --timeout 3m")

    objects = list(yaml.safe_load_all((tools / "applied.yaml").read_text(encoding="utf-8")))
    (deployment,) = (item for item in objects if item["kind"] == "Deployment")
    images = [container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]]
    assert images == [built, "registry.k8s.io/kube-scheduler:v1.36.9"]
    assert "kubectl --context kind-muster apply -f examples/gang.yaml" in done.stdout
