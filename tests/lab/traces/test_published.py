"""Converters: what becomes of each published trace, column by column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster_lab.cli.trace import converters
from muster_lab.traces.trace import Conversion, Published, TraceError, TraceJob

#: Example lines in the form of the published tables.
TASKS = """\
j1,worker,2.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC
j1,ps,1.0,Terminated,1739160.0,1739200.0,400.0,10.0,,MISC
j2,tensorflow,4.0,Terminated,1739300.0,1742900.0,,,800.0,V100
j2,evaluator,1.0,Terminated,1739300.0,1742900.0,100.0,1.0,100.0,V100
j3,ps,1.0,Terminated,1739300.0,1742900.0,100.0,1.0,0.0,
j4,worker,1.0,Running,1739300.0,,100.0,1.0,100.0,T4
j5,worker,,Failed,1739300.0,1739300.0,100.0,1.0,100.0,T4
"""
JOBS = """\
j1,8cb3,58540f191766,Terminated,1739100.0,1739200.0
j2,8cb4,0a,Terminated,1739290.0,1742900.0
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0017,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437497
openb-pod-0022,4000,15258,1,220,V100M16|V100M32,BE,Running,9679175,9973826,9679180
openb-pod-0001,4000,15258,0,0,,LS,Running,9679175,9973826,9679175
openb-pod-0002,4000,15258,1,1000,,LS,Pending,9679175,9679275,
openb-pod-0003,4000,15258,1,1000,,LS,Running,9679175,,9679175
openb-pod-0004,4000,15258,1,1000,,LS,Failed,9679175,9679175,9679175
"""


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, object]:
    """Return an attempt in the form of the log: so many GPUs on each server."""
    detail = [{"ip": f"m{index}", "gpus": [f"gpu{gpu}" for gpu in range(count)]} for index, count in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def entry(name: str, submitted: str | None, *attempts: dict[str, object]) -> dict[str, object]:
    """Return a job in the form of the log."""
    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": name,
        "attempts": list(attempts),
        "submitted_time": submitted,
        "user": "ce2f4c",
    }


LOG = [
    entry(
        "a1",
        "2017-10-07 01:11:39",
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", 8),
        attempt("2017-10-07 01:14:00", "2017-10-07 01:16:00", 8, 7),
    ),
    entry("a2", "2017-10-07 01:11:49", attempt("2017-10-07 02:00:00", None, 1)),
    entry("a3", "2017-10-07 01:11:59"),
    entry("a4", "None", attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", 1)),
    entry("a5", "2017-10-07 01:12:39", attempt("2017-10-07 01:12:39", "2017-10-07 01:12:49")),
]


def convert(kind: Published, folder: Path, **contents: str) -> Conversion:
    """Convert files of these contents."""
    files = []
    for name, text in contents.items():
        files.append(folder / name.replace("_dot_", "."))
        files[-1].write_text(text, encoding="utf-8")
    return converters()[kind](files)


def test_alibaba_2020_makes_a_gang_of_a_jobs_tasks_with_gpus(tmp_path: Path) -> None:
    """Percents become GPUs and milli-CPU, GB bytes; the job table says who submitted it and when."""
    result = convert(Published.ALIBABA_2020, tmp_path, tasks_dot_csv=TASKS, jobs_dot_csv=JOBS)
    assert result.trace.jobs == (
        TraceJob("j1", 0.0, 38.0, 2, 1, 6_000, 29_296_875_000, "58540f191766"),
        TraceJob("j2", 190.0, 3600.0, 5, 8, 1_000, 1_000_000_000, "0a"),
    )
    assert result.remarks == {
        "jobs with a share of a GPU rounded up to a whole one": 1,
        "jobs whose tasks without GPU were left out": 1,
        "jobs whose tasks differ in GPUs: all pods get those of the largest": 1,
        "jobs without GPU left out": 1,
        "jobs without start or end left out": 1,
        "jobs that end when they start left out": 1,
    }


def test_alibaba_2020_goes_without_the_job_table(tmp_path: Path) -> None:
    """A job then counts as submitted when its first task was launched; a header line is no job."""
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    result = convert(Published.ALIBABA_2020, tmp_path, tasks_dot_csv=header + TASKS)
    assert [(job.name, job.submitted, job.queue) for job in result.trace.jobs] == [("j1", 0.0, ""), ("j2", 138.0, "")]


def test_alibaba_2020_needs_the_task_table(tmp_path: Path) -> None:
    """The job table alone does not say what a job asks for; and every cell is checked."""
    with pytest.raises(TraceError, match="none of the files is pai_task_table"):
        convert(Published.ALIBABA_2020, tmp_path, jobs_dot_csv=JOBS)
    with pytest.raises(TraceError, match=r"tasks\.csv:1: column 'plan_gpu': 'half' is not a number"):
        convert(Published.ALIBABA_2020, tmp_path, tasks_dot_csv=TASKS.replace("50.0", "half", 1))
    with pytest.raises(TraceError, match="No such file"):
        converters()[Published.ALIBABA_2020]([tmp_path / "none.csv"])


def test_alibaba_2023_makes_a_gang_of_one_of_each_pod_with_gpus(tmp_path: Path) -> None:
    """It runs from being scheduled; the class of service is its queue and its priority."""
    result = convert(Published.ALIBABA_2023, tmp_path, pods_dot_csv=PODS)
    assert result.trace.jobs == (
        TraceJob("openb-pod-0017", 0.0, 1_332_357.0, 1, 8, 88_000, 327_680 * 2**20, "Burstable"),
        TraceJob("openb-pod-0002", 241_678.0, 100.0, 1, 1, 4_000, 15_258 * 2**20, "LS", 100),
        TraceJob("openb-pod-0022", 241_678.0, 294_646.0, 1, 1, 4_000, 15_258 * 2**20, "BE", -100),
    )
    assert result.remarks == {
        "pods with a share of a GPU rounded up to a whole one": 1,
        "pods whose wish for a GPU type was dropped": 1,
        "pods without GPU left out": 1,
        "pods without a deletion time left out": 1,
        "pods that end when they start left out": 1,
    }


def test_philly_makes_one_run_of_all_attempts(tmp_path: Path) -> None:
    """Servers of the last attempt become pods, the virtual cluster the queue."""
    result = convert(Published.PHILLY, tmp_path, log_dot_json=json.dumps(LOG))
    assert result.trace.jobs == (TraceJob("a1", 0.0, 180.0, 2, 8, queue="ee9e8c"),)
    assert result.remarks == {
        "jobs whose attempts became one run": 1,
        "jobs whose GPUs do not divide by their servers: rounded up": 1,
        "jobs without an attempt of known length left out": 2,
        "jobs without a submission time left out": 1,
        "jobs without GPU left out": 1,
    }


def test_philly_is_read_from_csv_too(tmp_path: Path) -> None:
    """One line is one attempt; without a count of servers each has 8 GPUs."""
    log = """\
jobid,vc,status,submitted_time,start_time,end_time,gpus,servers
a1,v,Pass,2017-10-07 01:11:39,2017-10-07 01:12:09,2017-10-07 01:13:09,8,1
a1,v,Pass,2017-10-07 01:11:39,2017-10-07 01:14:00,2017-10-07 01:16:00,16,
a2,v,Pass,2017-10-07 01:11:49,None,None,0,
"""
    result = convert(Published.PHILLY, tmp_path, log_dot_csv=log)
    assert result.trace.jobs == (TraceJob("a1", 0.0, 180.0, 2, 8, queue="v"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a cluster_job_log"),
        ('[{"vc": "v"}]', "missing required field `jobid`"),
        ('[{"jobid": "a", "submitted_time": "noon"}]', r"\[0\] a: submitted_time: 'noon' is not a time such as"),
        ("[]", "philly: no job could be taken from it"),
    ],
)
def test_a_log_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, the job and the field."""
    with pytest.raises(TraceError, match=message):
        convert(Published.PHILLY, tmp_path, log_dot_json=text)


def test_a_trace_without_jobs_says_what_was_left_out(tmp_path: Path) -> None:
    """Otherwise nobody would know why nothing came out."""
    with pytest.raises(TraceError, match=r"no job could be taken from it \(1 x jobs without GPU left out\)"):
        convert(Published.ALIBABA_2020, tmp_path, tasks_dot_csv=TASKS.splitlines()[4] + "\n")
    with pytest.raises(TraceError, match="No such file"):
        converters()[Published.PHILLY]([tmp_path / "none.json"])
