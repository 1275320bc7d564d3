"""Complete lists page by page, and pauses between attempts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.control.ports import ApiError
from extender.kube.api import ReconnectBackoff, list_pages
from extender.kube.transport import Transport
from tests.kube.apiscript import ApiScript, named, page, refuses, says
from tests.kube.watched import Longest


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


def test_bound_doubles_until_the_longest() -> None:
    """The upper bound of the pauses doubles from the first to the longest, and stays there."""
    backoff = ReconnectBackoff(0.5, 30.0, Longest())
    assert [backoff.pause() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_reset_starts_with_the_first_pause_again() -> None:
    """After a success the next pause is drawn as the first one was."""
    backoff = ReconnectBackoff(0.5, 30.0, Longest())
    for _ in range(5):
        backoff.pause()
    backoff.reset()
    assert backoff.pause() == 0.5


def test_server_may_ask_for_a_longer_pause() -> None:
    """A pause is at least as long as the server asked for, and its wish does not change the next bound."""
    backoff = ReconnectBackoff(0.5, 30.0, Longest())
    assert backoff.pause(at_least=7.0) == 7.0
    assert backoff.pause() == 1.0


@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=1, max_value=200))
def test_pauses_are_spread_over_the_whole_range(seed: int, attempts: int) -> None:
    """Every pause lies between zero and its bound, however many there were."""
    backoff = ReconnectBackoff(0.5, 30.0, Random(seed))
    pauses = [backoff.pause() for _ in range(attempts)]
    assert all(0.0 <= pause <= min(0.5 * 2.0**n, 30.0) for n, pause in enumerate(pauses))
