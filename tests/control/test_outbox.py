"""The outbox: order, bounds, retries, and what becomes of a wish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from extender.control.metrics import Metrics
from extender.control.outbox import Outbox, Urgency, WriteRank, WriteWindow
from extender.control.ports import ApiError
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock


class Recorder:
    """Calls that record when they were made, and fail as scripted."""

    def __init__(self) -> None:
        self.made: list[tuple[str, float]] = []
        self.failures: list[ApiError] = []
        self.seconds = 0.0
        self.most = self.now = 0

    def call(self, name: str) -> Callable[[], Awaitable[None]]:
        """Return a write called `name`."""

        async def write() -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            self.made.append((name, round(asyncio.get_running_loop().time(), 3)))
            try:
                await asyncio.sleep(self.seconds)
                if self.failures:
                    raise self.failures.pop(0)
            finally:
                self.now -= 1

        return write


@pytest.fixture
def recorder() -> Recorder:
    """Return a recorder whose calls succeed at once."""
    return Recorder()


@pytest.fixture
def metrics() -> Metrics:
    """Return fresh metrics."""
    return Metrics()


@pytest.fixture
def settings() -> Settings:
    """Return settings with a small concurrency."""
    return Settings(write_concurrency=2, write_retry_seconds=10)


@pytest.fixture
async def outbox(settings: Settings, metrics: Metrics) -> AsyncIterator[Outbox]:
    """Run an outbox."""
    box = Outbox(settings, LoopClock(asyncio.get_running_loop()), metrics, WriteWindow(settings.write_concurrency))
    task = asyncio.create_task(box.run())
    yield box
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def result(metrics: Metrics, kind: str, outcome: str) -> float:
    """Read how many writes ended so."""
    return metrics.registry.get_sample_value("muster_writes_total", {"kind": kind, "result": outcome}) or 0.0


async def test_urgent_writes_go_first(outbox: Outbox, recorder: Recorder) -> None:
    """A nomination overtakes events that were put before it."""
    for name in "abc":
        outbox.put(Urgency.EVENT, name, name, recorder.call(name))
    outbox.put(Urgency.NOMINATION, "n", "n", recorder.call("n"))
    await asyncio.sleep(1)
    assert [name for name, _ in recorder.made] == ["n", "a", "b", "c"]
    assert len(outbox) == 0


async def test_a_newer_wish_replaces_an_older_one(outbox: Outbox, recorder: Recorder) -> None:
    """Of two wishes with one key only the newer is sent."""
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("old"))
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("new"))
    await asyncio.sleep(1)
    assert [name for name, _ in recorder.made] == ["new"]


async def test_writes_of_one_key_never_overlap(outbox: Outbox, recorder: Recorder) -> None:
    """The second write of a key starts when the first has ended."""
    recorder.seconds = 3
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("first"))
    await asyncio.sleep(1)
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("second"))
    await asyncio.sleep(10)
    assert [time for _, time in recorder.made] == [0, 3]


async def test_concurrency_is_bounded(outbox: Outbox, recorder: Recorder) -> None:
    """No more writes are under way than the window has places."""
    recorder.seconds = 1
    for index in range(7):
        outbox.put(Urgency.NOMINATION, f"k{index}", "k", recorder.call("w"))
    await asyncio.sleep(0.5)
    assert len(outbox) == 7
    await asyncio.sleep(10)
    assert recorder.most == 2
    assert len(recorder.made) == 7


async def test_a_forgotten_wish_is_not_sent(outbox: Outbox, recorder: Recorder) -> None:
    """A wish can be withdrawn until it is sent."""
    outbox.put(Urgency.NOMINATION, "k", "k", recorder.call("w"))
    outbox.forget("k")
    await asyncio.sleep(1)
    assert recorder.made == []


async def test_transient_failures_are_retried_with_growing_pauses(
    outbox: Outbox, recorder: Recorder, metrics: Metrics
) -> None:
    """Retry-After is respected, and the pause doubles."""
    recorder.failures = [ApiError(500, "", ""), ApiError(0, "", ""), ApiError(429, "", "", retry_after=2)]
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("w"))
    await asyncio.sleep(5)
    assert [time for _, time in recorder.made] == pytest.approx([0, 0.05, 0.15, 2.15], abs=0.005)
    assert result(metrics, "status", "retried") == 3
    assert result(metrics, "status", "ok") == 1


async def test_a_write_is_given_up_in_the_end(outbox: Outbox, recorder: Recorder, metrics: Metrics) -> None:
    """After write_retry_seconds a failure is final, counted and logged."""
    recorder.failures = [ApiError(503, "", "")] * 1000
    outbox.put(Urgency.EVENT, "k", "k", recorder.call("w"))
    await asyncio.sleep(30)
    assert result(metrics, "event", "failed") == 1
    assert len(outbox) == 0


async def test_a_refusal_is_final_at_once(outbox: Outbox, recorder: Recorder, metrics: Metrics) -> None:
    """What the server forbids is not tried again; what has no object left is not even a failure."""
    recorder.failures = [ApiError(403, "Forbidden", "RBAC"), ApiError(404, "NotFound", "gone")]
    outbox.put(Urgency.STATUS, "a", "a", recorder.call("a"))
    outbox.put(Urgency.STATUS, "b", "b", recorder.call("b"))
    await asyncio.sleep(1)
    assert len(recorder.made) == 2
    assert result(metrics, "status", "failed") == 1
    assert result(metrics, "status", "outdated") == 1


async def test_a_denial_of_what_starts_a_gang_is_final_after_seconds(
    outbox: Outbox, recorder: Recorder, metrics: Metrics
) -> None:
    """An admission webhook that denies a nomination may be of another opinion a moment later, and not for ever."""
    recorder.failures = [ApiError(403, "Forbidden", "denied")] * 3
    outbox.put(Urgency.WAKING, "a", "a", recorder.call("a"))
    await asyncio.sleep(5)
    assert result(metrics, "nomination", "ok") == 1
    recorder.failures = [ApiError(400, "BadRequest", "denied without a code")] * 1000
    outbox.put(Urgency.NOMINATION, "b", "b", recorder.call("b"))
    await asyncio.sleep(20)
    assert result(metrics, "nomination", "failed") == 1
    assert len(outbox) == 0


async def test_no_namespace_fills_the_window(metrics: Metrics, recorder: Recorder) -> None:
    """While the writes of one hang, in an admission webhook say, those of another go on, of each urgency."""
    box = Outbox(Settings(), LoopClock(asyncio.get_running_loop()), metrics, WriteWindow(16))
    task = asyncio.create_task(box.run())
    recorder.seconds = 10
    for index in range(50):
        box.put(Urgency.NOMINATION, f"n{index}", f"bad/{index}", recorder.call("bad nomination"))
        box.put(Urgency.STATUS, f"s{index}", f"bad/{index}", recorder.call("bad status"))
    await asyncio.sleep(1)
    recorder.seconds = 0.01
    recorder.made.clear()
    for index in range(20):
        box.put(Urgency.NOMINATION, f"good{index}", f"good/{index}", recorder.call("nomination"))
        box.put(Urgency.EVENT, f"told{index}", f"good/{index}", recorder.call("event"))
    await asyncio.sleep(1)
    assert sorted(name for name, _ in recorder.made) == ["event"] * 20 + ["nomination"] * 20
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_namespace_does_not_hold_the_others_turns_back() -> None:
    """Writes that no outbox holds back, as Bindings, leave a quarter of the window to other namespaces as well."""
    window, order, gate = WriteWindow(4), list[str](), asyncio.Event()

    async def write(namespace: str) -> None:
        async with window.turn(WriteRank.BINDING, namespace):
            order.append(namespace)
            if namespace == "bad":
                await gate.wait()

    async with asyncio.TaskGroup() as group:
        for namespace in ["bad"] * 6 + ["good"] * 3:
            group.create_task(write(namespace))
        await asyncio.sleep(0.1)
        assert order == ["bad"] * 3 + ["good"] * 3
        gate.set()
    assert order.count("bad") == 6


@pytest.mark.parametrize(("message", "backlogged"), [("failed calling webhook", False), ("etcd has no leader", True)])
async def test_a_webhook_that_fails_is_no_backlog(
    outbox: Outbox, recorder: Recorder, message: str, *, backlogged: bool
) -> None:
    """The API server answers, and takes the nominations of other namespaces: theirs are not held off."""
    recorder.failures = [ApiError(500, "InternalError", message)] * 1000
    outbox.put(Urgency.WAKING, "a", "bad/a", recorder.call("a"))
    await asyncio.sleep(8)
    assert outbox.backlogged() is backlogged
    assert outbox.nominations_wait


async def test_a_retry_gives_way_to_a_newer_wish(outbox: Outbox, recorder: Recorder) -> None:
    """A wish that failed does not come back after a newer one took its place."""
    recorder.failures = [ApiError(500, "", "")]
    recorder.seconds = 1
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("old"))
    await asyncio.sleep(0.5)
    outbox.put(Urgency.STATUS, "k", "k", recorder.call("new"))
    await asyncio.sleep(10)
    assert [name for name, _ in recorder.made] == ["old", "new"]


async def test_events_are_dropped_first_when_the_queue_is_full(metrics: Metrics, recorder: Recorder) -> None:
    """Beyond its capacity the outbox drops the oldest events, counted, and nothing else."""
    box = Outbox(Settings(), LoopClock(asyncio.get_running_loop()), metrics, WriteWindow(1))
    box.CAPACITY = 3
    for name in "abcd":
        box.put(Urgency.EVENT, name, name, recorder.call(name))
    box.put(Urgency.NOMINATION, "n", "n", recorder.call("n"))
    assert len(box) == 3
    assert result(metrics, "event", "dropped") == 2


class TestReports:
    """Writes that nobody waits for."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Allow ten reports a second, and sixteen writes at once."""
        return Settings(report_rate_per_second=10, write_concurrency=16)

    async def test_the_rate_is_bounded(self, outbox: Outbox, recorder: Recorder) -> None:
        """Twenty statuses at ten a second take two seconds."""
        for index in range(20):
            outbox.put(Urgency.STATUS, f"k{index}", "k", recorder.call("w"))
        await asyncio.sleep(10)
        times = [time for _, time in recorder.made]
        assert len(times) == 20
        assert times[-1] == pytest.approx(1.8, abs=0.15)

    async def test_nominations_have_no_rate(self, outbox: Outbox, recorder: Recorder) -> None:
        """Twenty of them go at once, however many reports went before."""
        for index in range(5):
            outbox.put(Urgency.EVENT, f"e{index}", "e", recorder.call("event"))
        await asyncio.sleep(0.05)
        for index in range(20):
            outbox.put(Urgency.NOMINATION, f"n{index}", "n", recorder.call("nomination"))
        await asyncio.sleep(0.01)
        assert sum(name == "nomination" for name, _ in recorder.made) == 20

    async def test_they_fill_an_eighth_of_the_window(self, outbox: Outbox, recorder: Recorder) -> None:
        """Two of sixteen writes under way are reports, while nominations take the places that are left."""
        recorder.seconds = 1
        for index in range(5):
            outbox.put(Urgency.EVENT, f"e{index}", f"e{index}", recorder.call("event"))
        for index in range(13):
            outbox.put(Urgency.NOMINATION, f"n{index}", f"n{index % 2}", recorder.call("nomination"))
        await asyncio.sleep(0.5)
        assert [name for name, _ in recorder.made] == ["nomination"] * 13 + ["event"] * 2
