"""Nominations that have to be written again, and when."""

from __future__ import annotations

import heapq
import math
from typing import Final

from extender.admission.effects import Nomination
from extender.admission.ledger import Ledger, Reservation, Slot, SlotState
from extender.clock import Clock
from extender.cluster.model import ClusterModel
from extender.domain.pod import Pod

#: How often the pause between two nudges of one member doubles: from half a second to 16 s by default.
_LONGEST_NUDGE_DOUBLINGS: Final = 5

#: How often a nomination that was taken off is written again at once. A lost wake-up is rare; three in a row are
#: something else.
_MOST_LOSSES: Final = 3

#: After so many first pauses without a question kube-scheduler is taken to be idle: two seconds by default.
_IDLE_PAUSES: Final = 4


class Nudges:
    """Nominate again the members that should have come back to filter and did not.

    kube-scheduler clears a nomination that lands while an attempt for the pod is in flight, and nothing wakes the pod
    again; a nomination that still stands is cleared and set, which wakes it too. While others of the gang arrive,
    kube-scheduler is on its way through them, and nobody is nudged.

    Clearing has a price: kube-scheduler then tries every pod again whose priority is not higher, as if room had become
    free (updatePodInSchedulingQueue). With hundreds of them before a nominated pod in the queue, nudges would only keep
    it from ever being tried. So nominations that stand are left alone while kube-scheduler asks about any pod at all,
    except once in a longest pause.

    Members are looked at in a heap by the earliest time at which they could be due. What puts a nudge off (an arrival,
    a question) does not touch the heap: whoever comes up too early is put back.
    """

    def __init__(self, model: ClusterModel, ledger: Ledger, pause_seconds: float, clock: Clock) -> None:
        """Watch nobody; `pause_seconds` is the first pause before a member is nudged."""
        self._model = model
        self._ledger = ledger
        self._pause = pause_seconds
        self._clock = clock
        self._asked_at = self._stirred_at = -math.inf
        self._wakes: dict[str, float] = {}  # pod UID -> its entry of the heap that counts
        self._heap: list[tuple[float, str]] = []

    def asked(self) -> None:
        """Take in that kube-scheduler has asked about a pod: it is awake, and on its way through its queue."""
        self._asked_at = self._clock.monotonic()

    def watch(self, uid: str) -> None:
        """Look at the member when it is due; to be called when its slot is made or it could be due earlier."""
        entry = self._ledger.of_pod(uid)
        if entry is not None and entry[1].state is SlotState.RESERVED:
            self._push(uid, self._due(*entry, self._may_stir_at()))

    def lost(self, pod: Pod, slot: Slot) -> Nomination | None:
        """Return what to write when a nomination was taken off: the same again, after a few times nothing.

        kube-scheduler takes it off when the attempt fails during which it arrived: once more is enough. Where its own
        filters leave the pod no node, it takes off every one, and wakes the gang's other members with that: written
        again at once each time, it would go round as fast as both can write.
        """
        if slot.losses >= _MOST_LOSSES:
            return None
        slot.losses += 1
        slot.nominated_at = self._clock.monotonic()
        return Nomination(pod, slot.node)

    def due(self) -> list[Nomination]:
        """Return the nominations that are to be written again now."""
        now, stir_at = self._clock.monotonic(), self._may_stir_at()
        nominations = []
        while self._heap and self._heap[0][0] <= now:
            at, uid = heapq.heappop(self._heap)
            if self._wakes.get(uid) != at:
                continue
            del self._wakes[uid]
            entry = self._ledger.of_pod(uid)
            if entry is None or entry[1].state is not SlotState.RESERVED:
                continue
            reservation, slot = entry
            due = self._due(reservation, slot, stir_at)
            if now < due:
                self._push(uid, due)
                continue
            again = self._stands(slot)
            slot.nudges += 1
            slot.nominated_at = now
            if again:
                self._stirred_at = now
            nominations.append(Nomination(self._model.pods.get(uid, slot.pod), slot.node, again=again))
            self._push(uid, self._due(reservation, slot, self._may_stir_at()))
        return nominations

    def next(self) -> float | None:
        """Return when somebody may be due next (seconds, monotonic), or None; never later than somebody is."""
        while self._heap and self._wakes.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _push(self, uid: str, at: float) -> None:
        self._wakes[uid] = at
        heapq.heappush(self._heap, (at, uid))

    def _due(self, reservation: Reservation, slot: Slot, stir_at: float) -> float:
        """Return when to nominate the member again (seconds, monotonic) if nothing happens until then."""
        pause = self._pause * (1 << min(slot.nudges, _LONGEST_NUDGE_DOUBLINGS))
        due = max(slot.nominated_at + pause, reservation.progressed_at + pause, slot.expected_until)
        return max(due, stir_at) if self._stands(slot) else due

    def _stands(self, slot: Slot) -> bool:
        """Tell whether the pod shows the nomination that its slot calls for."""
        return self._model.pods.get(slot.pod.uid, slot.pod).nominated_node == slot.node

    def _may_stir_at(self) -> float:
        """Return from when on nominations that stand may be cleared and set (seconds, monotonic)."""
        longest = self._pause * (1 << _LONGEST_NUDGE_DOUBLINGS)
        return min(self._asked_at + _IDLE_PAUSES * self._pause, self._stirred_at + longest)
