"""Alibaba's GPU trace of 2020: pai_task_table with, perhaps, pai_job_table.

Source: github.com/alibaba/clusterdata cluster-trace-gpu-v2020; Weng et al., MLaaS in the Wild, NSDI 2022. The tables
have no header line of their own. `plan_cpu` and `plan_gpu` are in percent, `plan_mem` in GB. A job's `start_time` is
when it was submitted, a task's is when it was launched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster_lab.traces.table import TraceRow, read_rows_without_header
from muster_lab.traces.trace import Conversion, Harvest, TraceError, TraceJob

TASKS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")

_PERCENT = 100
_MILLI = 1000
_GB = 10**9


def convert(files: Sequence[Path]) -> Conversion:
    """Make a gang of each job's tasks with GPUs; a job's submission is that of pai_job_table, else its first launch.

    Shares of a GPU are rounded up to a whole one. Tasks without GPU, such as parameter servers, are left out. Where
    tasks of one job differ in GPUs, all pods get those of the largest. The user is the queue.
    """
    jobs: dict[str, TraceRow] = {}
    tasks: dict[str, list[TraceRow]] = {}
    for file in files:
        if _is_job_table(file):
            jobs |= {row.text("job_name"): row for row in read_rows_without_header(file, JOBS)}
        else:
            for row in read_rows_without_header(file, TASKS):
                tasks.setdefault(row.text("job_name"), []).append(row)
    if not tasks:
        raise TraceError("alibaba-2020: none of the files is pai_task_table, which says how many GPUs tasks ask for")
    harvest = Harvest()
    for name, rows in tasks.items():
        job = _job(name, rows, jobs, harvest)
        if job is not None:
            harvest.jobs.append(job)
    return harvest.conversion("alibaba-2020")


def _is_job_table(file: Path) -> bool:
    """Tell the tables apart by the number of their columns, since files may be called anything."""
    try:
        with file.open(encoding="utf-8-sig") as opened:
            return opened.readline().count(",") + 1 == len(JOBS)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: {error}") from error


def _job(name: str, rows: Sequence[TraceRow], jobs: Mapping[str, TraceRow], harvest: Harvest) -> TraceJob | None:
    with_gpus = [row for row in rows if row.is_known("plan_gpu") and row.number("plan_gpu") > 0]
    if not with_gpus:
        harvest.remark("jobs without GPU left out")
        return None
    if not all(row.is_known("start_time") and row.is_known("end_time") for row in with_gpus):
        harvest.remark("jobs without start or end left out")
        return None
    start = min(row.number("start_time") for row in with_gpus)
    end = max(row.number("end_time") for row in with_gpus)
    if end <= start:
        harvest.remark("jobs that end when they start left out")
        return None
    percents = [row.number("plan_gpu") for row in with_gpus]
    if any(percent % _PERCENT for percent in percents):
        harvest.remark("jobs with a share of a GPU rounded up to a whole one")
    if len(set(percents)) > 1:
        harvest.remark("jobs whose tasks differ in GPUs: all pods get those of the largest")
    if len(with_gpus) < len(rows):
        harvest.remark("jobs whose tasks without GPU were left out")
    owner = jobs.get(name)
    submitted = owner.number("start_time") if owner is not None and owner.is_known("start_time") else start
    return TraceJob(
        name=name,
        submitted=min(submitted, start),
        runtime=end - start,
        pods=sum(_instances(row) for row in with_gpus),
        gpus=math.ceil(max(percents) / _PERCENT),
        cpu=max(_amount(row, "plan_cpu", _MILLI / _PERCENT) for row in with_gpus),
        memory=max(_amount(row, "plan_mem", _GB) for row in with_gpus),
        queue="" if owner is None else owner.text("user"),
    )


def _instances(row: TraceRow) -> int:
    return row.count("inst_num", least=1) if row.is_known("inst_num") else 1


def _amount(row: TraceRow, column: str, unit: float) -> int:
    return math.ceil(row.number(column) * unit) if row.is_known(column) else 0
