"""Who a caller is by its bearer token, and what it may do: asked of the API server, and remembered briefly.

Nothing waits for it but the request that it is asked for, and few questions are under way at a time: what Muster writes
does not wait for people.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from extender.caches import SizedDict, size_of
from extender.clock import Clock
from extender.control.ports import ApiError
from extender.kube.api import UNREADABLE, ApiServer, JsonObject
from extender.kube.rights import Access, ReviewStatus, UserInfo, decode_review
from extender.objects.meta import DecodeError

#: How long an answer counts (seconds): a right that is taken away is seen by then.
ANSWER_SECONDS: Final = 30.0
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Questions under way at a time, and those that may wait for their turn.
_AT_ONCE: Final = 4
_MOST_WAITING: Final = 200
_REMEMBERED_BYTES: Final = 2**20
_FORBIDDEN: Final = 403


class UnknownCallerError(Exception):
    """A token that the API server does not know, or knows no longer."""


class ReviewError(Exception):
    """The API server did not say who a caller is, or what it may do; the message says what to do about that."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a user of the cluster, and the digest of the token that it showed."""

    user: UserInfo
    digest: bytes


class Reviews:
    """Ask the API server about tokens and accesses; every answer counts for `ANSWER_SECONDS`."""

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._users: SizedDict[bytes, tuple[float, UserInfo | None]] = SizedDict(_REMEMBERED_BYTES)
        self._allowed: SizedDict[tuple[bytes, Access], tuple[float, bool]] = SizedDict(_REMEMBERED_BYTES)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def caller(self, token: str) -> Caller:
        """Return who a token is of; raise UnknownCallerError or ReviewError."""
        digest = sha256(token.encode()).digest()
        known = self._users.get(digest)
        if known is None or known[0] < self._clock.monotonic():
            status = await self._asked(_TOKEN_REVIEWS, {"spec": {"token": token}})
            user = status.user if status.authenticated else None
            known = self._clock.monotonic() + ANSWER_SECONDS, user
            self._users.keep(digest, known, 200 + size_of(user))
        if known[1] is None:
            raise UnknownCallerError("the API server does not know this token; log in again")
        return Caller(known[1], digest)

    async def allows(self, caller: Caller, access: Access) -> bool:
        """Tell whether a caller has a right; raise ReviewError."""
        key = caller.digest, access
        known = self._allowed.get(key)
        if known is None or known[0] < self._clock.monotonic():
            spec = {**access.review()["spec"], **caller.user.subject()}
            status = await self._asked(_ACCESS_REVIEWS, {"spec": spec})
            known = self._clock.monotonic() + ANSWER_SECONDS, status.allowed
            self._allowed.keep(key, known, 400 + size_of(access.namespace))
        return known[1]

    async def _asked(self, path: str, body: JsonObject) -> ReviewStatus:
        """Return what the API server says, when it is this question's turn."""
        if self._waiting >= _MOST_WAITING:
            raise ReviewError("too many callers are being looked up; try again")
        self._waiting += 1
        try:
            async with self._slots:
                return decode_review(await self._api.post(path, body)).status or ReviewStatus()
        except ApiError as error:
            what = path.rpartition("/")[2]
            if error.status == _FORBIDDEN:
                raise ReviewError(f"Muster itself may not create {what}; its ClusterRole must grant it") from error
            raise ReviewError(f"the API server does not answer who calls ({what}): {error}") from error
        except DecodeError as error:
            raise ReviewError(f"{UNREADABLE}: {error}") from error
        finally:
            self._waiting -= 1
