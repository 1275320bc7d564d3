"""What is kept for one gang."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from extender.cluster.whatif import withhold
from extender.ledger.earmark import Earmark
from extender.placement.backfill.outlook import ExpectedEnd
from extender.placement.backfill.start import Start
from extender.queues.order import position
from tests.worlds import World


@pytest.fixture
def keep(world: World) -> Earmark:
    """Return what is kept for a gang, without start."""
    gang = world.gang("job", 1).gang
    return Earmark(gang, position(gang), np.array([[4, 0], [8, 8]]))


def start(at: float) -> Start:
    """Return a start at some time (epoch seconds)."""
    kept = np.array([[4, 0], [8, 8]])
    return Start(at, kept, {}, ExpectedEnd("job", at, at, kept, ()))


def test_equal_keeps_are_the_same(keep: Earmark) -> None:
    """What rests on one rests on the other."""
    assert keep.same_as(replace(keep, kept=keep.kept.copy()))
    assert replace(keep, start=start(5)).same_as(replace(keep, start=start(5)))


def test_whatever_differs_makes_another(keep: Earmark, world: World) -> None:
    """The gang's life, its place in the queue, the start, and what is kept."""
    other = world.gang("other", 1).gang
    dated = replace(keep, start=start(5))
    assert not keep.same_as(None)
    assert not keep.same_as(replace(keep, gang=other))
    assert not keep.same_as(replace(keep, position=position(other)))
    assert not keep.same_as(replace(keep, firm=True))
    assert not keep.same_as(dated)
    assert not dated.same_as(replace(keep, start=start(6)))
    assert not keep.same_as(replace(keep, kept=keep.kept + 1))


def test_who_ends_in_time_may_use_it(keep: Earmark) -> None:
    """A minute before the start, by what it has declared; what is firm is for nobody else."""
    dated = replace(keep, start=start(1000))
    assert dated.open_to(900, 40)
    assert not dated.open_to(901, 40)
    assert not dated.open_to(None, 40)
    assert not keep.open_to(1, 40)
    assert not replace(dated, firm=True).open_to(1, 40)


def test_what_is_kept_is_withheld_from_what_is_free(keep: Earmark) -> None:
    """Nodes and resources that came since are free."""
    free = np.full((3, 3), 10)
    withhold(free, keep.kept)
    assert free.tolist() == [[6, 10, 10], [2, 2, 10], [10, 10, 10]]
