"""What happens in a storm, made up from a seed before it begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from random import Random

from localcluster.workloads import GangSpec, PodTemplate, Role

NAMESPACE = "default"
NODES = 14
NODE_GPUS = 8

#: How many gangs there are at once that have not finished: what waits beyond that only keeps kube-scheduler busy.
MOST_GANGS = 20

#: A storm may take so many times as long as it should; who has not come by then comes in quiet.
LONGEST = 2.5

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
    "kill_muster": 0.16,
    "pause_muster": 0.16,
    "kill_scheduler": 0.08,
    "pause_scheduler": 0.08,
}

#: How often the API server and its database are away, in storms that have that (times per second).
OUTAGES = {
    "kill_api_server": 0.03,
    "pause_api_server": 0.05,
    "kill_etcd": 0.03,
    "pause_etcd": 0.05,
}

#: (members, GPUs of each) of gangs whose pods are alike; the largest fits the nodes alone with two of them closed.
_SHAPES = ((1, 8), (2, 8), (3, 8), (4, 8), (6, 8), (2, 4), (4, 4), (3, 2), (6, 2), (8, 1), (2, 1), (4, 0))

#: How long pods run, in seconds.
_RUN_SECONDS = (1, 1, 1, 3)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens so many seconds after the beginning, and a number that says to whom and how."""

    at: float
    what: str
    number: int
    gang: str = ""

    def __str__(self) -> str:
        """Write it as one line."""
        return f"{self.at:7.3f} {self.what} {self.gang or self.number}"


@dataclass(frozen=True, slots=True)
class Script:
    """A whole storm: gangs by name, and what happens in order of time.

    `arrivals` bring the gangs, each at its time or when there are fewer than MOST_GANGS about, if that is later. The
    storm lasts until all have come: for `seconds`, or LONGEST times as long on a slow machine. `acts` are enough for
    that.
    """

    seed: int
    seconds: float
    gangs: dict[str, GangSpec]
    arrivals: tuple[Act, ...]
    acts: tuple[Act, ...]

    def only(self, names: Collection[str]) -> Script:
        """Return the same storm with these gangs alone."""
        gangs = {name: spec for name, spec in self.gangs.items() if name in names}
        return replace(self, gangs=gangs, arrivals=tuple(act for act in self.arrivals if act.gang in names))


def write_script(seed: int, gangs: int, outages: Mapping[str, float] | None = None) -> Script:
    """Make up a storm: a gang every third of a second, for twelve seconds at least; with `outages` at such rates."""
    random = Random(seed)
    seconds = max(12.0, 0.35 * gangs)
    specs = {spec.name: spec for spec in (_gang(random, f"gang-{number}") for number in range(gangs))}
    arrivals = [
        Act(random.uniform(0.0, 0.9 * seconds), _arrival(random), random.getrandbits(16), name) for name in specs
    ]
    acts = [
        Act(random.uniform(1.0, LONGEST * seconds), what, random.getrandbits(16))
        for what, rate in (RATES | dict(outages or {})).items()
        for _ in range(_count(random, rate * LONGEST * seconds))
    ]
    return Script(seed, seconds, specs, _in_order(arrivals), _in_order(acts))


def _in_order(acts: list[Act]) -> tuple[Act, ...]:
    return tuple(sorted(acts, key=lambda act: act.at))


def _count(random: Random, expected: float) -> int:
    return int(expected + random.random())


def _arrival(random: Random) -> str:
    return random.choices(("create_gang", "create_slowly", "create_group_last"), (6, 3, 1))[0]


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
