"""What the stories with faults judge of devices: allocations of one device at a time, in vain for long, and left."""

from __future__ import annotations

from math import inf

from tests.controlplane.holding import Holding
from tests.judge import Tolerance
from tests.properties.faults.devices import device_violations, leaks

USUAL = Tolerance(news=1.0, write=1.0)


def _always(start: float, end: float) -> float:
    return end - start


def held(pod: str, since: float, seconds: float = inf, devices: int = 1) -> Holding:
    """Return the allocation of a pod's claim, versions being the seconds."""
    names = tuple(("gpu.nvidia.com", "n", f"gpu-{number}") for number in range(devices))
    return Holding(f"{pod}-gpus", pod, names, int(since), since, since + seconds, seconds)


def test_a_device_is_allocated_once_at_a_time() -> None:
    """Two claims may have it one after the other, not together."""
    apart = [held("a", 0, 10), held("b", 10, 10)]
    assert not list(device_violations(apart, {"a": [1.0], "b": [11.0]}, _always, USUAL, 100))
    (found,) = device_violations([held("a", 0, 20), held("b", 10, 5)], {"a": [1.0], "b": [11.0]}, _always, USUAL, 100)
    assert (found.promise, found.at) == ("P2", 10)


def test_devices_are_not_held_long_for_a_pod_that_is_not_bound() -> None:
    """A minute is enough for a bind call that fails and another attempt; a pod that is bound may have them longer."""
    assert not list(device_violations([held("a", 0, 50)], {}, _always, USUAL, 500))
    assert not list(device_violations([held("a", 0)], {"a": [30.0, 31.0]}, _always, USUAL, 500))
    (found,) = device_violations([held("a", 0)], {}, _always, USUAL, 500)
    assert (found.promise, found.at) == ("P3", 500)


def test_nothing_is_left_when_all_have_ended() -> None:
    """An allocation that has no end by then is a leak."""
    assert not list(leaks([held("a", 0, 50)], 100))
    assert [found.promise for found in leaks([held("a", 0, 50), held("b", 60)], 100)] == ["P6"]
