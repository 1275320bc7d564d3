"""Whole scenarios, with kube-scheduler alone and with the real Muster behind its real HTTP application."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.control.ports import WatchedKind
from extender.service.app import create_app
from muster_lab.simulation.queueuse import queue_uses
from muster_lab.simulation.results import Result, result_json
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import load_scenario, read_scenario
from muster_lab.simulation.simulate import _play, record, simulate
from muster_lab.simulation.transports import asgi_transport
from muster_lab.simulation.virtual_time import LoopClock
from muster_lab.simulation.world import ApiLatency, Connect, World
from tests.builders import GPU
from tests.lab.conftest import Virtually, loop_clock, reach

EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"
TWO_JOBS = load_scenario(EXAMPLES / "two-jobs.yaml")


def scenario(gangs: str, nodes: int = 4, until: str = "1h") -> Scenario:
    """Return a scenario on nodes of eight GPUs."""
    return read_scenario(
        f"""
        nodes: [{{name: n, count: {nodes}, allocatable: {{cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}}}}]
        gangs: [{gangs}]
        until: {until}
        gpuHourPrice: 3.67
        """,
        "scenario",
    )


def test_progress_is_told_and_changes_nothing() -> None:
    """Ever later, up to the end."""
    told: list[float] = []
    read = scenario("{name: a, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 2h}")
    assert simulate(read, None, told.append) == simulate(read, None)
    assert told == sorted(told)
    assert len(told) == 99
    assert told[-1] < read.until


def phases(result: Result) -> dict[str, str]:
    """Return the phase of every gang."""
    return {gang.name: gang.phase.value for gang in result.gangs}


def test_two_jobs_deadlock_with_kube_scheduler_alone() -> None:
    """Each holds half of the cluster for the whole hour and neither starts."""
    result = simulate(TWO_JOBS, None)
    summary = result.summary
    assert (summary.jobs_submitted, summary.jobs_completed) == (2, 0)
    assert (summary.idle_gpu_hours, summary.productive_gpu_hours) == (32.0, 0.0)
    assert summary.wasted_cost == 117.44
    assert phases(result) == {"job-a": "Scheduling", "job-b": "Scheduling"}
    for gang in result.gangs:
        assert sum(pod.node is not None for pod in gang.pods) == 2
        assert gang.reason is not None
        assert gang.reason.code == "Unschedulable"
        assert gang.reason.message.startswith("0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: ")
        assert gang.reason.numbers == {"bound": 2, "minMember": 4}


def test_two_jobs_run_one_after_the_other_with_muster(connect: Connect) -> None:
    """The first takes the whole cluster at once, the second follows at the moment of its end; nothing is wasted."""
    result = simulate(TWO_JOBS, connect)
    summary = result.summary
    assert [(gang.admitted_at, gang.finished_at) for gang in result.gangs] == [(0.0, 1760.0), (1760.0, 3520.0)]
    assert phases(result) == {"job-a": "Finished", "job-b": "Finished"}
    assert (summary.jobs_completed, summary.idle_gpu_hours, summary.wasted_cost) == (2, 0.0, 0.0)
    assert round(summary.productive_gpu_hours, 2) == 31.11
    assert summary.init_cost == 0.65
    assert [gang.reason for gang in result.gangs] == [None, None]


def test_a_gang_that_waits_at_the_end_says_why(connect: Connect) -> None:
    """Muster's reason has code, words and numbers; a gang that has not arrived has none."""
    result = simulate(
        scenario(
            "{name: runs, minMember: 3, requests: {nvidia.com/gpu: 8}},"
            "{name: waits, minMember: 2, requests: {nvidia.com/gpu: 8}},"
            "{name: huge, minMember: 5, requests: {nvidia.com/gpu: 8}},"
            "{name: later, minMember: 1, arrival: 2h}"
        ),
        connect,
    )
    assert phases(result) == {"runs": "Running", "waits": "Pending", "huge": "Pending", "later": "Pending"}
    reasons = {gang.name: gang.reason for gang in result.gangs}
    assert reasons["runs"] is None
    assert reasons["later"] is None
    waits, huge = reasons["waits"], reasons["huge"]
    assert waits is not None
    assert (waits.code, waits.numbers) == ("InsufficientCapacity", {"fits": 1, "minMember": 2})
    assert huge is not None
    assert (huge.code, huge.numbers["minMember"]) == ("ExceedsCluster", 5)
    assert result.summary.jobs_submitted == 3


def test_a_gang_that_lacks_members_waits_for_them(connect: Connect) -> None:
    """Three of four pods exist: none is bound with Muster, all are without, and neither starts."""
    lacking = scenario("{name: g, minMember: 4, replicas: 3, requests: {nvidia.com/gpu: 8}}")
    (gang,) = simulate(lacking, connect).gangs
    assert gang.reason is not None
    assert (gang.reason.code, gang.reason.numbers) == ("MembersMissing", {"exist": 3, "minMember": 4})
    assert {pod.node for pod in gang.pods} == {None}
    assert simulate(lacking, None).summary.idle_gpu_hours == 24.0


def test_a_waiting_gang_holds_nothing(connect: Connect) -> None:
    """No member of a gang is bound before all can be: its pods have no node."""
    result = simulate(
        scenario(
            "{name: a, minMember: 3, requests: {nvidia.com/gpu: 8}},"
            "{name: b, minMember: 2, requests: {nvidia.com/gpu: 8}}"
        ),
        connect,
    )
    waiting = result.gangs[1]
    assert {pod.node for pod in waiting.pods} == {None}
    assert result.summary.idle_gpu_hours == 0.0


def test_members_placed_already_count(connect: Connect) -> None:
    """A gang of which some members run and one has succeeded is completed with the rest, roles and all."""
    result = simulate(
        scenario(
            "{name: g, minMember: 4, requests: {nvidia.com/gpu: 8}, duration: 1m,"
            " roles: [{name: driver, requests: {cpu: 1}}, {name: worker, replicas: 3}],"
            " pods: [{name: g-driver-0, node: n-0, state: Succeeded}, {name: g-worker-0, node: n-3}]}"
        ),
        connect,
    )
    (gang,) = result.gangs
    assert (gang.phase.value, gang.admitted_at, gang.finished_at) == ("Finished", 0.0, 60.0)
    nodes = {pod.name: pod.node for pod in gang.pods}
    assert nodes["g-driver-0"] == "n-0"
    assert nodes["g-worker-0"] == "n-3"
    assert {pod.role for pod in gang.pods} == {"driver", "worker"}
    assert len({nodes[f"g-worker-{i}"] for i in range(3)}) == 3


def test_a_gang_whose_members_failed_has_failed() -> None:
    """Too few members are left that could ever run."""
    result = simulate(
        scenario("{name: g, minMember: 1, pods: [{name: g-0, node: n-0, state: Failed}]}", until="1m"), None
    )
    assert phases(result) == {"g": "Failed"}


def test_what_kube_scheduler_evicts_is_listed() -> None:
    """Alone, it breaks a running gang for a pod of higher priority; the gang comes back when there is room."""
    result = simulate(
        scenario(
            "{name: low, minMember: 4, requests: {nvidia.com/gpu: 8}, duration: 30m, checkpointInterval: 4m},"
            "{name: high, minMember: 1, requests: {nvidia.com/gpu: 8}, priority: 10, arrival: 10m, duration: 5m}"
        ),
        None,
    )
    (eviction,) = result.evictions
    assert (eviction.at, eviction.gang, eviction.by) == (600.0, "default/low", "default/high")
    assert (eviction.reason, eviction.pod.startswith("default/low-"), eviction.node) == ("Preempted", True, "n-0")
    low, high = result.gangs
    assert (high.admitted_at, high.finished_at) == (600.0, 900.0)
    assert low.finished_at == 30 * 60 + 5 * 60 + 2 * 60
    assert result.summary.idle_gpu_hours == pytest.approx(24 * 300 / 3600)
    assert result.summary.lost_gpu_hours == pytest.approx(32 * 120 / 3600, abs=1e-6)


@pytest.mark.parametrize("grace", [0, 30])
def test_muster_evicts_a_gang_as_a_whole(connect: Connect, grace: int) -> None:
    """The same story: nobody is evicted one by one, and nothing of a gang that cannot run holds GPUs."""
    result = simulate(
        scenario(
            "{name: low, minMember: 4, requests: {nvidia.com/gpu: 8}, duration: 30m, checkpointInterval: 4m,"
            f" terminationGracePeriod: {grace}}},"
            "{name: high, minMember: 1, requests: {nvidia.com/gpu: 8}, priority: 10, arrival: 10m, duration: 5m}"
        ),
        connect,
    )
    assert [(eviction.at, eviction.pod, eviction.node) for eviction in result.evictions] == [
        (600.0, f"default/low-{index}", f"n-{index}") for index in range(4)
    ]
    assert {(eviction.gang, eviction.by, eviction.reason) for eviction in result.evictions} == {
        ("default/low", "default/high", "Preempted")
    }
    low, high = result.gangs
    assert (high.admitted_at, high.finished_at) == (600.0 + grace, 900.0 + grace)
    assert low.finished_at == 30 * 60 + 5 * 60 + 2 * 60 + grace
    assert result.summary.lost_gpu_hours == pytest.approx(32 * 120 / 3600, abs=1e-6)
    assert result.summary.idle_gpu_hours == pytest.approx(32 * grace / 3600, abs=1e-6)


@pytest.mark.parametrize("protection", ["preemptible: false", "disruptionBudget: {minAvailable: 4}"])
def test_a_gang_that_is_protected_is_not_evicted(connect: Connect, protection: str) -> None:
    """Neither by its own word nor against its PodDisruptionBudget."""
    result = simulate(
        scenario(
            f"{{name: low, minMember: 4, requests: {{nvidia.com/gpu: 8}}, duration: 30m, {protection}}},"
            "{name: high, minMember: 1, requests: {nvidia.com/gpu: 8}, priority: 10, arrival: 10m, duration: 5m}"
        ),
        connect,
    )
    assert result.evictions == ()
    assert [(gang.admitted_at, gang.finished_at) for gang in result.gangs] == [(0.0, 1800.0), (1800.0, 2100.0)]


def test_priority_classes_count_as_their_values(connect: Connect) -> None:
    """Of two gangs that wait, the one with the higher class goes first, in whatever order they came."""
    result = simulate(
        read_scenario(
            """
            nodes: [{name: n, allocatable: {nvidia.com/gpu: 8}}]
            priorityClasses: {urgent: 1000, idle: -10}
            gangs:
              - {name: first, minMember: 1, requests: {nvidia.com/gpu: 8}, duration: 10m, preemptible: false}
              - {name: low, minMember: 1, requests: {nvidia.com/gpu: 8}, duration: 10m, arrival: 1m,
                 priorityClassName: idle}
              - {name: high, minMember: 1, requests: {nvidia.com/gpu: 8}, duration: 10m, arrival: 2m,
                 priorityClassName: urgent}
            """,
            "s",
        ),
        connect,
    )
    assert {gang.name: gang.admitted_at for gang in result.gangs} == {"first": 0.0, "high": 600.0, "low": 1200.0}


def test_two_teams_borrow_from_each_other_and_take_back(connect: Connect) -> None:
    """Nobody uses more than it has and may borrow; exactly the gang that borrows is reclaimed, and comes back."""
    played = record(load_scenario(EXAMPLES / "two-teams.yaml"), connect)
    (eviction,) = played.result.evictions
    assert (eviction.gang, eviction.pod, eviction.at) == ("default/a-sweep-1", "default/a-sweep-1-0", 720.0)
    assert (eviction.by, eviction.reason) == ("default/b-train", "Reclaimed")
    times = {gang.name: (gang.admitted_at, gang.finished_at) for gang in played.result.gangs}
    assert times == {
        "a-train": (0.0, 3600.0),
        "a-sweep-1": (0.0, 3720.0),
        "a-sweep-2": (3600.0, 5400.0),
        "b-train": (720.0, 2520.0),
        "b-eval-1": (3900.0, 4800.0),
        "b-eval-2": (3900.0, 4800.0),
        "b-eval-3": (3900.0, 4800.0),
    }
    assert played.result.summary.lost_gpu_hours == pytest.approx(8 * 120 / 3600, abs=1e-6)
    used = {
        moment.at: {use.name: (use.used[GPU], use.borrowed[GPU], use.lent[GPU]) for use in moment.queues}
        for moment in played.moments
    }
    assert used[0.0] == {"research": (24, 0, 0), "team-a": (24, 8, 0), "team-b": (0, 0, 8)}
    assert used[720.0] == {"research": (32, 0, 0), "team-a": (16, 0, 0), "team-b": (16, 0, 0)}
    assert used[3900.0] == {"research": (32, 0, 0), "team-a": (8, 0, 8), "team-b": (24, 8, 0)}
    assert all(borrowed <= 8 for uses in used.values() for _, borrowed, _ in uses.values())


def test_what_muster_says_of_its_queues_is_what_the_simulation_counts(virtually: Virtually, connect: Connect) -> None:
    """The status of every Queue object agrees with the pods that are on nodes, whenever one looks."""

    async def story() -> list[tuple[dict[str, Any], dict[str, Any]]]:
        clock = loop_clock()
        world = World(load_scenario(EXAMPLES / "two-teams.yaml"), clock, connect)
        running = asyncio.create_task(world.run())
        pairs = []
        for when in (300, 900, 2700, 3630, 4000):
            await reach(when)
            counted = {
                use.name: [str(amounts[GPU]) for amounts in (use.used, use.borrowed, use.lent)]
                for use in queue_uses(world.cluster, world.workload)
            }
            said = {}
            for version in world.cluster.list(WatchedKind.QUEUE):
                (flavor,) = version.json["status"]["flavors"]
                (resource,) = flavor["resources"]
                said[version.key.name] = [resource[key] for key in ("used", "borrowed", "lent")]
            pairs.append((said, counted))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return pairs

    pairs = virtually(story())
    assert len({str(said) for said, _ in pairs}) >= 4
    for said, counted in pairs:
        assert said == counted


def test_a_cycle_of_queues_is_told_and_the_rest_works_on(connect: Connect) -> None:
    """The gang in it waits and says why; the report has a warning for each queue in it."""
    result = simulate(
        read_scenario(
            """
            nodes: [{name: n, allocatable: {nvidia.com/gpu: 8}}]
            queues: [{name: a, parent: b}, {name: b, parent: a}, {name: sound}]
            gangs: [{name: lost, minMember: 1, queue: a}, {name: fine, minMember: 1, queue: sound, duration: 1m}]
            until: 5m
            """,
            "s",
        ),
        connect,
    )
    assert phases(result) == {"lost": "Pending", "fine": "Finished"}
    lost, _ = result.gangs
    assert lost.reason is not None
    assert lost.reason.code == "InvalidQueue"
    assert [warning.split(":")[0] for warning in result.warnings] == ["queue 'a'", "queue 'b'"]


def test_the_simulation_ends_with_its_last_gang_or_at_its_end(connect: Connect) -> None:
    """When all gangs have finished nothing changes any more; what is due at the very end still happens."""
    short = scenario("{name: g, minMember: 1, duration: 1m}", until="100000h")
    assert simulate(short, connect).gangs[0].finished_at == 60.0
    exact = scenario("{name: g, minMember: 1, duration: 1h}", until="1h")
    assert simulate(exact, connect).gangs[0].finished_at == 3600.0
    early = scenario("{name: g, minMember: 1, duration: 3601}", until="1h")
    assert simulate(early, connect).gangs[0].finished_at is None


def test_without_gangs_nothing_happens(connect: Connect) -> None:
    """An empty scenario is played to its end."""
    assert simulate(scenario("", until="1m"), connect).gangs == ()


def test_nodes_may_come_to_nothing() -> None:
    """A cluster without nodes is a scenario too: everything waits."""
    empty = read_scenario("nodes: []\ngangs: [{name: g, minMember: 1}]\nuntil: 1m", "s")
    (gang,) = simulate(empty, None).gangs
    assert gang.reason is not None
    assert gang.reason.message == "no nodes available to schedule pods"


def test_who_held_what_can_be_played_back(connect: Connect) -> None:
    """A recorded run has the same result, and every moment that led there."""
    playback = record(TWO_JOBS, connect)
    assert playback.result == simulate(TWO_JOBS, connect)
    assert [moment.at for moment in playback.moments] == [0.0, 10.0, 1760.0, 1770.0, 3520.0]
    assert playback.capacity == {f"gpu-{i}": 8 for i in range(4)}


def test_a_simulation_needs_virtual_time() -> None:
    """On an ordinary loop it would take as long as it says."""
    with pytest.raises(TypeError, match="a simulation needs virtual time"):
        asyncio.run(_play(TWO_JOBS, None))


def test_what_breaks_in_a_world_breaks_the_simulation() -> None:
    """An error in one of its parts is not waited out."""

    def connect(*_: object) -> object:
        async def transport(path: str, body: bytes) -> bytes:
            raise RuntimeError(path, body)

        return transport

    with pytest.raises(ExceptionGroup):
        simulate(TWO_JOBS, connect)  # type: ignore[arg-type]  # any connection will do, as long as it breaks


GANGS = st.lists(
    st.fixed_dictionaries(
        {
            "minMember": st.integers(1, 5),
            "gpus": st.sampled_from([1, 4, 8]),
            "arrival": st.integers(0, 300),
            "rendezvous": st.integers(0, 20),
            "duration": st.integers(1, 600),
            "priority": st.sampled_from([0, 0, 5]),
        }
    ),
    min_size=1,
    max_size=6,
)


def random_scenario(gangs: list[dict[str, int]]) -> Scenario:
    """Return a scenario of gangs that arrive now and then, each of which fits alone."""
    written = [
        {"name": f"g{index}", **{key: value for key, value in gang.items() if key != "gpus"}}
        | {"requests": {"nvidia.com/gpu": gang["gpus"]}}
        for index, gang in enumerate(gangs)
    ]
    return scenario(json.dumps(written)[1:-1], nodes=5, until="24h")


@given(GANGS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_equal_scenarios_give_equal_results(connect: Connect, gangs: list[dict[str, int]]) -> None:
    """Byte for byte, with Muster and without; and with Muster every gang that fits alone finishes, wasting nothing."""
    for way in (connect, None):
        first, second = (result_json(simulate(random_scenario(gangs), way)) for _ in range(2))
        assert json.dumps(first) == json.dumps(second)
        if way is not None:
            assert first["summary"]["jobsCompleted"] == len(gangs)
            assert first["summary"]["idleGpuHours"] == 0.0


LATENCIES = st.builds(
    ApiLatency,
    write=st.sampled_from([0.0, 0.002, 0.05]),
    muster_watch=st.sampled_from([0.0, 0.003, 0.02, 0.2]),
    scheduler_watch=st.sampled_from([0.0, 0.003, 0.02, 0.2]),
)


@given(GANGS, LATENCIES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_latency_costs_time_but_no_gang(
    virtually: Virtually, connect: Connect, gangs: list[dict[str, int]], latency: ApiLatency
) -> None:
    """Whoever hears of a change first, and however late a write lands: every gang finishes, and none starts in part."""

    async def story() -> list[float | None]:
        world = World(random_scenario(gangs), LoopClock(asyncio.get_running_loop()), connect, latency=latency)
        running = asyncio.create_task(world.run())
        with suppress(TimeoutError):
            async with asyncio.timeout(24 * 3600):
                await world.workload.finished.wait()
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return [run.finished_at for run in world.workload.gangs]

    assert None not in virtually(story())


def test_a_large_scenario_is_played_in_seconds() -> None:
    """200 gangs of eight pods on 500 nodes, most of them waiting for others, need no coffee break."""
    gangs = ",".join(
        f"{{name: g{i}, minMember: 8, requests: {{nvidia.com/gpu: {(2, 4, 8)[i % 3]}}}, arrival: {7 * i},"
        f" rendezvous: 5, duration: {300 + 37 * (i % 11)}}}"
        for i in range(200)
    )

    def connect(*parts: object) -> object:
        return asgi_transport(create_app(*parts))  # type: ignore[arg-type]  # the parts that a world hands over

    result = simulate(scenario(gangs, nodes=500, until="24h"), connect)  # type: ignore[arg-type]  # as above
    assert result.summary.jobs_completed == 200
