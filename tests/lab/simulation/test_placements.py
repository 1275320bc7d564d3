"""What Muster predicts of gangs' placements, remembered for when they are over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from extender.cluster.occupancy import Held
from extender.objects.podgroup import GroupRef
from extender.placement.placement import Placement
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.kubelet import Kubelet
from muster_lab.simulation.placements import Placements
from muster_lab.simulation.scenario import ScenarioGang, ScenarioMember
from muster_lab.simulation.workload import Workload, WorkloadSite
from tests.lab.conftest import Virtually, loop_clock, reach


@dataclass
class Oracle:
    """Predicts what it is told to, and counts how often it is asked for placements."""

    placement: Placement | None = None
    gpus: dict[str, Held] = field(default_factory=dict)
    asked: int = 0

    def placement_of(self, ref: GroupRef) -> Placement | None:
        """Return the placement, whatever the gang."""
        assert (ref.namespace, ref.name) == ("default", "g")
        self.asked += 1
        return self.placement

    def held(self, uid: str) -> Held | None:
        """Return what a pod holds."""
        return self.gpus.get(uid)


def placed(bandwidth: float) -> Placement:
    """Return a placement."""
    return Placement(bandwidth, "node", "n", 0.0, {"n": 2})


class Setting:
    """A gang of two members on a cluster with kubelets, followed from the start."""

    def __init__(self, oracle: Oracle) -> None:
        """Start on the running loop."""
        clock = loop_clock()
        self.cluster = Cluster(clock)
        self.kubelet = Kubelet(self.cluster, clock)
        self.workload = Workload(WorkloadSite(self.cluster, clock, "muster"))
        self.placements = Placements(oracle, self.workload)
        self.placements.follow(self.cluster, 0.0)
        members = (ScenarioMember("g-0", {"nvidia.com/gpu": "1"}), ScenarioMember("g-1", {"nvidia.com/gpu": "1"}))
        self.workload.add([ScenarioGang("g", "default", 2, members, duration=60.0)])
        self.run = self.workload.gang("default", "g")

    async def bind(self) -> list[str]:
        """Bind both members; return their UIDs."""
        await asyncio.sleep(0)
        return [self.cluster.bind("default", name, "n").uid for name in self.run.members]


def test_a_gang_has_the_placement_that_is_predicted_now(virtually: Virtually) -> None:
    """Not the one of before."""

    async def story() -> None:
        oracle = Oracle()
        setting = Setting(oracle)
        assert setting.placements.of(setting.run) is None
        oracle.placement = placed(100.0)
        await setting.bind()
        await reach(10)
        oracle.placement = placed(50.0)
        assert setting.placements.of(setting.run) == placed(50.0)

    virtually(story())


def test_a_finished_gang_has_the_last_one_that_it_had(virtually: Virtually) -> None:
    """What is predicted of what is left of it while it ends does not count."""

    async def story() -> None:
        oracle = Oracle(placed(100.0))
        setting = Setting(oracle)
        first, second = await setting.bind()
        oracle.gpus = {first: Held((0,), (0,), observed=False), second: Held((1,), (), observed=False)}
        await reach(59)
        oracle.placement = placed(1.0)
        await reach(100)
        assert setting.run.finished_at == 60.0
        assert setting.placements.of(setting.run) == placed(100.0)
        held = [setting.placements.held_by(setting.run, name) for name in setting.run.members]
        assert held == [Held((0,), (0,), observed=False), Held((1,), (), observed=False)]

    virtually(story())


def test_what_was_predicted_when_a_member_was_bound_counts(virtually: Virtually) -> None:
    """Not what was seen later."""

    async def story() -> None:
        oracle = Oracle()
        setting = Setting(oracle)
        await asyncio.sleep(0)
        written = {"muster.dev/predicted-gpus": "2,3", "muster.dev/predicted-zones": "1"}
        pod = setting.cluster.bind("default", "g-0", "n", annotations=written)
        oracle.gpus = {pod.uid: Held((0, 1), (0,), observed=True)}
        await reach(10)
        assert setting.placements.held_by(setting.run, "g-0") == Held((2, 3), (1,), observed=False)

    virtually(story())


def test_members_that_never_had_a_node_hold_nothing(virtually: Virtually) -> None:
    """Nothing is known, and nothing is said."""

    async def story() -> None:
        setting = Setting(Oracle())
        await reach(10)
        assert setting.placements.held_by(setting.run, "g-0") is None

    virtually(story())


def test_a_gang_is_asked_about_once_for_all_members_that_change_together(virtually: Virtually) -> None:
    """A thousand members that are bound at once do not cost a thousand predictions."""

    async def story() -> None:
        oracle = Oracle(placed(100.0))
        setting = Setting(oracle)
        await setting.bind()
        await reach(10)
        assert oracle.asked == 1

    virtually(story())
