"""Cases in which gangs wait: what that costs while nothing happens, and beside others; and how soon the next starts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

import uvloop

from bench.controlplane.cases import AROUND_A_RUN_SECONDS, in_turns, start_seconds
from bench.controlplane.contenders import Contender
from bench.controlplane.progress import Progress
from bench.controlplane.stage import Arena
from bench.controlplane.waitingrun import Beside, Rest, Succession, beside, rest, successions
from bench.controlplane.workload import GPUS_PER_NODE, Workload
from bench.figures import Figure, of_repeats
from extender.objects.keys import ADMISSION_GATE

STOCK, MUSTER = Contender.STOCK, Contender.MUSTER


@dataclass(frozen=True, slots=True)
class NextGang:
    """A full cluster with `waiting` gangs: one running gang after the other ends, the next has to start.

    `nodes` gangs run, each on a node of its own; `ends` of them end in each repeat.
    """

    name: str
    nodes: int
    waiting: Workload
    ends: int
    contenders: tuple[Contender, ...]

    occupied: ClassVar[int] = 0
    #: Of one contender: creating and settling; and one end.
    _SETUP_SECONDS: ClassVar[float] = 20.0
    _END_SECONDS: ClassVar[float] = 4.0

    @property
    def title(self) -> str:
        """Return what people call it."""
        return f"{self.waiting.title} wait on {self.nodes:,} full nodes: from the end of one to the next bound"

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""
        return start_seconds(self.nodes) + repeats * len(self.contenders) * self._run_seconds

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure all contenders so many times, in turns."""

        def run(contender: Contender, title: str) -> list[Succession]:
            progress.step(title, self._run_seconds)
            return uvloop.run(self._run(arena, contender, progress))

        turns = in_turns(self.name, self.contenders, repeats, run)
        return self.figures({contender: [turn[contender] for turn in turns] for contender in self.contenders})

    def figures(self, found: Mapping[Contender, Sequence[Sequence[Succession]]]) -> list[Figure]:
        """Return everything that was found, by contender and repeat; the ratio is of the medians within a repeat."""
        medians = {
            contender: [statistics.median(end.seconds for end in ends) for ends in repeats]
            for contender, repeats in found.items()
        }
        ours = medians.pop(MUSTER, [])
        figures = [
            of_repeats(
                f"{self.name}_vs_{rival}", "ratio", [one / other for one, other in zip(ours, times, strict=True)]
            )
            for rival, times in medians.items()
            if ours
        ]
        for contender, repeats in found.items():
            ends = list(chain.from_iterable(repeats))
            prefix = f"{self.name}_{contender}"
            figures.append(of_repeats(f"{prefix}_next_gang_s", "s", [end.seconds for end in ends]))
            attempts = [end.spent.attempts / self.waiting.size for end in ends]
            figures.append(of_repeats(f"{prefix}_attempts_per_pod", "per pod", attempts))
            for process in ends[0].spent.cpu:
                used = [end.spent.cpu[process] for end in ends]
                figures.append(of_repeats(f"{prefix}_cpu_{process}_s", "CPU s", used))
        calls = [end.spent.work.filter_calls / self.waiting.size for ends in found.get(MUSTER, ()) for end in ends]
        return [*figures, *([of_repeats(f"{self.name}_filter_calls_per_pod", "per pod", calls)] if calls else [])]

    async def _run(self, arena: Arena, contender: Contender, progress: Progress) -> list[Succession]:
        async with arena.stage(contender) as stage:
            ends = await successions(stage, self.waiting, self.ends, progress.say)
        taken = ", ".join(f"{end.seconds:.2f}" for end in ends)
        progress.say(f"  the next gang was bound {taken} s after one had ended")
        return ends

    @property
    def _run_seconds(self) -> float:
        return AROUND_A_RUN_SECONDS + self._SETUP_SECONDS + self.ends * self._END_SECONDS


@dataclass(frozen=True, slots=True)
class Waiting:
    """Gangs that wait while nothing happens: for members in one run, for room in another; the figure is the worse.

    `for_members` are gangs that lack some; `for_room` are gangs of pods that fit singly, on the few nodes that are left
    free, but not together. Each run is watched for `rest_seconds`.
    """

    name: str
    nodes: int
    for_members: Workload
    for_room: Workload
    free_nodes: int
    rest_seconds: float
    bound: float

    occupied: ClassVar[int] = 0
    #: Creating the gangs and waiting until they have settled.
    _SETUP_SECONDS: ClassVar[float] = 20.0

    @property
    def title(self) -> str:
        """Return what people call it."""
        lacking = f"{self.for_members.title} that lack members, {self.for_room.title} that lack room"
        return f"{lacking}, on {self.nodes:,} nodes: what kube-scheduler asks of Muster while nothing happens"

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""
        return start_seconds(self.nodes) + 2 * repeats * self._run_seconds

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure both ways to wait so many times."""
        found: dict[str, list[Rest]] = {"members": [], "room": []}
        for number in range(1, repeats + 1):
            for lack, rests in found.items():
                progress.step(f"{self.name} for {lack} {number} of {repeats}", self._run_seconds)
                rests.append(uvloop.run(self._run(arena, lack, progress)))
        return self.figures(found)

    def figures(self, found: Mapping[str, Sequence[Rest]]) -> list[Figure]:
        """Return everything that was found, by what was lacking."""
        name, unit = f"{self.name}_filter_calls_per_pod_minute", "per pod and minute"
        rates = {lack: [rest.filter_calls_per_pod_minute for rest in rests] for lack, rests in found.items()}
        worst = [max(repeat) for repeat in zip(*rates.values(), strict=True)]
        figures = [of_repeats(name, unit, worst, bound=self.bound, exclusive=True)]
        for lack, rests in found.items():
            prefix = f"{self.name}_for_{lack}"
            figures.append(of_repeats(f"{prefix}_filter_calls_per_pod_minute", unit, rates[lack]))
            attempts = [60 * rest.spent.attempts / rest.spent.seconds / rest.pods for rest in rests]
            figures.append(of_repeats(f"{prefix}_attempts_per_pod_minute", unit, attempts))
            first = [rest.first_calls / rest.pods for rest in rests]
            figures.append(of_repeats(f"{prefix}_first_filter_calls_per_pod", "per pod", first))
            for process in rests[0].spent.cpu:
                used = [rest.spent.cpu[process] / rest.spent.seconds for rest in rests]
                figures.append(of_repeats(f"{prefix}_cpu_{process}", "processors", used))
        return figures

    async def _run(self, arena: Arena, lack: str, progress: Progress) -> Rest:
        async with arena.stage(MUSTER) as stage:
            waiting, occupied = self.for_members, 0
            if lack == "room":
                waiting, occupied = self.for_room, len(stage.nodes) - self.free_nodes
            found = await rest(stage, waiting, occupied, self.rest_seconds, progress.say)
        calls, seconds = found.spent.work.filter_calls, found.spent.seconds
        progress.say(f"  {calls:.0f} filter calls in {seconds:.0f} s for {found.pods} waiting pods")
        return found

    @property
    def _run_seconds(self) -> float:
        return AROUND_A_RUN_SECONDS + self._SETUP_SECONDS + self.rest_seconds


@dataclass(frozen=True, slots=True)
class Crowd:
    """What `pods` that wait cost the gangs that start beside them, by what those that wait lack.

    They lack room on every node, with Muster and with stock kube-scheduler, where they are single pods; or they lack
    members; or they have the scheduling gate that Muster takes off. Each run is watched for `watched_seconds`.
    """

    name: str
    nodes: int
    pods: int
    watched_seconds: float

    occupied: ClassVar[int] = 0
    #: Gangs that wait have eight pods each.
    _SIZE: ClassVar[int] = 8
    _SETUP_SECONDS: ClassVar[float] = 30.0

    @property
    def title(self) -> str:
        """Return what people call it."""
        return f"{self.pods:,} pods wait on {self.nodes:,} nodes: what gangs of two that start beside them take"

    def seconds(self, repeats: int) -> float:
        """Return about how long it takes."""
        return start_seconds(self.nodes) + len(self._runs) * repeats * self._run_seconds

    def measure(self, arena: Arena, repeats: int, progress: Progress) -> list[Figure]:
        """Measure each way to wait so many times, in turns."""
        found: dict[str, list[Beside]] = {name: [] for name in self._runs}
        for number in range(1, repeats + 1):
            for name, runs in found.items():
                progress.step(f"{self.name} {name} {number} of {repeats}", self._run_seconds)
                contender, waiting = self._runs[name]
                runs.append(uvloop.run(self._run(arena, contender, waiting, progress)))
        return self.figures(found)

    def figures(self, found: Mapping[str, Sequence[Beside]]) -> list[Figure]:
        """Return everything that was found, by how pods waited."""
        figures = []
        for name, runs in found.items():
            prefix, unit = f"{self.name}_{name}", "per pod and minute"
            tried = [60 * run.spent.attempts / run.spent.seconds / run.pods for run in runs]
            asked = [60 * run.spent.work.filter_calls / run.spent.seconds / run.pods for run in runs]
            first = [run.first_attempts / run.pods for run in runs]
            figures += [
                of_repeats(f"{prefix}_attempts_per_pod_minute", unit, tried),
                of_repeats(f"{prefix}_filter_calls_per_pod_minute", unit, asked),
                of_repeats(f"{prefix}_first_attempts_per_pod", "per pod", first),
                of_repeats(f"{prefix}_gang_right_behind_s", "s", [run.behind for run in runs]),
                of_repeats(f"{prefix}_gang_beside_s", "s", list(chain.from_iterable(run.starts for run in runs))),
            ]
            for process in runs[0].spent.cpu:
                used = [run.spent.cpu[process] / run.spent.seconds for run in runs]
                figures.append(of_repeats(f"{prefix}_cpu_{process}", "processors", used))
        return figures

    async def _run(self, arena: Arena, contender: Contender, waiting: Workload, progress: Progress) -> Beside:
        async with arena.stage(contender) as stage:
            found = await beside(stage, waiting, self.nodes, self.watched_seconds, progress.say)
        progress.say(
            f"  {found.spent.attempts:.0f} attempts in {found.spent.seconds:.0f} s; gangs beside were bound in"
            f" {statistics.median(found.starts):.2f} s, the one right behind in {found.behind:.1f} s"
        )
        return found

    @property
    def _runs(self) -> Mapping[str, tuple[Contender, Workload]]:
        """Return by name who places, and what waits: of the eight GPUs of each node five are taken."""
        for_room = Workload(self.pods // self._SIZE, self._SIZE, gpus=GPUS_PER_NODE, prefix="crowd")
        for_members = replace(for_room, size=self._SIZE + 1, missing=1, gpus=1)
        return {
            "stock_room": (STOCK, for_room),
            "room": (MUSTER, for_room),
            "members": (MUSTER, for_members),
            "gated": (MUSTER, replace(for_members, gates=(ADMISSION_GATE,))),
        }

    @property
    def _run_seconds(self) -> float:
        return AROUND_A_RUN_SECONDS + self._SETUP_SECONDS + self.watched_seconds
