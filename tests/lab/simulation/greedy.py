"""Hours in which queues share a cluster, and a plain greedy way to share it fairly, to compare Muster with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

#: The GPUs of every node, how long an hour is, and what every queue asks for (seconds).
GPUS, HOUR, DELAY, MIN_RUNTIME = 8, 3600, 60, 120

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"

_FLAVOR = "flavors: [{{name: default, resources: [{{name: nvidia.com/gpu, nominalQuota: {gpus}}}]}}]"
_PREEMPTION = (
    f"preemption: {{{{withinQueue: Never, minRuntime: {MIN_RUNTIME}s, "
    f"fairSharing: {{{{strategy: {{strategy}}, delay: {DELAY}s}}}}}}}}"
)


@dataclass(frozen=True, slots=True)
class WeightedQueue:
    """A queue without quota of its own, below the root or a parent that has none either."""

    name: str
    weight: int
    parent: str = "root"


@dataclass(frozen=True, slots=True)
class ArrivingGang:
    """A gang of so many pods of so many GPUs each, which arrives at some second and never ends."""

    name: str
    queue: str
    pods: int
    gpus: int
    arrival: int
    priority: int = 0

    @property
    def size(self) -> int:
        """Return how many GPUs it takes."""
        return self.pods * self.gpus


@dataclass(frozen=True)
class SharedHour:
    """An hour of a cluster whose GPUs are all to be borrowed, by queues that ask for fair sharing."""

    nodes: int
    queues: Sequence[WeightedQueue]
    gangs: Sequence[ArrivingGang]
    strategy: str

    @property
    def gpus(self) -> int:
        """Return how many GPUs there are."""
        return self.nodes * GPUS

    @cached_property
    def by_name(self) -> dict[str, WeightedQueue]:
        """Return the queues by name, parents as well."""
        return {queue.name: queue for queue in self.queues}

    def scenario(self) -> str:
        """Return the hour as `muster simulate` reads it."""
        lines = [
            f"nodes: [{{name: n, count: {self.nodes}, allocatable: {{cpu: 1000, nvidia.com/gpu: {GPUS}}}}}]",
            "topology: {levels: []}",
            "queues:",
            f"  - {{name: root, {_FLAVOR.format(gpus=self.gpus)}}}",
        ]
        for queue in self.queues:
            said = f"{_FLAVOR.format(gpus=0)}, {_PREEMPTION.format(strategy=self.strategy)}"
            lines.append(f"  - {{name: {queue.name}, parent: {queue.parent}, weight: {queue.weight}, {said}}}")
        gangs = (
            f"  - {{name: {gang.name}, queue: {gang.queue}, minMember: {gang.pods}, replicas: {gang.pods}, "
            f"arrival: {gang.arrival}, priority: {gang.priority}, requests: {{nvidia.com/gpu: {gang.gpus}}}}}"
            for gang in self.gangs
        )
        return "\n".join([*lines, "gangs:", *gangs, f"until: {HOUR}s"])

    def path(self, name: str) -> tuple[str, ...]:
        """Return the queues from below the root down to one."""
        queue = self.by_name[name]
        return (name,) if queue.parent == "root" else (*self.path(queue.parent), name)

    def shares(self, running: Iterable[str]) -> dict[str, float]:
        """Return the GPUs that each queue uses with those below it, of its weight."""
        used = dict.fromkeys(self.by_name, 0.0)
        asked = {gang.name: gang for gang in self.gangs}
        for name in running:
            for queue in self.path(asked[name].queue):
                used[queue] += asked[name].size
        return {name: gpus / self.by_name[name].weight for name, gpus in used.items()}

    def unevenness(self, running: Iterable[str]) -> float:
        """Return which part of the GPUs is not with the queue that is to have it by weights and what each asks for."""
        shares = self.shares(running)
        fair: dict[str, float] = {}
        self._pour("root", float(self.gpus), fair)
        leaves = {gang.queue for gang in self.gangs}
        missing = sum(max(fair[name] - shares[name] * self.by_name[name].weight, 0.0) for name in leaves)
        return missing / self.gpus

    def _asked(self, name: str) -> int:
        """Return how many GPUs are asked for in a queue and those below it."""
        return sum(gang.size for gang in self.gangs if name in self.path(gang.queue))

    def _pour(self, parent: str, gpus: float, fair: dict[str, float]) -> None:
        """Divide GPUs among the queues of a parent: by weight, what one does not ask for among the others."""
        left = [queue for queue in self.queues if queue.parent == parent]
        while left:
            unit = gpus / sum(queue.weight for queue in left)
            modest = [queue for queue in left if self._asked(queue.name) <= unit * queue.weight] or left
            for queue in modest:
                fair[queue.name] = min(float(self._asked(queue.name)), unit * queue.weight)
                self._pour(queue.name, fair[queue.name], fair)
            gpus -= sum(fair[queue.name] for queue in modest)
            left = [queue for queue in left if queue not in modest]


def draw(seed: str) -> SharedHour:
    """Return an hour of 3 to 5 nodes, two to four queues, some below parents, and gangs of all sizes."""
    random = Random(f"fair {seed}")
    nodes = random.randint(3, 5)
    leaves = [WeightedQueue(f"q{index}", random.choice((1, 1, 2, 3, 5))) for index in range(random.randint(2, 4))]
    parents = [WeightedQueue("p0", random.choice((1, 2)))] if len(leaves) > 2 and random.random() < 0.5 else []
    if parents:
        leaves[:2] = [WeightedQueue(leaf.name, leaf.weight, "p0") for leaf in leaves[:2]]
    kinds = random.sample([(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4), (2, 4), (1, 8), (2, 8)], k=3)
    gangs: list[ArrivingGang] = []
    for place, leaf in enumerate(leaves):
        asked, start, spread = 0, 300 * place, random.choice((0, 0, 600))
        while asked < nodes * GPUS * random.choice((0.75, 1.0)):
            pods, gpus = random.choice(kinds)
            name, arrival = f"{leaf.name}g{len(gangs)}", start + random.randint(0, spread)
            gangs.append(ArrivingGang(name, leaf.name, pods, gpus, arrival, random.choice((0, 0, 1))))
            asked += gangs[-1].size
    return SharedHour(nodes, (*parents, *leaves), tuple(gangs), random.choice((FINAL, INITIAL)))


@dataclass(slots=True)
class _Running:
    """A gang that runs: since when, and how many GPUs it has on each node."""

    gang: ArrivingGang
    since: float
    nodes: dict[int, int]


@dataclass
class PlainGreedy:
    """Share a cluster fairly as one would who looks at shares only: which gangs leave is not compared.

    At every moment at which something may be done:

    1. Gangs that wait start whole wherever there is room, pod by pod on the fullest node that has it. The queue with
       the least weighted share is asked first, and in it the gang of the highest priority that waits longest.
    2. When none can start, the queue with the least weighted share takes, for the first of its gangs that has waited
       for the delay, from the queue with the most: its gang of the lowest priority that started last leaves, if it has
       run for minRuntime and the strategy of fair sharing allows it, then the next, until the gang fits on nodes or
       none may leave any more. Which queue has the most is looked at before each.

    What leaves waits again at once, and for the delay before it takes from others. So who may take from whom is as in
    Muster. But the greedy does not look for gangs that make room together where the pods need it, does not know before
    it evicts whether the gang will fit in the end, and spares none that turned out not to be needed.
    """

    hour: SharedHour
    running: dict[str, _Running] = field(default_factory=dict)
    waiting: dict[str, tuple[ArrivingGang, float]] = field(default_factory=dict)
    evicted: list[tuple[float, str, str]] = field(default_factory=list)

    def play(self) -> PlainGreedy:
        """Play the hour; `evicted` has the moment, the gang and for which gang it left."""
        arrivals = sorted(self.hour.gangs, key=lambda gang: gang.arrival)
        now = 0.0
        while now < HOUR:
            while arrivals and arrivals[0].arrival <= now:
                gang = arrivals.pop(0)
                self.waiting[gang.name] = (gang, now)
            while self._start(now) or self._take(now):
                pass
            times = [
                *(float(gang.arrival) for gang in arrivals[:1]),
                *(since + DELAY for _, since in self.waiting.values()),
            ]
            times += [each.since + MIN_RUNTIME for each in self.running.values()]
            now = min((time for time in times if time > now), default=float(HOUR))
        return self

    @property
    def pods_evicted(self) -> int:
        """Return how many pods were evicted."""
        pods = {gang.name: gang.pods for gang in self.hour.gangs}
        return sum(pods[name] for _, name, _ in self.evicted)

    def _start(self, now: float) -> bool:
        """Start one gang that has room."""
        for gang in self._in_turn():
            nodes = _placed(gang, self._free())
            if nodes is not None:
                del self.waiting[gang.name]
                self.running[gang.name] = _Running(gang, now, nodes)
                return True
        return False

    def _take(self, now: float) -> bool:
        """Have gangs leave for one that has waited for the delay; return whether any left."""
        for gang in self._in_turn():
            if self.waiting[gang.name][1] + DELAY > now:
                continue
            before = len(self.evicted)
            while _placed(gang, self._free()) is None and (victim := self._victim(gang, now)) is not None:
                self.evicted.append((now, victim, gang.name))
                self.waiting[victim] = (self.running.pop(victim).gang, now)
            if (nodes := _placed(gang, self._free())) is not None:
                del self.waiting[gang.name]
                self.running[gang.name] = _Running(gang, now, nodes)
            if len(self.evicted) > before:
                return True
        return False

    def _victim(self, gang: ArrivingGang, now: float) -> str | None:
        """Return which gang leaves next for one, None if none may."""
        shares = self.hour.shares(self.running)
        mine = self.hour.shares([*self.running, gang.name])
        found: list[tuple[tuple[float, ...], int, float, str]] = []
        for name, each in self.running.items():
            queue = each.gang.queue
            if queue == gang.queue or each.since + MIN_RUNTIME > now:
                continue
            one, other = next(
                pair
                for pair in zip(self.hour.path(gang.queue), self.hour.path(queue), strict=False)
                if pair[0] != pair[1]
            )
            after = self.hour.shares(set(self.running) - {name})
            if mine[one] <= after[other] or (self.hour.strategy == INITIAL and mine[one] < shares[other]):
                most = tuple(-shares[level] for level in self.hour.path(queue))
                found.append((most, each.gang.priority, -each.since, name))
        return min(found)[-1] if found else None

    def _in_turn(self) -> Iterator[ArrivingGang]:
        """Yield the gangs that wait, those of the queue with the least share first."""
        shares = self.hour.shares(self.running)

        def turn(name: str) -> tuple[tuple[float, ...], int, float, str]:
            gang, since = self.waiting[name]
            return tuple(shares[level] for level in self.hour.path(gang.queue)), -gang.priority, since, name

        return (self.waiting[name][0] for name in sorted(self.waiting, key=turn))

    def _free(self) -> list[int]:
        """Return the free GPUs of each node."""
        free = [GPUS] * self.hour.nodes
        for each in self.running.values():
            for node, gpus in each.nodes.items():
                free[node] -= gpus
        return free


def _placed(gang: ArrivingGang, free: list[int]) -> dict[int, int] | None:
    """Return how many GPUs a gang gets on each node, each pod on the fullest that has room; None without room."""
    taken: dict[int, int] = {}
    for _ in range(gang.pods):
        room = [(gpus, node) for node, gpus in enumerate(free) if gpus >= gang.gpus]
        if not room:
            return None
        node = min(room)[1]
        free[node] -= gang.gpus
        taken[node] = taken.get(node, 0) + gang.gpus
    return taken
