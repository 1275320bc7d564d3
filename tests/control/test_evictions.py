"""Evictions and gates: what is written, what is counted, and when somebody hears that it cannot be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from extender.admission.events import EvictionDelayed, EvictionNews, EvictionRefused, EvictionSent
from extender.control.evictions import Evictions, Gates, Suspensions
from extender.control.metrics import Metrics
from extender.control.outbox import Outbox, WriteWindow
from extender.control.ports import ApiError, BudgetError, PodKey
from extender.ledger.effects import Evict, EvictionReason, PodNotice, Suspension, Ungate
from extender.objects.keys import ADMISSION_GATE
from extender.objects.meta import ObjectRef
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.workload import Suspendable
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import ScriptedApi

VICTIM = Pod("victim-uid", "default", "victim", Shape(()), node_name="node-0")
WORKLOAD = Suspendable(
    ObjectRef("batch/v1", "Job", "default", "train", "job"),
    *("jobs", "7", PodGroup(GroupRef("batch", "default", "train"), "job"), (), 2),
    suspended=False,
)
SUSPEND = Suspension(WORKLOAD, suspend=True, reason=EvictionReason.RECLAIMED, pods=("a", "b"))
EVICT = Evict(VICTIM, "default/train", EvictionReason.RECLAIMED, "evicted for default/train: queue a reclaims")


@dataclass
class Stand:
    """Evictions against a scripted API server; `told` is how they stood with it."""

    evictions: Evictions
    gates: Gates
    suspensions: Suspensions
    api: ScriptedApi
    metrics: Metrics
    told: list[EvictionNews] = field(default_factory=list)

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Return the pods that it would not evict, and why."""
        return [(event.uid, event.why) for event in self.told if isinstance(event, EvictionRefused)]

    @property
    def counted(self) -> float:
        """Return how many evictions because of reclaim are counted."""
        return self.metrics.registry.get_sample_value("muster_evictions_total", {"reason": "Reclaimed"}) or 0.0


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    """Run an outbox that evictions are written through."""
    api, metrics, clock = ScriptedApi(), Metrics(), LoopClock(asyncio.get_running_loop())
    outbox = Outbox(Settings(), clock, metrics, WriteWindow(4))
    told: list[EvictionNews] = []
    evictions = Evictions(api, outbox, clock, metrics, told.append)
    suspensions = Suspensions(api, outbox, metrics, told.append)
    sending = asyncio.create_task(outbox.run())
    yield Stand(evictions, Gates(api, outbox), suspensions, api, metrics, told)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_the_newest_word_about_a_pods_eviction_is_written(stand: Stand) -> None:
    """What was said before and not written yet is left out."""
    for planned in ("FROM/UNTIL", ""):
        stand.evictions.notify(PodNotice(EVICT.pod, planned, "Preempted", "for others"))
    await asyncio.sleep(1)
    assert stand.api.notices == [("victim", "", "Preempted", "for others")]


async def test_a_pod_is_evicted_told_and_counted(stand: Stand) -> None:
    """Its owner hears for whom and why, and the metric goes by reason."""
    stand.evictions.put(EVICT)
    await asyncio.sleep(1)
    assert stand.api.evictions == [("victim", False)]
    (event,) = stand.api.events
    assert (event.about.kind, event.about.name, event.warning) == ("Pod", "victim", True)
    assert (event.reason, event.message) == ("Reclaimed", "evicted for default/train: queue a reclaims")
    assert (stand.counted, stand.refused) == (1, [])


async def test_a_budget_may_change_its_mind(stand: Stand) -> None:
    """It is asked again after the time that the API server names."""
    stand.api.eviction_failures.append(BudgetError(429, "TooManyRequests", "the budget allows none", 10.0))
    stand.evictions.put(EVICT)
    await asyncio.sleep(9)
    assert (stand.api.evictions, stand.counted) == ([], 0)
    await asyncio.sleep(2)
    assert (stand.api.evictions, stand.counted) == ([("victim", False)], 1)


async def test_an_eviction_is_told_of_when_it_is_written_and_when_it_was_not_made(stand: Stand) -> None:
    """In between it cannot be taken back; between two attempts it can."""
    stand.api.eviction_failures.append(BudgetError(429, "TooManyRequests", "the budget allows none", 10.0))
    stand.evictions.put(EVICT)
    await asyncio.sleep(9)
    assert stand.told == [EvictionSent("victim-uid"), EvictionDelayed("victim-uid")]
    await asyncio.sleep(2)
    assert stand.told[2:] == [EvictionSent("victim-uid")]


async def test_each_pod_that_leaves_by_a_suspension_is_told_of_when_that_is_written(stand: Stand) -> None:
    """To resume an object takes no pod away."""
    stand.suspensions.put("job", SUSPEND)
    stand.suspensions.put("other", replace(SUSPEND, suspend=False, reason=None))
    await asyncio.sleep(1)
    assert stand.told == [EvictionSent("a"), EvictionSent("b")]


async def test_a_budget_that_stays_firm_is_heard_of(stand: Stand) -> None:
    """After two minutes of trying whoever waits for the place is told."""
    stand.api.eviction_failures += [BudgetError(429, "TooManyRequests", "the budget allows none")] * 100
    stand.evictions.put(EVICT)
    await asyncio.sleep(110)
    assert stand.refused == []
    await asyncio.sleep(20)
    assert stand.refused == [("victim-uid", "the budget allows none")]
    assert (stand.api.evictions, stand.counted) == ([], 0)


async def test_an_eviction_that_keeps_failing_is_heard_of(stand: Stand) -> None:
    """An admission webhook that is down, say: its gang's place is not kept for a write that is not tried any more."""
    stand.api.eviction_failures += [ApiError(500, "InternalError", "failed calling webhook")] * 100
    stand.evictions.put(EVICT)
    await asyncio.sleep(20)
    assert stand.refused == []
    await asyncio.sleep(20)
    assert stand.refused == [("victim-uid", "failed calling webhook")]


async def test_a_denial_for_good_is_heard_of_in_seconds(stand: Stand) -> None:
    """An admission plugin that forbids evictions, say; until then others of its gang may have been let go."""
    stand.api.eviction_failures += [ApiError(403, "Forbidden", "evictions are not allowed here")] * 20
    stand.evictions.put(EVICT)
    await asyncio.sleep(8)
    assert stand.refused == []
    await asyncio.sleep(4)
    assert stand.refused == [("victim-uid", "evictions are not allowed here")]


async def test_a_webhook_may_change_its_mind(stand: Stand) -> None:
    """A gang is not left in part because one of its evictions was denied."""
    stand.api.eviction_failures += [ApiError(403, "Forbidden", "evictions are not allowed here")] * 2
    stand.evictions.put(EVICT)
    await asyncio.sleep(6)
    assert (stand.api.evictions, stand.refused) == ([("victim", False)], [])


async def test_an_api_server_that_fails_is_tried_again(stand: Stand) -> None:
    """Nobody hears of it."""
    stand.api.eviction_failures.append(ApiError(500, "InternalError", "oops"))
    stand.evictions.put(EVICT)
    await asyncio.sleep(1)
    assert (stand.api.evictions, stand.refused) == ([("victim", False)], [])


async def test_who_is_spared_stays(stand: Stand) -> None:
    """An eviction that a budget has held up is withdrawn."""
    stand.api.eviction_failures.append(BudgetError(429, "TooManyRequests", "the budget allows none"))
    stand.evictions.put(EVICT)
    await asyncio.sleep(1)
    stand.evictions.spare("victim-uid")
    stand.evictions.spare("nobody")
    await asyncio.sleep(10)
    assert (stand.api.evictions, stand.refused) == ([], [])


async def test_who_is_spared_while_it_is_asked_for_stays(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API server answers then is of no interest."""

    async def evict(_pod: PodKey, *, dry_run: bool = False) -> None:
        assert not dry_run
        stand.evictions.spare("victim-uid")
        raise BudgetError(429, "TooManyRequests", "the budget allows none")

    monkeypatch.setattr(stand.api, "evict", evict)
    stand.evictions.put(EVICT)
    await asyncio.sleep(200)
    assert (stand.refused, stand.counted) == ([], 0)


async def test_who_stands_down_evicts_nobody_any_more(stand: Stand) -> None:
    """Somebody else decides now."""
    stand.api.eviction_failures.append(BudgetError(429, "TooManyRequests", "the budget allows none"))
    stand.evictions.put(EVICT)
    await asyncio.sleep(1)
    stand.evictions.stand_down()
    await asyncio.sleep(10)
    assert (stand.api.evictions, stand.refused) == ([], [])


async def test_a_gate_is_taken_off(stand: Stand) -> None:
    """Of the pod that it stands on."""
    stand.gates.open(Ungate(VICTIM, ADMISSION_GATE))
    await asyncio.sleep(1)
    assert stand.api.ungated == [("victim", ADMISSION_GATE)]


async def test_a_gate_that_stays_is_told_of_and_tried_again(stand: Stand) -> None:
    """A webhook that denies it may admit it an hour later, and nothing but that keeps the gang from its queue."""
    denied = ApiError(403, "Forbidden", "denied: not before the audit is over")
    stand.api.ungate_failures += [denied] * 10
    stand.gates.open(Ungate(VICTIM, ADMISSION_GATE))
    await asyncio.sleep(15)
    (event,) = {(event.about.name, event.reason, event.message) for event in stand.api.events}
    why = "403 Forbidden: denied: not before the audit is over"
    message = f"scheduling gate {ADMISSION_GATE} stays for now: {why}"
    assert event == ("victim", "GateNotRemoved", message)
    assert stand.gates.stay == {VICTIM.uid: f"{VICTIM.key}: {message}"}
    await asyncio.sleep(120)
    assert stand.api.ungated == [("victim", ADMISSION_GATE)]
    assert not stand.gates.stay


async def test_nothing_is_kept_of_a_gate_whose_pod_goes(stand: Stand) -> None:
    """It could not be taken off, and when that is tried again there is no such pod."""
    stand.api.ungate_failures += [ApiError(403, "Forbidden", "denied")] * 10
    stand.gates.open(Ungate(VICTIM, ADMISSION_GATE))
    await asyncio.sleep(15)
    assert stand.gates.stay
    stand.api.ungate_failures[:] = [ApiError(404, "NotFound", "no such pod")]
    await asyncio.sleep(60)
    assert not stand.gates.stay
    assert stand.api.ungated == []


async def test_a_job_is_suspended_and_its_pods_are_counted(stand: Stand) -> None:
    """They leave by that: the metric is that of evictions."""
    stand.suspensions.put("job", SUSPEND)
    await asyncio.sleep(1)
    assert stand.api.suspended == [("train", None)]
    assert (stand.counted, stand.refused) == (2, [])


async def test_the_newest_wish_about_a_job_counts(stand: Stand) -> None:
    """One that is to stay as it is is not written to."""
    stand.suspensions.put("job", Suspension(WORKLOAD, suspend=False, place="node-0*2"))
    stand.suspensions.put("job", None)
    await asyncio.sleep(1)
    assert stand.api.suspended == []


@pytest.mark.parametrize(("status", "refused"), [(403, 2), (409, 0), (503, 0)])
async def test_a_job_that_cannot_be_suspended_keeps_its_pods(stand: Stand, status: int, refused: int) -> None:
    """Who waits for their place is told, unless the Job is another one by now or it may yet be done."""
    stand.api.suspend_failures.append(ApiError(status, "No", "no"))
    stand.suspensions.put("job", SUSPEND)
    await asyncio.sleep(0.05)
    assert len(stand.refused) == refused
