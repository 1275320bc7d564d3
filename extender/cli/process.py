"""How the process is set up: event loop, garbage collector, thread switching."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

#: Seconds. Libraries own threads (DNS, metrics); at CPython's 5 ms, one that computes delays a verb by as much.
SWITCH_INTERVAL = 0.0005
#: Objects allocated before a young collection, then how many of those before an older one. A young one looks at what
#: was allocated since: 10,000 objects take 2 ms, 100,000 would stop the loop for 20 ms, twice for 50,000 pods.
#: Older ones look at everything that is not frozen, for tens of milliseconds; nearly nothing that Muster allocates is
#: cyclic, so they only come after five million objects more than were freed.
GC_THRESHOLDS = (10_000, 500, 1000)
#: Files that may be open, where the system allows it. Each held bind is a connection, and a shell's usual 1,024 is less
#: than a large gang has members.
OPEN_FILES = 16_384


def tune() -> None:
    """Make pauses of the interpreter rare and short, and let it open files enough."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*GC_THRESHOLDS)
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def settle_code() -> None:
    """Collect the garbage of start-up, and move modules and classes out of the collector's sight."""
    gc.collect()
    gc.freeze()


def settle_data() -> None:
    """Move what is alive after a complete list out of the collector's sight.

    Without a collection first: with 50,000 pods it would hold the event loop for 100 ms, when the first calls wait.
    """
    gc.freeze()


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on a uvloop event loop and return its exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
