"""The garbage collector looks at little, however much there is, and free memory goes back to the system."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from extender.cli import interpreter
from extender.cli.interpreter import GC_THRESHOLDS, give_memory_back, keep_memory_small, settle_survivors, tune

#: Objects that one collection may look at: a few milliseconds.
MOST = 3_500
#: Prints how many bytes are mapped apart from the heap for a buffer of a connection, once one has been freed.
BUFFER = """
import ctypes, sys
from extender.cli.interpreter import keep_buffers_apart

class Mallinfo(ctypes.Structure):
    _fields_ = [(str(at), ctypes.c_size_t) for at in range(10)]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Mallinfo
if len(sys.argv) > 1:
    keep_buffers_apart(int(sys.argv[1]))
first = bytearray(256_000)
del first
before = getattr(mallinfo(), "4")
kept = bytearray(256_000)
print(getattr(mallinfo(), "4") - before)
"""


@pytest.fixture
def looked_at() -> Iterator[list[int]]:
    """Tune the collector as `muster serve` does; return how many objects each collection looks at from now on."""
    before, found = gc.get_threshold(), list[int]()

    def count(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            found.append(sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))

    gc.freeze()
    tune()
    gc.callbacks.append(count)
    yield found
    gc.callbacks.remove(count)
    gc.callbacks.remove(settle_survivors)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_no_collection_looks_at_more_than_was_allocated_lately(looked_at: list[int]) -> None:
    """Not those of a cluster with many pods either: what has survived is left alone, also by a full collection."""
    kept = [[number] for number in range(40 * GC_THRESHOLDS[0])]
    gc.collect()
    assert len(looked_at) > 30
    assert max(looked_at) <= MOST
    assert len(kept) == 40 * GC_THRESHOLDS[0]


def test_cycles_that_are_given_up_soon_are_collected(looked_at: list[int]) -> None:
    """What is left of an error, a task or a call is found while it is new."""

    class Left:
        """One end of a cycle."""

        itself: object

    for _ in range(10 * GC_THRESHOLDS[0]):
        left = Left()
        left.itself = left
    assert looked_at
    gc.collect(0)
    assert sum(isinstance(each, Left) for each in gc.get_objects()) < 10


def test_memory_between_objects_goes_back_to_the_system() -> None:
    """Resident memory falls by what is free inside the heap, of which the allocator alone returns nothing."""
    blocks = [bytearray(20_000) for _ in range(4000)]
    kept = blocks[::50]
    del blocks
    before = resident()
    give_memory_back()
    assert resident() < before - 60_000_000
    assert len(kept) == 80


async def test_memory_goes_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given back at regular times, for as long as Muster runs."""
    given, thrice = list[float](), asyncio.Event()

    def give() -> None:
        given.append(1.0)
        if len(given) == 3:
            loop.call_soon_threadsafe(thrice.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(interpreter, "give_memory_back", give)
    keeping = asyncio.create_task(keep_memory_small(lambda: 0, 0.001))
    await thrice.wait()
    keeping.cancel()


@pytest.mark.parametrize(("arrays", "apart"), [((), False), (("200000",), True), (("300000",), False)])
def test_buffers_of_connections_leave_no_holes(arrays: tuple[str, ...], *, apart: bool) -> None:
    """They are apart from the heap, also after the first was freed, unless arrays as large would be so with them."""
    command = [sys.executable, "-c", BUFFER, *arrays]
    mapped = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (mapped >= 256_000) == apart


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
