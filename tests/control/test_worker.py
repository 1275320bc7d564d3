"""Calls that block are made one after the other in a thread, and no more of them wait than it can take."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from extender.control.worker import BusyWorkerError, Worker
from tests.patience import HANGS


def test_calls_that_nothing_waits_for_are_not_made() -> None:
    """While a call hangs others come together: those that are cancelled are passed by, and too many are refused."""
    asyncio.run(_submit_many())  # in real time: a thread takes some


async def _submit_many() -> None:
    worker, begun, go_on, asked = Worker("test"), threading.Event(), threading.Event(), list[int]()

    def hang() -> None:
        begun.set()
        go_on.wait(HANGS)

    first = worker.submit(hang)
    assert begun.wait(HANGS)
    waiting = [worker.submit(partial(asked.append, number)) for number in range(100)]
    with pytest.raises(BusyWorkerError, match="100 calls wait already"):
        await worker.submit(lambda: None)
    for each in waiting[:-1]:
        each.cancel()
    go_on.set()
    await asyncio.gather(first, waiting[-1])
    assert asked == [99]
