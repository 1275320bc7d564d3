"""Boards of any size, and a service that streams them: what the dashboard is loaded with."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from random import Random
from typing import Any, cast

import msgspec
import orjson
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from extender.service.board.rows import NodeRow
from extender.service.dashboard.pages import dashboard_routes
from extender.service.stream import capacity_document

Json = dict[str, Any]

_GPUS = 8
_RACK, _BLOCK = 16, 256
_PRODUCTS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H200")
_SIZES = (1, 1, 2, 4, 4, 8, 16, 32, 64)
_REASONS = (
    ("InsufficientCapacity", "12 of 16 members fit now"),
    ("QuotaExceeded", "asks for 128 nvidia.com/gpu of h100, of which Queue team-b has 64 left now"),
    ("BehindHead", "default/train-3 is first, and what is free is kept for it"),
)
_START = dt.datetime(2026, 11, 22, 9, 0, tzinfo=dt.UTC)


def moment(seconds: float) -> str:
    """Return an RFC 3339 time, that many seconds after an arbitrary one."""
    return (_START + dt.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def gang_row(name: str, members: int, **fields: Any) -> Json:
    """Return the row of a gang of so many members with eight GPUs each."""
    zero = dict.fromkeys(("exist", "gated", "waiting", "reserved", "bound", "running", "succeeded", "failed"), 0)
    return {
        "namespace": "default",
        "name": name,
        "api": "scheduling.x-k8s.io",
        "phase": "Running",
        "queue": "team-a",
        "priority": 0,
        "minMember": members,
        "members": {**zero, "exist": members, "bound": members, "running": members},
        "gpus": members * _GPUS,
        "gpusHeld": members * _GPUS,
        "reason": None,
        "position": None,
        "since": moment(0),
        "startedAt": None,
        "expectedStart": None,
        "busBandwidthGBps": 329.1,
        "level": "block",
        "domain": "b0",
        "nodes": members,
        "evicted": None,
        **fields,
    }


def board(nodes: int, *, waiting: int = 40, seed: int = 1) -> Json:
    """Return the board of a cluster in blocks of 256 and racks of 16 nodes, nearly full."""
    random = Random(seed)
    names = [f"node-{index}" for index in range(nodes)]
    teams = [f"team-{letter}" for letter in "abcdefgh"[: max(2, nodes // 500)]]
    cells = [[0] * _GPUS for _ in names]
    gangs: list[Json] = []
    holders: list[str] = []
    at = 0
    while at < nodes * 0.93:
        size = min(random.choice(_SIZES), nodes - at)
        name = f"train-{len(gangs)}"
        reserved = len(gangs) % 17 == 5
        holders.append(f"default/{name}")
        for index in range(at, at + size):
            cells[index] = [-len(holders) if reserved else len(holders)] * _GPUS
        domain = f"b{at // _BLOCK}/r{at // _RACK}"
        phase = "Scheduling" if reserved else "Running"
        gangs.append(
            gang_row(
                name,
                size,
                phase=phase,
                since=moment(len(gangs)),
                level="rack",
                domain=domain,
                queue=random.choice(teams),
            )
        )
        at += size + (random.random() < 0.1)
    for position in range(1, waiting + 1):
        code, message = _REASONS[position % 3]
        gangs.insert(
            position - 1,
            gang_row(
                f"wait-{position}",
                random.choice((4, 16, 64)),
                phase="Pending",
                queue=("team-a", "team-b")[position % 2],
                reason={"code": code, "message": message, "numbers": {"fits": 12}},
                position=position,
                expectedStart={"at": moment(4000), "waitsFor": "default/train-3", "overdue": False}
                if position == 1
                else None,
                level=None,
                domain=None,
                busBandwidthGBps=None,
                nodes=0,
            ),
        )
    used = sum(cell > 0 for row in cells for cell in row)
    reserved_gpus = sum(cell < 0 for row in cells for cell in row)
    blocks = [f"b{index}" for index in range(-(-nodes // _BLOCK))]
    racks = [f"b{index * _RACK // _BLOCK}/r{index}" for index in range(-(-nodes // _RACK))]
    schedulable = [int(index % 97 != 11) for index in range(nodes)]
    return {
        "seq": 1,
        "status": status(nodes, used, reserved_gpus, gangs, sum(schedulable)),
        "levels": ["block", "rack"],
        "domains": [blocks, racks],
        "products": list(_PRODUCTS),
        "gangs": gangs,
        "queues": queues(nodes * _GPUS, used),
        "events": events(gangs),
        "nodes": {
            "names": names,
            "domains": [[i // _BLOCK for i in range(nodes)], [i // _RACK for i in range(nodes)]],
            "products": [i * len(_PRODUCTS) // nodes for i in range(nodes)],
            "gpus": [_GPUS] * nodes,
            "schedulable": schedulable,
            "cells": cells,
        },
        "holders": holders,
    }


def status(nodes: int, used: int, reserved: int, gangs: list[Json], schedulable: int) -> Json:
    """Return the status of a board."""
    phases = dict.fromkeys(("Pending", "Scheduling", "Running", "Finished", "Failed"), 0)
    reasons: dict[str, int] = {}
    for row in gangs:
        phases[row["phase"]] += 1
        if row["reason"] is not None:
            reasons[row["reason"]["code"]] = reasons.get(row["reason"]["code"], 0) + 1
    waits = [row for row in gangs if row["reason"] is not None]
    oldest = {"gang": f"default/{waits[0]['name']}", "since": waits[0]["since"]} if waits else None
    return {
        "version": "0.1.0",
        "time": moment(1900),
        "ready": True,
        "leading": True,
        "unready": [],
        "nodes": {"total": nodes, "schedulable": schedulable, "withGpus": nodes},
        "gpus": {
            "allocatable": nodes * _GPUS,
            "used": used,
            "reserved": reserved,
            "free": nodes * _GPUS - used - reserved,
        },
        "gangs": phases,
        "waiting": reasons,
        "queues": 3,
        "oldestWait": oldest,
        "verbs": [
            {"verb": "filter", "calls": 1200, "p50Ms": 0.21, "p99Ms": 0.84},
            {"verb": "prioritize", "calls": 44, "p50Ms": 0.4, "p99Ms": 3.1},
            {"verb": "bind", "calls": 1100, "p50Ms": 12.0, "p99Ms": 412.0},
            {"verb": "preempt", "calls": 0, "p50Ms": None, "p99Ms": None},
        ],
        "pass": {"calls": 350, "p50Ms": 2.1, "p99Ms": 17.0},
        "recording": {"on": True, "inputs": 52_000, "bytes": 3_400_000, "since": moment(0)},
    }


def queues(gpus: int, used: int) -> list[Json]:
    """Return a tree of three queues, of which one borrows what the other lends."""

    def queue(name: str, parent: str, nominal: int, use: int, lent: int) -> Json:
        flavor = {
            "name": "h100",
            "resource": "nvidia.com/gpu",
            "nominal": nominal,
            "used": use,
            "borrowed": max(use - nominal, 0),
            "lent": lent,
        }
        return {
            "name": name,
            "parent": parent,
            "active": True,
            "reason": "",
            "message": "",
            "share": use / max(nominal, 1),
            "pendingGangs": 20,
            "admittedGangs": 30,
            "flavors": [flavor],
        }

    half = gpus // 2
    borrowed = max(used - half // 2 - half, 0)
    return [
        queue("research", "", gpus, used, 0),
        queue("team-a", "research", half, used - half // 2, 0),
        queue("team-b", "research", half, half // 2, borrowed),
    ]


def events(gangs: list[Json]) -> list[Json]:
    """Return 200 events about gangs, over the last half an hour; none without gangs."""
    kinds = ("reserved", "started", "started", "released", "expired", "evicted", "noted")
    return [
        {
            "seq": index + 1,
            "time": moment(100 + index * 9),
            "kind": kinds[index % len(kinds)],
            "gang": f"default/{gangs[index % len(gangs)]['name']}",
            "about": "",
            "decision": f"{index:016x}",
            "members": 4,
            "reason": "",
            "message": "4 members on 4 nodes" if index % 7 < 2 else "",
            "warning": index % 7 == 4,
            "waitedSeconds": float(index) if index % 7 == 1 else None,
        }
        for index in range(200 if gangs else 0)
    ]


def loaded(document: Json, changes: asyncio.Queue[Json]) -> FastAPI:
    """Return a service that shows a board to its one reader, then each change that is put into the queue."""
    app = FastAPI(routes=dashboard_routes(shown=True))
    first = _message("board", document)
    islands = capacity(document)

    async def messages() -> AsyncIterator[bytes]:
        yield first
        while True:
            yield _message("change", await changes.get())

    @app.get("/api/v1/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(messages(), media_type="text/event-stream")

    @app.get("/api/v1/capacity")
    async def capacity_now() -> Json:
        return islands

    return app


def capacity(document: Json) -> Json:
    """Return what /api/v1/capacity tells of a board, by the service's own rules."""
    nodes = document["nodes"]
    rows = [
        NodeRow(
            name,
            tuple(names[column[at]] for names, column in zip(document["domains"], nodes["domains"], strict=True)),
            document["products"][nodes["products"][at]],
            bool(nodes["schedulable"][at]),
            tuple(document["holders"][abs(cell) - 1] if cell else "" for cell in nodes["cells"][at]),
            tuple(cell < 0 for cell in nodes["cells"][at]),
        )
        for at, name in enumerate(nodes["names"])
    ]
    return cast("Json", msgspec.to_builtins(capacity_document(document["levels"], rows)))


def _message(event: str, data: Json) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (event.encode(), data["seq"], orjson.dumps(data))
