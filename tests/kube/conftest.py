"""A scripted API server and a transport to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from extender.clock import ManualClock
from extender.kube.credentials import KubeConfig
from extender.kube.transport import Transport
from tests.kube.apiscript import ApiScript, JsonObject


def write_kubeconfig(
    path: Path, server: str, user: JsonObject | None, certificate_authority: Path | None = None
) -> KubeConfig:
    """Write a kubeconfig with one context, whose user may be missing, and return it as a source of credentials."""
    cluster = {"server": server}
    if certificate_authority is not None:
        cluster["certificate-authority"] = str(certificate_authority)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [] if user is None else [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "local", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return KubeConfig((path,))


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
async def script() -> AsyncIterator[ApiScript]:
    """Run an API server without a script."""
    running = ApiScript()
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def transport(script: ApiScript, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Transport]:
    """Connect to the scripted server with the token `secret`."""
    source = write_kubeconfig(tmp_path / "kubeconfig", script.url, {"token": "secret"})
    async with await Transport.connect(source, clock) as connected:
        yield connected
