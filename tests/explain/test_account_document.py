"""What was worked out about a gang, as JSON and in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from extender.cluster.membership import Census
from extender.explain.account import NearestMiss, NodeChoice, WaitAccount
from extender.explain.documents import GangPhase, HolderRow, QueuePosition, SuggestedChange, WaterfallRow
from extender.explain.explanation import GangFacts, explanation, remarks
from extender.explain.views import GangView
from extender.explain.waterfall import NodeCause, Waterfall
from extender.objects.levels import Levels
from extender.objects.pod import Shape
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.builders import as_sent

GPU = "nvidia.com/gpu"
AHEAD = GroupRef(COSCHEDULING, "default", "first")
NONE = np.zeros(1, dtype=np.int64)
FALL = Waterfall(
    Shape((("cpu", 1500), ("memory", 2**34), (GPU, 8), ("pods", 1))),
    4,
    3,
    (WaterfallRow(NodeCause.TAINTED, 1, 2, "taint a:NoSchedule: 1 node"), WaterfallRow(NodeCause.TOO_FULL, 1, 1, "")),
    1,
    1,
    NONE > 0,
    NONE,
)
ACCOUNT = WaitAccount(
    QueuePosition("team", 3, 7, 1, 2, ("default/first",)),
    (FALL,),
    NearestMiss("rack", "r1", 3, 4, {GPU: 8, "memory": 2**33}, (0,)),
    (),
    (HolderRow("default/old", 8, 1, 5, None, "2026-01-01T01:00:00Z", overdue=True),),
)


VIEW = GangView(AHEAD, "u", GangPhase.PENDING, 4, Census(), 0, Wait(Reason.BACKING_OFF, {"attempts": 1}), managed=True)
PARTS = ("queue", "waterfall", "nearestMiss", "holders", "choice")


def facts(account: WaitAccount) -> GangFacts:
    """Return what is known of a gang of which this was worked out."""
    return GangFacts(VIEW, Levels(), (), account)


def document(account: WaitAccount) -> dict[str, object]:
    """Return the parts of an explanation that come of an account."""
    written = as_sent(explanation(facts(account)))
    return {part: written[part] for part in PARTS}


def lines(account: WaitAccount) -> tuple[str, ...]:
    """Return what people are told of an account: the lines between the reason and the levels."""
    return remarks(facts(account))[1:-1]


def test_the_document_has_exactly_the_documented_keys() -> None:
    """Amounts as Kubernetes writes them, moments as the API server does; what nobody said is null."""
    assert document(ACCOUNT) == {
        "queue": {
            "name": "team",
            "position": 3,
            "of": 7,
            "positionInQueue": 1,
            "ofQueue": 2,
            "ahead": ["default/first"],
        },
        "waterfall": [
            {
                "pods": 4,
                "request": {"cpu": "1500m", "memory": "16Gi", GPU: "8"},
                "nodes": 3,
                "steps": [
                    {"cause": "Tainted", "nodes": 1, "left": 2, "detail": "taint a:NoSchedule: 1 node"},
                    {"cause": "TooFull", "nodes": 1, "left": 1, "detail": ""},
                ],
                "usable": 1,
                "fits": 1,
            }
        ],
        "nearestMiss": {
            "level": "rack",
            "domain": "r1",
            "fits": 3,
            "needed": 4,
            "lacks": {"memory": "8Gi", GPU: "8"},
        },
        "holders": [
            {
                "gang": "default/old",
                "gpus": 8,
                "nodes": 1,
                "priority": 5,
                "queue": None,
                "endsAt": "2026-01-01T01:00:00Z",
                "overdue": True,
            }
        ],
        "choice": None,
    }


def test_what_there_is_not_is_null_or_empty() -> None:
    """A gang that runs waits in no line and lacks nothing."""
    choice = NodeChoice(3, 4, 2, (), ("as things stand now",), None)
    assert document(WaitAccount(QueuePosition(None, None, 0, None, 0, ()), choice=choice)) == {
        "queue": {"name": None, "position": None, "of": 0, "positionInQueue": None, "ofQueue": 0, "ahead": []},
        "waterfall": [],
        "nearestMiss": None,
        "holders": [],
        "choice": {"considered": 3, "lines": ["as things stand now"], "weighed": None},
    }


def test_people_are_told_what_matters_most() -> None:
    """Where the gang stands, and what is missing where it nearly fits."""
    assert lines(ACCOUNT) == (
        "1 of 2 in line in Queue team, 3 of 7 over all Queues, behind default/first",
        f"nearest: rack r1 has room for 3 of 4 and lacks 8Gi memory, 8 {GPU}",
    )
    miss = NearestMiss("cluster", "", 0, 1, {}, ())
    assert lines(WaitAccount(QueuePosition(None, 1, 1, 1, 1, ()), nearest=miss)) == (
        "1 of 1 in line",
        "nearest: the cluster has room for 0 of 1",
    )
    assert lines(WaitAccount(QueuePosition(None, None, 3, None, 3, ()))) == ()


def test_an_explanation_has_what_was_worked_out() -> None:
    """Between why the gang waits and when it starts; suggestions as they are."""
    suggestion = SuggestedChange("minMember", 4, 3, "3 members would start now")
    explained = replace(facts(ACCOUNT), suggestions=(suggestion,), hypothetical=True)
    written = as_sent(explanation(explained))
    assert written["hypothetical"] is True
    assert written["suggestions"] == [
        {"change": "minMember", "from": 4, "to": 3, "message": "3 members would start now"}
        | {"later": False, "startsAt": None}
    ]
    assert written["waterfall"] == document(ACCOUNT)["waterfall"]
    assert remarks(explained)[1:3] == lines(ACCOUNT)
