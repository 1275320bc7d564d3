"""What was worked out about a gang, as JSON and in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from extender.admission.explaining.account import Account
from extender.admission.explaining.choice import Choice
from extender.admission.explaining.holders import Holder
from extender.admission.explaining.nearest import NearestMiss
from extender.admission.explaining.standing import Standing
from extender.admission.explaining.suggestions import Suggestion
from extender.admission.explaining.waterfall import Cause, Step, Waterfall
from extender.cluster.gangs import Census
from extender.control.accounts import account_json, account_lines
from extender.control.explanation import Explanation, explanation_json, remarks
from extender.control.views import GangPhase, GangView
from extender.domain.levels import Levels
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.pod import Shape
from extender.domain.reason import Reason, Wait

GPU = "nvidia.com/gpu"
AHEAD = GroupRef(GroupApi.COSCHEDULING, "default", "first")
NONE = np.zeros(1, dtype=np.int64)
FALL = Waterfall(
    Shape((("cpu", 1500), ("memory", 2**34), (GPU, 8), ("pods", 1))),
    4,
    3,
    (Step(Cause.TAINTED, 1, 2, "taint a:NoSchedule: 1 node"), Step(Cause.TOO_FULL, 1, 1, "")),
    1,
    1,
    NONE > 0,
    NONE,
)
ACCOUNT = Account(
    Standing("team", 3, 7, (AHEAD,)),
    (FALL,),
    NearestMiss("rack", "r1", 3, 4, {GPU: 8, "memory": 2**33}, (0,)),
    (),
    (Holder("default/old", 8, 1, 5, "", 1767229200.0, overdue=True),),
)


def test_the_document_has_exactly_the_documented_keys() -> None:
    """Amounts as Kubernetes writes them, moments as the API server does; what nobody said is null."""
    assert account_json(ACCOUNT) == {
        "queue": {"name": "team", "position": 3, "of": 7, "ahead": ["default/first"]},
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
    choice = Choice(3, 4, 2, (), ("as things stand now",))
    document = account_json(Account(Standing("", None, 0), choice=choice))
    assert document == {
        "queue": {"name": None, "position": None, "of": 0, "ahead": []},
        "waterfall": [],
        "nearestMiss": None,
        "holders": [],
        "choice": {"considered": 3, "lines": ["as things stand now"]},
    }


def test_people_are_told_what_matters_most() -> None:
    """Where the gang stands, and what is missing where it nearly fits."""
    assert account_lines(ACCOUNT) == (
        "3 of 7 in line in Queue team, behind default/first",
        f"nearest: rack r1 has room for 3 of 4 and lacks 8Gi memory, 8 {GPU}",
    )
    miss = NearestMiss("cluster", "", 0, 1, {}, ())
    assert account_lines(Account(Standing("", 1, 1), nearest=miss)) == (
        "1 of 1 in line",
        "nearest: the cluster has room for 0 of 1",
    )
    assert account_lines(Account(Standing("", None, 3))) == ()


def test_an_explanation_has_what_was_worked_out() -> None:
    """Between why the gang waits and when it starts; suggestions as they are."""
    view = GangView(
        AHEAD, "u", GangPhase.PENDING, 4, Census(), 0, Wait(Reason.BACKING_OFF, {"attempts": 1}), managed=True
    )
    suggestion = Suggestion("minMember", 4, 3, "3 members would start now")
    explained = Explanation(view, Levels(), None, (), account=ACCOUNT, suggestions=(suggestion,), hypothetical=True)
    document = explanation_json(explained)
    assert document["hypothetical"] is True
    assert document["suggestions"] == [
        {"change": "minMember", "from": 4, "to": 3, "message": "3 members would start now"}
    ]
    assert document["waterfall"] == account_json(ACCOUNT)["waterfall"]
    assert remarks(explained)[1:3] == account_lines(ACCOUNT)
    assert remarks(replace(explained, account=None))[1:] == ("levels: none",)
