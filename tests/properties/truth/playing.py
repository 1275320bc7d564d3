"""Play a history in virtual time, and compare everything after each step."""

from __future__ import annotations

import asyncio
import io
import re
from collections import Counter

from msgspec.structs import replace as replaced
from rich.console import Console

from extender.cli.explain import show_explanation
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.explain.documents import Explanation
from extender.explain.explanation import explanation
from extender.service.board.board import Board, BoardPicture
from extender.service.stream import capacity_document, gang_rows, nodes_document
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from tests.control.conftest import Muster, ScriptedApi, Term
from tests.properties.truth.explained import TrueExplanation
from tests.properties.truth.gangs import TrueGangs
from tests.properties.truth.nodes import TrueNodes
from tests.properties.truth.parts import TrueParts
from tests.properties.truth.queues import TrueQueues
from tests.properties.truth.quotas import TrueQuota
from tests.properties.truth.story import LEVELS, Step, Story
from tests.properties.truth.whole import TrueWhole


async def run(steps: list[Step]) -> set[str]:
    """Play steps; compare everything after each of them, and return the fields that were compared."""
    api, metrics = ScriptedApi(), Metrics()
    clock = LoopClock(asyncio.get_running_loop())
    values = Settings.model_validate({"topology_levels": LEVELS})
    controller = Controller(values, clock, api, metrics, Term())
    task = asyncio.create_task(controller.run())
    muster = Muster(controller, api, metrics, values)
    board = Board(controller, metrics, clock)
    seen: set[str] = set()
    try:
        muster.sync()
        story = Story(muster, clock)
        for step in steps:
            await story.take(step)
            seen |= compare(story, await board.look(), board)
    finally:
        muster.fall_silent()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return seen


def compare(story: Story, picture: BoardPicture, board: Board) -> set[str]:
    """Recompute everything that can be read now; return what was."""
    seen: set[str] = set()
    gangs, explained = TrueGangs(story.objects, seen), TrueExplanation(story.objects, seen)
    quota, parts = TrueQuota(story.objects, seen), TrueParts(story.objects, seen)
    rows = list(gang_rows(picture))
    line = sorted((row for row in rows if row.position), key=lambda row: row.position or 0)
    assert [row.position for row in rows if row.position] == list(range(1, len(picture.order) + 1))
    seen.add("gangs[].position")
    statuses = dict(story.muster.api.statuses)
    for row in rows:
        gangs.gang(row)
        parts.row(row, next(ref for ref in story.objects.groups if ref.name == row.name))
        if row.name in statuses:
            gangs.group_status(row, statuses[row.name])
    nodes = TrueNodes(story.objects, seen)
    nodes.nodes(nodes_document(picture, board.resources()))
    nodes.capacity(capacity_document(picture.levels, picture.nodes))
    TrueQueues(story.objects, seen).queues(picture.queues, rows)
    TrueWhole(story.objects, seen).status(picture.status, rows, story.muster)
    inspection = story.muster.controller.inspection
    for row in rows:
        ref = next(ref for ref in story.objects.groups if ref.name == row.name)
        shown = explanation(inspection.explain(ref))
        explained.explain(shown, row)
        explained.line(shown, row, line)
        parts.tree(shown.parts, row, ref)
        quota.standing(shown, row.queue or "", ref, story.clock.now().timestamp())
        assert said_twice(shown) == []
    return seen


def said_twice(shown: Explanation) -> list[str]:
    """Return the sentences that occur more than once in what `muster explain` prints, tables left out."""
    printed = io.StringIO()
    show_explanation(Console(file=printed, width=1000), replaced(shown, pods=(), waterfall=(), holders=()))
    said = (part.strip() for line in printed.getvalue().splitlines() for part in re.split(r"; |waits: \w+: ", line))
    return [part for part, times in Counter(said).items() if times > 1 and part.count(" ") > 1]


def play(steps: list[Step]) -> set[str]:
    """Play steps in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run(steps))
