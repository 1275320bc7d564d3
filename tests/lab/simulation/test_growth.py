"""Gangs that grow and shrink: elastic ones, those that their owner scales, and those of parts."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import ScenarioError, load_scenario, read_scenario
from muster_lab.simulation.simulate import Playback, record, simulate
from muster_lab.simulation.world import Connect

EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"
TREE = '{"minimum": 1, "parts": [{"name": "a", "roles": {"a-x": 1, "a-y": 1}}, {"name": "b", "roles": {"b-x": 1}}]}'


def scenario(gang: str, nodes: int = 4, more: str = "") -> Scenario:
    """Return a scenario with one gang whose pods take a node each."""
    text = f"nodes: [{{name: n, count: {nodes}, allocatable: {{nvidia.com/gpu: 8}}}}]\ngangs:\n- name: g\n"
    item = indent(f"requests: {{nvidia.com/gpu: 8}}\n{dedent(gang)}", "  ")
    return read_scenario(f"{text}{item}\nuntil: 12h\n{more}", "s.yaml")


def held(played: Playback, gang: str) -> list[tuple[float, str, int]]:
    """Return since when a gang did what with how many GPUs."""
    found: list[tuple[float, str, int]] = []
    for moment in played.moments:
        now = (moment.doing.get(gang, ""), moment.holds(gang))
        if not found or found[-1][1:] != now:
            found.append((moment.at, *now))
    return found


def test_an_elastic_gang_is_the_faster_the_more_of_it_runs(connect: Connect) -> None:
    """The example: it grows, gives way, grows again, and is scaled down, which lets another gang start."""
    played = record(load_scenario(EXAMPLES / "elastic.yaml"), connect)
    assert held(played, "default/train") == [
        (0.0, "init", 32),
        (300.0, "productive", 32),
        (1800.0, "productive", 48),
        (3600.0, "productive", 32),
        (4800.0, "productive", 48),
        (10_800.0, "productive", 32),
        (14_400.0, "finished", 0),
    ]
    batch = played.result.gangs[-1]
    assert (batch.admitted_at, batch.finished_at) == (10_800.0, 14_400.0)
    assert {each.by for each in played.result.evictions} == {"default/urgent"}


def test_a_gang_of_parts_grows_and_shrinks_part_by_part(connect: Connect) -> None:
    """The example: a replica of two pods joins whole, and gives way whole."""
    played = record(load_scenario(EXAMPLES / "parts.yaml"), connect)
    assert held(played, "default/serve") == [
        (0.0, "productive", 32),
        (3600.0, "productive", 48),
        (5400.0, "productive", 32),
        (6600.0, "productive", 48),
        (10_800.0, "finished", 0),
    ]
    assert [each.pod for each in played.result.evictions] == ["default/serve-r2-prefill-0", "default/serve-r2-decode-0"]


def test_what_a_gang_of_parts_can_do_follows_from_its_parts(connect: Connect) -> None:
    """One pod would do for minMember: but of the part that runs the other one is away, until its node is back."""
    gang = f"""
    minMember: 1
    annotations:
      muster.dev/tree: '{TREE}'
      muster.dev/below-minimum: ignore
    roles: [{{name: a-x}}, {{name: a-y}}, {{name: b-x}}]
    duration: 1h
    """
    failing = scenario(gang, nodes=2, more="nodeFailures: [{node: n-1, at: 10m, back: 12m}]")
    played = record(failing, connect)
    assert held(played, "default/g") == [
        (0.0, "productive", 16),
        (600.0, "idle", 16),
        (720.0, "productive", 16),
        (720.0 + 3600.0, "finished", 0),
    ]


def test_an_owner_scales_its_gang(connect: Connect) -> None:
    """Up at one time, down at another; who was not created yet has no node, and who is gone keeps its last one."""
    gang = """
    minMember: 1
    elastic: true
    scale: [{at: 30m, replicas: 3}, {at: 1h, replicas: 1}]
    duration: 4h
    disruptionBudget: {maxUnavailable: 1}
    """
    played = record(scenario(gang), connect)
    assert [(at, gpus) for at, _, gpus in held(played, "default/g")] == [
        (0.0, 8),
        (1800.0, 24),
        (3600.0, 8),
        (3600.0 + 4 * 3600.0 - 1800.0 - 3 * 1800.0, 0),
    ]
    assert [pod.name for pod in played.result.gangs[0].pods] == ["g-0", "g-1", "g-2"]


def test_roles_are_scaled_by_their_names(connect: Connect) -> None:
    """One alone, or several at different times; a gang that has ended is not scaled any more."""
    gang = """
    minMember: 2
    roles: [{name: head}, {name: worker}]
    scale: [{at: 2h, role: worker, replicas: 3}, {at: 10m, role: worker, replicas: 2}]
    duration: 1h
    """
    played = record(scenario(gang), connect)
    assert [(at, gpus) for at, _, gpus in held(played, "default/g")] == [(0.0, 16), (600.0, 24), (3600.0, 0)]
    assert [pod.node is not None for pod in played.result.gangs[0].pods] == [True, True, True, False]


def test_what_an_elastic_gang_loses_counts_at_its_pace(connect: Connect) -> None:
    """Twice as many pods reach a checkpoint in half the time, and lose what they did since the last one."""
    gang = """
    minMember: 2
    replicas: 4
    elastic: true
    duration: 2h
    checkpointInterval: 20m
    annotations: {muster.dev/below-minimum: evict}
    """
    failing = "nodeFailures: [{node: n-0, at: 25m}, {node: n-1, at: 25m}, {node: n-2, at: 25m, back: 26m}]"
    result = simulate(scenario(gang, more=failing), connect)
    assert result.summary.lost_gpu_hours == pytest.approx(32 * 5 / 60)
    assert result.gangs[0].finished_at == (26 + 120 - 40) * 60


@pytest.mark.parametrize(
    ("gang", "problem"),
    [
        ("scale: [{at: 1h, replicas: 1}]\nminMember: 2\narrival: 1h", ".scale[0].at: '3600s' is not after the arrival"),
        ("scale: [{at: 1h, role: x, replicas: 1}]\nminMember: 2", ".scale[0].role: 'x': there are no roles"),
        (
            "scale: [{at: 1h, role: y, replicas: 1}]\nroles: [{name: x}]",
            ".scale[0].role: 'y' is no role of the scenario; there are x",
        ),
        ("scale: [{at: 1h, replicas: 1}]\nroles: [{name: x}]", ".scale[0].role: one of x is to be named"),
        ("scale: [{at: 1h, replicas: -1}]\nminMember: 2", ".scale[0].replicas: '-1' is negative"),
    ],
)
def test_what_is_wrong_with_a_scale_is_named(gang: str, problem: str) -> None:
    """With path and value."""
    with pytest.raises(ScenarioError) as refused:
        scenario(gang)
    assert refused.value.problems == (f"s.yaml: gangs[0]{problem}",)
