"""The reference of Events: every reason under which Muster writes one, found in the program's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import extender
from docsite.markdown import anchor, code, page, table
from extender.ledger.effects import EvictionReason
from extender.objects.reason import Reason

_INTRO = """
Muster's Events are `events.k8s.io/v1` with `reportingController: muster.dev/muster`. What is said again is counted in
`series`, not written again. Those about a gang are on its PodGroup or on the object of its operator; without such an
object on its first pod. The API server keeps Events for an hour unless told otherwise.
"""
_WAITING = """
A gang that waits says its [reason](reasons.md), which then is the Event's too, each time that reason or message change:
type `Warning`, except for `AwaitingMembers`. `Preempting` is said with type `Normal`, too, when others are told to
leave.
"""

#: Reason of an Event -> (what it is on, type, what it says). Those that are reasons for waiting need no entry.
SAID: Mapping[str, tuple[str, str, str]] = {
    "Started": ("gang", "Normal", "a gang that had waited has its minimum"),
    "ReservationExpired": (
        "gang",
        "Warning",
        "too few members reached bind by the deadline; how many did ([BackingOff](../reasons.md#backingoff))",
    ),
    "NodesNotRequested": (
        "gang",
        "Warning",
        "a request for [nodes](../autoscaling.md) cannot be made, and why; it is tried again after a minute",
    ),
    "PodRejected": (
        "gang or pod",
        "Warning",
        "a kubelet [turned a pod away](../operations.md#when-a-kubelet-turns-pods-away) that had room on its node",
    ),
    "EvictionRefused": (
        "gang",
        "Warning",
        "its place is not cleared, as the API server refuses an eviction, and why; it is tried again after a minute",
    ),
    "GateNotRemoved": (
        "pod",
        "Warning",
        "its scheduling gate `muster.dev/admission` cannot be taken off, and why; it is tried again every half minute",
    ),
    "InvalidField": (
        "any object that is read",
        "Warning",
        "a key or field that Muster does not know or cannot keep; the rest of the object counts",
    ),
    "EvictionNotice": (
        "gang or pod",
        "Warning",
        "it is going to be evicted when its [notice](../checkpoints.md#notice) is over, and for whom",
    ),
    "EvictionCancelled": ("gang or pod", "Warning", "it is not going to be evicted any more, and why"),
    "Ready": ("Queue", "Normal", "a Queue about which something was wrong can be used"),
    "NotAsWritten": ("Queue", "Warning", "a Queue works, but not in all as it is written"),
    "Invalid": ("Queue", "Warning", "a Queue cannot be used; the message names the field"),
    "Inactive": ("Queue", "Warning", "no gang can start from a Queue"),
    EvictionReason.PREEMPTED: ("gang and pod", "Warning", "evicted for a gang of higher priority"),
    EvictionReason.RECLAIMED: ("gang and pod", "Warning", "evicted for a gang to whose Queue the quota belongs"),
    EvictionReason.FAIR_SHARING: (
        "gang and pod",
        "Warning",
        "evicted for a gang whose Queue has less of its weighted share, where that Queue asks for fair sharing",
    ),
    EvictionReason.DEFRAGMENTED: ("gang and pod", "Warning", "evicted by a run of `muster defrag --apply`"),
    EvictionReason.CONSOLIDATED: (
        "gang and pod",
        "Warning",
        "moves to make room for a gang that waits, where its Queue asks for consolidation; its new place is kept",
    ),
    "Consolidating": (
        "gang",
        "Normal",
        "others move to make room for it: which, from where to where, and what it costs",
    ),
    EvictionReason.BELOW_MINIMUM: ("gang and pod", "Warning", "evicted because what is left of the gang cannot run"),
    EvictionReason.MAX_RUNTIME: (
        "gang and pod",
        "Warning",
        "evicted because it has run for as long as it [may](../checkpoints.md#how-long-a-gang-may-run)",
    ),
    EvictionReason.NODE_LOST: (
        "gang and pod",
        "Warning",
        "evicted because its node is [lost](../node-loss.md), or that of a member with which it has to be together",
    ),
    EvictionReason.NODE_DRAINED: (
        "gang and pod",
        "Warning",
        "evicted because people [drain](../node-loss.md#to-drain-a-node) its node, or that of such a member",
    ),
    EvictionReason.QUEUE_DRAINED: (
        "gang and pod",
        "Warning",
        "evicted because its Queue has `stopPolicy: HoldAndDrain`",
    ),
}

#: What says something to people, by name, in the packages that decide and report.
_CALLS = frozenset({"Note", "ClusterEvent", "QueueRow", "_tell", "_event", "_note"})
_PACKAGES = ("admission", "control", "eviction", "explain", "ledger", "queues")


def render() -> str:
    """Return the page."""
    known = {*SAID, *written(), *EvictionReason} - set(Reason)
    rows = [(code(reason), *SAID.get(reason, ("", "", ""))) for reason in sorted(known)]
    waiting = ", ".join(f"[{code(reason)}](../reasons.md#{anchor(reason)})" for reason in Reason)
    return page(
        "Events",
        _INTRO,
        table(("reason", "on", "type", "says"), rows),
        "## Why a gang waits",
        _WAITING,
        f"{waiting}.",
    )


@cache
def written() -> frozenset[str]:
    """Return every word that the source gives as the reason of an Event."""
    root = Path(extender.__file__).parent
    files = (file for package in _PACKAGES for file in sorted((root / package).rglob("*.py")))
    return frozenset(word for file in files for word in _words(ast.parse(file.read_text(encoding="utf-8"))))


def _words(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in _CALLS:
            continue
        given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
        for value in given or node.args:
            for inner in ast.walk(value):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and _is_word(inner.value):
                    yield inner.value


def _is_word(text: str) -> bool:
    return text.isidentifier() and text[0].isupper()
