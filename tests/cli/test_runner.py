"""Coroutines run for a command that a user interrupts."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from extender.cli.runner import InterruptibleRunner

#: Where an interrupt can come up while a coroutine is made, run, cancelled, or its loop closed.
INTERRUPTED = ("cli/runner.py", "asyncio/runners.py", "asyncio/base_events.py", "asyncio/tasks.py", "asyncio/events.py")


class InterruptAtLine:
    """A trace function that interrupts this process, as Ctrl-C does, at the line of a number; 0 counts them only."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow the modules in which an interrupt may do harm."""
        del event, argument
        return self._line if frame.f_code.co_filename.endswith(INTERRUPTED) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del frame, argument
        self.lines += event == "line"
        if event == "line" and self.lines == self.number:
            signal.raise_signal(signal.SIGINT)
        return self._line


async def moment() -> str:
    """Take two turns of the loop."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "done"


def interrupted(number: int) -> tuple[bool, int]:
    """Ask twice, interrupted at a line; return whether that was raised, and how many lines were run."""
    interrupt = InterruptAtLine(number)
    before = sys.gettrace()  # of the measured coverage
    sys.settrace(interrupt)
    try:
        with InterruptibleRunner() as runner:
            for _ in range(2):
                runner.run(moment)
    except KeyboardInterrupt:
        return True, interrupt.lines
    finally:
        sys.settrace(before)
    return False, interrupt.lines


def test_an_interrupt_at_any_line_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised once; no coroutine that never ran, no loop left open is complained of."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    _, lines = interrupted(0)
    assert lines > 100
    with caplog.at_level(logging.ERROR, "asyncio"):
        for number in range(1, lines):
            raised, run = interrupted(number)
            assert raised or run < number, number  # how often a loop turns is not the same each time
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    gc.collect()
    assert (complaints, caplog.messages) == ([], [])


def test_an_interrupt_cancels_what_runs() -> None:
    """However long it would take; it has ended when the interrupt is raised."""
    ended: list[str] = []

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    with pytest.raises(KeyboardInterrupt), InterruptibleRunner() as runner:
        runner.run(wait)
    assert ended == ["cancelled"]


def test_an_interrupt_between_two_questions_ends_the_second() -> None:
    """Before it asks anything; what comes after that, such as closing, can be run."""
    asked: list[str] = []

    async def ask() -> None:
        await asyncio.sleep(0)
        asked.append("asked")

    with InterruptibleRunner() as runner:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            runner.run(ask)
        assert asked == []
        runner.run(ask)
    assert asked == ["asked"]


def test_an_interrupt_without_another_question_is_raised_at_the_end() -> None:
    """When everything is closed."""
    with pytest.raises(KeyboardInterrupt), InterruptibleRunner():
        signal.raise_signal(signal.SIGINT)


def test_a_second_interrupt_is_not_held_back() -> None:
    """A user who presses Ctrl-C again does not wait for code that asks nothing."""
    with InterruptibleRunner() as runner:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            runner.run(moment)


def test_what_is_asked_in_another_thread_leaves_signals_alone() -> None:
    """Only the main thread may handle them."""
    answers: list[str] = []

    def ask() -> None:
        with InterruptibleRunner() as runner:
            answers.append(runner.run(moment))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers == ["done"]


def test_a_coroutine_that_takes_too_long_is_ended() -> None:
    """With a TimeoutError; its own errors come through as they are."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    with InterruptibleRunner() as runner:
        with pytest.raises(TimeoutError):
            runner.run(asyncio.Event().wait, 0.0)
        with pytest.raises(ValueError, match="its own"):
            runner.run(fail)
