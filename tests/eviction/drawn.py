"""Small clusters drawn from seeds, played with Muster: queues, gangs that run, and one after the other that comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from extender.admission.events import Decide, PodGone, PodSeen
from extender.ledger.earmark import Earmark
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef
from extender.objects.queue import (
    BorrowWithin,
    FairSharingStrategy,
    NonPreemptible,
    PreemptionPolicy,
    Reclaim,
    WithinQueue,
)
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.eviction.rules import Claim, Ground, Piece, Runs, Team
from tests.queues.test_sharing import queue, tell
from tests.worlds import GPU, Job, World

#: What each node has (GPUs), and what can go at most: all sets of so much are looked at, by the search too.
NODE, MOST = 4, 8

#: Before all that run.
_EARLY = "2026-01-01T00:00:000000Z"


@dataclass(frozen=True)
class Newcomer:
    """A gang that comes: with `minimum` pods of so many GPUs.

    `kept` says that it is not to be evicted, `never` that it evicts nobody, `single` that it is a pod without a group.
    One that `grows` is in the scene already, and comes with `minimum` members more.
    """

    name: str
    queue: str
    priority: int
    minimum: int
    gpus: int
    kept: bool = False
    old: bool = False
    single: bool = False
    never: bool = False
    grows: bool = False


@dataclass(frozen=True)
class Scene:
    """So many nodes, the queues, who runs, and who comes, one after the other."""

    nodes: int
    teams: dict[str, Team]
    running: tuple[Runs, ...]
    coming: tuple[Newcomer, ...]


def drawn(random: Random) -> Scene:
    """Draw a scene."""
    nodes = random.randint(1, 3)
    teams = _teams(random, nodes * NODE)
    leaves = ("red", "red", "red", "blue", "green", *(["east"] if "east" in teams and random.random() < 0.3 else []))
    free = [NODE] * nodes
    coming = [_newcomer(random, f"head{number}", leaves) for number in range(random.choice((1, 1, 2, 3)))]
    running: list[Runs] = []
    for at, each in enumerate(coming):
        if each.grows and free[0] >= each.gpus:
            free[0] -= each.gpus
            running.append(Runs(each.name, each.queue, each.priority, each.gpus, (0,), 1, (each.kept,)))
        elif each.grows:
            coming[at] = replace(each, grows=False)
    pieces = len(running)
    for number in range(random.randint(3, 9)):
        gang = _running(random, f"job{number}", random.choice(leaves), free)
        if gang is None:
            continue
        pieces += len(list(gang.pieces(0)))
        if pieces > MOST:
            break
        for row in gang.rows:
            free[row] -= gang.gpus
        running.append(gang)
    return Scene(nodes, teams, tuple(running), tuple(coming))


def _teams(random: Random, total: int) -> dict[str, Team]:
    """Draw queues below one root, some of them in a branch of their own; together they have what the nodes have."""
    branch, pool = random.random() < 0.5, random.choice((0, 0, 0, 1, 2))
    cuts = sorted(random.randint(0, total - min(pool, total)) for _ in range(2))
    shares = [cuts[0], cuts[1] - cuts[0], total - min(pool, total) - cuts[1]]
    shares.sort(reverse=random.random() < 0.7)
    teams = {"root": Team("root", "", pool if random.random() < 0.5 or not branch else 0)}
    if branch:
        teams["east"] = _team(random, "east", "root", pool - teams["root"].nominal)
    for name, nominal in zip(("red", "blue", "green"), shares, strict=True):
        parent = "east" if branch and (name == "red" or (name == "blue" and random.random() < 0.6)) else "root"
        teams[name] = _team(random, name, parent, nominal)
    return teams


def _team(random: Random, name: str, parent: str, nominal: int) -> Team:
    policy = PreemptionPolicy(
        within_queue=random.choice((*[WithinQueue.LOWER_PRIORITY] * 4, WithinQueue.NEVER, WithinQueue.LOWER_OR_NEWER)),
        reclaim_within_cohort=random.choice(
            (Reclaim.ANY, Reclaim.ANY, Reclaim.ANY, Reclaim.LOWER_PRIORITY, Reclaim.NEVER)
        ),
        borrow_within_cohort=random.choice((BorrowWithin.NEVER, BorrowWithin.NEVER, BorrowWithin.LOWER_PRIORITY)),
        max_priority_threshold=random.choice((None, 0, 1)),
        fair_sharing=random.choice(
            (*[FairSharingStrategy.NEVER] * 4, FairSharingStrategy.FINAL_SHARE, FairSharingStrategy.INITIAL_SHARE)
        ),
        fair_sharing_delay=0.0,
        non_preemptible=random.choice((NonPreemptible.WITHIN_NOMINAL_QUOTA, NonPreemptible.ANYWHERE)),
        min_runtime=random.choice((0.0, 0.0, 0.0, 500.0)),
    )
    borrowing, lending = (random.choice((None, None, None, random.randint(0, 4))) for _ in range(2))
    weight, priority = random.choice((1.0, 2.0, 4.0)), random.choice((0, 0, 1))
    return Team(name, parent, nominal, borrowing, lending, weight, priority, policy)


def _running(random: Random, name: str, queue_name: str, free: Sequence[int]) -> Runs | None:
    gpus, members = random.choice((1, 1, 2, 4)), random.randint(1, 4)
    nodes = random.sample(range(len(free)), len(free))
    rows = [row for row in nodes for _ in range(free[row] // gpus)][:members]
    if not rows:
        return None
    single = len(rows) == 1 and random.random() < 0.5
    minimum = 1 if single else random.randint(1, len(rows))
    kept = tuple(random.random() < 0.1 for _ in rows)
    word = None if single else random.choice((*[None] * 8, True, False))
    whole = not single and random.random() < 0.15
    age = random.choice((1000.0, 1000.0, 100.0))
    fields: dict[str, Any] = {"word": word, "whole": whole, "single": single, "age": age}
    return Runs(name, queue_name, random.choice((0, 0, 0, 1, 5, 9)), gpus, tuple(rows), minimum, kept=kept, **fields)


def _newcomer(random: Random, name: str, leaves: Sequence[str]) -> Newcomer:
    single = random.random() < 0.2
    return Newcomer(
        name,
        random.choice(leaves),
        random.choice((5, 5, 5, 1, 7, 10)),
        1 if single else random.choice((1, 1, 2, 2, 3)),
        random.choice((1, 1, 1, 2, 2, 3, 4)),
        kept=random.random() < 0.1,
        old=random.random() < 0.5,
        single=single,
        never=random.random() < 0.07,
        grows=not single and random.random() < 0.2,
    )


class Played:
    """A scene as Muster sees it."""

    def __init__(self, scene: Scene) -> None:
        """Let all that run be seen."""
        self.scene = scene
        self.world = World()
        self.world.nodes(scene.nodes, NODE)
        self.jobs: dict[str, Job] = {}
        self.running = list(scene.running)
        self.leaving: set[str] = set()
        for team in scene.teams.values():
            fields: dict[str, Any] = {"weight": team.weight, "priority": team.priority, "preemption": team.policy}
            fields |= {"parent": team.parent, "borrowing": team.borrowing, "lending": team.lending}
            tell(self.world, queue(team.name, team.nominal, **fields))
        growing = {each.name for each in scene.coming if each.grows}
        for gang in scene.running:
            job = self._run(gang)
            if gang.name in growing:
                self.jobs[gang.name] = job
        self.world.judge()
        self.world.effects()

    def _run(self, gang: Runs) -> Job:
        ref = GroupRef(COSCHEDULING, "default", gang.name)
        job = Job(self.world, ref)
        if not gang.single:
            word = keys.Options(preemptible=gang.word) if gang.word is not None else keys.NO_OPTIONS
            self.world.group(ref, gang.minimum, options=word, goes_whole=gang.whole)
        for number, (row, kept) in enumerate(zip(gang.rows, gang.kept, strict=True)):
            options = keys.Options(queue=gang.queue, preemptible=False if kept else None)
            fields: dict[str, Any] = {} if gang.single else {"group": ref}
            fields |= {"options": options, "priority": gang.priority, "started_at": self.world.now - gang.age}
            name = f"{gang.name}-{number}"
            pod = self.world.pod(name, gang.gpus, node_name=f"node-{row}", phase=Phase.RUNNING, **fields)
            job.pods.append(pod)
            self.world.tell(PodSeen(pod))
        return job

    def come(self, each: Newcomer) -> None:
        """Let a gang come, and be judged."""
        fields: dict[str, Any] = {"priority": each.priority, "never_preempts": each.never}
        fields["options"] = keys.Options(queue=each.queue, preemptible=False if each.kept else None)
        created: dict[str, Any] = {"created": _EARLY} if each.old else {}
        if each.single:
            pod = self.world.pod(f"{each.name}-0", each.gpus, **fields, **created)
            self.jobs[each.name] = Job(self.world, pod.group, [pod])
            self.world.tell(PodSeen(pod))
        elif each.name not in self.jobs:
            self.jobs[each.name] = self.world.gang(each.name, each.minimum, each.gpus, group=created, **fields)
        else:
            job = self.jobs[each.name]
            names = (f"{each.name}-{number + 1}" for number in range(each.minimum))
            more = [self.world.pod(name, each.gpus, group=job.ref, **fields) for name in names]
            job.pods += more
            for pod in more:
                self.world.tell(PodSeen(pod))
        self.world.tell(Decide())

    def is_leaving(self, each: Newcomer) -> bool:
        """Tell whether what runs of a gang leaves for another."""
        return any(gang.name == each.name and not self.leaving.isdisjoint(gang.pods) for gang in self.running)

    # What the rules are asked about.

    def ground(self, each: Newcomer) -> Ground:
        """Return what the rules decide by for a gang that has just come, before anyone leaves for it.

        That is what Muster had decided before, and what it had placed of the gang itself.
        """
        taken: Counter[int] = Counter()
        used: Counter[str] = Counter()
        lasting: Counter[str] = Counter()
        ahead: Counter[str] = Counter()
        pieces: list[Piece] = []
        for gang in self.running:
            for at, row in enumerate(gang.rows):
                if gang.name_of(at) not in self.leaving:
                    taken[row] += gang.gpus
                    used[gang.queue] += gang.gpus
            lasting[gang.queue] += gang.lasting
            may_leave = self.leaving.isdisjoint(gang.pods) and gang.name != each.name
            if may_leave and not self._is_settling(gang.name):
                own = list(gang.pieces(len(pieces)))
                if gang.name in self.jobs and any(gang.kept):
                    own = [piece for piece in own if not piece.core]
                pieces += own
        for other in self.scene.coming:
            job = self.jobs.get(other.name)
            reserved = {} if job is None else job.reserved
            for node in reserved.values():
                taken[int(node.removeprefix("node-"))] += other.gpus
            count = len(reserved)
            if other.name != each.name and (firm := self._firm(other)) is not None:
                taken.update(firm)
                count += sum(firm.values()) // other.gpus
                ahead[other.queue] += sum(firm.values())
            used[other.queue] += count * other.gpus
            lasting[other.queue] += count * other.gpus * other.kept
        within = {name for name in ahead if used[name] - ahead[name] <= self.scene.teams[name].nominal}
        within.discard(each.queue)  # of the others, what runs does not leave for what another is only promised
        pieces = [piece for piece in pieces if piece.of.queue not in within]
        for piece in pieces:
            used[piece.of.queue] -= piece.gpus
        free = [NODE - taken[row] for row in range(self.scene.nodes)]
        kept = self._kept_from(each)
        room = tuple(left - min(max(left, 0), kept[row]) for row, left in enumerate(free))
        has_started = any(gang.name == each.name for gang in self.running)
        wanted = each.minimum if has_started or not each.grows else 1  # what ran of it has gone
        pods = max(wanted - len(self.jobs[each.name].reserved), 0)
        is_old = each.old or each.grows  # those that run already were the first to be created
        claim = Claim(each.name, each.queue, each.priority, pods, each.gpus, has_started, is_old, each.kept)
        return Ground(room, self.scene.teams, tuple(pieces), used, lasting, claim)

    def _is_settling(self, name: str) -> bool:
        return name in self.jobs and bool(self.jobs[name].reserved)

    def _firm(self, each: Newcomer) -> Counter[int] | None:
        """Return how many GPUs of which rows are kept for a gang for which others leave; None if none do."""
        job = self.jobs.get(each.name)
        earmark = None if job is None else self.world.state.cleared_for(job.ref)
        return None if earmark is None else self._gpus(earmark)

    def _kept_from(self, each: Newcomer) -> Counter[int]:
        """Return how many GPUs of which rows were kept for gangs that wait before a gang, when it was last judged."""
        kept: Counter[int] = Counter()
        for earmark in self.world.state.kept_from(self.jobs[each.name].ref):
            kept.update(self._gpus(earmark))
        return kept

    def _gpus(self, earmark: Earmark) -> Counter[int]:
        rows = self.world.state.rows(*(f"node-{row}" for row in range(self.scene.nodes)))
        return Counter(dict(enumerate(earmark.kept[self.world.state.resource(GPU)][rows].tolist())))

    def evicted(self) -> dict[str, set[str]]:
        """Take which pods Muster evicts, by the name of the gang that they leave for."""
        found: dict[str, set[str]] = {}
        for evict in self.world.effects().evictions.values():
            found.setdefault(evict.by.removeprefix("default/"), set()).add(evict.pod.name)
        return found

    def standing(self) -> dict[str, tuple[int, bool]]:
        """Return of each gang that has come how many of its members have a node promised, and whether others leave."""
        preemptors = self.world.state.preemptors()
        return {name: (len(job.reserved), job.ref in preemptors) for name, job in self.jobs.items()}

    def go(self) -> None:
        """Let pods be gone that are evicted."""
        for pod in self.world.state.pods():
            if pod.name in self.leaving:
                self.world.tell(PodGone(pod.uid))
        self.running = [gang for gang in (each.without(self.leaving) for each in self.running) if gang.rows]
        self.leaving.clear()
        self.world.judge()
        for names in self.evicted().values():  # for others that have come before, now that there is room
            self.leaving |= names
