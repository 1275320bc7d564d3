"""Which version the API server says it is, and what Muster makes of that."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from structlog.typing import EventDict

from extender.kube.transport import Transport
from extender.kube.version import NEWEST_TESTED, OLDEST, OLDEST_TESTED, Minor, check_version
from localcluster.ports import free_ports
from tests.kube.apiscript import ApiScript, JsonObject, refuses, says
from tests.kube.conftest import write_kubeconfig
from tests.kube.watched import Longest, Naps
from tests.patience import HANGS

VERSION = "/version"

#: Seconds until the version is looked at again.
HOUR = 3600.0


def info(git_version: object) -> JsonObject:
    """Return what an API server of a version answers."""
    return {"major": "1", "minor": "0", "gitVersion": git_version, "platform": "linux/amd64"}


async def lines_of(transport: Transport, pauses: int) -> tuple[list[EventDict], list[float]]:
    """Run the check until it has paused so many times; return what it logged and the pauses."""
    naps = Naps()
    with capture_logs() as logs:
        task = asyncio.create_task(check_version(transport, random=Longest(), sleep=naps))
        await naps.until(lambda: len(naps.seconds) == pauses)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    return logs, naps.seconds


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("v1.37.0", Minor(1, 37)),
        ("v1.36.3-gke.1234000", Minor(1, 36)),
        ("v1.35.4+k3s1", Minor(1, 35)),
        ("v1.38.0-alpha.1", Minor(1, 38)),
    ],
)
def test_versions_of_vendors_are_read(text: str, minor: Minor) -> None:
    """Whatever a vendor appends, the minor version is what counts."""
    assert Minor.parse(text) == minor


@pytest.mark.parametrize("text", ["", "1", "version 1.37", "v1", "1.x"])
def test_what_is_no_version_is_named(text: str) -> None:
    """Other text is an error that shows it."""
    with pytest.raises(ValueError, match="is no version of Kubernetes") as raised:
        Minor.parse(text)
    assert repr(text) in str(raised.value)


@given(st.tuples(st.integers(0, 3), st.integers(0, 200)), st.tuples(st.integers(0, 3), st.integers(0, 200)))
def test_versions_compare_as_numbers(one: tuple[int, int], other: tuple[int, int]) -> None:
    """1.100 is newer than 1.99, and what is written can be read again."""
    assert (Minor(*one) < Minor(*other)) == (one < other)
    assert Minor.parse(f"v{Minor(*one)}.7") == Minor(*one)


@pytest.mark.parametrize("minor", range(OLDEST_TESTED.minor, NEWEST_TESTED.minor + 1))
async def test_tested_version_is_logged(script: ApiScript, transport: Transport, minor: int) -> None:
    """A version that the tests run on is worth one line."""
    script.plan(VERSION, says(info(f"v1.{minor}.3")))
    (line,), pauses = await lines_of(transport, pauses=1)
    assert line == {"event": "Kubernetes", "version": f"v1.{minor}.3", "log_level": "info"}
    assert pauses == [HOUR]


@pytest.mark.parametrize("minor", [OLDEST.minor, OLDEST_TESTED.minor - 1, NEWEST_TESTED.minor + 1])
async def test_untested_version_is_warned_of(script: ApiScript, transport: Transport, minor: int) -> None:
    """A version that is newer or older than those tested may work: Muster says so and goes on."""
    script.plan(VERSION, says(info(f"v1.{minor}.0")))
    (line,), pauses = await lines_of(transport, pauses=1)
    assert line["log_level"] == "warning"
    assert line["event"] == "Muster is not tested with this Kubernetes (docs/versions.md)"
    assert (line["version"], line["tested"]) == (f"v1.{minor}.0", "1.35 to 1.37")
    assert pauses == [HOUR]


async def test_version_too_old_ends_the_check(script: ApiScript, transport: Transport) -> None:
    """A version whose kube-scheduler cannot be told of Muster is refused: the error names it, and what to do."""
    script.plan(VERSION, says(info("v1.24.17")))
    with capture_logs() as logs:
        async with asyncio.timeout(HANGS):
            await check_version(transport, random=Random(1))
    (line,) = logs
    assert line["log_level"] == "error"
    assert line["event"] == "Kubernetes is too old for Muster: upgrade the cluster (docs/versions.md)"
    assert (line["version"], line["oldest"]) == ("v1.24.17", str(OLDEST))


async def test_upgrade_is_logged(script: ApiScript, transport: Transport) -> None:
    """Each version is logged once, also the one that the API server is upgraded to while Muster runs."""
    script.plan(VERSION, *(says(info(f"v1.{minor}.0")) for minor in (36, 36, 37)))
    lines, pauses = await lines_of(transport, pauses=3)
    assert [line["version"] for line in lines] == ["v1.36.0", "v1.37.0"]
    assert pauses == [HOUR] * 3


async def test_api_server_that_is_away_is_asked_again_soon(script: ApiScript, transport: Transport) -> None:
    """Neither an error of the server nor an answer that cannot be read ends the check; pauses grow between."""
    away = refuses(503, "ServiceUnavailable", headers={"Retry-After": "7"})
    script.plan(VERSION, away, says("<html>"), says(info(7)), says(info("v1.37.0")))
    lines, pauses = await lines_of(transport, pauses=4)
    assert [line["log_level"] for line in lines] == ["warning"] * 3 + ["info"]
    assert pauses == [7.0, 1.0, 2.0, HOUR]


async def test_forbidden_version_is_not_asked_for_every_few_seconds(script: ApiScript, transport: Transport) -> None:
    """Where the right to read the version has been taken away, Muster says so and goes on without."""
    script.plan(VERSION, refuses(403, "Forbidden", "may not"))
    (line,), pauses = await lines_of(transport, pauses=1)
    assert line["answer"] == "403 Forbidden: may not"
    assert pauses == [HOUR]


async def test_unknown_form_of_version_is_not_held_against_the_server(script: ApiScript, transport: Transport) -> None:
    """A version that cannot be understood is shown, and Muster goes on."""
    script.plan(VERSION, says(info("main")))
    (line,), pauses = await lines_of(transport, pauses=1)
    assert line["reason"] == "'main' is no version of Kubernetes"
    assert pauses == [HOUR]


async def test_muster_stops_on_a_version_that_is_too_old(script: ApiScript, tmp_path: Path) -> None:
    """`muster serve` on a cluster that is too old ends with code 1, and its last line says why."""
    script.plan(VERSION, says(info("v1.24.17")))
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, script.url, {"token": "secret"})
    (port,) = free_ports(1)
    muster = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "extender", "serve", "--kubeconfig", str(kubeconfig), "--port", str(port)),
        *("--log-format", "json"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await muster.communicate()
    assert muster.returncode == 1
    last = json.loads(errors.splitlines()[-1])
    assert last["event"].startswith("Kubernetes is too old")
    assert (last["version"], last["oldest"]) == ("v1.24.17", str(OLDEST))
