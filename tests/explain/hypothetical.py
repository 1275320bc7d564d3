"""Asking a world about gangs that it does not have, and submitting them afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.admission.events import Decide, GroupSeen, PodSeen
from extender.explain.whatif import Newcomer, WhatIfAnswer, ask, complete, newcomers, study
from extender.objects.podgroup import GroupRef
from extender.objects.priority import Priorities
from extender.objects.sources.coscheduling import COSCHEDULING_LABEL
from extender.objects.submission import Submitted, read_submission
from tests.builders import Json, coscheduling_json
from tests.worlds import GPU, Job, World

#: When what is asked about would come: after everything that a world has made.
COMING = "2026-02-01T00:00:00Z"


def objects(
    pods: int,
    gpus: int = 8,
    *,
    min_member: int | None = None,
    cpu: str = "1",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> list[Json]:
    """Build a PodGroup and a Job called `new`; keywords are fields of the pods' spec."""
    requests: dict[str, object] = {"cpu": cpu} | ({GPU: gpus} if gpus else {})
    container = {"name": "main", "resources": {"requests": requests}}
    template = {
        "metadata": {"labels": {COSCHEDULING_LABEL: "new"}},
        "spec": {"schedulerName": "muster", "containers": [container]} | spec,
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "new"},
        "spec": {"parallelism": pods, "completionMode": "Indexed", "template": template},
    }
    return [coscheduling_json("new", annotations=annotations, minMember=min_member or pods), job]


def submitted(what: list[Json]) -> list[Submitted]:
    """Read objects as a question about them does."""
    return list(read_submission(what, Priorities(), COMING).gangs)


def asked(world: World, what: list[Json]) -> WhatIfAnswer:
    """Ask a world what would become of objects that make one gang."""
    (newcomer,) = newcomers(submitted(what), world.clock.monotonic())
    return answered(world, newcomer)


def answered(world: World, newcomer: Newcomer) -> WhatIfAnswer:
    """Ask a world what would become of a gang."""
    return complete(world.admission, study(ask(world.admission, newcomer, world.now)), world.now)


def submit(world: World, what: list[Json]) -> Job:
    """Submit objects that make one gang, as the API server would, and let the world judge it."""
    (gang,) = submitted(what)
    return submit_gang(world, gang)


def submit_gang(world: World, gang: Submitted) -> Job:
    """Submit a gang, and let the world judge it."""
    job = Job(world, GroupRef(gang.ref.api, gang.ref.namespace, gang.ref.name))
    if gang.group is not None:
        world.tell(GroupSeen(replace(gang.group, uid="new-group")))
    for pod in gang.pods:
        job.pods.append(replace(pod, uid=f"new-{pod.name}"))
        world.tell(PodSeen(job.pods[-1]))
    world.tell(Decide())
    return job
