"""What the API tells of the history, as structs: gangs that ended or run, and GPU-hours by period and payer.

The same rules as in `extender.explain.documents`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from extender.explain.documents import ApiDocument, Count, Time
from extender.history.records import GangPage, GangRecord, runs_of
from extender.objects.meta import time_text

Amount = Annotated[float, Meta(ge=0)]


class HistoryGpuSeconds(ApiDocument, frozen=True):
    """GPU-seconds: `used` by bound pods, `lost` of these with evictions, `reserved` for pods not bound yet."""

    used: Amount
    reserved: Amount
    lost: Amount


class HistoryRun(ApiDocument, frozen=True):
    """A stretch of time in which a gang had its minimum; `evicted` says why it was, if so, for the gang `by`."""

    began: Time
    ended: Time | None
    nodes: str
    evicted: str
    by: str


class HistoryRow(ApiDocument, frozen=True):
    """One gang, from when it was created until it ended, or until now.

    `outcome` is Succeeded, Failed, Evicted or Deleted, else Running or Waiting. `owner` is what made its pods, as
    Job/train. `members` and `resources` are the most that it held at once; of one that never started, `members` are
    those that there were. `waited_seconds` is how long it lacked its minimum until it last started, and `reason` why.
    `evictions` counts how often Muster evicted members of it, last for the reason `evicted` and the gang `evicted_by`.
    `runs` are the latest 20 at most; between them it waited.
    """

    namespace: str
    name: str
    uid: str
    api: str
    owner: str
    queue: str
    flavor: str
    user: str
    priority: int
    members: Count
    gpus: Count
    resources: dict[str, int]
    created: Time
    started: Time | None
    ended: Time | None
    outcome: str
    waited_seconds: Amount
    ran_seconds: Amount
    reason: str
    message: str
    evictions: Count
    evicted: str
    evicted_by: str
    nodes: str
    node_count: Count
    gpu_seconds: HistoryGpuSeconds
    runs: tuple[HistoryRun, ...] = ()


class HistoryDocument(ApiDocument, frozen=True):
    """Gangs, the latest first, as of `as_of`; `next` asks for those before them as the parameter `after`."""

    gangs: tuple[HistoryRow, ...]
    as_of: Time
    next: str | None = None


class ReportRow(ApiDocument, frozen=True):
    """GPU-hours of one payer in one period, which begins at `since`.

    `lost` is part of `used`. `share` is the part of the cluster's capacity in that time that was used or reserved for
    it, 0 to 1; `cost` is `used` times the price, None without one.
    """

    since: Time
    period: str
    key: str
    used: Amount
    reserved: Amount
    lost: Amount
    share: Amount
    cost: float | None = None


class ReportDocument(ApiDocument, frozen=True):
    """GPU-hours by period and payer: the periods in their order, in each who used most first.

    `by` is what `key` names: queue, namespace or user. `capacity` are the GPU-hours that the cluster had, by period.
    """

    by: str
    per: str
    zone: str
    since: Time
    until: Time
    rows: tuple[ReportRow, ...]
    capacity: dict[str, float]
    price: float | None = None


class HistoryCurve(ApiDocument, frozen=True):
    """One payer in each stretch of time, on average: GPUs used, reserved and waited for, and gangs that waited."""

    key: str
    used: tuple[Amount, ...]
    reserved: tuple[Amount, ...]
    waiting_gangs: tuple[Amount, ...]
    waiting_gpus: tuple[Amount, ...]


class CurvesDocument(ApiDocument, frozen=True):
    """What was used and waited for, in stretches of equal length from `since` on; the last may not have ended.

    `by` is what `key` names: queue, namespace or user. `capacity` are the GPUs that the cluster had. `curves` are of
    those that used or waited most, `others` of the rest together. A gang waits from when it was created until it first
    starts.
    """

    by: str
    since: Time
    until: Time
    step_seconds: Count
    capacity: tuple[Amount, ...]
    curves: tuple[HistoryCurve, ...]
    others: HistoryCurve | None = None


def history_document(page: GangPage) -> HistoryDocument:
    """Return a page of gangs as a document."""
    after = None if page.last is None else f"{page.last[0]:.9f},{page.last[1]}"
    return HistoryDocument(tuple(history_row(record, page.at) for record in page.gangs), time_text(page.at), after)


def history_row(record: GangRecord, at: float) -> HistoryRow:
    """Return a gang as a row, as of `at` (epoch seconds)."""
    going = max(at - record.as_of, 0.0) if record.ended is None else 0.0
    end = record.ended if record.ended is not None else at
    runs = runs_of(record)
    waiting = record.ended is None and not (runs and runs[-1].ended is None)
    named = (part.partition("=") for part in record.resources.split(",") if part)
    return HistoryRow(
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        api=record.api,
        owner=record.owner,
        queue=record.queue,
        flavor=record.flavor,
        user=record.user,
        priority=record.priority,
        members=record.members,
        gpus=record.gpus,
        resources={name: int(count) for name, _, count in named},
        created=time_text(record.created),
        started=None if record.started is None else time_text(record.started),
        ended=None if record.ended is None else time_text(record.ended),
        outcome=record.outcome or ("Waiting" if waiting else "Running"),
        waited_seconds=record.waited + (going if record.started is None else 0.0),
        ran_seconds=0.0 if record.started is None else max(end - record.started, 0.0),
        reason=record.reason,
        message=record.message,
        evictions=record.evictions,
        evicted=record.evicted,
        evicted_by=record.evicted_by,
        nodes=record.nodes,
        node_count=record.node_count,
        gpu_seconds=HistoryGpuSeconds(
            used=record.used + record.using * going,
            reserved=record.reserved + record.reserving * going,
            lost=record.lost,
        ),
        runs=tuple(
            HistoryRun(
                time_text(run.began),
                None if run.ended is None else time_text(run.ended),
                run.nodes,
                run.evicted,
                run.by,
            )
            for run in runs
        ),
    )
