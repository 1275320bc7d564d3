"""Counting work instead of taking its time, which depends on the machine and on what else it does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def calls(work: Callable[[], object], name: str = "") -> int:
    """Count the Python functions that `work` calls, or only those of a name."""
    count = 0

    def called(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call" and name in {"", frame.f_code.co_name}

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # Hypothesis has itself called at each collection, which may come at any moment
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count
