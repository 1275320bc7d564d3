"""How the interpreter is set up for serving: threads, garbage, imports, and memory that nothing uses any more."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import extender

#: Seconds. Libraries own threads (DNS, metrics); at CPython's 5 ms, one that computes delays a verb by as much.
SWITCH_INTERVAL = 0.0005
#: Objects allocated beyond those freed before a young collection, and young ones before an older one. A young one looks
#: at what was allocated since the last, an older one at 3,000 objects at most: 0.1 ms, and twenty times that while
#: other programs have the caches; with 7,500 it was up to 7 ms. What that leaves is taken out of the collector's sight
#: (`settle_survivors`): nothing ever looks at all objects, which takes 90 ms with 20,000 waiting pods, and more than
#: 200 with 50,000.
GC_THRESHOLDS = (1_000, 1, 1000)
#: Seconds between two times that free memory goes back to the system.
GIVE_BACK_SECONDS = 60.0
#: What is allocated outside of the heap, where that is small enough (bytes): the read buffer that uvloop has for each
#: connection is among it, 256,000 bytes, for TLS 262,144. Source: uvloop includes/consts.pxi, UV_STREAM_RECV_BUF_SIZE
#: and SSL_READ_MAX_SIZE, release 0.23.
APART_BYTES: Final = 250_000
#: Source: glibc malloc/malloc.h, M_MMAP_THRESHOLD, and malloc/malloc.c, DEFAULT_MMAP_THRESHOLD_MAX.
_MMAP_THRESHOLD, _MOST_APART_BYTES = -3, 32 << 20
#: What the standard library and the Kubernetes client import when it is first used.
_USED_LATER = ("concurrent.futures.thread", "encodings.idna", "linecache", "numpy.ma", "stringprep")


def tune() -> None:
    """Make pauses of the interpreter rare and short."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.callbacks.append(settle_survivors)


def settle_survivors(phase: str, info: Mapping[str, int]) -> None:
    """Move what an older collection has left out of the collector's sight, as that collection ends.

    It is freed all the same when nothing refers to it any more; only cycles of such objects would never be freed. What
    comes and goes leaves none, which is tested for each: gangs, calls, held binds, failed writes, open pages.
    """
    if phase == "stop" and info["generation"]:
        gc.freeze()


def import_ahead() -> None:
    """Import what would be imported when it is first used: with no file left to open that would end the process."""
    for module in pkgutil.walk_packages(extender.__path__, f"{extender.__name__}."):
        if not module.name.startswith(("extender.cli", "extender.__main__")):
            importlib.import_module(module.name)
    for name in _USED_LATER:
        importlib.import_module(name)


def settle_code() -> None:
    """Collect the garbage of start-up, and move modules and classes out of the collector's sight."""
    gc.collect()
    gc.freeze()


def settle_data() -> None:
    """Move what is alive after a complete list out of the collector's sight.

    Without a collection first: with 50,000 pods it would hold the event loop for 100 ms, when the first calls wait.
    """
    gc.freeze()


def give_memory_back() -> None:
    """Have glibc return free pages to the system; other allocators are left alone.

    By itself it returns only those at the end of its heap: under churn those between objects grow by 14 MB in 20
    minutes. It takes 2 ms for a heap of 60 MB, in which others wait who allocate more than 512 bytes.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_buffers_apart(array_bytes: int) -> None:
    """Have glibc keep the buffers of connections out of its heap, where arrays of so many bytes stay in it.

    Connections come and go, and what is allocated meanwhile fills the holes that their buffers leave: the heap grew by
    0.25 MB with each 1,000 pods that came and went. By itself glibc stops to keep such buffers apart when the first is
    freed. Larger arrays are left in the heap, with the buffers: having pages mapped for each takes decisions on 10,000
    nodes half as long again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, APART_BYTES if array_bytes < APART_BYTES else _MOST_APART_BYTES)


async def keep_memory_small(array_bytes: Callable[[], int], seconds: float = GIVE_BACK_SECONDS) -> NoReturn:
    """Keep buffers apart, and give free memory back, every so many seconds, the latter in a thread, until cancelled."""
    while True:
        keep_buffers_apart(array_bytes())
        await asyncio.sleep(seconds)
        await asyncio.to_thread(give_memory_back)
