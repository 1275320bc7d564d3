"""Microsoft's Philly trace: cluster_job_log as it was published, in JSON, or the same flattened to CSV.

Source: github.com/msr-fiddle/philly-traces; Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
Training Workloads, USENIX ATC 2019.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from muster_lab.traces.table import TraceRow, read_rows
from muster_lab.traces.trace import Conversion, Harvest, TraceError, TraceJob

#: Columns of the flattened log: one line for each attempt, or for the whole job.
COLUMNS = ("jobid", "vc", "status", "submitted_time", "start_time", "end_time", "gpus")
SERVERS = "servers"


class _Server(msgspec.Struct, frozen=True):
    """One server of an attempt."""

    gpus: list[str] = []


class _Attempt(msgspec.Struct, frozen=True):
    """One attempt to run a job."""

    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Server] = []


class _JobEntry(msgspec.Struct, frozen=True):
    """One job of the log."""

    jobid: str
    submitted_time: str | None = None
    vc: str = ""
    status: str = ""
    attempts: list[_Attempt] = []


class _Run(msgspec.Struct, frozen=True):
    """One attempt whose times are known (seconds since the epoch), with its GPUs and servers."""

    start: float
    end: float
    gpus: int
    servers: int


class _History(msgspec.Struct, frozen=True):
    """One job, whatever it was read from."""

    name: str
    queue: str
    submitted: float | None
    runs: list[_Run]


def convert(files: Sequence[Path]) -> Conversion:
    """Make a gang of each job: as many pods as its last attempt had servers, running as long as all attempts took.

    GPUs are shared out evenly over the servers, rounded up. The virtual cluster is the queue. Times are taken as they
    stand, without a time zone.
    """
    harvest = Harvest()
    for file in files:
        for history in _read(file):
            job = _job(history, harvest)
            if job is not None:
                harvest.jobs.append(job)
    return harvest.conversion("philly")


def _read(file: Path) -> Iterator[_History]:
    if file.suffix.lower() == ".csv":
        yield from _read_csv(file)
        return
    try:
        entries = msgspec.json.decode(file.read_bytes(), type=list[_JobEntry])
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise TraceError(f"{file}: not a cluster_job_log: {error}") from error
    for index, entry in enumerate(entries):
        where = f"{file}: [{index}] {entry.jobid}"
        runs = [
            _Run(start, end, sum(len(server.gpus) for server in attempt.detail), len(attempt.detail))
            for attempt in entry.attempts
            if (start := _seconds(attempt.start_time, f"{where}: start_time")) is not None
            and (end := _seconds(attempt.end_time, f"{where}: end_time")) is not None
        ]
        yield _History(entry.jobid, entry.vc, _seconds(entry.submitted_time, f"{where}: submitted_time"), runs)


def _read_csv(file: Path) -> Iterator[_History]:
    histories: dict[str, _History] = {}
    for row in read_rows(file, COLUMNS):
        name = row.text("jobid")
        history = histories.setdefault(name, _History(name, row.text("vc"), _time(row, "submitted_time"), []))
        start, end = _time(row, "start_time"), _time(row, "end_time")
        if start is not None and end is not None:
            servers = row.count(SERVERS, least=1) if row.is_known(SERVERS) else 0
            history.runs.append(_Run(start, end, row.count("gpus"), servers))
    yield from histories.values()


def _time(row: TraceRow, column: str) -> float | None:
    return _seconds(row.text(column), f"{row.file}:{row.line}: column '{column}'")


def _seconds(text: str | None, where: str) -> float | None:
    """Return a time as seconds since the epoch, None for none."""
    if text is None or text.lower() in {"", "none", "null"}:
        return None
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        raise TraceError(f"{where}: {text!r} is not a time such as 2017-10-07 01:11:39") from None


#: Servers of the trace have 8 GPUs at most.
_SERVER_GPUS = 8


def _job(history: _History, harvest: Harvest) -> TraceJob | None:
    if history.submitted is None:
        harvest.remark("jobs without a submission time left out")
        return None
    runs = [run for run in history.runs if run.end > run.start]
    if not runs:
        harvest.remark("jobs without an attempt of known length left out")
        return None
    last = runs[-1]
    if not last.gpus:
        harvest.remark("jobs without GPU left out")
        return None
    if len(runs) > 1:
        harvest.remark("jobs whose attempts became one run")
    pods = last.servers or -(-last.gpus // _SERVER_GPUS)
    if last.gpus % pods:
        harvest.remark("jobs whose GPUs do not divide by their servers: rounded up")
    return TraceJob(
        name=history.name,
        submitted=history.submitted,
        runtime=sum(run.end - run.start for run in runs),
        pods=pods,
        gpus=-(-last.gpus // pods),
        queue=history.queue,
    )
