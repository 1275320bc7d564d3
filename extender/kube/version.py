"""Which version of Kubernetes the API server is, and whether Muster works with that."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from random import Random
from typing import Self

import structlog
from msgspec import Struct

from extender.control.ports import ApiError
from extender.kube.api import UNREADABLE, ApiServer, ReconnectBackoff, Sleep
from extender.objects.meta import DecodeError, Decoder


class VersionInfo(Struct, gc=False, frozen=True, rename="camel"):
    """What `GET /version` answers, a version.Info; `git_version` is such as `v1.37.0` or `v1.36.3-gke.1234`."""

    git_version: str | None = None


decode_version = Decoder(VersionInfo)

#: Bounds of the pause before a server that did not answer is asked again.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0

#: How often to look whether the API server has been upgraded.
_UPGRADE_SECONDS = 3600.0
log = structlog.get_logger("muster.version")


@dataclass(frozen=True, slots=True, order=True)
class Minor:
    """A minor version of Kubernetes, such as 1.37: what features depend on."""

    major: int
    minor: int

    @classmethod
    def parse(cls, git_version: str) -> Self:
        """Read `v1.37.0`, and what vendors make of it (`v1.36.3-gke.1234`, `v1.35.4+k3s1`); raise ValueError."""
        found = re.match(r"v?(\d+)\.(\d+)", git_version)
        if found is None:
            msg = f"{git_version!r} is no version of Kubernetes"
            raise ValueError(msg)
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        """Render as `1.37`."""
        return f"{self.major}.{self.minor}"


#: Older ones are refused: their kube-scheduler does not read scheduler-config/muster.yaml, whose apiVersion
#: kubescheduler.config.k8s.io/v1 came with 1.25 (kubernetes/kubernetes#110534). Nothing newer is known not to work.
OLDEST = Minor(1, 25)

#: The span that `make test-versions` and the gate run on (docs/versions.md).
OLDEST_TESTED, NEWEST_TESTED = Minor(1, 35), Minor(1, 37)


async def check_version(api: ApiServer, *, random: Random, sleep: Sleep = asyncio.sleep) -> None:
    """Ask the API server for its version, now and every hour, and log what is to be expected of it when it changes.

    Returns only when the version is too old. A server that does not say its version is taken as it is.
    """
    backoff = ReconnectBackoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, random)
    known = ""
    while True:
        pause = _UPGRADE_SECONDS
        try:
            version = await _read_version(api)
        except ApiError as error:
            log.warning("the API server does not say its version", answer=str(error))
            if error.transient:
                pause = backoff.pause(at_least=error.retry_after or 0.0)
        else:
            backoff.reset()
            if version != known and not _judge(version):
                return
            known = version
        await sleep(pause)


async def _read_version(api: ApiServer) -> str:
    try:
        return decode_version(await api.get("/version", {})).git_version or ""
    except DecodeError as error:
        raise ApiError(0, UNREADABLE, str(error)) from error


def _judge(version: str) -> bool:
    """Say what is to be expected of a version; return whether Muster works with it."""
    try:
        minor = Minor.parse(version)
    except ValueError as error:
        log.warning("version of Kubernetes not understood", reason=str(error))
        return True
    if minor < OLDEST:
        log.error(
            "Kubernetes is too old for Muster: upgrade the cluster (docs/versions.md)",
            version=version,
            oldest=str(OLDEST),
        )
        return False
    if OLDEST_TESTED <= minor <= NEWEST_TESTED:
        log.info("Kubernetes", version=version)
    else:
        tested = f"{OLDEST_TESTED} to {NEWEST_TESTED}"
        log.warning("Muster is not tested with this Kubernetes (docs/versions.md)", version=version, tested=tested)
    return True
