"""Where pods without a gang may go: wherever they fit beside what is promised to gangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from extender.admission.admission import Admission
from extender.admission.answers import Arrival, BindVerdict, Filtered, Outcome, Refusal
from extender.admission.heads import declared
from extender.admission.keep import withhold
from extender.admission.queue import single_position
from extender.admission.sharing import ANYWHERE
from extender.cluster.occupancy import NO_NODE, Holding
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod

_NO_QUOTA = "no quota"
_NO_ROOM = "no room beside what is reserved for gangs"
_MISALIGNED = "what is free is in NUMA zones or GPU partitions that the pod cannot have together"
_REJECTED = "its kubelet turned away a pod that asks for the same"


class Singles:
    """Answer for pods without a gang, from what is free now."""

    def __init__(self, admission: Admission) -> None:
        """Answer from `admission`."""
        self._admission = admission
        self._model = admission.model

    def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Let a pod go wherever there is room beside reservations and what is kept for the head."""
        self._admission.decide()
        rows = self._model.table.rows_of(names)
        if barred := self._barred(pod):
            return Filtered(Outcome.REFUSED, [], (Refusal(names, barred),))
        rejected = self._rejected(pod)[rows]
        beyond = ~self._within_quota(pod)[rows] & ~rejected
        lacking = ~(self._room(pod, self._free_for(pod))[rows] | rejected | beyond)
        misaligned = ~(self._aligned(pod, rows) | rejected | beyond | lacking)
        refusals = (
            Refusal(_named(names, rejected), _REJECTED),
            Refusal(_named(names, beyond), self._quota_words(pod)),
            Refusal(_named(names, lacking), _NO_ROOM, resolvable=True),
            Refusal(_named(names, misaligned), _MISALIGNED),  # kube-scheduler would find nobody to evict: it has room
        )
        told = tuple(refusal for refusal in refusals if refusal.names)
        accepted = _named(names, ~(rejected | beyond | lacking | misaligned)) if told else names
        return Filtered(Outcome.FITS if accepted else Outcome.REFUSED, accepted, told)

    def arrive(self, pod: Pod, node: str) -> Arrival:
        """Promise the node to a pod, unless it has been given away since filter."""
        reservations = self._admission.reservations
        slot = reservations.ledger.single(pod.uid)
        if slot is None or slot.node != node:
            answer = self._refusal_of(pod, node) if self._model.manages(pod) else ""
            if answer:  # of others it is for their own scheduler to know
                return Arrival(BindVerdict.REFUSE, f"node {node}: {answer}")
            reservations.promise_single(pod, node)
        return Arrival(BindVerdict.WRITE)

    def fitting_after(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the nodes where the pod would have room once their victims are gone: of foreign pods, all."""
        if not self._model.manages(pod):
            return list(victims)
        table = self._model.table
        free = self._free_for(pod)
        for node, uids in victims.items():
            for uid in uids:
                claim = table.claim_of(uid)
                if claim is not None and claim.node == node:
                    free.give_back(uid)
        fits = self._room(pod, free) & ~self._rejected(pod)
        return _named(list(victims), fits[table.rows_of(list(victims))])

    def _refusal_of(self, pod: Pod, node: str) -> str:
        """Return why the pod may not go to one node, or ""."""
        rows = self._model.table.rows_of([node])
        if barred := self._barred(pod):
            return barred
        if self._rejected(pod)[rows].any():
            return _REJECTED
        if not self._within_quota(pod)[rows].all():
            return self._quota_words(pod)
        if not self._room(pod, self._free_for(pod))[rows].all():
            return _NO_ROOM
        return "" if self._aligned(pod, rows).all() else _MISALIGNED

    def _free_for(self, pod: Pod) -> WhatIf:
        """Return what the pod may use: what is free or its own, and not kept for a head before it.

        Its own is a node whose Binding failed: it was promised, and may be tried again.
        """
        whatif = WhatIf(self._model.table)
        whatif.give_back(pod.uid)
        place, now = single_position(pod), self._admission.clock.now().timestamp()
        for keep in self._admission.term.keeps:
            if keep.firm or (keep.position < place and not keep.open_to(declared(pod), now)):
                withhold(whatif.free, keep.kept)
        return whatif

    def _barred(self, pod: Pod) -> str:
        """Return why nothing of the pod's queue starts, or ""."""
        sharing = self._admission.sharing
        queue = sharing.queue_of_pod(pod)
        wait = sharing.unusable(queue, pod.namespace) or sharing.barred(queue, pod.uid)
        return "" if wait is None else wait.message

    def _within_quota(self, pod: Pod) -> NDArray[np.bool_]:
        """Return (rows + 1,) for which nodes the pod's queue has quota; the last, read for unknown nodes, says yes."""
        sharing, table = self._admission.sharing, self._model.table
        sharing.charges.refresh()
        within = np.ones(table.rows + 1, dtype=np.bool_)
        queue, amounts = sharing.queue_of_pod(pod), dict(pod.shape.requests)
        options = sharing.options(queue, amounts)
        if options is ANYWHERE or sharing.charges.of(pod.uid) is not None:  # what is charged for it already is its own
            return within
        within[: table.rows] = False
        for option in options:
            if sharing.lack(queue, option, amounts) is None:
                within[: table.rows] |= sharing.nodes_of(option)
        return within

    def _quota_words(self, pod: Pod) -> str:
        queue = self._admission.sharing.queue_of_pod(pod)
        return f"Queue {queue} has no quota left for the pod" if queue in self._admission.sharing.tree else _NO_QUOTA

    def _room(self, pod: Pod, free: WhatIf) -> NDArray[np.bool_]:
        """Return (rows + 1,) whether the pod has room on each node; the last, read for unknown nodes, says no."""
        table = self._model.table
        everywhere = np.ones(table.rows, dtype=np.bool_)
        return np.append(free.counts(table.vector(pod.shape.requests), everywhere) > 0, False)

    def _aligned(self, pod: Pod, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return (len(rows),) whether GPUs and zones that are free together are enough for the pod.

        Nodes in one state give one answer: 5,000 of them cost as many questions as there are states.
        """
        occupancy = self._model.table.occupancy
        if not occupancy.concerns(pod.shape):
            return np.ones(rows.shape, dtype=np.bool_)
        states = np.append(occupancy.states(Holding.ALL), NO_NODE)[rows]
        distinct, which = np.unique(states, return_inverse=True)
        takes = [state != NO_NODE and occupancy.offer(state, pod.shape, 1).pods > 0 for state in distinct.tolist()]
        aligned = np.array(takes, dtype=np.bool_)[which]
        slot = self._admission.reservations.ledger.single(pod.uid)
        if slot is not None:  # what is promised to the pod itself is taken, and its own
            aligned |= rows == self._model.table.row(slot.node)
        return aligned

    def _rejected(self, pod: Pod) -> NDArray[np.bool_]:
        """Return (rows + 1,) which nodes' kubelets turned away a pod that asks for the same; the last says no."""
        table = self._model.table
        rejected = np.zeros(table.rows + 1, dtype=np.bool_)
        rejected[self._admission.rejections.rows(pod.shape, table)] = True
        return rejected


def _named(names: Sequence[str], mask: NDArray[np.bool_]) -> list[str]:
    return list(compress(names, mask.tobytes()))
