"""How one gang stands, in full: why it waits, or what is predicted of where it is, for people and programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extender.admission.explaining.account import Account
from extender.admission.explaining.suggestions import Suggestion
from extender.backfill.start import Start
from extender.cluster.gangs import member_order
from extender.cluster.occupancy import Held
from extender.control.accounts import account_json, account_lines, time_text
from extender.control.views import GangView
from extender.domain.levels import CLUSTER_LEVEL, NODE_LEVEL, Levels
from extender.domain.pod import Phase, Pod
from extender.domain.reason import Wait
from extender.placement.better import Better
from extender.placement.placement import Placement

#: Decimals of a bandwidth: megabytes per second, far below what the model knows.
_GBPS_DECIMALS = 3

#: Of so many nodes people are told what is not believed.
_MOST_DOUBTS = 5

#: From so many GB/s on, people are told whole ones.
_WHOLE_GBPS = 100


#: What is told of a gang of which nobody has worked out more.
_NOT_WORKED_OUT: Mapping[str, Any] = {
    "queue": None,
    "waterfall": [],
    "nearestMiss": None,
    "holders": [],
    "choice": None,
}


class MemberState(StrEnum):
    """How far one member has come."""

    WAITING = "waiting"
    GATED = "gated"
    RESERVED = "reserved"
    BOUND = "bound"
    LEAVING = "leaving"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one gang stands: values that do not change, so that they can be written down later.

    `levels` are those that it is placed by, `placement` is None while it holds no node. `promised` has the node of each
    member with a reservation, `held` what members hold of their nodes, where that is known, both by UID. `doubts` says
    by node what was reported of it and is not believed, `better` what a faster placement would have taken. `start` is
    when a gang that waits for others to end is expected to start, where they have said when that is. `account` is what
    else was worked out, None where nobody has; `suggestions` are the smallest changes with which it would be placed
    now, None where nobody has searched for any. One that is `hypothetical` does not exist: it was only asked about.
    """

    view: GangView
    levels: Levels
    placement: Placement | None
    members: tuple[Pod, ...]
    promised: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    better: Better | None = None
    start: Start | None = None
    account: Account | None = None
    suggestions: tuple[Suggestion, ...] | None = None
    hypothetical: bool = False


def headline(explained: Explanation) -> str:
    """Return what matters most about a gang, in one line: its phase, and what is predicted of where it is."""
    phase, placement = explained.view.phase.value, explained.placement
    return phase if placement is None else f"{phase}, {predicted(placement)}"


def remarks(explained: Explanation) -> tuple[str, ...]:
    """Return what else there is to say, in a line each: why it waits, what it has, where the levels are from."""
    wait, levels, placement = explained.view.wait, explained.levels, explained.placement
    names = " > ".join(level.name for level in levels.levels) or "none"
    return (
        *([] if wait is None else [f"waits: {wait.reason.value}: {wait.message}"]),
        *([] if explained.account is None else account_lines(explained.account)),
        *([] if explained.start is None else [_expected(explained.start)]),
        *([] if placement is None else _consequences(placement)),
        *([] if explained.better is None else [_would_take(explained.better)]),
        *(f"{node}: {doubt}" for node, doubt in list(explained.doubts.items())[:_MOST_DOUBTS]),
        f"levels: {names}{f' ({levels.source})' if levels.source else ''}",
    )


def _expected(start: Start) -> str:
    """Return when a start is expected: `starts at 2026-11-21T12:00:00Z if default/old ends as expected`."""
    if not start.because:
        return f"starts at {time_text(start.at)} if all goes as expected"
    ends = "which should have ended already, ends by then" if start.overdue else "ends as declared"
    return f"starts at {time_text(start.at)} if {start.because}{',' if start.overdue else ''} {ends}"


def _would_take(better: Better) -> str:
    """Return what the next better placement would take: `376 GB/s would take one rack: r0 has room for 2 of 3`."""
    roomiest = f"{better.domain} has room for {better.fits} of {better.needed}" if better.domain else "there is none"
    return f"{gbps(better.bus_bandwidth)} would take one {better.level}: {roomiest}"


def predicted(placement: Placement) -> str:
    """Return what is predicted of a placement, and where it is: `329 GB/s predicted, within rack b0/r1`."""
    bandwidth = placement.bus_bandwidth
    speed = "no bandwidth predicted" if bandwidth is None else f"{gbps(bandwidth)} predicted"
    return f"{speed}, {whereabouts(placement)}"


def gbps(value: float) -> str:
    """Return a bandwidth (GB/s) with as many digits as it means anything with."""
    return f"{value:,.0f} GB/s" if value >= _WHOLE_GBPS else f"{value:.3g} GB/s"


def whereabouts(placement: Placement) -> str:
    """Return the closest that all members share: `on gpu-3`, `within rack r7`, `within rack-7`."""
    level, domain = placement.level, placement.domain
    if level == CLUSTER_LEVEL:
        return "across the cluster"
    if level == NODE_LEVEL:
        return f"on {domain}"
    return f"within {domain}" if domain.startswith(level) else f"within {level} {domain}"


def _consequences(placement: Placement) -> list[str]:
    gpus, nodes = sum(placement.gpus_per_node.values()), len(placement.gpus_per_node)
    amount = f"{gpus} GPU{'s' if gpus != 1 else ''} on {nodes} node{'s' if nodes != 1 else ''}"
    lines = [f"{amount}; future requests lose {gbps(placement.fragmentation)}"]
    if placement.bus_bandwidth is None and gpus > 1:
        lines.append("some of these GPUs are of a product that is not known (node label nvidia.com/gpu.product)")
    return lines


def explanation_json(explained: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON, the members in order."""
    view, levels, placement = explained.view, explained.levels, explained.placement
    suggestions = explained.suggestions
    account = _NOT_WORKED_OUT if explained.account is None else account_json(explained.account)
    return {
        "namespace": view.ref.namespace,
        "name": view.ref.name,
        "api": view.ref.api.value,
        "managed": view.managed,
        "hypothetical": explained.hypothetical,
        "phase": view.phase.value,
        "minMember": view.min_member,
        "reason": None if view.wait is None else _reason_json(view.wait),
        "placement": None if placement is None else placement_json(placement),
        "headline": headline(explained),
        "nextBetter": None if explained.better is None else _better_json(explained.better),
        "expectedStart": None if explained.start is None else start_json(explained.start),
        **account,
        "suggestions": None if suggestions is None else [each.json() for each in suggestions],
        "remarks": list(remarks(explained)),
        "levels": {"source": levels.source, "names": [level.name for level in levels.levels]},
        "pods": [_member_json(explained, pod) for pod in sorted(explained.members, key=member_order)],
    }


def placement_json(placement: Placement) -> dict[str, Any]:
    """Return a placement as JSON; bandwidths in GB/s."""
    return {
        "busBandwidthGBps": _rounded(placement.bus_bandwidth),
        "level": placement.level,
        "domain": placement.domain,
        "fragmentationCost": _rounded(placement.fragmentation),
        "gpusPerNode": dict(placement.gpus_per_node),
    }


def start_json(start: Start) -> dict[str, Any]:
    """Return when a gang is expected to start as JSON."""
    return {"at": time_text(start.at), "waitsFor": start.because or None, "overdue": start.overdue}


def _better_json(better: Better) -> dict[str, Any]:
    return {
        "busBandwidthGBps": _rounded(better.bus_bandwidth),
        "level": better.level,
        "domain": better.domain,
        "fits": better.fits,
        "needed": better.needed,
    }


def _reason_json(wait: Wait) -> dict[str, Any]:
    return {"code": wait.reason.value, "message": wait.message, "numbers": dict(sorted(wait.numbers.items()))}


def _member_json(explained: Explanation, pod: Pod) -> dict[str, Any]:
    promised, held = explained.promised.get(pod.uid, ""), explained.held.get(pod.uid)
    return {
        "name": pod.name,
        "role": pod.role or None,
        "state": _state(pod, promised=bool(promised)).value,
        "node": pod.node_name or promised or None,
        "gpus": list(held.gpus) if held is not None and held.gpus else None,
        "zones": list(held.zones) if held is not None and held.zones else None,
        "observed": held is not None and held.observed,
    }


def _state(pod: Pod, *, promised: bool) -> MemberState:
    if pod.done:
        return MemberState.SUCCEEDED if pod.phase is Phase.SUCCEEDED else MemberState.FAILED
    if pod.deleting:
        return MemberState.LEAVING
    if pod.node_name:
        return MemberState.BOUND
    if promised:
        return MemberState.RESERVED
    return MemberState.GATED if pod.gated else MemberState.WAITING


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(round(value, _GBPS_DECIMALS))
