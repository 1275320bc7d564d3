"""What must hold however teams share a cluster: random queues and gangs, played by the real Muster."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster_lab.simulation.queueuse import QueueUse
from muster_lab.simulation.results import GangResult
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import Playback, record
from muster_lab.simulation.timeline import TimelinePoint
from muster_lab.simulation.world import Connect
from tests.builders import GPU

#: GPUs of a node, and of every pod: nothing is lost to fragments, so that quota and capacity are one.
GPUS = 8
_MINUTE = 60

#: How long it may take until who waits for quota of its own has it back.
SETTLED_SECONDS = 5.0


@dataclass(frozen=True)
class Team:
    """A queue: its quota, and how much it may borrow (None: any amount), in GPUs."""

    name: str
    nominal: int
    borrowing: int | None = None

    @property
    def most(self) -> float:
        """Return how much it may ever use."""
        return float("inf") if self.borrowing is None else self.nominal + self.borrowing


@dataclass
class Story:
    """Teams that share nodes, whose number is the sum of their quotas, and their gangs by `namespace/name`."""

    teams: dict[str, Team] = field(default_factory=dict)
    gangs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Return how many GPUs there are."""
        return sum(team.nominal for team in self.teams.values())

    def played(self, connect: Connect) -> Playback:
        """Play it to its end."""
        queues = [
            {
                "name": team.name,
                "parent": "root",
                "flavors": [{"name": "f", "resources": [{"name": GPU, "nominalQuota": team.nominal, **_limit(team)}]}],
            }
            for team in self.teams.values()
        ]
        document = {
            "nodes": [{"name": "n", "count": self.capacity // GPUS, "allocatable": {GPU: GPUS}}],
            "queues": [{"name": "root"}, *queues],
            "gangs": list(self.gangs.values()),
            "until": "60h",
        }
        return record(read_scenario(yaml.safe_dump(document), "story"), connect)

    def least(self, gang: str) -> int:
        """Return how many GPUs a gang needs to run."""
        size: int = self.gangs[gang]["minMember"]
        return size * GPUS


def _limit(team: Team) -> dict[str, int]:
    return {} if team.borrowing is None else {"borrowingLimit": team.borrowing}


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Return teams with gangs of different sizes, some elastic, that come and go within a quarter of an hour."""
    story = Story()
    for index in range(draw(st.integers(2, 3))):
        nodes, borrowing = draw(st.integers(1, 3)), draw(st.sampled_from([None, 0, GPUS, 2 * GPUS]))
        story.teams[f"q{index}"] = Team(f"q{index}", nodes * GPUS, borrowing)
    for index in range(draw(st.integers(2, 8))):
        size = draw(st.integers(1, 3))
        story.gangs[f"default/g{index}"] = {
            "name": f"g{index}",
            "queue": draw(st.sampled_from(sorted(story.teams))),
            "minMember": size,
            "replicas": size + draw(st.sampled_from([0, 0, 1, 2])),
            "requests": {GPU: GPUS},
            "priority": draw(st.sampled_from([0, 0, 5])),
            "arrival": draw(st.integers(0, 15)) * _MINUTE,
            "duration": draw(st.sampled_from([5, 20, 40])) * _MINUTE,
            "checkpointInterval": draw(st.sampled_from([0, 2])) * _MINUTE,
        }
    return story


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=stories())
def test_however_teams_share_nobody_loses_what_is_theirs(connect: Connect, story: Story) -> None:
    """No quota is exceeded beyond borrowing, lent quota comes back at once, and nobody is evicted for nothing."""
    played = story.played(connect)
    assert played.result.summary.idle_gpu_hours == 0.0
    for moment, after in zip_longest(played.moments, played.moments[1:]):
        for use in moment.queues:
            if use.name in story.teams:
                within_quota(story, moment, use)
                if after is None or after.at - moment.at >= SETTLED_SECONDS:
                    head_has_its_own(story, moment, use)
        for gang in moment.doing:
            assert moment.holds(gang) == 0 or moment.holds(gang) >= story.least(gang)
    for eviction in played.result.evictions:
        assert eviction.reason in {"Preempted", "Reclaimed"}
        assert eviction.by in started_at(played, eviction.at), f"{eviction} was for nothing"
    for result in played.result.gangs:
        finishes_if_it_can(story, result)


def started_at(played: Playback, at: float) -> set[str]:
    """Return the gangs that ran at one time, though they may have been evicted in that same moment for others."""
    running = {gang for moment in played.moments if moment.at == at for gang in moment.doing if moment.holds(gang)}
    return running | {eviction.gang for eviction in played.result.evictions if eviction.at == at and eviction.gang}


def within_quota(story: Story, moment: TimelinePoint, use: QueueUse) -> None:
    """Assert that a queue uses what its gangs hold, and no more than it has and may borrow."""
    held = sum(moment.holds(gang) for gang in moment.doing if story.gangs[gang]["queue"] == use.name)
    assert use.used[GPU] == held <= story.teams[use.name].most


def head_has_its_own(story: Story, moment: TimelinePoint, use: QueueUse) -> None:
    """Assert that the first of a queue that waits does not wait for quota that is its queue's own."""
    waiting = [
        gang for gang, state in moment.doing.items() if state == "waits" and story.gangs[gang]["queue"] == use.name
    ]
    if waiting:
        head = min(waiting, key=lambda gang: (-story.gangs[gang]["priority"], story.gangs[gang]["arrival"]))
        assert use.used[GPU] + story.least(head) > story.teams[use.name].nominal, f"{head} waits at {moment.at}"


def finishes_if_it_can(story: Story, result: GangResult) -> None:
    """Assert that a gang has finished that its queue and the cluster could hold."""
    key = f"{result.namespace}/{result.name}"
    most = min(story.capacity, story.teams[story.gangs[key]["queue"]].most)
    assert (result.finished_at is not None) == (story.least(key) <= most), result.reason
