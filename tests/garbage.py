"""What is left in cycles when something has come and gone, which only a full garbage collection would find."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable

#: How often each thing happens; what it leaves every time shows in the count.
TIMES = 10
#: What connections of asyncio's own event loop leave. Muster runs on uvloop, whose connections do not.
OF_ASYNCIO = frozenset(
    {"asyncio.selector_events._SelectorSocketTransport", "asyncio.trsock.TransportSocket", "socket.socket"}
    | {"builtins.dict", "builtins.method", "builtins.tuple"}
)


async def garbage(work: Callable[[], Awaitable[None]]) -> dict[str, int]:
    """Return the types of objects that `work` leaves every time in cycles, after it has run once to warm up."""
    await work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMES):
            await work()
        await asyncio.sleep(0)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
        return {name: count for name, count in left.items() if count >= TIMES and name not in OF_ASYNCIO}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
