"""Studies: policies side by side, and what is written of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from extender.settings import Settings
from muster_lab.study.fleet import Fleet
from muster_lab.study.policy import POLICIES, queue_names
from muster_lab.study.study import study, study_json
from muster_lab.traces.synthetic import Recipe, generate
from muster_lab.traces.trace import Trace, TraceError, TraceJob

FLEET = Fleet(8, 8)


def test_equal_studies_give_equal_documents() -> None:
    """Nothing of the machine is in them."""
    trace = generate(Recipe(gangs=30, nodes=4, load=1.1))
    policies = [POLICIES["earmark"], POLICIES["preemptive"]]
    documents = [study_json(study(trace, Fleet(4, 8), policies)) for _ in range(2)]
    assert documents[0] == documents[1]
    first, second = documents[0]["policies"]
    assert (first["name"], second["name"]) == ("earmark", "preemptive")
    assert first["ended"] == first["jobs"] == 30
    assert documents[0]["trace"]["load"] == pytest.approx(1.1, rel=1e-3)
    assert set(first["waitByQueue"]) == set(trace.queues)
    assert sum(size["jobs"] for size in first["waitBySize"]) == 30


def test_the_timeline_holds_means() -> None:
    """Free GPUs over time add up to those of the whole history."""
    jobs = [TraceJob("a", 0, 100, 2, 8), TraceJob("b", 7, 1000, 8, 8), TraceJob("c", 30, 60, 1, 4)]
    result = study(Trace.of(jobs), FLEET, [POLICIES["earmark"]])
    (policy,) = study_json(result)["policies"]
    steps = result.played[0].history.steps
    free = sum(step.free * (after.at - step.at) for step, after in pairwise(steps))
    mean = sum(point["free"] for point in policy["timeline"]) / len(policy["timeline"])
    assert mean == pytest.approx(free / steps[-1].at)


def test_a_trace_of_one_moment_can_be_studied() -> None:
    """There is no time in which capacity could count."""
    (policy,) = study_json(study(Trace.of([TraceJob("a", 0, 5, 1, 8)]), FLEET, [POLICIES["easy"]]))["policies"]
    assert (policy["utilisation"], policy["ended"], policy["makespan"]) == (0, 1, 5)
    assert study_json(study(Trace.of([]), FLEET, [POLICIES["easy"]]))["policies"][0]["timeline"] == []


def test_a_job_that_never_fits_stops_a_study_before_it_begins() -> None:
    """Nobody has to wait for hours to hear of it."""
    with pytest.raises(TraceError, match="job a never fits"):
        study(Trace.of([TraceJob("a", 0, 5, 9, 8)]), FLEET, [])


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_is_settings_and_queues_of_muster(name: str) -> None:
    """Its settings are accepted, and its Queues hold every queue of the trace within the cluster's GPUs."""
    policy = POLICIES[name]
    trace = Trace.of([TraceJob("a", 0, 1, 1, 1, queue="A b"), TraceJob("b", 0, 1, 1, 1)])
    assert isinstance(policy.settings(), Settings)
    queues = {queue.name: queue for queue in policy.queues(trace, Fleet(1, 7))}
    assert all(target == "" or target in queues for target in policy.names(trace).values())
    nominal = [
        quota.nominal for queue in queues.values() for flavor in queue.flavors for quota in flavor.quotas.values()
    ]
    assert sum(nominal) == (7 if policy.shares or name == "spares" else 0)


def test_queues_get_names_that_kubernetes_allows() -> None:
    """Different queues keep different names."""
    names = queue_names(["", "A", "a", "Team/B", "cluster", "ä"])
    assert names == {"": "unnamed", "A": "a", "a": "a-2", "Team/B": "team-b", "cluster": "cluster-2", "ä": "unnamed-2"}
