"""What an explanation of a gang is worked out from, gathered at one moment: values and copies that stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from extender.admission.admission import Admission
from extender.admission.contender import Contender
from extender.admission.keep import Keep
from extender.admission.ledger import Slot
from extender.admission.queue import Walk, position
from extender.admission.sharing import NAMELESS, Option
from extender.admission.site import Demand, amounts_of
from extender.cluster.core import core_size
from extender.cluster.gangs import Gang
from extender.cluster.replica import Replica
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.domain.pod import Pod, Shape
from extender.domain.reason import Wait
from extender.quota.tree import Lack


@dataclass(frozen=True, slots=True)
class Offered:
    """Nodes of one flavor that a gang may be placed on, and what quota it lacks there; None if it has enough."""

    option: Option
    lack: Lack | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """What stood when somebody asked about a gang.

    Attributes:
        table: a copy of the nodes as they were.
        tree: which domain every node is in.
        gang: makes a copy of the gang as it was.
        demand: what the members ask for that it needs next, None if it needs none. Those are the ones that it cannot
            start without, else those beyond its minimum, else those that have scheduling gates.
        gated: whether these are held by scheduling gates.
        promised: by pod UID, the nodes that its own members are promised.
        queue: the name of its queue, "" for none.
        unusable: why nothing of it can start in its queue, whatever is free.
        options: where it may be placed, what it prefers first.
        keeps: what is kept for others and not for it to use.
        vetoed: rows of nodes that kube-scheduler refused to it, by shape.
        rejected: rows of nodes whose kubelet turned such pods away, by shape.
        reserved: what is promised to others: whose it is, and the slots.
        line: everybody who wants nodes, to be walked through in the order in which they are judged.
        turns: by queue, the sort key by which its turn comes.
        waits: gang UID -> why it waits.
        place: where a gang stands that is not in line itself.
        pods: every pod by UID, as it is now and not as it was: for looking up one at a time.
        now: when this was so (epoch seconds).
    """

    table: NodeTable
    tree: Tree
    gang: Callable[[], Gang]
    demand: Demand | None
    gated: bool
    promised: Mapping[str, str]
    queue: str
    unusable: Wait | None
    options: Sequence[Offered]
    keeps: Sequence[Keep]
    vetoed: Mapping[Shape, list[int]]
    rejected: Mapping[Shape, list[int]]
    reserved: Sequence[tuple[str, Sequence[Slot]]]
    line: Walk[Contender]
    turns: Mapping[str, tuple[object, ...]]
    waits: Mapping[str, Wait]
    place: Contender | None
    pods: Mapping[str, Pod]
    now: float


def gather(admission: Admission, gang: Gang, demand: Demand | None = None) -> Material:
    """Gather what an explanation of `gang` rests on; nothing is changed, and no more is read than is copied fast.

    The gang need not be one that the admission knows: then nothing that is remembered of one of its name counts for
    it, and it stands in line as if it came now. What it asks for, its `demand`, may have been worked out before:
    of thousands of members that takes milliseconds.
    Complexity: O(nodes + claims) copied in bulk, O(queues + reservations + kinds of members).
    """
    model, sharing, term = admission.model, admission.sharing, admission.term
    known = model.gangs.get(gang.ref) is gang
    contender = term.decider.queues.get(gang.ref) if known else None
    reservation = term.reservations.ledger.of_gang(gang.uid) if known else None
    promised = {} if reservation is None else {uid: slot.node for uid, slot in reservation.slots.items()}
    demand, gated = (demand, False) if demand is not None else _demand(gang, contender, len(promised))
    shapes = () if demand is None else tuple(shape for shape, _ in demand.shapes)
    queue = sharing.queue_of(gang)
    now = admission.clock.now().timestamp()
    keeps = _kept_from(gang, contender, admission, now)
    turns = _turns(admission, queue)
    return Material(
        table=Replica(model.table),
        tree=model.tree,
        gang=_copied(gang, frozenset(promised)),
        demand=demand,
        gated=gated,
        promised=promised,
        queue=queue,
        unusable=_unusable(admission, gang, queue, known=known),
        options=_offered(admission, gang, queue, demand, known=known),
        keeps=keeps,
        vetoed=term.vetoes.of_gang(gang.uid, model.table) if known else {},
        rejected={shape: rows for shape in shapes if (rows := admission.rejections.rows(shape, model.table))},
        reserved=_reserved(admission, gang if known else None),
        line=term.decider.queues.in_turn(turns.__getitem__),
        turns=turns,
        waits=dict(term.reservations.waits),
        place=None if contender is not None else Contender(gang, queue, position(gang), None),
        pods=model.pods,
        now=now,
    )


def _demand(gang: Gang, contender: Contender | None, slotted: int) -> tuple[Demand | None, bool]:
    """Return what the members ask for that a gang needs next, and whether gates hold these."""
    needed, asked = core_size(gang, slotted), None if contender is None else contender.core
    if contender is not None and asked is not None and (contender.gated or asked.demand.pods == needed):
        return asked.demand, contender.gated  # as it was counted when the gang last changed
    if needed:
        return Demand.of_gang(gang, needed), False
    if gang.unplaced_count:
        alone = replace(gang.topology, slices=(), role_groups=())  # those beyond the minimum are placed one by one
        counts = frozenset(gang.wanted.items())
        return Demand(counts, gang.packing, gang.unplaced_count, alone), False
    gates = [pod for pod in gang.members.values() if pod.gated and not (pod.deleting or pod.done or pod.node_name)]
    return (Demand.of_pods(gates, gang), True) if gates and not gang.has_minimum else (None, False)


def _copied(gang: Gang, promised: frozenset[str]) -> Callable[[], Gang]:
    """Return what makes a copy of a gang, as it is now, in whatever thread."""
    members, group, oldest = dict(gang.members), gang.group, gang.oldest_member

    def copy() -> Gang:
        twin = Gang(gang.ref, gang.uid, gang.first_seen, group, members, oldest)
        for uid in promised:
            twin.promise(uid)
        return twin

    return copy


def _unusable(admission: Admission, gang: Gang, queue: str, *, known: bool) -> Wait | None:
    sharing = admission.sharing
    wait = sharing.unusable(queue, gang.ref.namespace)
    # A stranger runs nowhere, whoever of its name does.
    return wait or sharing.barred(queue, gang.ref if known else replace(gang.ref, name=""))


def _offered(
    admission: Admission, gang: Gang, queue: str, demand: Demand | None, *, known: bool
) -> tuple[Offered, ...]:
    sharing = admission.sharing
    if queue == NAMELESS or demand is None:
        return (Offered(Option()),)
    sharing.charges.refresh()
    amounts = amounts_of(demand.shapes)
    held = sharing.charges.holders(queue).get(gang.ref, ()) if known else ()
    with sharing.charges.apart_from(gang.uid):
        return tuple(
            Offered(option, sharing.lack(queue, option, amounts)) for option in sharing.options(queue, amounts, held)
        )


def _kept_from(gang: Gang, contender: Contender | None, admission: Admission, now: float) -> tuple[Keep, ...]:
    """Return what a gang may not use: what its verdict rests on, or what it would find if it came now."""
    firm = admission.term.decider.firm
    if contender is not None and contender.judged_on is not None:
        keeps = contender.judged_on.keeps
    else:
        place = position(gang)
        keeps = (*(keep for keep in admission.heads if keep.position < place), *firm.values())
    cleared, duration = gang.uid in firm, gang.expected_duration
    return tuple(
        keep for keep in keeps if keep.gang is not gang and (keep.firm or not (cleared or keep.open_to(duration, now)))
    )


def _reserved(admission: Admission, gang: Gang | None) -> tuple[tuple[str, Sequence[Slot]], ...]:
    ledger = admission.reservations.ledger
    others = (each for each in ledger if gang is None or each.gang_uid != gang.uid)
    singles = ((slot.pod.key, (slot,)) for slot in ledger.singles())
    return (*((str(each.ref), tuple(each.slots.values())) for each in others), *singles)


def _turns(admission: Admission, queue: str) -> dict[str, tuple[object, ...]]:
    """Return the turns that `queue` has now, and those in which anybody waits."""
    queues, sharing = admission.term.decider.queues, admission.sharing
    names = (name for name in (NAMELESS, *sharing.queues) if queues.waiting(name))
    return {name: sharing.turn(name) for name in (queue, *names)}
