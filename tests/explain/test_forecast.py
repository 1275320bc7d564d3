"""Every gang that waits is told when it will start, and it comes true where all runs as declared."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import PodSeen, QueueSeen
from extender.explain.forecast import APART_JUDGEMENTS, TURNOVER_SECONDS, Forecast
from extender.explain.foresight import Foresight, Prospect, foresee
from extender.explain.runtimes import LearnedRuntimes, RuntimeSource
from extender.objects.keys import Options
from extender.objects.meta import time_text
from extender.objects.pod import Phase
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, QueueingStrategy, Quota, Reclaim, WithinQueue
from extender.objects.reason import Reason
from extender.objects.topology import TopologyTerms
from extender.placement.earmark import ENDING_SECONDS
from tests.examples import share
from tests.explain.conftest import racked
from tests.worlds import GPU, Job, World


def scene_of(world: World, runtimes: LearnedRuntimes | None = None) -> Foresight:
    """Return what a forecast rests on."""
    gathering = foresee(world.admission, runtimes or LearnedRuntimes(), world.now)
    while True:
        try:
            next(gathering)
        except StopIteration as done:
            scene: Foresight = done.value
            return scene


def forecast(
    world: World, runtimes: LearnedRuntimes | None = None, apart: int = APART_JUDGEMENTS
) -> dict[str, Prospect]:
    """Return when each gang will start that waits, by its UID."""
    found = Forecast(scene_of(world, runtimes), apart)
    for _ in found.steps():
        pass
    found.conclude()
    return found.prospects


def job(world: World, name: str, members: int, seconds: float | None, gpus: int = 8, **more: Any) -> Job:
    """Create a gang that says how long it runs, or does not."""
    topology = TopologyTerms(required=more.pop("required", ""))
    notice = more.pop("eviction_notice", 0.0)
    options = Options(expected_duration=seconds, queue=more.pop("queue", ""), topology=topology, eviction_notice=notice)
    group = {"options": options} | ({"created": more.pop("created")} if "created" in more else {})
    return world.gang(name, members, gpus, group=group, **more)


@dataclass
class Play:
    """Gangs that run exactly as long as they say, in a world whose clock goes from end to end.

    `ends` has when gangs end that run, `started` when each started, both in epoch seconds.
    """

    world: World
    runtimes: dict[str, float]
    jobs: list[Job]

    def __post_init__(self) -> None:
        """Nothing has started yet."""
        self.ends: dict[str, float] = {}
        self.started: dict[str, float] = {}

    def start(self) -> None:
        """Let the gangs run that have places."""
        for each in self.jobs:
            name = each.ref.name
            if name in self.started or not each.reserved:
                continue
            self.started[name] = self.world.now
            each.run()
            began = self.world.now + TURNOVER_SECONDS
            for index in range(len(each.pods)):
                each.see(index, started_at=began)
            self.ends[name] = began + self.runtimes[name]

    def go_on(self) -> bool:
        """Go to the next end; return whether there was one."""
        if not self.ends:
            return False
        at = min(self.ends.values())
        self.world.clock.advance(at - self.world.now)
        for each in self.jobs:
            if self.ends.get(each.ref.name) == at:
                del self.ends[each.ref.name]
                for index in range(len(each.pods)):
                    each.see(index, phase=Phase.SUCCEEDED)
        self.world.judge()
        self.start()
        return True


NO_EVICTIONS = PreemptionPolicy(WithinQueue.NEVER, Reclaim.NEVER)
GANGS = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([2, 4, 8]),
        st.integers(1, 40).map(lambda each: 97.0 * each),
        st.sampled_from(["one", "two"]),
        st.integers(0, 1),
        st.sampled_from(["", "", "rack"]),
    ),
    min_size=2,
    max_size=12,
)


def played(
    gangs: Sequence[tuple[int, int, float, str, int, str]], strategy: QueueingStrategy, apart: int = APART_JUDGEMENTS
) -> tuple[dict[str, Prospect], Play]:
    """Return what was said of gangs once the first of them ran, and how it came."""
    world = racked()
    for name, quota in (("one", 16), ("two", 8)):
        own = Queue(name, uid=name, parent="all", flavors=(Flavor("any", {GPU: Quota(quota)}),), strategy=strategy)
        world.tell(QueueSeen(replace(own, preemption=NO_EVICTIONS)))
    world.tell(QueueSeen(Queue("all", uid="all", flavors=(Flavor("any", {GPU: Quota(8)}),))))
    play = Play(world, {}, [])
    for index, (members, gpus, seconds, queue, priority, required) in enumerate(gangs):
        play.runtimes[f"g{index}"] = seconds
        created = job(world, f"g{index}", members, seconds, gpus, queue=queue, priority=priority, required=required)
        play.jobs.append(created)
    world.judge()
    play.start()
    world.judge()
    return forecast(world, apart=apart), play


@given(GANGS, st.sampled_from(QueueingStrategy))
@share(0.5)
def test_comes_true(gangs: list[tuple[int, int, float, str, int, str]], strategy: QueueingStrategy) -> None:
    """To the second, as far as ends are told apart: with quota that is lent, priorities, racks and backfill."""
    said, play = played(gangs, strategy)
    waiting = {each.ref.name: said.get(each.gang.uid) for each in play.jobs if each.ref.name not in play.started}
    while play.go_on():
        pass
    for name, prospect in waiting.items():
        assert prospect is not None
        assert prospect.at == pytest.approx(play.started[name], abs=2.0) if name in play.started else not prospect.at


@given(GANGS)
@share(0.3)
def test_ends_that_are_taken_together_keep_it_known(gangs: list[tuple[int, int, float, str, int, str]]) -> None:
    """Never before the first end there is; ends that change their order may change who starts by more than that."""
    said, play = played(gangs, QueueingStrategy.BEST_EFFORT_FIFO, apart=0)
    first = min(play.ends.values(), default=play.world.now)
    waiting = {each.ref.name: said[each.gang.uid] for each in play.jobs if each.ref.name not in play.started}
    while play.go_on():
        pass
    for name, prospect in waiting.items():
        assert (name in play.started) == (prospect.at is not None)
        if prospect.at is not None:
            assert prospect.at >= first


def test_unknown_is_said_with_its_reason() -> None:
    """Who runs without saying how long is named; what would never fit is said to be so."""
    world = World()
    world.nodes(2)
    job(world, "silent", 2, None).run()
    waits, large = job(world, "waits", 1, 100.0), job(world, "large", 3, 100.0)
    world.judge()
    said = forecast(world)
    assert said[waits.gang.uid] == Prospect(None, unknown="not known how long these run: default/silent")
    assert said[large.gang.uid].unknown == "no end of another makes room: ExceedsCluster"


def test_learned_runtimes_stand_in_for_those_that_are_not_declared() -> None:
    """The median of three that ran in its namespace, and of those that ran longer once it has run for as long."""
    world, learned = World(), LearnedRuntimes()
    world.nodes(1)
    running = job(world, "running", 1, None)
    running.run()
    running.see(0, started_at=world.now)
    waits = job(world, "waits", 1, None)
    for seconds in (100.0, 300.0):
        learned.note("", "default", "", seconds)
    assert forecast(world, learned)[waits.gang.uid].at is None
    learned.note("", "default", "", 200.0)
    found = forecast(world, learned)[waits.gang.uid]
    assert found == Prospect(world.now + 200.0, "default/running", source=RuntimeSource.LEARNED)
    world.later(250.0)
    assert forecast(world, learned)[waits.gang.uid].at == world.now + 50.0


def test_who_gets_very_old_goes_first() -> None:
    """From the next moment on, before those that are more important."""
    world = World(ageing_seconds=200.0)
    world.nodes(1)
    running = job(world, "running", 1, 150.0, priority=9)
    running.run()
    running.see(0, started_at=world.now)
    old = job(world, "old", 1, 100.0, created=time_text(world.now))
    world.later(100.0)
    created = time_text(world.now)
    urgent = [job(world, f"urgent-{number}", 1, 100.0, priority=5, created=created) for number in range(2)]
    said = forecast(world)
    starts = [said[each.gang.uid].at for each in (urgent[0], old, urgent[1])]
    assert None not in starts
    assert starts == sorted(starts, key=lambda at: at or 0.0)


def test_who_is_evicted_leaves_when_the_notice_is_over() -> None:
    """Then the gang starts for which they leave, and those behind it when that one ends."""
    world = World()
    world.nodes(1)
    low = job(world, "low", 1, 5000.0, priority=1, eviction_notice=120.0)
    low.run()
    low.see(0, started_at=world.now)
    high, behind = job(world, "high", 1, 300.0, priority=5), job(world, "behind", 1, 300.0)
    world.judge()
    assert high.reason is Reason.PREEMPTING
    world.later(20.0)
    said, due = forecast(world), world.now + 100.0 + ENDING_SECONDS
    assert said[high.gang.uid] == Prospect(due, "default/low")
    assert said[behind.gang.uid].at == due + TURNOVER_SECONDS + 300.0


def test_only_so_many_runtimes_are_remembered() -> None:
    """Who has not run for longest is forgotten."""
    world, learned = World(), LearnedRuntimes()
    for number in range(2_001):
        for seconds in (1.0, 2.0, 3.0):
            learned.note("", f"team-{number}", "", seconds)
    world.nodes(1)
    assert learned.expect(job(world, "other", 1, None).gang, world.admission.sharing) is None
    assert len(learned) == 2_000


def test_what_a_forecast_rests_on_is_gathered_in_steps() -> None:
    """Each looks at 64 gangs that wait, or at as many members of those that run."""
    world = World()
    world.nodes(1)
    for number in range(200):
        job(world, f"waits-{number}", 2, 100.0)
    assert sum(1 for _ in foresee(world.admission, LearnedRuntimes(), world.now)) >= 1 + 200 // 64 + 600 // 66


def others(world: World, count: int) -> None:
    """Let pods of another scheduler run."""
    for number in range(count):
        pod = world.pod(f"other-{number}", cpu=10, scheduler_name="default-scheduler", node_name="node-0")
        world.tell(PodSeen(pod))


def test_what_runs_is_gathered_only_if_any_gang_waits_for_it() -> None:
    """Else nothing would come of it; what has no known end is counted, and three are named."""
    world = World()
    world.nodes(1)
    others(world, 5)
    job(world, "runs", 1, 100.0).run()
    world.judge()
    assert scene_of(world).running == []
    waits = job(world, "waits", 1, 100.0)
    world.judge()
    scene = scene_of(world)
    assert [each.name for each in scene.running] == ["default/runs"]
    assert str(scene.endless) == "default/other-0, default/other-1, default/other-2 and 2 more"
    assert forecast(world)[waits.gang.uid].at is not None


def test_no_long_list_is_kept_between_the_steps() -> None:
    """The garbage collector would look through it: 50,000 pods took it 10 ms."""
    world = World()
    world.nodes(1)
    others(world, 600)
    job(world, "waits", 2, 100.0)
    world.judge()
    gathering, longest = foresee(world.admission, LearnedRuntimes(), world.now), 0
    gc.freeze()
    for _ in gathering:
        longest = max([longest, *(len(each) for each in gc.get_objects() if isinstance(each, list | dict | tuple))])
    gc.unfreeze()
    assert longest < 600
