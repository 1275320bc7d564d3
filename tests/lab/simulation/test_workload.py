"""The life of gangs, on a cluster where somebody binds their pods by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from extender.control.ports import WatchedKind
from extender.objects.budget import DisruptionBudget
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from muster_lab.simulation.accounting import Activity, GpuSeconds
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.kubelet import Kubelet
from muster_lab.simulation.scenario import DisruptionLimit, PlacedState, ScenarioGang, ScenarioMember, ScenarioPlacement
from muster_lab.simulation.timeline import Timeline, gpu_capacity, picture, state_of
from muster_lab.simulation.workload import GangRun, Workload, WorkloadSite, checkpointed
from tests.builders import GPU, node_json
from tests.lab.conftest import Virtually, loop_clock, reach


def gang(name: str = "g", size: int = 2, *, gpus: int = 8, **fields: Any) -> ScenarioGang:
    """Return a gang whose members ask for eight GPUs each."""
    members = tuple(ScenarioMember(f"{name}-{i}", {GPU: str(gpus)}) for i in range(size))
    return replace(ScenarioGang(name, "default", size, members), **fields)


class Setting:
    """A cluster with kubelets and a workload."""

    def __init__(self, *gangs: ScenarioGang) -> None:
        """Start on the running loop."""
        self.clock = loop_clock()
        self.cluster = Cluster(self.clock)
        for name in ("n", "m"):
            self.cluster.create(WatchedKind.NODE, node_json(name))
        Kubelet(self.cluster, self.clock)
        self.workload = Workload(WorkloadSite(self.cluster, self.clock, "muster"))
        self.workload.add(gangs)

    def run(self, name: str = "g") -> GangRun:
        """Return a gang."""
        return self.workload.gang("default", name)

    def bind(self, **nodes: str) -> None:
        """Bind pods, named with underscores."""
        for name, node in nodes.items():
            self.cluster.bind("default", name.replace("_", "-"), node)

    def phases(self) -> dict[str, str]:
        """Return the phase of every pod."""
        return {version.pod.name: version.pod.phase.value for version in self.cluster.list(WatchedKind.POD)}


def test_a_gang_arrives_with_its_group_and_pods(virtually: Virtually) -> None:
    """At its arrival the PodGroup and the pods are created, as a controller would."""

    async def story() -> tuple[int, dict[str, Any], dict[str, Any], list[bool]]:
        spec = gang(
            min_member=1,
            arrival=60.0,
            priority=7,
            annotations={"muster.dev/placement": "spread"},
            node_selector={"zone": "a"},
            tolerations=({"key": "k", "operator": "Exists"},),
            members=(
                ScenarioMember("g-driver-0", {"cpu": "1"}, "driver"),
                ScenarioMember("g-worker-0", {GPU: "8"}, "worker"),
            ),
        )
        setting = Setting(spec)
        await reach(59)
        before = len(list(setting.cluster.list(WatchedKind.POD)))
        arrived = [setting.run().arrived]
        await reach(60)
        arrived.append(setting.run().arrived)
        group = setting.cluster.get(COSCHEDULING_POD_GROUPS, "default", "g").json
        return before, group, setting.cluster.get(WatchedKind.POD, "default", "g-worker-0").json, arrived

    before, group, pod, arrived = virtually(story())
    assert (before, arrived) == (0, [False, True])
    assert group["spec"] == {"minMember": 1}
    assert group["metadata"]["annotations"] == {"muster.dev/placement": "spread"}
    assert pod["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "g", "muster.dev/role": "worker"}
    spec = pod["spec"]
    assert (spec["schedulerName"], spec["priority"], spec["nodeSelector"]) == ("muster", 7, {"zone": "a"})
    assert spec["tolerations"] == [{"key": "k", "operator": "Exists"}]
    assert spec["containers"][0]["resources"] == {"requests": {GPU: "8"}, "limits": {GPU: "8"}}
    assert pod["metadata"]["creationTimestamp"] == "2026-01-01T00:01:00Z"


def test_guaranteed_pods_have_limits_for_all_that_they_request(virtually: Virtually) -> None:
    """So the kubelet gives them CPUs of their own."""

    async def story() -> Any:
        asked = {"cpu": "8", "memory": "1Gi", GPU: "8"}
        setting = Setting(gang(guaranteed=True, members=(ScenarioMember("g-0", asked),)))
        await reach(1)
        return setting.cluster.get(WatchedKind.POD, "default", "g-0").json["spec"]["containers"][0]["resources"]

    resources = virtually(story())
    assert resources["limits"] == resources["requests"]


def test_gangs_that_arrive_together_are_created_pod_by_pod_in_turns(virtually: Virtually) -> None:
    """Their controllers work side by side; a smaller gang is simply done earlier."""

    async def story() -> list[str]:
        setting = Setting(gang("a", 3), gang("b", 1), gang("c", 2))
        return list(setting.phases())

    assert virtually(story()) == ["a-0", "b-0", "c-0", "a-1", "c-1", "a-2"]


def test_a_gang_waits_rendezvouses_trains_and_finishes(virtually: Virtually) -> None:
    """GPU time is idle until minMember members run, then rendezvous, then training; then all members succeed."""

    async def story() -> tuple[GpuSeconds, list[str], tuple[float | None, float | None], dict[str, str]]:
        setting = Setting(gang(rendezvous=10.0, duration=100.0))
        states = [state_of(setting.run())]
        setting.bind(g_0="n")
        await reach(50)
        states.append(state_of(setting.run()))
        setting.bind(g_1="m")
        for when in (55, 65, 160):
            await reach(when)
            states.append(state_of(setting.run()))
        assert setting.workload.finished.is_set()
        run = setting.run()
        return run.meter.read(), states, (run.admitted_at, run.finished_at), setting.phases()

    spent, states, times, phases = virtually(story())
    assert spent == GpuSeconds(idle=8 * 50, init=16 * 10, productive=16 * 100)
    assert states == ["waits", "idle", "init", "productive", "finished"]
    assert times == (50.0, 160.0)
    assert phases == {"g-0": "Succeeded", "g-1": "Succeeded"}


def test_without_rendezvous_training_starts_at_once_and_without_duration_it_goes_on(virtually: Virtually) -> None:
    """Both are optional."""

    async def story() -> tuple[GpuSeconds, bool]:
        setting = Setting(gang(size=1))
        setting.bind(g_0="n")
        await reach(1000)
        return setting.run().meter.read(), setting.workload.finished.is_set()

    assert virtually(story()) == (GpuSeconds(productive=8000.0), False)


def test_members_beyond_the_minimum_join_and_are_withdrawn_with_the_job(virtually: Virtually) -> None:
    """One that is bound later trains along; one that never was is deleted when the job is done."""

    async def story() -> tuple[GpuSeconds, dict[str, str], float | None]:
        setting = Setting(gang(size=3, min_member=1, duration=100.0))
        setting.bind(g_0="n")
        await reach(40)
        setting.bind(g_1="m")
        await reach(200)
        return setting.run().meter.read(), setting.phases(), setting.run().finished_at

    assert virtually(story()) == (
        GpuSeconds(productive=8 * 100 + 8 * 60),
        {"g-0": "Succeeded", "g-1": "Succeeded"},
        100.0,
    )


def test_members_may_be_placed_already(virtually: Virtually) -> None:
    """Running and succeeded members count towards minMember, a failed one does not; only running ones hold GPUs."""

    async def story() -> tuple[dict[str, tuple[str, str]], float | None, Activity, dict[str, int]]:
        placed = {
            "g-0": ScenarioPlacement("n", PlacedState.RUNNING),
            "g-1": ScenarioPlacement("m", PlacedState.SUCCEEDED),
            "g-2": ScenarioPlacement("m", PlacedState.FAILED),
        }
        setting = Setting(gang(size=4, min_member=3, placed=placed))
        await reach(5)
        assert setting.run().admitted_at is None
        setting.bind(g_3="m")
        await reach(10)
        run = setting.run()
        pods = {v.pod.name: (v.pod.node_name, v.pod.phase.value) for v in setting.cluster.list(WatchedKind.POD)}
        return pods, run.admitted_at, run.activity, run.held()

    assert virtually(story()) == (
        {"g-0": ("n", "Running"), "g-1": ("m", "Succeeded"), "g-2": ("m", "Failed"), "g-3": ("m", "Running")},
        5.0,
        Activity.PRODUCTIVE,
        {"n": 8, "m": 8},
    )


@pytest.mark.parametrize(
    ("lost_at", "interval", "spent", "finished"),
    [
        # During the rendezvous nothing is lost yet.
        (5.0, None, GpuSeconds(idle=8 * 75, init=16 * 15, productive=1600), 190.0),
        # Without checkpoints training begins anew.
        (50.0, None, GpuSeconds(idle=8 * 30, init=16 * 20, productive=1600, lost=16 * 40), 190.0),
        # 40 seconds are done, of which the checkpoint after 30 keeps 30.
        (50.0, 15.0, GpuSeconds(idle=8 * 30, init=16 * 20, productive=1600, lost=16 * 10), 160.0),
        # A checkpoint all the time loses nothing.
        (50.0, 0.0, GpuSeconds(idle=8 * 30, init=16 * 20, productive=1600), 150.0),
    ],
    ids=["rendezvous", "no-checkpoints", "checkpoints", "always"],
)
def test_a_lost_member_stops_the_gang_until_another_one_runs(
    virtually: Virtually, lost_at: float, interval: float | None, spent: GpuSeconds, finished: float
) -> None:
    """Its pod is created anew; after another rendezvous training goes on from the last checkpoint."""

    async def story() -> tuple[GpuSeconds, float | None, bool]:
        setting = Setting(gang(rendezvous=10.0, duration=100.0, checkpoint_interval=interval))
        setting.bind(g_0="n", g_1="m")
        await reach(lost_at)
        lost = setting.cluster.get(WatchedKind.POD, "default", "g-1").uid
        setting.cluster.delete(WatchedKind.POD, "default", "g-1")
        await reach(80)
        again = setting.cluster.get(WatchedKind.POD, "default", "g-1")
        assert again.pod.node_name == ""
        setting.bind(g_1="m")
        await reach(1000)
        return setting.run().meter.read(), setting.run().finished_at, again.uid != lost

    assert virtually(story()) == (spent, finished, True)


@pytest.mark.parametrize(
    ("reached", "interval", "kept"),
    [(100.0, None, 0.0), (100.0, 0.0, 100.0), (99.9, 50.0, 50.0), (0.3, 0.1, 0.3), (100.0, 1000.0, 0.0)],
)
def test_a_checkpoint_keeps_what_was_done_until_it(reached: float, interval: float | None, kept: float) -> None:
    """The last multiple of the interval; at the very moment of a checkpoint all of it."""
    assert checkpointed(reached, interval) == pytest.approx(kept)
    assert checkpointed(reached, interval) <= reached


def test_training_stops_when_a_member_is_being_deleted(virtually: Virtually) -> None:
    """It holds its GPUs until its grace period is over, and does not work any more; then another takes its place."""

    async def story() -> tuple[GpuSeconds, bool]:
        setting = Setting(gang(grace_period=30, checkpoint_interval=0.0))
        setting.bind(g_0="n", g_1="m")
        await reach(100)
        setting.cluster.delete(WatchedKind.POD, "default", "g-1")
        await reach(120)
        leaving = setting.cluster.get(WatchedKind.POD, "default", "g-1").pod.deleting
        await reach(150)
        assert setting.cluster.get(WatchedKind.POD, "default", "g-1").pod.node_name == ""
        return setting.run().meter.read(), leaving

    assert virtually(story()) == (GpuSeconds(productive=16 * 100, idle=16 * 30 + 8 * 20), True)


def test_a_gang_comes_with_its_queue_class_and_budget(virtually: Virtually) -> None:
    """The PodGroup has the queue's label, the pods the class, and a PodDisruptionBudget picks them."""

    async def story() -> tuple[Any, Any, Any, int]:
        spec = gang(
            queue="team-a", priority_class="high", priority=7, disruption_budget=DisruptionLimit(min_available=1)
        )
        setting = Setting(spec)
        group = setting.cluster.get(COSCHEDULING_POD_GROUPS, "default", "g").json
        pod = setting.cluster.get(WatchedKind.POD, "default", "g-0")
        budget = setting.cluster.get(WatchedKind.DISRUPTION_BUDGET, "default", "g")
        assert isinstance(budget.value, DisruptionBudget)
        assert budget.value.matches("default", pod.pod.labels)
        assert not budget.value.matches("other", pod.pod.labels)
        setting.workload.forget(setting.run())
        left = len(list(setting.cluster.list(WatchedKind.DISRUPTION_BUDGET)))
        return group["metadata"]["labels"], pod.json["spec"], budget.json["spec"]["minAvailable"], left

    labels, spec, least, left = virtually(story())
    assert labels == {"muster.dev/queue": "team-a"}
    assert (spec["priorityClassName"], spec["priority"]) == ("high", 7)
    assert (least, left) == (1, 0)


def test_a_member_that_runs_already_has_started_when_its_gang_arrived(virtually: Virtually) -> None:
    """Its status says since when, as that of every other pod does."""

    async def story() -> list[str]:
        setting = Setting(gang(placed={"g-0": ScenarioPlacement("n", PlacedState.RUNNING)}))
        await reach(60)
        setting.bind(g_1="m")
        await reach(61)
        pods = [setting.cluster.get(WatchedKind.POD, "default", name).json for name in ("g-0", "g-1")]
        return [pod["status"]["startTime"] for pod in pods]

    assert virtually(story()) == ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"]


def test_a_placed_member_that_is_lost_is_not_placed_again(virtually: Virtually) -> None:
    """The pod in its place has to be scheduled like any other."""

    async def story() -> str:
        setting = Setting(gang(placed={"g-0": ScenarioPlacement("n", PlacedState.RUNNING)}))
        await reach(0)
        setting.cluster.delete(WatchedKind.POD, "default", "g-0")
        await reach(1)
        return setting.cluster.get(WatchedKind.POD, "default", "g-0").pod.node_name

    assert virtually(story()) == ""


def test_a_member_that_a_kubelet_turned_away_is_created_again(virtually: Virtually) -> None:
    """As a Job does, after 10 seconds; one that failed by itself is not."""

    async def story() -> tuple[bool, bool]:
        setting = Setting(gang())
        setting.bind(g_0="n", g_1="n")
        await reach(1)
        before = [setting.cluster.get(WatchedKind.POD, "default", name).uid for name in ("g-0", "g-1")]

        def turn_away(json: dict[str, Any]) -> None:
            json["status"].update(phase="Failed", reason="TopologyAffinityError", message="cannot be aligned")

        def crash(json: dict[str, Any]) -> None:
            json["status"].update(phase="Failed", reason="Error")

        setting.cluster.update(WatchedKind.POD, ("default", "g-0"), turn_away)
        setting.cluster.update(WatchedKind.POD, ("default", "g-1"), crash)
        await reach(10)
        assert setting.cluster.get(WatchedKind.POD, "default", "g-0").uid == before[0]
        await reach(12)
        after = [setting.cluster.get(WatchedKind.POD, "default", name) for name in ("g-0", "g-1")]
        assert after[0].pod.node_name == ""
        return before[0] == after[0].uid, before[1] == after[1].uid

    assert virtually(story()) == (False, True)


def test_a_finished_gang_can_be_forgotten(virtually: Virtually) -> None:
    """Its objects go, and nothing is created in their place; a gang of the same name can come again."""

    async def story() -> tuple[int, int, list[str], list[str]]:
        setting = Setting(gang(duration=10.0))
        setting.bind(g_0="n", g_1="m")
        await reach(20)
        setting.cluster.delete(WatchedKind.POD, "default", "g-0")
        await reach(21)
        setting.workload.forget(setting.run())
        await reach(30)
        left = (
            len(list(setting.cluster.list(WatchedKind.POD))),
            len(list(setting.cluster.list(COSCHEDULING_POD_GROUPS))),
        )
        setting.workload.add([gang(size=1)])
        return *left, list(setting.phases()), [run.spec.name for run in setting.workload.gangs]

    assert virtually(story()) == (0, 0, ["g-0"], ["g"])


def test_a_gang_without_objects_can_be_forgotten_too(virtually: Virtually) -> None:
    """Somebody else may have deleted them before."""

    async def story() -> int:
        setting = Setting(gang(duration=10.0))
        setting.bind(g_0="n", g_1="m")
        await reach(20)
        for name in ("g-0", "g-1"):
            setting.cluster.delete(WatchedKind.POD, "default", name)
        setting.cluster.delete(COSCHEDULING_POD_GROUPS, "default", "g")
        setting.workload.forget(setting.run())
        await reach(30)
        return len(setting.workload.gangs)

    assert virtually(story()) == 0


def test_pods_of_nobody_are_left_alone(virtually: Virtually) -> None:
    """A pod that belongs to no gang of the workload changes nothing."""

    async def story() -> bool:
        setting = Setting(gang(size=1, duration=10.0))
        setting.cluster.create(WatchedKind.POD, {"metadata": {"name": "x"}, "spec": {}})
        setting.bind(g_0="n")
        await reach(20)
        return setting.workload.finished.is_set()

    assert virtually(story())


def test_a_pod_deleted_in_the_moment_of_finishing_does_no_harm(virtually: Virtually) -> None:
    """What cannot be written any more is not written."""

    async def story() -> dict[str, str]:
        setting = Setting(gang(size=2, min_member=1, duration=10.0))
        setting.bind(g_0="n", g_1="m")
        asyncio.get_running_loop().call_at(10.0, setting.cluster.delete, WatchedKind.POD, "default", "g-1")
        await reach(20)
        return setting.phases()

    assert virtually(story())["g-0"] == "Succeeded"


def test_the_timeline_has_a_moment_for_every_change(virtually: Virtually) -> None:
    """Who holds what on which node, what each gang does, and what was spent until then and from then on."""

    async def story() -> tuple[list[tuple[float, dict[str, str]]], dict[str, int], GpuSeconds, GpuSeconds]:
        setting = Setting(gang("a", 1, gpus=4, rendezvous=10.0, duration=20.0), gang("late", 1, arrival=1000.0))
        timeline = Timeline(setting.cluster, setting.workload, setting.clock)
        await asyncio.sleep(5)
        setting.bind(a_0="n")
        await reach(100)
        moments = [(moment.at, dict(moment.doing)) for moment in timeline.moments]
        training = timeline.moments[2]
        assert training.held == {"n": {"default/a": 4}, "m": {}}
        assert training.holds("default/a") == 4
        now = picture(setting.cluster, setting.workload, setting.clock)
        return moments, gpu_capacity(setting.cluster), training.spent_by(20.0), now.spent

    moments, capacity, by_twenty, in_all = virtually(story())
    assert moments == [
        (0.0, {"default/a": "waits"}),
        (5.0, {"default/a": "init"}),
        (15.0, {"default/a": "productive"}),
        (35.0, {"default/a": "finished"}),
    ]
    assert capacity == {"n": 8, "m": 8}
    assert by_twenty == GpuSeconds(init=40.0, productive=20.0)
    assert in_all == GpuSeconds(init=40.0, productive=80.0)
