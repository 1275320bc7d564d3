"""What watches and writer need to talk to the API server: requests, complete lists, pauses before another try."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Raw, Struct

from extender.control.ports import ApiError
from extender.objects.meta import DecodeError, Decoder, Int32, Int64

JsonObject: TypeAlias = dict[str, Any]
Query: TypeAlias = Mapping[str, str]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class PatchForm(StrEnum):
    """What a patch means; the value is its content type."""

    MERGE = "application/merge-patch+json"
    """RFC 7386: what is given replaces what is there, lists whole, and null deletes."""
    STRATEGIC = "application/strategic-merge-patch+json"
    """Kubernetes' own, for its built-in kinds: the elements of most lists are found by their key."""


#: `ApiError.reason` where no answer came (status 0): too long a silence; a connection that could not be made or broke;
#: something that is not what was asked for.
TIMEOUT = "Timeout"
DISCONNECTED = "Disconnected"
UNREADABLE = "Unreadable"

#: Where a bearer token goes to a pod behind the API server's proxy, which takes the Authorization header away.
TOKEN_HEADER: Final = "X-Muster-Authorization"  # noqa: S105 - the name of a header

#: HTTP statuses that mean something to more than one kind of request.
NOT_FOUND, CONFLICT = 404, 409


class ApiServer(Protocol):
    """Send requests and return undecoded answers.

    Every method raises `extender.control.ports.ApiError` for an answer that is not a success, and for none at all.
    """

    async def get(self, path: str, query: Query) -> bytes:
        """Read an object or a list."""

    def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch and yield its bytes as they arrive, cut anywhere.

        Iterating raises ApiError with reason TIMEOUT after `idle_timeout_seconds` without a byte, and with DISCONNECTED
        when the connection breaks. The iteration ends when the server ends the watch.
        """

    async def post(self, path: str, body: JsonObject) -> bytes:
        """Create an object."""

    async def patch(self, path: str, body: JsonObject, form: PatchForm = PatchForm.MERGE) -> bytes:
        """Change an object and return it as stored."""

    async def delete(self, path: str, body: JsonObject) -> bytes:
        """Delete an object; `body` are DeleteOptions."""


class StatusCause(Struct, gc=False, frozen=True):
    """One cause of a refusal; `reason` is such as `DisruptionBudget`."""

    reason: str | None = None
    message: str | None = None


class StatusDetails(Struct, gc=False, frozen=True):
    """What a refusal is about."""

    causes: list[StatusCause] | None = None


class ApiStatus(Struct, gc=False, frozen=True):
    """A metav1.Status: how the API server says no."""

    code: Int32 | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None


class ListMeta(
    Struct,
    gc=False,
    frozen=True,
    rename={
        "resource_version": "resourceVersion",
        "continue_": "continue",
        "remaining_item_count": "remainingItemCount",
    },
):
    """Metadata of a list: where a watch resumes and where the next page starts."""

    resource_version: str | None = None
    continue_: str | None = None
    remaining_item_count: Int64 | None = None


class ObjectList(Struct, gc=False, frozen=True):
    """One page of a list, its items still undecoded so that the caller can slice the work."""

    metadata: ListMeta | None = None
    items: list[Raw] | None = None


decode_status = Decoder(ApiStatus)
decode_object_list = Decoder(ObjectList)


async def list_pages(
    api: ApiServer, path: str, page_size: int, selector: Query = MappingProxyType({})
) -> AsyncIterator[ObjectList]:
    """Yield the pages of one consistent list, the last with the version to watch from; items are undecoded.

    Raises ApiError: with status 410 when the list took so long that the server has forgotten its beginning, with reason
    UNREADABLE when a page is no list.
    """
    query = {"limit": str(page_size), **selector}
    while True:
        try:
            page = decode_object_list(await api.get(path, query))
        except DecodeError as error:
            raise ApiError(0, UNREADABLE, f"{path}: {error}") from error
        meta = page.metadata or ListMeta()
        if not meta.resource_version:
            raise ApiError(0, UNREADABLE, f"{path}: the list has no metadata.resourceVersion")
        yield page
        if not meta.continue_:
            return
        query["continue"] = meta.continue_


class ReconnectBackoff:
    """Pauses that double up to a bound, each drawn from zero to there ("full jitter"), so that clients spread out.

    Args:
        first_seconds: upper bound of the first pause.
        longest_seconds: upper bound of every pause.
        random: draws the pauses.
    """

    def __init__(self, first_seconds: float, longest_seconds: float, random: Random) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._random = random
        self._bound = first_seconds

    def pause(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait now, no less than `at_least`, and double the bound of the next pause."""
        seconds = self._random.uniform(0.0, self._bound)
        self._bound = min(2 * self._bound, self._longest)
        return max(seconds, at_least)

    def reset(self) -> None:
        """Start with the first pause again: what failed has worked since."""
        self._bound = self._first
