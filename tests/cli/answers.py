"""What a running Muster answers, built so that a test names only what it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cli.conftest import Script

Json = dict[str, Any]

#: When everything in these answers is.
NOW = "2026-03-01T12:00:00Z"


def gang(name: str = "team/train", **changes: Any) -> Json:
    """Return the row of a running gang of four pods with eight GPUs each."""
    namespace, _, own = name.rpartition("/")
    members = {"exist": 4, "gated": 0, "waiting": 0, "reserved": 0, "bound": 4, "running": 4, "succeeded": 0}
    row: Json = {
        "namespace": namespace,
        "name": own,
        "api": "scheduling.x-k8s.io",
        "phase": "Running",
        "queue": None,
        "priority": 0,
        "minMember": 4,
        "members": {**members, "failed": 0},
        "gpus": 32,
        "gpusHeld": 32,
        "reason": None,
        "position": None,
        "since": "2026-03-01T11:56:48Z",
        "startedAt": None,
        "expectedStart": None,
        "busBandwidthGBps": 329.4,
        "level": "rack",
        "domain": "r1",
        "nodes": 4,
        "evicted": None,
    }
    return row | changes


def waiting(name: str = "team/next", reason: str = "InsufficientCapacity", **changes: Any) -> Json:
    """Return the row of a gang of four pods with eight GPUs each that waits, the first in the queue."""
    members = {"exist": 4, "gated": 0, "waiting": 4, "reserved": 0, "bound": 0, "running": 0, "succeeded": 0}
    said = {"code": reason, "message": "1 of 4 members fit now", "numbers": {"fits": 1, "minMember": 4}}
    place = {"busBandwidthGBps": None, "level": None, "domain": None, "nodes": 0}
    stands = {"phase": "Pending", "members": {**members, "failed": 0}, "gpusHeld": 0, "reason": said, "position": 1}
    return gang(name, **{**place, **stands, **changes})


def node(name: str, holders: Sequence[str], **changes: Any) -> Json:
    """Return the row of a node with one GPU for each of `holders`, "" for free ones; `~` before a reserved one's."""
    reserved = [holder.startswith("~") for holder in holders]
    free = list(holders).count("")
    gpus = {"allocatable": len(holders), "free": free, "reserved": sum(reserved)}
    row: Json = {
        "name": name,
        "schedulable": True,
        "domains": [],
        "product": "NVIDIA-H100-80GB-HBM3",
        "gpus": {**gpus, "used": len(holders) - free - sum(reserved)},
        "holders": [holder.removeprefix("~") for holder in holders],
        "reserved": reserved,
        "resources": {"cpu": {"allocatable": 96_000, "free": 32_500}, "memory": {"allocatable": 2**40, "free": 2**39}},
        "doubt": None,
    }
    return row | changes


def queue(name: str, parent: str = "", uses: Sequence[Json] = (), **changes: Any) -> Json:
    """Return how a queue stands in which nobody is."""
    row: Json = {
        "name": name,
        "parent": parent,
        "active": True,
        "reason": "Ready",
        "message": "",
        "share": 0.0,
        "pendingGangs": 0,
        "admittedGangs": 0,
        "flavors": list(uses),
    }
    return row | changes


def use(  # noqa: PLR0917 - one parameter per amount
    nominal: int, used: int, borrowed: int = 0, lent: int = 0, resource: str = "nvidia.com/gpu", reserved: int = 0
) -> Json:
    """Return what is used of one resource in the flavor `any`."""
    amounts = {"nominal": nominal, "used": used, "reserved": reserved, "borrowed": borrowed, "lent": lent}
    return {"name": "any", "resource": resource, **amounts}


def status(**changes: Any) -> Json:
    """Return the status of a Muster that leads a cluster of four nodes."""
    document: Json = {
        "version": "0.1.0",
        "time": NOW,
        "ready": True,
        "leading": True,
        "unready": [],
        "nodes": {"total": 4, "schedulable": 3, "withGpus": 4},
        "gpus": {"allocatable": 32, "used": 16, "reserved": 8, "free": 8},
        "gangs": {"Pending": 2, "Scheduling": 0, "Running": 1, "Finished": 0, "Failed": 0},
        "waiting": {"InsufficientCapacity": 1, "BehindHead": 1},
        "queues": 2,
        "oldestWait": {"gang": "team/next", "since": "2026-03-01T11:56:48Z"},
        "verbs": [
            {"verb": "filter", "calls": 120, "p50Ms": 0.31234, "p99Ms": 1.5},
            {"verb": "preempt", "calls": 3, "p50Ms": 0.2, "p99Ms": None},
        ],
        "pass": {"calls": 7, "p50Ms": 2.0, "p99Ms": 9.0},
        "recording": {"on": True, "inputs": 1204, "bytes": 1_258_291, "since": "2026-03-01T11:00:00Z", "ended": None},
    }
    return document | changes


def event(seq: int, kind: str = "started", about: str = "team/train", **changes: Any) -> Json:
    """Return one decision."""
    row: Json = {
        "seq": seq,
        "time": f"2026-03-01T11:00:{seq % 60:02d}Z",
        "kind": kind,
        "gang": about,
        "about": about,
        "decision": f"0000000f-{seq}",
        "members": 4,
        "reason": "",
        "message": "",
        "warning": False,
        "waitedSeconds": None,
    }
    return row | changes


def board(gangs: Sequence[Json] = (), events: Sequence[Json] = (), **changes: Any) -> Json:
    """Return the first message of the stream, of a cluster without nodes."""
    nodes: Json = {"names": [], "domains": [], "gpus": [], "schedulable": [], "cells": []}
    cluster: Json = {"levels": [], "domains": [], "nodes": nodes, "holders": [], "queues": []}
    return {"seq": 1, "status": status(), "gangs": list(gangs), "events": list(events), **cluster, **changes}


def change(put: Sequence[Json] = (), gone: Sequence[str] = (), **changes: Any) -> Json:
    """Return a later message of the stream."""
    order = changes.pop("order", None)
    gangs: Json = {"put": list(put), "gone": list(gone)}
    if order is not None:
        gangs["order"] = order
    nodes: Json = {"put": [], "gone": []}
    return {"seq": 2, "status": status(), "gangs": gangs, "events": [], "nodes": nodes, **changes}


def stream(*messages: Json) -> bytes:
    """Return a stream that has a board, then changes, with a comment at the end."""
    names = ["board"] + ["change"] * (len(messages) - 1)
    texts = [f"event: {name}\nid: 1\ndata: {json.dumps(one)}\n\n" for name, one in zip(names, messages, strict=True)]
    return ("retry: 1000\n" + "".join(texts) + ": nothing new\n\n").encode()


def answer(server: Script, path: str, document: Mapping[str, Any], status_code: int = 200) -> None:
    """Have a server answer a path with a document."""
    server.answers[path] = (status_code, json.dumps(document).encode())
