"""What can change a verdict: the rule by which a pass judges some gangs anew and leaves the others as they are."""

from __future__ import annotations

from extender.admission.ageing import Ageing
from extender.admission.reservations import Reservations
from extender.admission.vetoes import Vetoes
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel


class Changes:
    """Collect what a pass has to look at anew.

    The rule, on which the pass relies and which a property test compares with judging everybody every time:

    - What a gang is (fit to be placed, short of members, pausing, placed) depends on the gang alone: its pods and
      PodGroup, its slots, its pause, its vetoes, its age, whether it is being evicted, and how long its members have
      been away from the barrier. Whatever changes one of them takes the gang into `GangRegistry.changed`. Time is the
      exception: it changes pauses, vetoes, ages and expectations by itself, and `pass_time` asks for those.
    - Whether a gang fits that could be placed depends on its `Footing` besides. The verdict stands on an equal one.
      What is charged to queues follows from what is claimed, and so from the footing's generation.
    - What queues, namespaces and budgets say changes seldom, and then everybody is judged.
    - Whether a slot's node still holds it depends on that node, on what is taken of it, on the vetoes there and on
      how far the member has come. Whatever changes one of them takes the node into `NodeTable.touched`.
    - What a kubelet turned away is part of what its node admits: `NodeTable.reassess` changes the footing and marks the
      node.

    So who adds to what a verdict depends on, adds it here: to what marks a gang, to the footing, or to what marks a
    node.
    """

    def __init__(
        self, model: ClusterModel, reservations: Reservations, vetoes: Vetoes, ageing: Ageing, clock: Clock
    ) -> None:
        """Collect from these; nothing is known of them yet, so everything counts as changed."""
        self._model = model
        self._reservations = reservations
        self._vetoes = vetoes
        self._ageing = ageing
        self._clock = clock
        self.everything()

    def everything(self) -> None:
        """Count everything as changed."""
        self._model.gangs.touch_all()
        self._model.table.touch_all()

    def nothing(self) -> None:
        """Count everything as known: for as long as nobody decides."""
        self._model.gangs.changed.clear()
        self._model.table.touched.clear()

    def pass_time(self) -> bool:
        """Take in what time alone has changed; return whether anybody may be placed for it who could not before."""
        now = self._clock.monotonic()
        ended = [*self._reservations.backoff.ended(now), *self._vetoes.ended(now), *self._ageing.ended(now)]
        for gang_uid in (*ended, *self._reservations.missed(now)):
            self._model.gangs.touch(gang_uid)
        return bool(ended)

    def take_nodes(self) -> list[str]:
        """Hand over the nodes of which each slot is to be looked at anew."""
        table = self._model.table
        nodes, table.touched = list(table.touched), {}
        return nodes

    def take_gangs(self) -> list[Gang]:
        """Hand over the gangs that are to be judged anew in the order of their change, those included that are gone."""
        gangs = self._model.gangs
        changed, gangs.changed = list(gangs.changed.values()), {}
        return changed
