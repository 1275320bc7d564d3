"""What claims have of devices is counted, each claim once."""

from __future__ import annotations

from extender.devices.inuse import DevicesInUse
from extender.objects.dradevices import Amount, DeviceKey
from extender.objects.resourceclaim import ClaimAllocation, GivenDevice

ONE, TWO = DeviceKey("d", "p", "one"), DeviceKey("d", "p", "two")
WHOLE = ClaimAllocation((GivenDevice("r", ONE),))
PART = ClaimAllocation((GivenDevice("r", TWO, share="a", consumed=(("memory", Amount(5)),)),))
BARE = ClaimAllocation((GivenDevice("r", TWO, share="b"),))


def test_whole_devices_and_parts_are_told_apart() -> None:
    """A part leaves the rest to others."""
    in_use = DevicesInUse([WHOLE, PART, PART, BARE])
    assert in_use.is_whole(ONE)
    assert not in_use.is_shared(ONE)
    assert in_use.is_shared(TWO)
    assert not in_use.is_whole(TWO)
    assert in_use.consumed(TWO, "memory") == 10
    assert in_use.devices == {ONE, TWO}
    assert in_use.holds(ONE)
    assert in_use.holds(TWO)


def test_what_is_given_back_is_free() -> None:
    """Once nobody else has it."""
    in_use = DevicesInUse([WHOLE, WHOLE, PART, BARE])
    twin = in_use.copied()
    in_use.give_back(WHOLE)
    assert in_use.is_whole(ONE)
    in_use.give_back(WHOLE)
    assert not in_use.holds(ONE)
    in_use.give_back(PART)
    assert (in_use.is_shared(TWO), in_use.consumed(TWO, "memory")) == (True, 0)
    in_use.give_back(BARE)
    assert in_use.devices == frozenset()
    assert twin.consumed(TWO, "memory") == 5
    assert twin.is_whole(ONE)


def test_access_as_administrator_counts_as_nothing() -> None:
    """The device stays free for everybody else."""
    assert not DevicesInUse([ClaimAllocation((GivenDevice("r", ONE, admin=True),))]).holds(ONE)
