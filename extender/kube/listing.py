"""Complete lists, page by page, from servers that have no WatchList."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import MappingProxyType

from extender.control.ports import ApiError
from extender.kube.api import UNREADABLE, ApiServer, Query
from extender.wire.api import ListMeta, ObjectList
from extender.wire.codec import DecodeError, decode_object_list


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
