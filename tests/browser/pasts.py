"""A past for the cluster of `services`: eight days in which teams came and went, as a history has them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import msgspec

from extender.history.meters import by_hour
from extender.history.records import Batch, GangRecord, HourSums, PastRun, Payer, fold_names
from extender.history.store import HistoryStore

_DAY, _NODES, _GPUS = 86_400, 8, 8
_TEAMS = (("team-a", "vision"), ("team-a", "speech"), ("team-b", "language"), ("team-b", "robots"), ("", "default"))
_MESSAGE = "3 of 4 members fit now: 5 of 8 nodes lack nvidia.com/gpu, of which Queue team-a has 8 left"


def past(path: Path, now: float) -> HistoryStore:
    """Return a history that ends at `now` (epoch seconds), with a gang `language/resumed` that ran twice."""
    random, store = Random(7), HistoryStore(str(path))
    sums: Counter[tuple[int, Payer, str]] = Counter()
    gangs = []
    for number in range(420):
        queue, namespace = random.choice(_TEAMS)
        created = now - random.uniform(0, 8 * _DAY)
        waited = random.choice((5.0, 60.0, random.expovariate(1 / 5000)))
        started, nodes = created + waited, random.choice((1, 1, 1, 1, 2))
        ended = started + random.expovariate(1 / 5000)
        names = [f"gpu-{node}" for node in random.sample(range(_NODES), nodes)]
        gang = GangRecord(
            f"uid-{number}",
            namespace,
            f"train-{number}",
            "scheduling.x-k8s.io",
            owner=f"Job/train-{number}",
            queue=queue,
            user=f"user-{number % 11}",
            priority=number % 3 * 100,
            members=nodes,
            gpus=nodes * _GPUS,
            resources=f"nvidia.com/gpu={nodes * _GPUS}",
            created=created,
            started=started if started < now else None,
            ended=ended if ended < now else None,
            outcome=random.choice(("Succeeded", "Succeeded", "Failed", "Deleted")) if ended < now else "",
            waited=waited,
            reason="QuotaExceeded" if waited > 10 else "",
            message=_MESSAGE if waited > 10 else "",
            nodes=fold_names(names) if started < now else "",
            node_count=nodes if started < now else 0,
            used=max(min(ended, now) - started, 0.0) * nodes * _GPUS,
            using=nodes * _GPUS if started < now < ended else 0,
            as_of=min(ended, now),
        )
        gangs.append(gang)
        for hour, seconds in by_hour(started, min(ended, now)):
            sums[hour, Payer(queue, namespace, gang.user), "used"] += int(seconds * gang.gpus)
        for hour, seconds in by_hour(max(started - 5, created), min(started, now)):
            sums[hour, Payer(queue, namespace, gang.user), "reserved"] += int(seconds * gang.gpus)
    gangs.append(_resumed(now))
    for hour, seconds in by_hour(now - 8 * _DAY, now):
        sums[hour, Payer(), "capacity"] += int(seconds * _NODES * _GPUS)
    usage: dict[tuple[int, Payer], dict[str, float]] = {}
    for (hour, payer, use), amount in sums.items():
        usage.setdefault((hour, payer), {})[use] = amount
    store.load("past", [])
    store.write("past", 1, Batch(now, gangs, usage={key: HourSums(**amounts) for key, amounts in usage.items()}))
    return store


def _resumed(now: float) -> GangRecord:
    """Return a gang that was evicted after an hour, waited for half of one, and ran again until a minute ago."""
    first = now - 3 * 3600
    runs = [
        PastRun(first, first + 3600, "gpu-[0-3]", "Preempted", "robots/urgent"),
        PastRun(first + 5400, now - 60, "gpu-[4-7]"),
    ]
    return GangRecord(
        "uid-resumed",
        "language",
        "resumed",
        "scheduling.x-k8s.io",
        owner="Job/resumed",
        queue="team-b",
        user="user-3",
        members=4,
        gpus=32,
        resources="nvidia.com/gpu=32",
        created=first - 900,
        started=first,
        ended=now - 60,
        outcome="Succeeded",
        waited=900 + 1800,
        reason="InsufficientCapacity",
        message="2 of 4 members fit now",
        evictions=1,
        evicted="Preempted",
        evicted_by="robots/urgent",
        nodes="gpu-[0-7]",
        node_count=8,
        used=(3600 + 5340) * 32.0,
        reserved=320.0,
        lost=1200 * 32.0,
        as_of=now - 60,
        runs=msgspec.json.encode(runs).decode(),
    )
