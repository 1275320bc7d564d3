"""What happens to sharing: Queues that come, change and go, budgets, gangs of several ranks, and those evicted."""

from __future__ import annotations

from dataclasses import replace

from extender.control.ports import WatchedKind
from muster_lab.simulation.cluster import has_condition
from muster_lab.simulation.disruption import DisruptionController
from muster_lab.simulation.objects import ObjectChange
from muster_lab.simulation.scenario import DisruptionLimit
from tests.properties.faults.actions import ACTIONS, Scene, Theme, action, gang_shape
from tests.properties.faults.population import GPU, GPUS, Gang, Json, Population
from tests.properties.faults.world import World

__all__ = ["ACTIONS", "COHORT", "Owners", "open_queues"]

#: The Queues that gangs name: two that borrow from each other, one whose parent does not exist, one that stops.
_NAMES = ("red", "blue", "red", "blue", "red", "blue", "lost", "dry")
COHORT = "all"

_MOVES: Json = {"policy": "WhenGangsWait", "delay": "0s", "coolDown": "0s"}
#: Who may be evicted for whom, and how soon.
_PREEMPTIONS: tuple[Json, ...] = (
    {},
    {},
    {"withinQueue": "LowerOrNewerEqualPriority"},
    {"withinQueue": "Never", "reclaimWithinCohort": "LowerPriority"},
    {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}},
    {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5}},
    {"minRuntime": "3s"},
    {"grace": "2s"},
    {"fairSharing": {"strategy": "LessThanOrEqualToFinalShare", "delay": "2s"}},
    {"consolidation": {"policy": "WhenGangsWait", "delay": "2s", "coolDown": "5s"}},
    {"consolidation": _MOVES, "grace": "2s"},
)
_LIMITS: tuple[Json, ...] = ({}, {}, {"borrowingLimit": "0"}, {"borrowingLimit": "4"}, {"lendingLimit": "2"})
_WAYS: tuple[Json, ...] = (
    *({}, {}, {}, {"queueingStrategy": "StrictFIFO"}, {"maxRunningGangs": 1}, {"weight": "3"}),
    *({"stopPolicy": "Hold"}, {"stopPolicy": "HoldAndDrain"}),
    *({"spares": {"nodes": 1}}, {"spares": {"nodes": 1, "lendBelow": 5}}),
)
#: Seconds until an evicted pod's controller has created it again; None: it does not.
_RETURNS = (None, 0.0, 1.0, 5.0)
_EVICTED = {"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}


def open_queues(people: Population, part: int = 2, preemption: Json | None = None) -> None:
    """Let in who names a Queue; red and blue have a `part` of the GPUs each, which others may borrow."""
    people.put_queue(COHORT, {})
    for name in dict.fromkeys(_NAMES):
        gpus = GPUS * len(people.nodes) // part if name in {"red", "blue"} else 0
        people.put_queue(name, _spec(gpus) | {"preemption": preemption or {}})


class Owners:
    """The controllers of gangs and budgets: what is evicted is created again, and budgets are counted."""

    def __init__(self, world: World, people: Population) -> None:
        """Follow the cluster from now on."""
        self._world = world
        self._people = people
        self.budgets = DisruptionController(world.cluster, people.scale)
        world.cluster.watch(self._take_in)

    def _take_in(self, change: ObjectChange) -> None:
        gone = change.before
        if change.after is not None or gone is None or gone.key.kind is not WatchedKind.POD:
            return
        seconds = _RETURNS[int(gone.uid[:8], 16) % len(_RETURNS)]
        if has_condition(gone.json, _EVICTED) and not gone.pod.group.is_pod and seconds is not None:
            self._world.later(seconds, self._recreate, gone.pod.group.name, gone.key.name)

    def _recreate(self, gang: str, member: str) -> None:
        if gang in self._people.gangs:
            self._people.create_member(self._people.gangs[gang], member)


@action(Theme.SHARING, 6)
def create_sharing_gang(scene: Scene, a: int, b: int) -> None:
    """Create a gang in a queue that fits alone, of any rank."""
    people = scene.people
    shape = gang_shape(people, a, b)
    if shape is None:
        return
    minimum, members, gpus = shape
    gang = Gang(
        people.next_name("gang-"),
        minimum,
        members,
        gpus,
        priority=(0, 5, 10)[b // 8 % 3],
        grace=(0, 0, 3)[b // 32 % 3],
        queue=(*_NAMES, "")[a // 16 % (len(_NAMES) + 1)],
        duration=(0, 0, 30, 301)[b // 128 % 4],
        never_preempts=b // 512 % 8 == 0,
    )
    people.create_gang(gang, gated=b % 11 == 0, group_last=b % 7 == 0)
    if a // 256 % 4 == 0:
        people.create_budget(gang, DisruptionLimit(max_unavailable=(0, 1, minimum, members)[a // 1024 % 4]))


@action(Theme.SHARING, 2)
def create_job(scene: Scene, a: int, b: int) -> None:
    """Create a Job in a queue that is suspended until Muster resumes it, and fits alone."""
    people = scene.people
    shape = gang_shape(people, a, b)
    if shape is None:
        return
    _, members, gpus = shape
    gang = Gang(
        people.next_name("job-"),
        members,
        members,
        gpus,
        priority=(0, 0, 10)[b // 8 % 3],
        grace=(0, 0, 3)[b // 32 % 3],
        queue=_NAMES[a // 16 % len(_NAMES)],
        duration=(0, 30)[b // 128 % 2],
        claims=people.claims_devices and a // 256 % 2 == 0,
        job=True,
    )
    people.create_gang(gang)


@action(Theme.SHARING, 0.5)
def suspend_job(scene: Scene, a: int, b: int) -> None:
    """Suspend a Job by hand, or resume one."""
    jobs = [gang.name for gang in scene.people.gangs.values() if gang.job]
    if jobs:
        scene.people.suspend_job(jobs[a % len(jobs)], suspended=bool(b % 2))


@action(Theme.SHARING, 0.5)
def create_queued_single(scene: Scene, a: int, b: int) -> None:
    """Create a pod without gang in a queue."""
    if sum(pod.name.startswith("single-") for pod in scene.people.pods()) < len(_NAMES):
        scene.people.create_single(a % (GPUS + 1), 0, _NAMES[b % len(_NAMES)])


@action(Theme.SHARING, 1)
def edit_queue(scene: Scene, a: int, b: int) -> None:
    """Create a Queue, or change what it has and whom it lets in."""
    people = scene.people
    name = _NAMES[a % len(_NAMES)]
    total = GPUS * len(people.nodes)
    spec = _spec((total // 2, total // 4, total // 4, total // 8, 0)[a // 8 % 5], _LIMITS[b % len(_LIMITS)])
    spec |= _WAYS[b // 8 % len(_WAYS)] | {"preemption": _PREEMPTIONS[b // 64 % len(_PREEMPTIONS)]}
    if name == "lost":
        spec["parent"] = "nowhere"
    elif name == "dry":
        spec["stopPolicy"] = ("Hold", "HoldAndDrain")[b % 2]
    people.put_queue(name, spec)


@action(Theme.SHARING, 0.5)
def open_all_queues(scene: Scene, a: int, _b: int) -> None:
    """Put all Queues right; together they may have all GPUs, or half of them, and their gangs may move."""
    open_queues(scene.people, 2 + a % 4 // 2 * 2, {"consolidation": _MOVES} if a // 4 % 2 else {})


@action(Theme.SHARING, 0.2)
def delete_queue(scene: Scene, a: int, _b: int) -> None:
    """Delete a Queue, with what it holds."""
    scene.people.delete_queue((*_NAMES, COHORT)[a % (len(_NAMES) + 1)])


@action(Theme.SHARING, 1)
def delete_budgets(scene: Scene, _a: int, _b: int) -> None:
    """Delete all PodDisruptionBudgets."""
    scene.people.delete_budgets()


@action(Theme.SHARING, 2)
def create_rival(scene: Scene, a: int, b: int) -> None:
    """Create a gang that is like another one, in the same queue, with a higher priority."""
    people = scene.people
    others = [gang for gang in people.gangs.values() if not gang.picky]
    if not others or len(people.gangs) > len(_NAMES):
        return
    like = others[a % len(others)]
    name = people.next_name("gang-")
    rival = replace(like, name=name, priority=10 if like.priority < 10 else 20, never_preempts=False, timeout=0)
    people.create_gang(rival, group_last=b % 7 == 0)


def _spec(gpus: int, limits: Json | None = None) -> Json:
    quota = {"name": GPU, "nominalQuota": str(gpus)} | (limits or {})
    return {"parent": COHORT, "flavors": [{"name": "gpu", "resources": [quota]}]}
