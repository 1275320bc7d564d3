"""What docs/queues.md shows of the program: output and tables, each made by the code that it is about.

`python -m tests.docs.queues_page` prints all of it, for whoever changes the code; a test compares the page with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import cache

from typer.testing import CliRunner

from extender.cli.commands import app
from extender.explain.explanation import remarks
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from muster_lab.cli.simulate import connect
from muster_lab.simulation.scenario_file import load_scenario
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import World
from tests.docs.conftest import ROOT

QUEUES = ROOT / "examples" / "queues"
SCENARIO = ROOT / "examples" / "scenarios" / "two-teams.yaml"

_GPU = "nvidia.com/gpu"
_TEAMS = ("team-a", "team-b")


def two_teams() -> str:
    """Return the gangs and evictions that `muster simulate` prints of two-teams.yaml."""
    tables = _run("simulate", str(SCENARIO)).split("\n\n")
    return "\n\n".join(table for table in tables if table.startswith(("Gangs", "Evictions")))


def two_teams_over_time() -> str:
    """Return who uses, borrows and lends how much, whenever that changed."""
    timeline = json.loads(_run("simulate", str(SCENARIO), "--timeline", "-o", "json"))["timeline"]
    rows = [f"| at | {' | '.join(_TEAMS)} |", "|---|---|---|"]
    before = ""
    for moment in timeline:
        queues = {queue["name"]: queue for queue in moment["queues"]}
        cells = " | ".join(_figures(queues[team]) for team in _TEAMS)
        if cells != before:
            rows.append(f"| {moment['at'] / 60:g}m | {cells} |")
        before = cells
    return "\n".join(rows)


def _figures(queue: dict[str, dict[str, int]]) -> str:
    told = [f"{queue['used'][_GPU]} used"]
    told += [f"{queue[what][_GPU]} {what}" for what in ("borrowed", "lent") if queue[what][_GPU]]
    return ", ".join(told)


def sweep_waits() -> str:
    """Return why the second sweep waits before team b comes, as `muster explain` says it."""
    world = _played(until=60.0)
    assert world.muster is not None
    explained = world.muster.controller.inspection.explain(GroupRef(COSCHEDULING, "default", "a-sweep-2"))
    return remarks(explained)[0]


def sweep_is_evicted() -> str:
    """Return the Event on the first sweep's PodGroup that says for whom it was evicted."""
    (seen,) = _played(until=730.0).cluster.events.about("a-sweep-1", "Reclaimed")
    return f"{seen.event.reason}: {seen.event.message}"


@cache
def _played(until: float) -> World:
    """Return the scenario's world as it is after so many seconds."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_play(until))


async def _play(until: float) -> World:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world = World(load_scenario(SCENARIO), LoopClock(loop), connect)
    running = asyncio.create_task(world.run())
    try:
        await loop.reach(until)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return world


def kueue_example() -> str:
    """Return the ClusterQueue of the example."""
    documents = (QUEUES / "kueue.yaml").read_text(encoding="utf-8").split("---\n")
    return next(document for document in documents if "kind: ClusterQueue" in document).strip()


def volcano_example() -> str:
    """Return the queues of the example."""
    return (QUEUES / "volcano.yaml").read_text(encoding="utf-8").strip()


def import_kueue() -> str:
    """Return what `muster import kueue` prints of the example."""
    return _run("import", "kueue", str(QUEUES / "kueue.yaml")).strip()


def import_volcano() -> str:
    """Return what `muster import volcano` prints of the example."""
    return _run("import", "volcano", str(QUEUES / "volcano.yaml"), "--capacity", f"{_GPU}=32").strip()


def _run(*arguments: str) -> str:
    """Return what a command prints, standard error last."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout + result.stderr


#: Everything on the page that is made, by the mark under which it is printed.
PARTS: Mapping[str, Callable[[], str]] = {
    "two-teams": two_teams,
    "two-teams-over-time": two_teams_over_time,
    "sweep-waits": sweep_waits,
    "sweep-is-evicted": sweep_is_evicted,
    "kueue": kueue_example,
    "import-kueue": import_kueue,
    "volcano": volcano_example,
    "import-volcano": import_volcano,
}

if __name__ == "__main__":
    for mark, part in PARTS.items():
        print(f"--- {mark}\n{part()}\n")  # noqa: T201 - its result is what it prints
