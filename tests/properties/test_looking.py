"""Looking changes nothing: whatever is read between two events, all later decisions are the same (P10)."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable

import pytest
import structlog

from extender.admission.admission import Admission
from extender.explain.explanation import Inspection, explain_further
from extender.journal.playing import JournalPlayer
from extender.journal.standing import StateSummary
from extender.objects.podgroup import GroupRef
from tests.properties.replaying import run

#: Random runs; each is played twice over, with other looks.
RUNS = int(os.environ.get("LOOKING_RUNS", "6"))
#: Steps of a story full of faults.
STEPS = 40


@pytest.fixture(autouse=True)
def silence() -> None:
    """Keep what Muster logs about all that to itself."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class Onlooker:
    """Somebody who reads all that can be read, in whatever order."""

    def __init__(self, admission: Admission, drawn: random.Random) -> None:
        """Look at `admission`."""
        self._admission = admission
        self._drawn = drawn
        self._inspection = Inspection(admission, admission.clock)
        #: What can be read of one gang, and of everything.
        self.of_gangs: tuple[Callable[[GroupRef], object], ...] = (
            self._inspection.explain,
            lambda ref: explain_further(self._inspection.collect(ref, suggesting=False)),
            self._inspection.survey,
            admission.placement_of,
        )
        self.of_all: tuple[Callable[[], object], ...] = (
            self._inspection.queues,
            self._inspection.demand,
            admission.waiting_order,
            admission.next_tick,
            lambda: admission.pending,
            lambda: StateSummary.of(admission).document(),
            lambda: [admission.model.table.occupancy.held(uid) for uid in admission.model.pods],
            lambda: [admission.model.table.occupancy.distrust(node.name) for node in admission.model.table.nodes()],
            lambda: [admission.sharing.turn(name) for name in admission.sharing.queues],
        )

    def look(self) -> int:
        """Read a few things; return how many."""
        drawn, gangs = self._drawn, list(self._admission.model.gangs)
        everything = drawn.sample(self.of_all, drawn.randint(0, len(self.of_all)))
        for read in everything:
            read()
        if not gangs:
            return len(everything)
        closely = drawn.sample(self.of_gangs, drawn.randint(0, 1))
        for read_gang in closely:
            read_gang(drawn.choice(gangs).ref)
        return len(everything) + len(closely)


@pytest.mark.timeout(60 + 30 * RUNS)
@pytest.mark.parametrize("seed", range(RUNS))
def test_what_is_read_between_events_changes_no_later_decision(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer, every effect and the state at the end are as they were recorded, where others looked, or nobody."""
    looks = 0
    for snapshot in run(seed, monkeypatch, STEPS):
        for attentive in (0.1, 0.9):
            drawn = random.Random(f"{seed} {attentive}")
            player = JournalPlayer(snapshot.header.settings, snapshot.header.first)
            onlooker = Onlooker(player.admission, drawn)
            for noted in snapshot.noted():
                (difference,) = player.play([noted])
                assert difference is None
                if drawn.random() < attentive:
                    looks += onlooker.look()
            assert player.seq == snapshot.header.inputs
    assert looks > 100
