"""The case of one gang at the moment of a question, on copies, with what people ask about besides.

Values are gathered on the event loop and copied in bulk, once for all questions about one state; the case is made of
them in whatever thread reads it, and whatever is tried on it has no consequences. It is decided by the same `judge` as
in the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from extender.admission.admission import Admission
from extender.admission.cycle import Entry
from extender.admission.verdicts import KindVerdict
from extender.cluster.gangs import Gang, core, core_size, next_unit
from extender.cluster.tree import Tree
from extender.cluster.whatif import Replica
from extender.explain.copies import Copies, WaitingLine, views_of
from extender.judge import Case, joined
from extender.ledger.slots import Slot
from extender.objects.pod import Pod
from extender.placement.capacityview import CapacityViews, PodSet, PodSetRequest, RowsOf, settled_on
from extender.placement.plan import plan
from extender.queues.order import position
from extender.queues.sharing import Option


@dataclass
class Inquiry:
    """The state at the moment of a question about a gang.

    Attributes:
        table: a copy of the nodes as they were.
        views: what is free on that.
        live: the case as it stood; it is for `case` to put it on the copy.
        copy: makes a copy of the gang as it was, in whatever thread.
        gated: whether the members of the case are held by scheduling gates.
        promised: by pod UID, the nodes that its own members are promised.
        reserved: what is promised to others: whose it is, and the slots.
        line: all that want nodes, in the order of the queue; with the gang itself, as if it came now, if it is not
            known.
        awaiting: UIDs of the gangs that have their nodes promised, and so wait for none.
        waiting: how many other gangs wait, for whatever.
        pods: every pod by UID, as it is now and not as it was: for looking up one at a time.
    """

    table: Replica
    views: CapacityViews
    live: Case
    copy: Callable[[], Gang]
    gated: bool
    promised: Mapping[str, str]
    reserved: Sequence[tuple[str, Sequence[Slot]]]
    line: WaitingLine
    awaiting: Collection[str]
    waiting: int
    pods: Mapping[str, Pod]

    @property
    def tree(self) -> Tree:
        """Return which domain every node is in."""
        return self.views.tree

    @property
    def gang(self) -> Gang:
        """Return the copy of the gang."""
        return self.case.gang

    @cached_property
    def case(self) -> Case:
        """Return the case on the copies; its pod set is empty if no member needs a place. Complexity: O(members)."""
        gang, request = self.copy(), self.live.pod_set.demand
        parts = next_unit(gang) if not self.gated and _grows_by_part(gang) else None
        pods = _gated(gang.ordered())[: request.pods] if self.gated else parts or core(gang, request.pods)
        others = not self.gated and request.pods < gang.unplaced_count
        pod_set = PodSet(gang, request, settled_on(gang, self.table), has_others=others, _pods=pods)
        pod_set = joined(pod_set, self.table, self.tree)
        return replace(self.live, pod_set=pod_set, views=self.views, planner=plan)

    @property
    def option(self) -> Option:
        """Return the nodes that the gang is explained on: of its first flavor with quota, else of its first."""
        with_quota = sorted(self.case.offers, key=lambda each: 0 if each.shortage is None else 1 + each.shortage.ever)
        return with_quota[0].option if with_quota else Option()


def inquire(
    admission: Admission, gang: Gang, now: float, request: PodSetRequest | None = None, copies: Copies | None = None
) -> Inquiry:
    """Gather what an explanation of `gang` at `now` (epoch seconds) rests on; nothing is changed.

    No more is read than is copied fast.

    The gang need not be one that the admission knows: then nothing that is remembered of one of its name counts for
    it, and it stands in line as if it came now. What it asks for, its `request`, may have been worked out before:
    of thousands of members that takes milliseconds. Questions that share `copies` are answered one by one, and nothing
    is tried for them that is not taken back; without, the copies are the question's own.
    Complexity: O(nodes + claims) copied in bulk unless they are shared, O(queues + reservations + kinds of members).
    """
    model, sharing, tenure = admission.model, admission.sharing, admission.tenure
    decider = tenure.decider
    known = model.gangs.get(gang.ref) is gang
    entry = decider.queues.get(gang.ref) if known else None
    reservation = tenure.reservations.ledger.of_gang(gang.uid) if known else None
    promised = {} if reservation is None else {uid: slot.node for uid, slot in reservation.slots.items()}
    request, gated = (request, False) if request is not None else _needed(gang, entry, len(promised))
    pod_set = PodSet(gang, request or PodSetRequest(frozenset(), gang.packing, 0))
    queue = sharing.queue_of(gang)
    case = admission.case(pod_set, now=now)
    copies, waits = copies or Copies(), tenure.reservations.waits
    pauses = gang.uid in waits or (known and (admission.wait_of(gang) is not None or not model.looks_after(gang)))
    stands = request is not None and not pauses and sharing.unusable(queue, gang.ref.namespace) is None
    if entry is None and stands:
        borrows = bool(queue) and decider.cycle.borrows(pod_set, queue, known=known)
        walk = decider.queues.in_turn({name: sharing.turn(name) for name in {queue, *decider.queues.names}}.__getitem__)
        walk.join(Entry(gang, queue, position(gang), pod_set, shared=KindVerdict(borrows=borrows)))
        line = WaitingLine(walk)
    else:
        line = copies.line(admission)
    rows_of: RowsOf | None = None
    if admission.rejections.ends:
        rejected = {shape: admission.rejections.rows(shape, model.table) for shape, _ in pod_set.demand.shapes}
        rows_of = (lambda shape: rejected.get(shape, ())) if any(rejected.values()) else None
    nodes = copies.nodes(admission)
    return Inquiry(
        table=nodes.table,
        views=views_of(admission, nodes, rows_of),
        live=case,
        copy=copying(gang, frozenset(promised)),
        gated=gated,
        promised=promised,
        reserved=_reserved(admission, gang if known else None),
        line=line,
        awaiting=frozenset(tenure.reservations.awaiting),
        waiting=len(waits) - (gang.uid in waits),
        pods=model.pods,
    )


def _needed(gang: Gang, entry: Entry | None, slotted: int) -> tuple[PodSetRequest | None, bool]:
    """Return what the members ask for that a gang needs next, None if it needs none, and whether gates hold these.

    They are those that it cannot start without, else those beyond its minimum, else those that have scheduling gates.
    """
    needed, asked = core_size(gang, slotted), None if entry is None else entry.core
    if entry is not None and asked is not None and (entry.gated or asked.demand.pods == needed):
        return asked.demand, entry.gated  # as it was counted when the gang last changed
    if needed:
        return PodSetRequest.of_gang(gang, needed), False
    if gang.spaces and _grows_by_part(gang):
        return PodSetRequest.of_members(gang, next_unit(gang)), False
    if gang.spaces:
        alone = replace(gang.topology, slices=(), role_groups=())  # those beyond the minimum are placed one by one
        counts = frozenset(gang.wanted.items())
        return PodSetRequest(counts, gang.packing, gang.unplaced_count, alone), False
    gates = _gated(gang.members.values())
    if not gates or gang.has_minimum:
        return None, False
    return PodSetRequest.of_members(gang, gates), True


def _grows_by_part(gang: Gang) -> bool:
    """Tell whether what joins a gang next is what a part of it lacks."""
    return gang.tree is not None and gang.tree.has_units and gang.has_core


def _gated(members: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in members if pod.gated and not (pod.deleting or pod.done or pod.node_name)]


def copying(gang: Gang, promised: Iterable[str] = ()) -> Callable[[], Gang]:
    """Return what makes a copy of a gang, as it is now, in whatever thread."""
    members, group, oldest, refused = dict(gang.members), gang.group, gang.oldest_member, dict(gang.refused)
    weighed = gang.weighed

    def copy() -> Gang:
        twin = Gang(gang.ref, gang.uid, gang.first_seen, group, members, oldest)
        twin.promise(promised)
        twin.refused |= refused
        twin.weighed = weighed
        return twin

    return copy


def _reserved(admission: Admission, gang: Gang | None) -> tuple[tuple[str, Sequence[Slot]], ...]:
    ledger = admission.reservations.ledger
    others = (each for each in ledger if gang is None or each.gang_uid != gang.uid)
    return tuple((str(each.ref), tuple(each.slots.values())) for each in others)
