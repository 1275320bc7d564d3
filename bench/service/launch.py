"""Run as a program, `launch.py SIGNAL ARGUMENTS...`: Muster, which collects all garbage whenever it gets that signal.

The interpreter collects everything once in a blue moon, at a moment of its own choice; how long that holds the event
loop can only be measured by asking for it. Nothing else is added to the process, and nothing imported into it: this is
started by its path, without the package around it.
"""

from __future__ import annotations

import gc
import runpy
import signal
import sys
from types import FrameType


def collect(_number: int, _frame: FrameType | None) -> None:
    """Collect all generations, as the interpreter does when it finds the oldest one due."""
    gc.collect()


if __name__ == "__main__":
    signal.signal(int(sys.argv.pop(1)), collect)
    runpy.run_module("extender", run_name="__main__", alter_sys=True)
