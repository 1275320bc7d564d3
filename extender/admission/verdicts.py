"""What a verdict about a gang rests on, and of which others it is true: of many that are alike one is evaluated.

A gang is of a kind if all that its verdict rests on, beside the `VerdictKey`, is written in the kind. Whatever else
could make a difference to it, such as members that have a node, vetoes, or a place that is being cleared for it, makes
it like no other: it is evaluated for itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.table import NodeTable
from extender.ledger.earmark import Earmark
from extender.ledger.rejections import Vetoes
from extender.ledger.reservations import Reservations
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.placement.capacityview import PodSet
from extender.queues.ageing import Ageing
from extender.queues.charges import payers_of
from extender.queues.sharing import Sharing

#: Reasons that say nothing of the one gang alone that was judged, or only what `wait_of` puts right.
TRUE_OF_KINDS: Final = frozenset(
    {
        Reason.BEHIND_HEAD,
        Reason.BEHIND_IN_QUEUE,
        Reason.DOMAIN_FULL,
        Reason.EXCEEDS_CLUSTER,
        Reason.EXCEEDS_DOMAIN,
        Reason.EXCEEDS_QUOTA,
        Reason.INSUFFICIENT_CAPACITY,
        Reason.KEPT_FOR_REPAIRS,
        Reason.NEVER_ALIGNED,
        Reason.NO_NODE_MATCHES,
        Reason.QUEUE_STOPPED,
        Reason.QUOTA_EXCEEDED,
        Reason.REJECTED_BY_KUBELET,
        Reason.RUNNING_LIMIT,
        Reason.TOO_MANY_RUNNING,
        Reason.WRITES_BACKLOGGED,
        Reason.ZONES_FULL,
    }
)


#: Reasons that only more room on some node puts an end to, whatever else is taken meanwhile.
ENDED_BY_ROOM: Final = frozenset(
    {Reason.BEHIND_HEAD, Reason.DOMAIN_FULL, Reason.INSUFFICIENT_CAPACITY, Reason.ZONES_FULL}
)


class VerdictKey(NamedTuple):
    """What a verdict about a gang rests on apart from the gang itself.

    `generation` is that of the node table: it grows with every change of a node and of what is taken there, and so of
    what is charged to queues. `earmarks` are what is kept for others. `obstacle` is why no gang at all is placed.
    `ahead` is the gang that keeps all behind it in its queue waiting, "" without one. With `frugal` no gang of its
    tree of queues may borrow.
    """

    generation: int
    earmarks: tuple[Earmark, ...]
    obstacle: Wait | None
    ahead: str = ""
    frugal: bool = False


@dataclass(slots=True)
class KindVerdict:
    """What is true of all gangs of a kind in a queue: it is found out about one of them.

    Who `borrows` would take the queue beyond its quota, when that was last asked; who `is_deferred` came after the
    others, because the namespace has had reservations in vain. As long as no node has changed since `hopeless_since`, a
    generation of the node table, they would not fit if all of them were empty. None of them starts on `verdict_on`, for
    the reason `wait`, and nothing can be done for them that is not done already. All have been told of `told`, but for
    those that are `untold`: who came since, and who was evaluated for itself.
    """

    borrows: bool = False
    is_deferred: bool = False
    hopeless_since: int = -1
    verdict_on: VerdictKey | None = None
    wait: Wait | None = None
    told: Wait | None = None
    untold: dict[GroupRef, None] = field(default_factory=dict)


def kind_of(gang: Gang, core: PodSet, *, by_payer: bool) -> Hashable | None:
    """Return the kind of a gang that waits for `core`, None if it is like no other.

    No member has a node or the promise of one, and all that it waits for ask for the same. With `by_payer` it depends
    on the user and the group of its pods how much may run.
    """
    demand, group = core.demand, gang.group
    if gang.unplaced_count < len(gang.members) or core.has_others or len(demand.shapes) > 1 or gang.role_minimums:
        return None
    if demand.topology.preferred or demand.sequence or (group is not None and group.min_resources):
        return None
    payers = tuple(payers_of(pod) for pod in core.pods) if by_payer else ()
    rights = gang.priority, gang.never_preempts, gang.preemptible
    return gang.ref.namespace, demand, gang.min_member, rights, gang.expected_duration, payers


def wait_of(shared: KindVerdict, core: PodSet) -> Wait | None:
    """Return why a gang waits for `core`, by the verdict on its kind."""
    wait = shared.wait
    if wait is None or wait.reason is not Reason.NO_NODE_MATCHES:
        return wait
    return replace(wait, names={**wait.names, "unplaceable": core.pods[0].key})


class FreedRoom:
    """Know whom room could help that was given back since they were told that there is none."""

    def __init__(self, table: NodeTable) -> None:
        """Look at the nodes of `table`."""
        self._table = table
        self._generation = -1
        self._most: dict[int, Mapping[str, int] | None] = {}

    def may_help(self, asks: Iterable[Iterable[tuple[str, int]]], since: int, *, anybody: bool) -> bool:
        """Tell whether members might fit on nodes where they did not at a generation of the table.

        Each of them `asks` for so much of some resources, or for more. They may not where every claim that was given
        back left less free than that. With `anybody`, whatever was given back may help: of quota it is not known on
        which nodes.
        """
        if since < self._table.last_node_change:
            return True
        most = self._most_since(since)
        if most is None or anybody:
            return most is not None
        for requests in asks:  # asked for every gang that waits: no calls
            for resource, value in requests:
                if value > most.get(resource, value):
                    break
            else:
                return True
        return False

    def any_since(self, generation: int) -> bool:
        """Tell whether any node has changed, or anything was given back, since a generation of the table."""
        return generation < self._table.last_node_change or self._most_since(generation) is not None

    def _most_since(self, generation: int) -> Mapping[str, int] | None:
        table = self._table
        if self._generation != table.generation:
            self._generation = table.generation
            self._most.clear()
        if generation not in self._most:
            self._most[generation] = table.most_freed(generation)
        return self._most[generation]


class Changes:
    """Collect what a pass has to look at again.

    The rule, on which the pass relies and which a property test compares with judging every gang every time:

    - What a gang is (fit to be placed, short of members, pausing, placed) depends on the gang alone: its pods and
      PodGroup, its slots, its pause, its vetoes, its age, whether it is being evicted, and how long its members have
      been away from the barrier. Whatever changes one of them takes the gang into `GangRegistry.changed`. Time is the
      exception: it changes pauses, vetoes, ages and expectations by itself, and `pass_time` asks for those.
    - Whether a gang fits that could be placed depends on its `VerdictKey` besides. The verdict stands on an equal one.
      What is charged to queues follows from what is claimed, and so from the key's generation.
    - What a Queue says concerns the gangs in it and in the queues that it moves, which are marked at once, and then
      those of its tree and those whose queue is not in use: `Sharing.take_concerned` has these for the next pass. What
      a namespace says concerns its gangs.
    - Whether a slot's node still holds it depends on that node, on what is taken of it, on the vetoes there and on
      how far the member has come. Whatever changes one of them takes the node into `NodeTable.touched`.
    - What a kubelet rejected is part of what its node admits: `NodeTable.reassess` changes the key and marks the
      node.

    Whatever a verdict is to depend on besides is added here: to what marks a gang, to the key, or to what marks a
    node.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - whatever a verdict stands on
        self,
        model: ClusterModel,
        sharing: Sharing,
        reservations: Reservations,
        vetoes: Vetoes,
        ageing: Ageing,
        clock: Clock,
    ) -> None:
        """Collect from these; nothing is known of them yet, so everything counts as changed."""
        self._model = model
        self._sharing = sharing
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
        """Count everything as known: for as long as this replica does not decide."""
        self._model.gangs.changed.clear()
        self._model.table.touched.clear()
        self._sharing.forget_changes()

    def pass_time(self) -> bool:
        """Take in what time alone has changed; return whether a gang may be placed for it now."""
        now = self._clock.monotonic()
        ended = self._reservations.backoff.ended(now)
        if self._vetoes.ends:
            ended += self._vetoes.ended(now)
        ended += self._ageing.ended(now)
        for gang_uid in (*ended, *self._reservations.missed(now)):
            self._model.gangs.touch(gang_uid)
        return bool(ended)

    def take_nodes(self) -> list[str]:
        """Hand over the nodes of which each slot is to be looked at again."""
        table = self._model.table
        nodes, table.touched = list(table.touched), {}
        return nodes

    def take_gangs(self) -> list[Gang]:
        """Hand over the gangs to evaluate again, in the order of their change, those included that are gone."""
        gangs = self._model.gangs
        for gang in filter(None, map(gangs.get, self._sharing.take_concerned())):
            gangs.changed[gang.ref] = gang
        changed, gangs.changed = list(gangs.changed.values()), {}
        return changed
