"""What the watches and the writer ask of a connection to the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
Query: TypeAlias = Mapping[str, str]


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

#: HTTP statuses that mean something to more than one kind of request.
NOT_FOUND, CONFLICT = 404, 409


class ApiServer(Protocol):
    """Send requests and return undecoded answers.

    Every method raises `extender.control.ports.ApiError` for an answer that is not a success, and for none at all.
    """

    async def get(self, path: str, query: Query) -> bytes:
        """Read an object or a list."""
        ...

    def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch and yield its bytes as they arrive, cut anywhere.

        Iterating raises ApiError with reason TIMEOUT after `idle_timeout_seconds` without a byte, and with DISCONNECTED
        when the connection breaks. The iteration ends when the server ends the watch.
        """
        ...

    async def post(self, path: str, body: JsonObject) -> bytes:
        """Create an object."""
        ...

    async def patch(self, path: str, body: JsonObject, form: PatchForm = PatchForm.MERGE) -> bytes:
        """Change an object and return it as stored."""
        ...
