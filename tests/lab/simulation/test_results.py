"""Results as JSON."""

from __future__ import annotations

from extender.explain.documents import GangPhase
from extender.placement.placement import Placement
from muster_lab.simulation.accounting import GpuSeconds
from muster_lab.simulation.queueuse import FlavorUse, QueueUse
from muster_lab.simulation.results import (
    EvictionResult,
    GangResult,
    PodResult,
    ReasonResult,
    Result,
    result_json,
    summarize,
    timeline_json,
)
from muster_lab.simulation.timeline import TimelinePoint

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
USE = QueueUse(
    "team-a",
    (
        FlavorUse("reserved", {"cpu": 1500, "nvidia.com/gpu": 16}, {"cpu": 0, "nvidia.com/gpu": 8}, {"cpu": 1000}),
        FlavorUse("spot", {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 0}, {"nvidia.com/gpu": 2}),
    ),
    1 / 3,
)
USE_JSON = {
    "name": "team-a",
    "used": {"cpu": 1.5, "nvidia.com/gpu": 20},
    "borrowed": {"cpu": 0.0, "nvidia.com/gpu": 8},
    "lent": {"cpu": 1.0, "nvidia.com/gpu": 2},
    "share": 0.333333,
    "flavors": [
        {
            "name": "reserved",
            "used": {"cpu": 1.5, "nvidia.com/gpu": 16},
            "borrowed": {"cpu": 0.0, "nvidia.com/gpu": 8},
            "lent": {"cpu": 1.0},
        },
        {
            "name": "spot",
            "used": {"nvidia.com/gpu": 4},
            "borrowed": {"nvidia.com/gpu": 0},
            "lent": {"nvidia.com/gpu": 2},
        },
    ],
}


def test_hours_and_money_follow_from_gpu_seconds() -> None:
    """Wasted is what idled and training that was lost, at the price of a GPU-hour; money is in cents."""
    summary = summarize([WAITS, DONE], 2, GpuSeconds(idle=115_200, init=640, productive=112_000, lost=7200), 3.67)
    assert (summary.jobs_submitted, summary.jobs_completed) == (2, 1)
    assert summary.idle_gpu_hours == 32.0
    assert summary.productive_gpu_hours == 31.111111
    assert (summary.lost_gpu_hours, summary.wasted_gpu_hours) == (2.0, 34.0)
    assert (summary.wasted_cost, summary.init_cost) == (124.78, 0.65)


def test_the_document_has_exactly_the_documented_keys() -> None:
    """Times are rounded to microseconds, numbers sorted by name, what is not there is null."""
    evictions = (
        EvictionResult("default/v", "default/v-0", "n", 5.0, "default/p", "Reclaimed"),
        EvictionResult(None, "default/x", "n", 6.0, None, "Evicted"),
    )
    summary = summarize([WAITS, DONE], 2, GpuSeconds(), 0.0)
    document = result_json(Result((WAITS, DONE), evictions, summary, (USE,), ("queue 'q': is in a cycle",)))
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
        "evictions": [
            {
                "gang": "default/v",
                "pod": "default/v-0",
                "node": "n",
                "at": 5.0,
                "by": "default/p",
                "reason": "Reclaimed",
            },
            {"gang": None, "pod": "default/x", "node": "n", "at": 6.0, "by": None, "reason": "Evicted"},
        ],
        "queues": [USE_JSON],
        "autoscaling": None,
        "summary": {
            "jobsSubmitted": 2,
            "jobsCompleted": 1,
            "productiveGpuHours": 0.0,
            "idleGpuHours": 0.0,
            "initGpuHours": 0.0,
            "lostGpuHours": 0.0,
            "wastedGpuHours": 0.0,
            "wastedCost": 0.0,
            "initCost": 0.0,
        },
        "warnings": ["queue 'q': is in a cycle"],
    }
    assert list(document["gangs"][0]["reason"]["numbers"]) == ["fits", "minMember"]


def test_the_timeline_says_what_gangs_and_queues_held_at_each_moment() -> None:
    """Every gang that has arrived is there, with the GPUs that it holds on all nodes."""
    held = {"n": {"default/g": 8}, "m": {"default/g": 4}}
    moment = TimelinePoint(90.0, held, {"default/g": "productive", "default/h": "waits"}, GpuSeconds(), (USE,))
    assert timeline_json([moment]) == [
        {
            "at": 90.0,
            "gangs": [
                {"name": "default/g", "state": "productive", "gpus": 12},
                {"name": "default/h", "state": "waits", "gpus": 0},
            ],
            "queues": [USE_JSON],
        }
    ]
