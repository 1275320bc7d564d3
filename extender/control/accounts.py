"""What was worked out about a gang, as JSON and in words: its place in line, the nodes left, who holds them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from extender.admission.explaining.account import Account
from extender.admission.explaining.holders import Holder
from extender.admission.explaining.nearest import NearestMiss
from extender.admission.explaining.standing import Standing
from extender.admission.explaining.waterfall import Waterfall
from extender.domain.levels import CLUSTER_LEVEL
from extender.domain.quantity import format_amount
from extender.domain.requests import PODS
from extender.domain.timestamp import write_timestamp


def account_json(account: Account) -> dict[str, Any]:
    """Return what was worked out about a gang as JSON; amounts as Kubernetes writes them."""
    choice = account.choice
    return {
        "queue": _standing_json(account.standing),
        "waterfall": [_waterfall_json(each) for each in account.waterfalls],
        "nearestMiss": None if account.nearest is None else _nearest_json(account.nearest),
        "holders": [_holder_json(each) for each in account.holders],
        "choice": None if choice is None else {"considered": choice.considered, "lines": list(choice.lines)},
    }


def account_lines(account: Account) -> tuple[str, ...]:
    """Return what matters most of it for a gang that waits, in a line each; () for one that does not."""
    standing, miss = account.standing, account.nearest
    lines = []
    if standing.position is not None:
        queue = f" in Queue {standing.queue}" if standing.queue else ""
        behind = f", behind {standing.ahead[-1]}" if standing.ahead else ""
        lines.append(f"{standing.position} of {standing.of} in line{queue}{behind}")
    if miss is not None:
        lines.append(_nearest_line(miss))
    return tuple(lines)


def time_text(seconds: float) -> str:
    """Return a moment (epoch seconds) as the API server writes it."""
    return write_timestamp(dt.datetime.fromtimestamp(seconds, dt.UTC))


def _standing_json(standing: Standing) -> dict[str, Any]:
    return {
        "name": standing.queue or None,
        "position": standing.position,
        "of": standing.of,
        "ahead": [str(ref) for ref in standing.ahead],
    }


def _waterfall_json(fall: Waterfall) -> dict[str, Any]:
    steps = [
        {"cause": step.cause.value, "nodes": step.nodes, "left": step.left, "detail": step.detail}
        for step in fall.steps
    ]
    return {
        "pods": fall.pods,
        "request": _amounts({name: amount for name, amount in fall.shape.requests if name != PODS}),
        "nodes": fall.nodes,
        "steps": steps,
        "usable": fall.usable,
        "fits": fall.fits,
    }


def _nearest_json(miss: NearestMiss) -> dict[str, Any]:
    return {
        "level": miss.level,
        "domain": miss.domain,
        "fits": miss.fits,
        "needed": miss.needed,
        "lacks": _amounts(miss.lacks),
    }


def _holder_json(holder: Holder) -> dict[str, Any]:
    return {
        "gang": holder.gang,
        "gpus": holder.gpus,
        "nodes": holder.nodes,
        "priority": holder.priority,
        "queue": holder.queue or None,
        "endsAt": None if holder.ends_at is None else time_text(holder.ends_at),
        "overdue": holder.overdue,
    }


def _nearest_line(miss: NearestMiss) -> str:
    """Return a nearest miss in words: `rack b0/r1 has room for 3 of 4 and lacks 8 nvidia.com/gpu`."""
    where = "the cluster" if miss.level == CLUSTER_LEVEL else f"{miss.level} {miss.domain}"
    lacks = ", ".join(f"{amount} {name}" for name, amount in _amounts(miss.lacks).items())
    return f"nearest: {where} has room for {miss.fits} of {miss.needed}{f' and lacks {lacks}' if lacks else ''}"


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in sorted(amounts.items()) if amount}
