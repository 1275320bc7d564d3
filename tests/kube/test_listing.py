"""Lists in pages."""

from __future__ import annotations

import pytest

from extender.control.ports import ApiError
from extender.kube.listing import list_pages
from extender.kube.transport import Transport
from tests.kube.apiscript import ApiScript, named, page, refuses, says


async def test_pages_follow_each_other_to_the_end(script: ApiScript, transport: Transport) -> None:
    """Each page is asked for with the token of the one before, and the same limit and selector."""
    script.plan("/x", says(page(named("a"), named("b"), version=7, more="t")), says(page(named("c"), version=7)))
    selector = {"fieldSelector": "metadata.name=a"}
    pages = [len(part.items or ()) async for part in list_pages(transport, "/x", 2, selector)]
    assert pages == [2, 1]
    assert [dict(request.query) for request in script.requests] == [
        {"limit": "2", "fieldSelector": "metadata.name=a"},
        {"limit": "2", "fieldSelector": "metadata.name=a", "continue": "t"},
    ]


async def test_refusal_comes_out(script: ApiScript, transport: Transport) -> None:
    """An expired token is the caller's affair."""
    script.plan("/x", says(page(version=7, more="t")), refuses(410, "Expired"))
    with pytest.raises(ApiError, match="410"):
        async for _ in list_pages(transport, "/x", 2):
            pass


async def test_unreadable_page_names_the_path(script: ApiScript, transport: Transport) -> None:
    """A body that is no list is an error that may pass, and says where and why."""
    script.plan("/x", says('{"items": 7}'))
    with pytest.raises(ApiError, match=r"/x: cannot read ObjectList: .*\$\.items") as unreadable:
        async for _ in list_pages(transport, "/x", 2):
            pass
    assert unreadable.value.transient
