"""Results as JSON."""

from __future__ import annotations

from extender.control.views import GangPhase
from extender.placement.placement import Placement
from extender.simulation.accounting import GpuSeconds
from extender.simulation.results import (
    EvictionResult,
    GangResult,
    PodResult,
    ReasonResult,
    Result,
    result_json,
    summarize,
)

WAITS = GangResult(
    name="g",
    namespace="default",
    phase=GangPhase.PENDING,
    reason=ReasonResult("InsufficientCapacity", "1 of 2 members fit now", {"minMember": 2, "fits": 1}),
    admitted_at=None,
    finished_at=None,
    pods=(PodResult("g-0", None, None), PodResult("g-worker-0", "worker", "n", (0, 1), (0,))),
)
DONE = GangResult(
    "h", "team", GangPhase.FINISHED, None, 0.1 + 0.2, 10.0, (), Placement(329.00049, "rack", "b0/r1", 12.5, {"n": 2})
)


def test_hours_and_money_follow_from_gpu_seconds() -> None:
    """Wasted is what idled, at the price of a GPU-hour; money is in cents."""
    summary = summarize([WAITS, DONE], 2, GpuSeconds(idle=115_200, init=640, productive=112_000), 3.67)
    assert (summary.jobs_submitted, summary.jobs_completed) == (2, 1)
    assert summary.idle_gpu_hours == 32.0
    assert summary.productive_gpu_hours == 31.111111
    assert (summary.wasted_cost, summary.init_cost) == (117.44, 0.65)


def test_the_document_has_exactly_the_documented_keys() -> None:
    """Times are rounded to microseconds, numbers sorted by name, what is not there is null."""
    eviction = EvictionResult(5.0, "v-0", "default", "n", "default/p-0")
    document = result_json(Result((WAITS, DONE), (eviction,), summarize([WAITS, DONE], 2, GpuSeconds(), 0.0)))
    assert document == {
        "gangs": [
            {
                "name": "g",
                "namespace": "default",
                "phase": "Pending",
                "reason": {
                    "code": "InsufficientCapacity",
                    "message": "1 of 2 members fit now",
                    "numbers": {"fits": 1, "minMember": 2},
                },
                "admittedAt": None,
                "finishedAt": None,
                "placement": None,
                "pods": [
                    {"name": "g-0", "role": None, "node": None, "predictedGpus": None, "predictedZones": None},
                    {
                        "name": "g-worker-0",
                        "role": "worker",
                        "node": "n",
                        "predictedGpus": [0, 1],
                        "predictedZones": [0],
                    },
                ],
            },
            {
                "name": "h",
                "namespace": "team",
                "phase": "Finished",
                "reason": None,
                "admittedAt": 0.3,
                "finishedAt": 10.0,
                "placement": {
                    "busBandwidthGBps": 329.0,
                    "level": "rack",
                    "domain": "b0/r1",
                    "fragmentationCost": 12.5,
                    "gpusPerNode": {"n": 2},
                },
                "pods": [],
            },
        ],
        "evictions": [{"at": 5.0, "name": "v-0", "namespace": "default", "node": "n", "preemptor": "default/p-0"}],
        "summary": {
            "jobsSubmitted": 2,
            "jobsCompleted": 1,
            "productiveGpuHours": 0.0,
            "idleGpuHours": 0.0,
            "initGpuHours": 0.0,
            "wastedCost": 0.0,
            "initCost": 0.0,
        },
    }
    assert list(document["gangs"][0]["reason"]["numbers"]) == ["fits", "minMember"]
