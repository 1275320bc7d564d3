"""Playing a story to its end: faults, then quiet, until everybody who can run has run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from extender.settings import Settings
from tests.judge import History, Violation, judge
from tests.properties.faults.actions import ACTIONS, Scene
from tests.properties.faults.devices import device_violations, leaks
from tests.properties.faults.population import Population
from tests.properties.faults.process import ProcessLoop
from tests.properties.faults.sharing import Owners, open_queues
from tests.properties.faults.story import Story
from tests.properties.faults.world import World

#: A node counts as lost, and as well again, after seconds rather than after most of a minute.
SETTINGS = Settings(node_lost_seconds=4.0)
#: Quiet is looked at so often (seconds), and so many times at most: Muster keeps the place of who moved for 15 minutes.
_ROUND_SECONDS, _MOST_ROUNDS = 10.0, 110
#: After so long one of several replicas leads: the Lease of another has lapsed, and that is known (seconds).
_ELECTED_SECONDS = 25.0
#: How long one is waited for that cannot run (in rounds): longer than it may keep what it does not use.
_HOPELESS_ROUNDS = 13


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a story: what the API server saw, what the judge says of it, and errors that nobody expected.

    `actions` counts what was done, `bindings`, `evictions` and `allocations` of devices what came of it.
    """

    history: History
    violations: tuple[Violation, ...]
    crashes: tuple[str, ...]
    actions: Counter[str]
    bindings: int
    evictions: int
    allocations: int


def play(story: Story, settings: Settings | None = None) -> Played:
    """Play a story on a loop of its own; equal stories give equal results."""
    with asyncio.Runner(loop_factory=ProcessLoop) as runner:
        return runner.run(_play(story, settings or SETTINGS))


async def _play(story: Story, settings: Settings) -> Played:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    world = World(loop, story.pace, settings, story.replicas)
    try:
        people = Population(world.cluster, story.nodes, claims_devices=story.claims)
        Owners(world, people)
        open_queues(people, 4)
        for host in world.hosts:
            host.line.overtake = people.recreate
        scene = Scene(world, people)
        await world.pass_time(2.0)
        for step in story.steps:
            ACTIONS[step.action].act(scene, step.a, step.b)
            await world.pass_time(step.pause)
        await _calm(world, people)
        history, tolerance = world.record.history(), world.record.tolerance()
        return Played(
            history,
            tuple(sorted([*judge(history, tolerance), *_of_devices(world, people), *_of_jobs(world, people)])),
            tuple(dict.fromkeys(world.crashes)),
            Counter(step.action for step in story.steps),
            world.record.bindings,
            world.record.evictions,
            len(world.record.allocations()),
        )
    finally:
        await world.close()


def _of_devices(world: World, people: Population) -> Iterator[Violation]:
    """Yield what is wrong with devices."""
    record, end = world.record, world.loop.time()
    holdings = record.allocations()
    yield from device_violations(holdings, record.bound_at(), record.seconds_of_choice, record.tolerance(), end)
    if not people.gangs:
        yield from leaks(holdings, end)


def _of_jobs(world: World, people: Population) -> Iterator[Violation]:
    """Yield the Jobs that never ran, though everything else had come to its end: they have no pods that would wait."""
    for gang in people.gangs.values():
        if gang.job:
            yield Violation(world.loop.time(), "P4", f"Job {gang.name} of {gang.members} never ran")


async def _calm(world: World, people: Population) -> None:
    """Let faults end, give everybody what they need, and let gangs that run come to their end, so that others can."""
    world.heal()
    await world.pass_time(1.0 if len(world.hosts) == 1 else _ELECTED_SECONDS)
    for name in people.nodes:
        people.add_node(name)
    open_queues(people)
    for pod in people.pods():
        if pod.group.is_pod:
            people.delete_pod(pod.name)
    await world.pass_time(5.0)  # the longest grace period
    for name, gang in list(people.gangs.items()):
        people.replace_lost(name)
        people.edit_group(name, min(gang.minimum, gang.members))
        people.open_gates(name)
    world.record.calm()
    for number in range(_MOST_ROUNDS):
        await world.pass_time(_ROUND_SECONDS)
        for name, gang in list(people.gangs.items()):
            if people.has_minimum(name):
                people.finish_gang(name)  # at once: whoever waits for what it has must not wait long
                people.gangs.pop(name)
            elif gang.picky and number >= _HOPELESS_ROUNDS:
                people.delete_gang(name)
            else:
                people.replace_lost(name)
        if not people.gangs:
            await world.pass_time(1.0)  # what they had is taken back
            return
