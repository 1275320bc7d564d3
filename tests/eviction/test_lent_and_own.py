"""Who leaves for a gang of a queue: found as by looking at every choice, on small clusters drawn from seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations
from random import Random
from typing import Any

from extender.admission.events import PodSeen
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef
from extender.objects.queue import PreemptionPolicy, Reclaim
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import World

SEEDS = 300

#: What each node has (GPUs), and what can go at most: all choices of so much are looked at, by the search too.
NODE, MOST = 4, 11


@dataclass(frozen=True)
class Runs:
    """What can go of a gang that runs: its core or one of its extras, in which queue, and how many GPUs on which nodes.

    `first` is the first of its members that this is.
    """

    gang: str
    queue: str
    priority: int
    gpus: int
    nodes: tuple[int, ...]
    first: int = 0

    @property
    def core(self) -> bool:
        """Tell whether it is a core, which begins with the first member."""
        return self.first == 0

    @property
    def pods(self) -> set[str]:
        """Name its pods."""
        return {f"{self.gang}-{self.first + number}" for number in range(len(self.nodes))}

    @property
    def held(self) -> int:
        """Count its GPUs."""
        return self.gpus * len(self.nodes)


@dataclass(frozen=True)
class Site:
    """Nodes, what each queue has of them (GPUs) below one root, and who runs; a gang of red comes.

    `pods` and `gpus` are what it asks for; `standing` is weight and priority of each queue.
    """

    nodes: int
    quota: dict[str, int]
    running: tuple[Runs, ...]
    pods: int
    gpus: int
    reclaim: Reclaim
    standing: dict[str, tuple[float, int]]

    @property
    def asked(self) -> int:
        """Count the GPUs that the gang asks for."""
        return self.pods * self.gpus

    def used(self, queue: str, gone: Iterable[Runs]) -> int:
        """Count what a queue holds once some have gone."""
        left = set(self.running) - set(gone)
        return sum(each.held for each in left if each.queue == queue)

    def fits(self, gone: Sequence[Runs]) -> bool:
        """Tell whether the gang has room and quota once some have gone."""
        free = [NODE] * self.nodes
        for each in set(self.running) - set(gone):
            for node in each.nodes:
                free[node] -= each.gpus
        left = sum(self.quota.values()) - sum(self.used(name, gone) for name in self.quota)
        return sum(room // self.gpus for room in free) >= self.pods and self.asked <= left

    def entitled(self, gone: Sequence[Runs]) -> bool:
        """Tell whether there is an order in which each goes by right: those of red by priority, others that borrow."""
        own = [each for each in gone if each.queue == "red"]
        if any(each.priority >= 5 for each in own):
            return False
        lent = [each for each in gone if each.queue != "red"]
        if not lent:
            return True
        if self.reclaim is Reclaim.NEVER or self.used("red", own) + self.asked > self.quota["red"]:
            return False
        if self.reclaim is Reclaim.LOWER_PRIORITY and any(each.priority >= 5 for each in lent):
            return False
        return all(any(map(self._borrows_throughout, permutations(some))) for some in self._by_queue(lent))

    def _by_queue(self, some: Sequence[Runs]) -> list[list[Runs]]:
        return [[each for each in some if each.queue == name] for name in sorted({each.queue for each in some})]

    def _borrows_throughout(self, order: Sequence[Runs]) -> bool:
        """Tell whether a queue has borrowed still when each goes; a core is not what it borrows if extras are that."""
        least = 5 if self.reclaim is Reclaim.LOWER_PRIORITY else 10
        spare = [each for each in self.running if not each.core and each.priority < least]
        return all(
            self.used(each.queue, [*order[:at], *(spare if each.core else ())]) > self.quota[each.queue]
            for at, each in enumerate(order)
        )

    def turns(self) -> Iterator[set[Runs]]:
        """Iterate over those of other queues up to each turn: who has most above its weighted share gives back."""
        gone: list[Runs] = []
        left = sorted((each for each in self.running if each.queue != "red"), key=lambda each: (each.gang, -each.first))
        last = None
        while left:
            queue = min({each.queue for each in left}, key=lambda name: self._order(name, gone))
            core, least = min((each.core, each.priority) for each in left if each.queue == queue)
            if last not in {None, (queue, core, least)}:
                yield set(gone)
            last = queue, core, least
            gone.append(next(each for each in left if (each.queue, each.core, each.priority) == last))
            left.remove(gone[-1])
        yield set(gone)

    def _order(self, queue: str, gone: Sequence[Runs]) -> tuple[float, int, str]:
        weight, priority = self.standing[queue]
        return -max(self.used(queue, gone) - self.quota[queue], 0) / weight, priority, queue

    def choices(self) -> Iterator[tuple[Runs, ...]]:
        """Iterate over all sets that may go and make the gang fit."""
        sets = chain.from_iterable(combinations(self.running, size) for size in range(len(self.running) + 1))
        return (gone for gone in sets if self._whole(gone) and self.fits(gone) and self.entitled(gone))

    def _whole(self, gone: Sequence[Runs]) -> bool:
        """Tell whether all extras of those go whose core does."""
        cores = {each.gang for each in gone if each.core}
        return all(each in gone for each in self.running if each.gang in cores)


def drawn(random: Random) -> Site:
    """Draw a site."""
    nodes = random.randint(1, 3)
    free = [NODE] * nodes
    running = []
    for number in range(random.randint(3, 7)):
        gpus, members, minimum = random.choice((1, 1, 2, 4)), random.randint(1, 3), random.randint(1, 3)
        rows = [row for row in random.sample(range(nodes), nodes) for _ in range(free[row] // gpus)][:members]
        if rows:
            for row in rows:
                free[row] -= gpus
            owner, priority = random.choice(("red", "red", "blue", "green")), random.choice((0, 0, 1, 9))
            fields = (f"job{number}", owner, priority, gpus)
            running.append(Runs(*fields, tuple(rows[:minimum])))
            running += [Runs(*fields, (row,), minimum + at) for at, row in enumerate(rows[minimum:])]
        if len(running) > MOST - 2:
            break
    low, high = sorted(random.randint(0, nodes * NODE) for _ in range(2))
    shares = sorted((low, high - low, nodes * NODE - high), reverse=True)
    quota = dict(zip(("red", "blue", "green"), shares, strict=True))
    reclaim = random.choice((Reclaim.ANY, Reclaim.ANY, Reclaim.LOWER_PRIORITY, Reclaim.NEVER))
    standing = {name: (random.choice((1.0, 2.0, 4.0)), random.choice((0, 1))) for name in quota}
    return Site(nodes, quota, tuple(running), random.randint(1, 2), random.choice((1, 2, 3, 4)), reclaim, standing)


def evicted(site: Site) -> set[str] | None:
    """Return which pods Muster evicts for the gang; None if it waits."""
    world = World()
    world.nodes(site.nodes, NODE)
    tell(world, queue("root"))
    for name, gpus in site.quota.items():
        policy = PreemptionPolicy(reclaim_within_cohort=site.reclaim)
        weight, priority = site.standing[name]
        tell(world, queue(name, gpus, parent="root", preemption=policy, weight=weight, priority=priority))
    for each in site.running:
        ref = GroupRef(COSCHEDULING, "default", each.gang)
        if each.core:
            world.group(ref, len(each.nodes))
        for number, node in enumerate(each.nodes):
            options = keys.Options(queue=each.queue)
            fields: dict[str, Any] = {"group": ref, "priority": each.priority, "options": options}
            name, node_name = f"{each.gang}-{each.first + number}", f"node-{node}"
            pod = world.pod(name, each.gpus, node_name=node_name, phase=Phase.RUNNING, **fields)
            world.tell(PodSeen(pod))
    world.judge()
    world.effects()
    job = gang(world, "head", site.pods, "red", site.gpus, priority=5)
    gone = {each.pod.name for each in world.effects().evictions.values()}
    return gone if gone or job.reserved else None


def test_lent_quota_goes_first_and_nobody_in_vain() -> None:
    """If some of those that borrow are enough they go, else some of its own queue, else both; nobody needlessly.

    Of those that borrow, nobody goes whose queue is nearer to its share than others that are enough.
    """
    ways = dict.fromkeys(("none", "waits", "lent", "own", "both"), 0)
    for seed in range(SEEDS):
        site = drawn(Random(seed))
        names = evicted(site)
        choices = [set(choice) for choice in site.choices()]
        if names is None:
            assert not choices, f"{seed}: missed {choices[0]}"
            ways["waits"] += 1
            continue
        gone = {each for each in site.running if each.pods <= names}
        assert names == set[str]().union(*(each.pods for each in gone)), f"{seed}: {names} are no pieces"
        assert gone in choices, f"{seed}: {names} do not do, or there is no right to them"
        assert not any(choice < gone for choice in choices), f"{seed}: of {names} some go in vain"
        kind = _kind(gone)
        possible = [_kind(choice) for choice in choices]
        assert kind == min(possible, key=list(ways).index), f"{seed}: {names}"
        ways[kind] += 1
        if kind == "lent":
            turn = next(turn for turn in site.turns() if any(choice <= turn for choice in choices))
            assert gone <= turn, f"{seed}: {names} before it is their turn"
    assert all(ways.values()), ways


def _kind(gone: Iterable[Runs]) -> str:
    queues = {each.queue == "red" for each in gone}
    return "none" if not queues else "both" if len(queues) > 1 else "own" if queues == {True} else "lent"
