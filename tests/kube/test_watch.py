"""What follows a connection that has ended."""

from __future__ import annotations

import pytest

from extender.kube.watch import PlaceLostError, WatchConnection, WatchFailure


def test_next_connection_resumes_where_the_last_one_was() -> None:
    """The place and the way to list are handed on; what came over the connection is not."""
    connection = WatchConnection("7", pages=True)
    connection.version, connection.answered, connection.progressed = "9", True, True
    following = connection.next(WatchFailure.DISCONNECTED, 6)
    assert following == WatchConnection("9", pages=True)
    assert (following.resumed, following.answered, following.progressed) == (True, False, False)


@pytest.mark.parametrize("cause", [WatchFailure.CLOSED, WatchFailure.REFUSED])
def test_connections_that_bring_nothing_give_the_place_up(cause: WatchFailure) -> None:
    """After as many in a row as allowed, and not before; one that moves the place starts the count again."""
    connection = WatchConnection("7").next(cause, 3).next(cause, 3)
    assert connection.fruitless == 2
    with pytest.raises(PlaceLostError) as lost:
        connection.next(cause, 3)
    assert lost.value.cause is WatchFailure.STUCK
    connection.progressed = True
    assert connection.next(cause, 3).fruitless == 0


@pytest.mark.parametrize("cause", [WatchFailure.SILENT, WatchFailure.THROTTLED, WatchFailure.DISCONNECTED])
def test_silence_and_load_say_nothing_about_the_place(cause: WatchFailure) -> None:
    """Only an answer that brings nothing counts against the place, and only where the connection began at one."""
    assert WatchConnection("7").next(cause, 1).fruitless == 0
    assert WatchConnection().next(WatchFailure.REFUSED, 1).fruitless == 0


def test_damage_gives_the_place_up() -> None:
    """A deletion may be missing, however the connection ended."""
    connection = WatchConnection("7")
    connection.damaged = True
    with pytest.raises(PlaceLostError) as lost:
        connection.next(WatchFailure.CLOSED, 6)
    assert lost.value.cause is WatchFailure.DAMAGED


@pytest.mark.parametrize(
    ("answered", "cause", "outage"),
    [
        (False, WatchFailure.DISCONNECTED, True),
        (True, WatchFailure.DISCONNECTED, False),
        (False, WatchFailure.SILENT, False),
    ],
)
def test_an_outage_is_a_connection_without_any_answer(answered: bool, cause: WatchFailure, outage: bool) -> None:
    """A server that answers and breaks off is in trouble, not away."""
    connection = WatchConnection("7")
    connection.answered = answered
    assert connection.next(cause, 6).after_outage is outage
