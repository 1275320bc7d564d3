"""Hand out what is left to members beyond minMember: evenly among equals, one unit at a time.

A unit is a pod, or a pod with the others of its slice, or with those that its part of the gang cannot be without. The
queue whose turn it is has the next one. There the gang of the highest priority has it, of several the one with the
fewest members beyond its minimum, of these the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias

from extender.admission.cycle import Cycle, Entry
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.eviction.preemptions import Preemptions
from extender.judge import Case, judge
from extender.ledger.reservations import Reservations
from extender.objects.pod import Pod
from extender.objects.reason import Reason, Wait
from extender.placement.capacityview import Capacity, PodSet, PodSetRequest, settled_on
from extender.placement.joining import Joining
from extender.placement.plan import Plan
from extender.queues.sharing import NAMELESS, Option, Sharing

# Example. Eight GPUs are free for members of one GPU each; a has three more members, b five, c one of priority 10.
#
#   the next unit goes to   c   a   b   a   b   a   b   b
#   which makes             1   1   1   2   2   3   3   4   members beyond the minimum
#
# The fifth member of b finds no room. Where a slice has two members, each unit is two of them.


@dataclass(frozen=True, slots=True)
class Growth:
    """What came of the members of a gang beyond minMember: whether any have been `placed`, and who had no place.

    `short` is the first unit that had none, None if all have one or kube-scheduler refuses them. `larger` are ever more
    units, that first one among them.
    """

    entry: Entry
    placed: bool = False
    short: PodSet | None = None
    larger: tuple[PodSet, ...] = ()

    def case(self, pod_set: PodSet, cycle: Cycle) -> Case:
        """Return the case of some of the members: who is ahead of the gang in a strict queue started after it."""
        return _case(self.entry, pod_set, cycle)


_Rank: TypeAlias = tuple[object, ...]
_Waiting: TypeAlias = tuple[_Rank, Entry, Iterator[bool | Growth]]
"""By what the gangs of a queue are ranked, equal for none; the gang; and its units."""


class Extras:
    """Place members beyond minMember, as far as there is room and quota."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, reservations: Reservations, preemptions: Preemptions
    ) -> None:
        """Read the cluster, the queues and whether evictions may help, and reserve."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._preemptions = preemptions

    def place(self, entries: Iterable[Entry], cycle: Cycle) -> Iterator[Growth | None]:
        """Place units one after the other, and give way after each that was tried; yield what came of each gang."""
        lines: dict[str, list[_Waiting]] = {}
        for entry in entries:
            if entry.extras_judged_on != cycle.verdict_key(entry.queue):
                waiting = (_rank(entry), entry, self._units(entry, cycle))
                lines.setdefault(entry.queue, []).append(waiting)
        queues = [(self._sharing.turn(queue), queue) for queue in lines]
        heapify(queues)
        for line in lines.values():
            heapify(line)
        while queues:
            before, queue = queues[0]
            turn, line = self._sharing.turn(queue), lines[queue]
            if turn > before:  # units that others have had count for it too
                heapreplace(queues, (turn, queue))
                continue
            _, entry, units = line[0]
            tried = None if cycle.is_outdated(entry) else next(units, None)
            if tried is None or isinstance(tried, Growth):
                heappop(line)
            elif tried:
                self._sharing.charges.refresh()
                heapreplace(line, (_rank(entry), entry, units))
            if not line:
                heappop(queues)
            yield tried if isinstance(tried, Growth) else None

    def hold(self, entries: Iterable[Entry], cycle: Cycle, obstacle: Wait) -> None:
        """Let members beyond minMember wait for what keeps any from being placed, whatever room there is."""
        for entry in entries:
            entry.short, entry.extras_judged_on = obstacle, cycle.verdict_key(entry.queue)

    def _units(self, entry: Entry, cycle: Cycle) -> Iterator[bool | Growth]:
        """Try the units of a gang in turn; yield whether each has been placed, and at last what came of all."""
        gang, any_room = entry.gang, self._any_room(entry, cycle)
        entry.short = None if any_room else _none_fits(gang)
        if not any_room and not self._preemptions.may_help(gang, entry.queue):
            entry.extras_judged_on = cycle.verdict_key(entry.queue)
            return
        placed, short = False, None
        too_large: set[tuple[PodSetRequest, bool]] = set()  # and whether they may borrow
        settled, joining, spaces = settled_on(gang, self._model.table), self._joining(gang), gang.spaces
        seen: set[str] = set()
        for pod in gang.unplaced():
            tried: set[str] = set()
            for pod_set in (
                () if pod.uid in seen or pod.uid in gang.refused else _choices(pod, gang, joining, settled, spaces)
            ):
                uids, kept = [each.uid for each in pod_set.pods], any(map(gang.keeps, pod_set.pods))
                tried.update(uids)
                joined = pod_set if joining is None else joining.join(pod_set)
                if not too_large.isdisjoint(((pod_set.demand, kept), (joined.demand, kept))):
                    continue
                result = judge(_case(entry, joined, cycle)) if any_room else None
                if isinstance(result, Plan):
                    self._reservations.reserve(gang, {uid: gang.members[uid] for uid in uids}, result.nodes)
                    settled = settled_on(gang, self._model.table)
                    if joining is not None and not joining.begins.isdisjoint(uids):
                        joining = self._joining(gang)
                    placed, spaces, tried = True, spaces - len(uids), set(uids)
                    yield True
                    break
                if short is None:
                    short, entry.short = joined, entry.short if result is None else result.wait
                if any_room:
                    too_large.add((joined.demand, kept))
                    yield False
            seen |= tried
            if short is not None and not any_room:
                break
        entry.extras_judged_on = cycle.verdict_key(entry.queue)
        yield (
            Growth(entry, placed)
            if short is None
            else self._growth(entry, replace(short, settled=settled), placed=placed)
        )

    def _growth(self, entry: Entry, short: PodSet, *, placed: bool) -> Growth:
        """Return what came of a gang of which some have no place; with more of them, where they go one by one."""
        tree, topology = entry.gang.tree, entry.gang.topology
        one_by_one = not topology.has_parts and (tree is None or not tree.has_units)
        return Growth(entry, placed, short, tuple(_more(short, entry.gang.spaces)) if one_by_one else ())

    def _joining(self, gang: Gang) -> Joining | None:
        return Joining(gang, self._model.table, self._model.tree) if gang.topology.has_parts else None

    def _any_room(self, entry: Entry, cycle: Cycle) -> bool:
        """Tell whether any member without a place would find one: there may be thousands of no other shape."""
        pod_set = PodSet(entry.gang, PodSetRequest(frozenset(), entry.gang.packing, 0))
        case = cycle.case(pod_set, NAMELESS, cycle.verdict_key(NAMELESS))
        view = case.view(Option())
        eligible = case.eligible(view)
        return any(view.room(Capacity.FREE, shape, eligible) for shape in entry.gang.wanted)


def _none_fits(gang: Gang) -> Wait:
    """Say that no member beyond minMember has room, where none was judged by itself."""
    return Wait(Reason.INSUFFICIENT_CAPACITY, {"fits": 0, "minMember": min(gang.unplaced_count, gang.spaces)})


def _choices(pod: Pod, gang: Gang, joining: Joining | None, settled: Mapping[int, int], most: int) -> Iterator[PodSet]:
    """Yield what may be placed for the sake of one member, of up to `most`: of its part of the gang, or of its slice.

    One pod begins no slice and no role: where it joins others it goes to their domain, else as near as there is.
    """
    for unit in gang.units(pod):
        together = unit if joining is None or unit != [pod] else joining.with_slice(pod)
        together = [each for each in together if each.uid not in gang.refused]
        if len(together) == 1:
            alone = replace(gang.topology, slices=(), role_groups=())
            request = PodSetRequest(frozenset({(together[0].shape, 1)}), gang.packing, 1, alone)
        else:
            request = PodSetRequest.of_members(gang, together)
        if 0 < len(together) <= most:
            yield PodSet(gang, request, settled, _pods=together)


def _case(entry: Entry, pod_set: PodSet, cycle: Cycle) -> Case:
    """Return the case of members of a gang that has started: those ahead of it in a strict queue do not stop it."""
    return cycle.case(pod_set, entry.queue, cycle.verdict_key(entry.queue)._replace(ahead=""))


def _more(one: PodSet, most: int) -> Iterator[PodSet]:
    """Yield two of the pods like `one`, then four, and so on, and at last all of them."""
    (shape, _), *_ = one.demand.shapes
    alike = [pod for pod in one.gang.unplaced() if pod.shape == shape and pod.uid not in one.gang.refused][:most]
    count = 2
    while count // 2 < len(alike):
        some = alike[:count]
        request = replace(one.demand, shapes=frozenset({(shape, len(some))}), pods=len(some))
        yield PodSet(one.gang, request, one.settled, _pods=some)
        count *= 2


def _rank(entry: Entry) -> _Rank:
    """Return by what the gangs of a queue come in turn: priority, members beyond the minimum, and what comes first."""
    gang, position = entry.gang, entry.position
    return (*position[:3], gang.placed_count - gang.min_member, *position[3:])
