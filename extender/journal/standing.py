"""How everything stands at one moment, as a document that people can read without playing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from extender.admission.admission import Admission
from extender.cluster.gangs import Gang
from extender.ledger.slots import Slot
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.queue import Queue
from extender.objects.reason import Wait

_Life: TypeAlias = tuple[GroupRef, str, float, PodGroup | None]
"""One life of a gang: which gang, its UID, when it was first seen, its PodGroup. Members are looked up later."""

#: There are thousands, and the event loop waits meanwhile.
_LIFE = attrgetter("ref", "uid", "first_seen", "group")


@dataclass(frozen=True, slots=True)
class StateSummary:
    """All of the state at one moment, collected in milliseconds; `document` takes its time over it, in a thread."""

    deciding: bool
    passes: int
    nodes: Sequence[Node]
    resources: Sequence[str]
    free: NDArray[np.int64]
    pods: Sequence[Pod]
    lives: Sequence[_Life]
    waits: Mapping[str, Wait]
    reservations: Sequence[tuple[GroupRef, str, bool, float, Sequence[tuple[str, str, str]]]]
    queues: Sequence[Queue]

    @classmethod
    def of(cls, admission: Admission) -> StateSummary:
        """Collect how everything stands now; nothing is changed by it."""
        model, ledger = admission.model, admission.reservations.ledger
        table, nodes = admission.model.table, admission.model.table.nodes()
        return cls(
            deciding=admission.rebuilt,
            passes=admission.passes,
            nodes=nodes,
            resources=table.resources,
            free=table.free()[:, table.rows_of([node.name for node in nodes])],
            pods=list(model.pods.values()),
            lives=list(map(_LIFE, model.gangs)),
            waits=dict(admission.reservations.waits),
            reservations=[
                (each.ref, each.decision, each.started, each.deadline, [_slot(slot) for slot in each.slots.values()])
                for each in ledger
            ],
            queues=list(admission.sharing.queues.values()),
        )

    def document(self) -> dict[str, Any]:
        """Return it as plain values: nodes, gangs and pods by name, and what is promised to which pod."""
        members: dict[GroupRef, dict[str, Pod]] = {}
        for pod in self.pods:
            members.setdefault(pod.group, {})[pod.uid] = pod
        return {
            "deciding": self.deciding,
            "passes": self.passes,
            "counts": {"nodes": len(self.nodes), "pods": len(self.pods), "gangs": len(self.lives)},
            "nodes": [self._node(index, node) for index, node in enumerate(self.nodes)],
            "gangs": [self._gang(life, members.get(life[0], {})) for life in self.lives],
            "pods": [_pod(pod) for pod in self.pods],
            "reservations": [
                {
                    "gang": str(ref),
                    "decision": decision,
                    "started": started,
                    "deadline": deadline,
                    "slots": [{"pod": pod, "node": node, "state": state} for pod, node, state in slots],
                }
                for ref, decision, started, deadline, slots in self.reservations
            ],
            "queues": [{"name": queue.name, "parent": queue.parent} for queue in self.queues],
        }

    def _node(self, index: int, node: Node) -> dict[str, Any]:
        free = dict(zip(self.resources, self.free[:, index].tolist(), strict=True))
        return {
            "name": node.name,
            "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints],
            "resources": {
                name: {"allocatable": amount, "free": free.get(name)} for name, amount in node.allocatable.items()
            },
        }

    def _gang(self, life: _Life, members: dict[str, Pod]) -> dict[str, Any]:
        ref, uid, first_seen, group = life
        gang = Gang(ref, uid, first_seen, group, members)
        census, wait = gang.census(), self.waits.get(uid)
        return {
            "api": ref.api,
            "namespace": ref.namespace,
            "name": ref.name,
            "minMember": gang.min_member,
            "priority": gang.priority,
            "queue": gang.queue or gang.peer_queue or None,
            "members": asdict(census),
            "reason": None
            if wait is None
            else {"code": wait.reason.value, "message": wait.message, "numbers": dict(wait.numbers)},
        }


def _slot(slot: Slot) -> tuple[str, str, str]:
    return slot.pod.key, slot.node, slot.state.value


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "gang": str(pod.group),
        "phase": pod.phase.value,
        "node": pod.node_name or None,
        "nominated": pod.nominated_node or None,
        "requests": dict(pod.shape.requests),
    }
