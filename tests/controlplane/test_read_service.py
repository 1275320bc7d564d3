"""The Service for readers on the real API server: the shipped objects, the shipped right, and a change of leaders."""

import asyncio
import subprocess
from pathlib import Path

import pytest
import yaml

from extender.clock import SystemClock
from extender.control.ports import ApiError
from extender.kube.credentials import find_credentials
from extender.kube.readservice import ReadSlice, follow_leader
from extender.kube.transport import Transport
from localcluster.client import JsonObject
from localcluster.cluster import LocalCluster
from localcluster.manifests import MANIFESTS
from localcluster.programs import Binary
from tests.patience import HANGS

pytestmark = pytest.mark.controlplane

SLICE = "muster-system/muster-read"


def _kubectl(running: LocalCluster, *arguments: str) -> str:
    command = [str(running.binaries[Binary.KUBECTL]), f"--kubeconfig={running.admin_kubeconfig}", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _apply(running: LocalCluster) -> None:
    folder = MANIFESTS / "components" / "read-service"
    for file in ("service.yaml", "rbac.yaml"):
        _kubectl(running, "apply", "--server-side", "--validate=strict", "-f", str(folder / file))


def _behind(running: LocalCluster) -> list[str]:
    kept: JsonObject = yaml.safe_load(
        _kubectl(running, "get", "endpointslice", "muster-read", "-n", "muster-system", "-o", "yaml")
    )
    return [address for endpoint in kept.get("endpoints") or () for address in endpoint["addresses"]]


async def _lead(kubeconfig: Path, kept: ReadSlice, *, leads: bool) -> None:
    """Have a replica look once."""

    async def end(_: float) -> None:
        raise asyncio.CancelledError

    async with await Transport.connect(find_credentials({}, kubeconfig), SystemClock(), pool_size=2) as transport:
        with pytest.raises(asyncio.CancelledError):
            await follow_leader(transport, kept, lambda: leads, sleep=end)


async def _patch(kubeconfig: Path, kept: ReadSlice) -> None:
    async with await Transport.connect(find_credentials({}, kubeconfig), SystemClock(), pool_size=2) as transport:
        await transport.patch(kept.path, kept.body())


def test_the_service_follows_the_leader(local_cluster: LocalCluster, tmp_path: Path) -> None:
    """None at first, then one leader, then the other alone; applying the manifest again takes none away."""
    _apply(local_cluster)
    muster = local_cluster.service_account("muster-scheduler").write_kubeconfig(tmp_path / "muster.kubeconfig")
    first, second = ReadSlice.of(SLICE, "10.0.0.1", "muster-a"), ReadSlice.of(SLICE, "10.0.0.2", "muster-b")
    asyncio.run(_lead(muster, second, leads=False))
    assert _behind(local_cluster) == []
    asyncio.run(_lead(muster, first, leads=True))
    assert _behind(local_cluster) == ["10.0.0.1"]
    _apply(local_cluster)
    assert _behind(local_cluster) == ["10.0.0.1"]
    asyncio.run(_lead(muster, second, leads=True))
    assert _behind(local_cluster) == ["10.0.0.2"]
    other = ReadSlice.of("muster-system/another", "10.0.0.1", "muster-a")
    with pytest.raises(ApiError) as refused:
        asyncio.run(_patch(muster, other))
    assert refused.value.status == 403
