"""What docs/topology.md shows of the program: tables and output, each made by the code that it is about.

`python -m tests.docs.topology_page` prints all of it, for whoever changes the code; a test compares the page with it.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from rich.console import Console
from typer.testing import CliRunner

from extender.cli.commands import app
from extender.cli.explain import show_explanation
from extender.explain.explanation import GangFacts, explanation
from extender.hardware.bandwidth import IslandUse, bus_bandwidth
from extender.hardware.product import Product
from extender.hardware.products import Products
from extender.hardware.topologymanager import KubeletVerdict, admit
from extender.objects.levels import ALLREDUCE_FACTORS, ALLTOALL_FACTORS, PRESETS, TOPOGRAPH_PREFIX, Preset
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Shape
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.topology import Objective
from muster_lab.cli.simulate import connect
from muster_lab.simulation.scenario_file import load_scenario
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import World
from tests.docs.conftest import ROOT

SCENARIOS = ROOT / "examples" / "scenarios"
WIDTH = 120

#: Who writes the labels of a preset.
_WRITERS = {
    "gke": "Google Cloud",
    "eks": "AWS",
    "oci": "Oracle Cloud",
    "coreweave": "CoreWeave",
    "topograph": "topograph, as deep as the network is",
    "topograph-legacy": "topograph, earlier versions",
    "alibaba": "Alibaba Cloud",
    "generic": "every cloud",
}

_GPU, _CPU = "nvidia.com/gpu", "cpu"
#: GPUs and CPUs of a zone.
_ZONE_GPUS, _ZONE_CPUS = 4, 16
#: Requests (GPUs, CPUs) and what is free of the GPUs in the two zones.
_ALIGNED = (
    (4, 0, (4, 4)),
    (4, 0, (2, 4)),
    (4, 0, (2, 2)),
    (8, 0, (4, 4)),
    (6, 10, (4, 4)),
    (6, 24, (4, 4)),
)

_H100, _B200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"
#: Product, nodes, GPUs of each, collective.
_SPEEDS = (
    (_H100, 1, 8, Objective.ALLREDUCE),
    (_H100, 2, 8, Objective.ALLREDUCE),
    (_H100, 8, 8, Objective.ALLREDUCE),
    (_H100, 2, 4, Objective.ALLREDUCE),
    (_H100, 8, 4, Objective.ALLREDUCE),
    (_B200, 1, 8, Objective.ALLREDUCE),
    (_B200, 2, 8, Objective.ALLREDUCE),
    (_B200, 8, 8, Objective.ALLREDUCE),
    (_H100, 8, 8, Objective.ALLTOALL),
)


def presets_table() -> str:
    """Return the rows of the presets: their levels, their labels, and who writes those."""
    return "\n".join(row for preset in PRESETS for row in _preset_rows(preset))


def _preset_rows(preset: Preset) -> Iterable[str]:
    for number, variant in enumerate(preset.variants):
        levels = [f"`{level.name}`" for level in variant]
        labels = [f"`{level.label}`" for level in variant]
        if variant[0].label.startswith(TOPOGRAPH_PREFIX):
            levels, labels = [levels[0], "...", levels[-1]], [labels[0], "...", labels[-1]]
        name = f"`{preset.name}`, {_WRITERS[preset.name]}" if not number else "or"
        yield f"| {name} | {', '.join(levels)} | {', '.join(labels)} |"


def speeds_table() -> str:
    """Return the bandwidths of gangs by how far their nodes are from each other."""
    rows = ["| GPUs | nodes x GPUs | in one rack | in one block | farther |", "|---|---|---|---|---|"]
    for name, nodes, gpus, objective in _SPEEDS:
        product = Products().named(name)
        assert product is not None
        tiers = zip(ALLREDUCE_FACTORS, ALLTOALL_FACTORS, strict=True)
        speeds = [_speed(product, nodes, gpus, tier, objective) for tier in tiers]
        cells = speeds if nodes > 1 else [speeds[0], "", ""]
        what = "" if objective is Objective.ALLREDUCE else ", all-to-all"
        rows.append(f"| {product.name.split()[0]}{what} | {nodes} x {gpus} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _speed(product: Product, nodes: int, gpus: int, tier: tuple[float, float], objective: Objective) -> str:
    use = IslandUse(product.inner(gpus), product.outer(gpus), product.nic, gpus, nvls=product.nvls)
    bandwidth = bus_bandwidth([use] * nodes, tier, objective)
    assert bandwidth is not None
    return f"{bandwidth:.0f}"


def tiers_table() -> str:
    """Return what is left of the network's bandwidth by the position of the lowest level in common."""
    shares = zip(("innermost level", "the next", "any beyond"), ALLREDUCE_FACTORS, ALLTOALL_FACTORS, strict=True)
    return "\n".join(f"| {position} | {allreduce} | {alltoall} |" for position, allreduce, alltoall in shares)


def alignment_table() -> str:
    """Return what kubelets of each policy make of some requests."""
    policies = (TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)
    names = " | ".join(f"`{policy}`" for policy in policies)
    rows = [f"| the pod asks for | GPUs free | {names} |", "|---|---|---|---|---|"]
    for gpus, cpus, free in _ALIGNED:
        asks = f"{gpus} GPUs" + (f", {cpus} CPUs" if cpus else "")
        verdicts = (_verdict(policy, gpus, cpus, free) for policy in policies)
        rows.append(f"| {asks} | {free[0]} + {free[1]} | {' | '.join(verdicts)} |")
    return "\n".join(rows)


def _verdict(policy: TopologyPolicy, gpus: int, cpus: int, free: Sequence[int]) -> str:
    amounts = {_GPU: _ZONE_GPUS, _CPU: 1000 * _ZONE_CPUS}
    zones = tuple(Zone(zone, f"node-{zone}", amounts, capacity=amounts) for zone in range(2))
    left = {zone: {_GPU: count, _CPU: 1000 * _ZONE_CPUS} for zone, count in enumerate(free)}
    requests = ((_CPU, 1000 * cpus), (_GPU, gpus)) if cpus else ((_GPU, gpus),)
    answer = admit(NodeTopology("node", policy, zones=zones), left, Shape(requests, guaranteed=True))
    if not isinstance(answer, KubeletVerdict):
        return "refused"
    return "zones 0 and 1" if len(answer.taken) > 1 else f"zone {next(iter(answer.taken))}"


@cache
def bandwidth_output() -> str:
    """Return what `muster simulate` prints of the gangs of bandwidth.yaml."""
    return simulated("bandwidth.yaml")


def numa_output() -> str:
    """Return what `muster simulate` prints of the gangs of numa.yaml."""
    return simulated("numa.yaml")


def simulated(name: str) -> str:
    """Return what `muster simulate` prints of a scenario's gangs, without the summary."""
    arguments = ["simulate", str(SCENARIOS / name)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": str(WIDTH)}, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return _trimmed(result.stdout.partition("Summary")[0])


def explain_output() -> str:
    """Return what `muster explain` prints of the second gang of bandwidth.yaml, five seconds after it has come."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        explained = runner.run(_explained("bandwidth.yaml", "second", 25.0))
    screen = io.StringIO()
    show_explanation(Console(file=screen, width=WIDTH), explanation(explained))
    return _trimmed(screen.getvalue())


async def _explained(name: str, gang: str, at: float) -> GangFacts:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world = World(load_scenario(SCENARIOS / name), LoopClock(loop), connect)
    running = asyncio.create_task(world.run())
    try:
        await loop.reach(at)
        assert world.muster is not None
        explained = world.muster.controller.inspection.explain(GroupRef(COSCHEDULING, "default", gang))
        assert explained is not None
        return explained
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


#: Everything on the page that is made, by the mark under which it is printed.
PARTS: Mapping[str, Callable[[], str]] = {
    "presets": presets_table,
    "tiers": tiers_table,
    "speeds": speeds_table,
    "alignment": alignment_table,
    "bandwidth": bandwidth_output,
    "numa": numa_output,
    "explain": explain_output,
}

if __name__ == "__main__":
    for mark, part in PARTS.items():
        print(f"--- {mark}\n{part()}\n")  # noqa: T201 - its result is what it prints
