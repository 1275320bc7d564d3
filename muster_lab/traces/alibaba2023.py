"""Alibaba's GPU trace of 2023: openb_pod_list.

Source: github.com/alibaba/clusterdata cluster-trace-gpu-v2023; Weng et al., Beware of Fragmentation, USENIX ATC 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster_lab.traces.table import TraceRow, read_rows
from muster_lab.traces.trace import Conversion, Harvest, TraceJob

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)

_MIB = 2**20
_WHOLE = 1000
#: The trace's words for how urgent a pod is, as priorities: latency-sensitive before burstable before best effort.
_PRIORITIES = {"LS": 100, "Guaranteed": 100, "Burstable": 0, "BE": -100}


def convert(files: Sequence[Path]) -> Conversion:
    """Make a gang of one of each pod with GPUs.

    It runs from being scheduled, or created where that is not known, until it was deleted. Shares of a GPU are rounded
    up to a whole one; wishes for a GPU type are dropped. The class of service is the queue, and the priority.
    """
    harvest = Harvest()
    for file in files:
        for row in read_rows(file, [name for name in COLUMNS if name != "scheduled_time"]):
            job = _job(row, harvest)
            if job is not None:
                harvest.jobs.append(job)
    return harvest.conversion("alibaba-2023")


def _job(row: TraceRow, harvest: Harvest) -> TraceJob | None:
    gpus = row.count("num_gpu")
    if not gpus:
        harvest.remark("pods without GPU left out")
        return None
    if not row.is_known("deletion_time"):
        harvest.remark("pods without a deletion time left out")
        return None
    created = row.number("creation_time")
    started = row.number("scheduled_time") if row.is_known("scheduled_time") else created
    runtime = row.number("deletion_time") - started
    if runtime <= 0:
        harvest.remark("pods that end when they start left out")
        return None
    if row.is_known("gpu_milli") and 0 < row.number("gpu_milli") < _WHOLE:
        harvest.remark("pods with a share of a GPU rounded up to a whole one")
    if row.is_known("gpu_spec"):
        harvest.remark("pods whose wish for a GPU type was dropped")
    quality = row.text("qos")
    return TraceJob(
        name=row.text("name"),
        submitted=created,
        runtime=runtime,
        pods=1,
        gpus=gpus,
        cpu=row.count("cpu_milli"),
        memory=row.count("memory_mib") * _MIB,
        queue=quality,
        priority=_PRIORITIES.get(quality, 0),
    )
