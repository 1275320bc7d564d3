"""What happens in a storm, made up from a seed before it begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from localcluster.workloads import GangSpec, PodTemplate, Role

NAMESPACE = "default"
NODES = 14
NODE_GPUS = 8

#: How many gangs there are at once that have not finished: what waits beyond that only keeps kube-scheduler busy.
MOST_GANGS = 20
MOST_SINGLE_PODS = 6

#: A storm may take so many times as long as it should; who has not come by then comes in quiet.
LONGEST = 12.0

#: Names of priority classes, and their values.
PRIORITIES = {"storm-low": 0, "storm-high": 1000}

#: How often something happens (times per second), besides the arrival of gangs.
RATES = {
    "delete_member": 1.0,
    "fail_member": 0.4,
    "delete_gang": 0.15,
    "replace_gang": 0.3,
    "edit_gang": 0.2,
    "cordon": 0.2,
    "taint": 0.1,
    "drain": 0.1,
    "remove_node": 0.1,
    "shrink": 0.1,
    "repair_node": 0.6,
    "foreign_pod": 0.3,
    "end_foreign_pod": 0.3,
    "single_pod": 0.5,
    "suspend_job": 0.1,
}


@dataclass(frozen=True, slots=True)
class Flavour:
    """What befalls processes and connections in a storm.

    `blows` are the kinds by their weights, `longest` how long a pause or a partition lasts at most (seconds). With
    `replicas` there are two, which follow a Lease of LEASE_SECONDS; it runs out in longer pauses.
    """

    name: str
    blows: Mapping[str, float]
    longest: float
    replicas: bool = False

    @property
    def outages(self) -> bool:
        """Tell whether the API server and etcd are away at times."""
        return "kill_etcd" in self.blows


#: How long the Lease of two replicas is good (seconds).
LEASE_SECONDS = 3

#: A gust has so many blows (least, most) within so many seconds; when all processes are ready again, so many seconds
#: (least, most) pass before the next one. Gangs start in these lulls: blows at an even rate would let none do.
_BLOWS, _GUST_SECONDS, _LULL_SECONDS = (10, 30), 6.0, (0.5, 6.0)

_ALONE = {
    "kill_muster": 10,
    "pause_muster": 7,
    "kill_scheduler": 7,
    "pause_scheduler": 5,
    "kill_controllers": 5,
    "pause_controllers": 3,
}
_OUTAGES = {"kill_api_server": 3, "pause_api_server": 4, "kill_etcd": 5, "pause_etcd": 4}
_REPLICAS = {
    "kill_muster": 10,
    "kill_scheduler": 8,
    "kill_replica": 4,
    "pause_muster": 5,
    "pause_scheduler": 5,
    "pause_replica": 8,
    "cut_off_muster": 3,
    "cut_off_scheduler": 3,
    "cut_off_replica": 4,
}

#: By name: one replica; the same with outages of the API server and etcd; two replicas.
FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour("alone", _ALONE, longest=2.0),
        Flavour("outages", _ALONE | _OUTAGES, longest=2.0),
        Flavour("replicas", _REPLICAS, longest=2.5 * LEASE_SECONDS, replicas=True),
    )
}

#: (members, GPUs of each) of gangs whose pods are alike; the largest fits the nodes alone with two of them closed.
_SHAPES = ((1, 8), (2, 8), (3, 8), (4, 8), (6, 8), (2, 4), (4, 4), (3, 2), (6, 2), (8, 1), (2, 1), (4, 0))

#: How long pods run, in seconds.
_RUN_SECONDS = (1, 1, 1, 3)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens so many seconds after the beginning, and a number that says to whom and how.

    A pause, a partition or what is left of a process that was killed lasts `seconds`.
    """

    at: float
    what: str
    number: int
    gang: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """Write it as one line."""
        return f"{self.at:7.3f} {self.what} {self.gang or self.number}"


@dataclass(frozen=True, slots=True)
class Gust:
    """Blows, each so many seconds after the first could come, and how long nothing is struck after it (seconds)."""

    blows: tuple[Act, ...]
    lull: float


@dataclass(frozen=True, slots=True)
class Script:
    """A whole storm: gangs by name, and what happens in order of time.

    `arrivals` bring the gangs, each at its time or when there are fewer than MOST_GANGS about, if that is later. The
    storm lasts until all have come: for `seconds`, or LONGEST times as long on a slow machine. `acts`, of people and
    nodes, and `gusts`, to processes and connections, are enough for that.
    """

    seed: int
    flavour: Flavour
    seconds: float
    gangs: dict[str, GangSpec]
    arrivals: tuple[Act, ...]
    acts: tuple[Act, ...]
    gusts: tuple[Gust, ...]

    def only(self, names: Collection[str]) -> Script:
        """Return the same storm with these gangs alone."""
        gangs = {name: spec for name, spec in self.gangs.items() if name in names}
        return replace(self, gangs=gangs, arrivals=tuple(act for act in self.arrivals if act.gang in names))


def write_script(seed: int, gangs: int, flavour: Flavour = FLAVOURS["alone"]) -> Script:
    """Make up a storm: a gang every third of a second, for half a minute at least."""
    random = Random(seed)
    seconds = max(30.0, 0.35 * gangs)
    specs = {spec.name: spec for spec in (_gang(random, f"gang-{number}") for number in range(gangs))}
    arrivals = [
        Act(random.uniform(0.0, 0.9 * seconds), _arrival(random, spec), random.getrandbits(16), name)
        for name, spec in specs.items()
    ]
    acts = [
        Act(random.uniform(1.0, LONGEST * seconds), what, random.getrandbits(16))
        for what, rate in RATES.items()
        for _ in range(_count(random, rate * LONGEST * seconds))
    ]
    gusts = tuple(_gust(random, flavour) for _ in range(int(LONGEST * seconds / _GUST_SECONDS)))
    return Script(seed, flavour, seconds, specs, _in_order(arrivals), _in_order(acts), gusts)


def _gust(random: Random, flavour: Flavour) -> Gust:
    """Make up a gust: killed processes come back within a second, others within the flavour's longest time."""
    kinds = random.choices(tuple(flavour.blows), tuple(flavour.blows.values()), k=random.randint(*_BLOWS))
    blows = (
        Act(
            random.uniform(0.0, _GUST_SECONDS),
            what,
            random.getrandbits(16),
            seconds=random.uniform(0.0, 1.0 if what.startswith("kill") else flavour.longest),
        )
        for what in kinds
    )
    return Gust(_in_order(blows), random.uniform(*_LULL_SECONDS))


def _in_order(acts: Iterable[Act]) -> tuple[Act, ...]:
    return tuple(sorted(acts, key=lambda act: act.at))


def _count(random: Random, expected: float) -> int:
    return int(expected + random.random())


def _arrival(random: Random, spec: GangSpec) -> str:
    chosen = random.choices(("create_gang", "create_slowly", "create_group_last", "create_job"), (5, 2, 1, 3))[0]
    return "create_gang" if chosen == "create_job" and len(spec.roles) > 1 else chosen


def _gang(random: Random, name: str) -> GangSpec:
    count, gpus = random.choice(_SHAPES)
    lasting: dict[str, object] = {"terminationGracePeriodSeconds": 1} if random.random() < 0.2 else {}
    template = PodTemplate(
        gpus=gpus,
        run_seconds=random.choice(_RUN_SECONDS),
        priority_class=random.choices(tuple(PRIORITIES), (4, 1))[0],
        spec=lasting,
    )
    extras = random.choice((0, 0, 0, 1, 2))
    roles: tuple[Role, ...] = (Role("", count + extras, template),)
    least = count
    if random.random() < 0.3:
        roles = (Role("launcher", 1, replace(template, gpus=0)), Role("worker", count + extras, template))
        least = count + 1
    timeout = random.choice((None, None, None, 5))
    return GangSpec(name, NAMESPACE, min_member=least, roles=roles, timeout_seconds=timeout)
