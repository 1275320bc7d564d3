"""How the cluster is shared: which queue a gang is in, what is charged to it, and which queue is next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from types import MappingProxyType
from typing import NamedTuple

from extender.caches import SizedDict, size_of
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.objects.keys import PREFIX
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.queue import FairSharingStrategy, NonPreemptible, Queue, QueueingStrategy, StopPolicy
from extender.objects.reason import Reason, Wait
from extender.queues.charges import Charges, ShareHistory, payers_of
from extender.queues.defaults import admits, labels_of
from extender.queues.tree import QueueTree, QuotaShortage

#: The queue of gangs that name none where no Queue is the default: without quota, and no queue reclaims from it.
NAMELESS = ""

#: What the options may take that are remembered by queue and resources (bytes).
_OPTIONS_BYTES = 4 << 20

#: What pods ask for of whom all can be evicted, of what cannot.
_NO_AMOUNTS: Mapping[str, int] = MappingProxyType({})

#: Shares that differ by no more are equal: they are quotients of the same amounts.
_EQUAL_SHARES = 1e-9

#: How many names of queues an explanation lists.
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Option:
    """Nodes that a gang may be placed on: those of one flavor of its queue; of none, "", any."""

    flavor: str = ""
    selector: tuple[tuple[str, str], ...] = ()


ANYWHERE = (Option(),)


@dataclass(frozen=True, slots=True)
class FlavorOffer:
    """Nodes of one flavor that a gang may be placed on, as far as quota goes.

    `shortage` is what quota it lacks there, None if it has enough. `saved_for` names the gang that has waited for so
    long that no other may borrow, if this one would; "" if it may be placed there.
    """

    option: Option
    shortage: QuotaShortage | None = None
    saved_for: str = ""


class _Standing(NamedTuple):
    """What all charges of a gang depend on: who of it can be evicted if not all can, and its PodGroup's priority."""

    spare: frozenset[str] | None = None
    priority: int | None = None

    @classmethod
    def of(cls, gang: Gang) -> _Standing:
        """Return how a gang stands now."""
        priority = None if gang.group is None else gang.group.priority
        return cls(None if gang.preemptible else gang.spare, priority)


_ORDINARY = _Standing()


class Sharing:
    """Keep the queues, what is charged to each, and for which gangs.

    Attributes:
        charges: what is charged to the queues.
        queues: every Queue by name, those that cannot be used included.
        draining: the Queues that say that their gangs and those below them are to be evicted.
        consolidating: the Queues that say that their gangs move so that others fit.
        sparing: the Queues that keep nodes for repairs.
        timing: the Queues that say how long their gangs run at most.
        limiting: the Queues that say how much one user or one group may run.
    """

    def __init__(self, model: ClusterModel, clock: Clock, half_life: float | None = None) -> None:
        """Start without queues. Past usage counts with `half_life` (seconds), or not at all."""
        self._model = model
        self._clock = clock
        self.queues: dict[str, Queue] = {}
        self.draining: set[str] = set()
        self.consolidating: set[str] = set()
        self.sparing: set[str] = set()
        self.timing: set[str] = set()
        self.limiting: set[str] = set()
        self.charges = Charges(model, self.queue_of_pod)
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._defaults: dict[str, str] = {}
        self._options: SizedDict[tuple[str, ...], Sequence[Option]] = SizedDict(_OPTIONS_BYTES)
        self._names: dict[GroupRef, tuple[str, str]] = {}  # the queue, and what other schedulers' keys name
        self._gangs: dict[str, dict[GroupRef, None]] = {}  # by every name that they are, or might be, in
        self._standings: dict[GroupRef, _Standing] = {}  # of gangs that are not ordinary
        self._known_names = ""
        self._stirred: set[str] = set()  # roots of the trees that have changed
        self._totals: tuple[int, Mapping[str, int]] = (-1, {})
        self.history = None if half_life is None else ShareHistory(half_life)

    @property
    def tree(self) -> QueueTree:
        """Return the queues and what is charged to them."""
        return self.charges.tree

    @property
    def namespaces(self) -> Collection[str]:
        """Return the names of all namespaces."""
        return self._namespaces.keys()

    # What is told.

    def put_queue(self, queue: Queue) -> bool:
        """Take in a Queue; return whether it decides anything otherwise than before."""
        before = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        if before is not None and _deciding(before) == _deciding(queue):
            return False
        if before is None and self.history is not None:
            self.history.load(queue)
        self._follow(before or queue, lambda: self.tree.put(queue))
        return True

    def drop_queue(self, name: str) -> bool:
        """Forget a Queue; return whether it was there."""
        before = self.queues.pop(name, None)
        if before is None:
            return False
        if self.history is not None:
            self.history.forget(name)
        self._follow(before, lambda: self.tree.drop(name))
        return True

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """Take in a namespace; return whether its queues may be others now."""
        if self._namespaces.get(name) == labels:
            return False
        self._namespaces[name] = labels
        if not self.queues:
            return False
        default = self._defaults.get(name, NAMELESS)
        if self._renew(name):
            self._follow_default(name, default)
        concerned = [ref for ref in self._names if ref.namespace == name]
        self._touch(concerned)
        return bool(concerned)

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace; nothing can be created there any more."""
        self._namespaces.pop(name, None)
        self._defaults.pop(name, None)

    # Who is where.

    def queue_of(self, gang: Gang) -> str:
        """Return the name of a gang's queue, which need not exist: what it says, or the default of its namespace.

        What other schedulers' keys name counts only where there is such a Queue: it may be one of theirs.
        """
        return gang.queue or self._known(gang.peer_queue) or self._default(gang.ref.namespace)

    def queue_of_pod(self, pod: Pod) -> tuple[str, str]:
        """Return the queue of a pod's gang, and what other schedulers' keys name if that may count.

        Of a pod that belongs to no gang it is that of its namespace. What holds nodes stays in its queue if it is
        moved to one in which it could not start: that makes no room in the one, and takes none of the other.
        """
        gang = self._model.gang_of(pod)
        if gang is None:
            return self._default(pod.namespace), ""
        queue, peer = self.queue_of(gang), "" if gang.queue else gang.peer_queue
        if queue == NAMELESS or self.unusable(queue, gang.ref.namespace) is not None:
            queue = self._known(self.charges.queue_of(gang.members)) or queue
        return queue, peer

    def _known(self, name: str) -> str:
        return name if name in self.queues else ""

    def unusable(self, name: str, namespace: str) -> Wait | None:
        """Return why nothing of a namespace can start in a queue, whatever is free; None if it can."""
        if name == NAMELESS:
            return None
        names = {"queue": name}
        if name not in self.queues:
            return Wait(Reason.UNKNOWN_QUEUE, names=names | {"known": self._some_known()})
        if name not in self.tree:
            detail = "; ".join(map(str, self.tree.problems_of(name)))
            return Wait(Reason.INVALID_QUEUE, names=names | {"detail": detail})
        if not self.tree.admits(name, self._labels(namespace)):
            return Wait(Reason.NAMESPACE_NOT_ALLOWED, names=names | {"namespace": namespace})
        return None

    def _some_known(self) -> str:
        """Name some Queues, for gangs that name one which is not there."""
        if not self._known_names:
            shown = ", ".join(nsmallest(_MOST_NAMED, self.queues)) or "none"
            more = len(self.queues) - _MOST_NAMED
            self._known_names = f"{shown} and {more} more" if more > 0 else shown
        return self._known_names

    def barred(self, name: str, holder: GroupRef) -> Wait | None:
        """Return why no new gang may start in a queue now; None for a gang that runs there already, or if one may."""
        if name not in self.tree or holder in self.charges.holders(name):
            return None
        for each in self.tree.path(name):
            queue = self.queues[each]
            if queue.stop_policy is not StopPolicy.NONE:
                return Wait(Reason.QUEUE_STOPPED, names={"queue": each, "policy": queue.stop_policy})
            if queue.max_running_gangs is not None:
                running = self.tree.gangs(each)
                if running >= queue.max_running_gangs:
                    numbers = {"running": running, "most": queue.max_running_gangs}
                    return Wait(Reason.TOO_MANY_RUNNING, numbers, {"queue": each})
        return None

    def over_limit(self, name: str, uid: str, holder: GroupRef, pods: Iterable[Pod]) -> Wait | None:
        """Return why pods of a gang may not start beside what their users and groups run; None if they may.

        Those that are charged already take nothing more. Complexity: O(queues in which the users run anything).
        """
        path = self.tree.path(name) if name in self.tree else ()
        limits = [(each, limit) for each in path for limit in self.queues[each].limits]
        more: dict[tuple[str, str], int] = {}
        for pod in pods if limits else ():
            for payer in () if self.charges.is_charged(pod.uid) else payers_of(pod):
                more[payer] = more.get(payer, 0) + pod.shape.gpus
        for queue, limit in limits:
            for payer, asked in more.items():
                if payer[0] != limit.label:
                    continue
                with self.charges.apart_from(uid):
                    gpus, gangs = self.charges.running(payer, queue)
                for what, running, wanted, most in (
                    ("gangs", len(gangs), int(holder not in gangs), limit.gangs),
                    ("GPUs", gpus, asked, limit.gpus),
                ):
                    if most is not None and wanted and running + wanted > most:
                        kind = limit.label.removeprefix(PREFIX)
                        who = f"{kind} {payer[1]}" if payer[1] else f"all without a label {limit.label} together"
                        names = {"who": who, "what": what, "queue": queue}
                        return Wait(Reason.RUNNING_LIMIT, {"running": running, "most": most, "wanted": wanted}, names)
        return None

    def max_runtime(self, name: str) -> tuple[float, str] | None:
        """Return how long gangs of a queue run at most (seconds), and which of it and those above it says so."""
        if not self.timing or name not in self.tree:
            return None
        limits = ((self.queues[each].max_runtime, each) for each in self.tree.path(name))
        return min(((limit, each) for limit, each in limits if limit is not None), default=None)

    def drained(self) -> Iterator[tuple[str, GroupRef]]:
        """Iterate over who holds nodes in queues that are to be drained, with the queue that says so."""
        for name in filter(self.tree.__contains__, self.charges.held()):
            for each in self.tree.path(name):
                if each in self.draining:
                    yield from ((each, holder) for holder in self.charges.holders(name))
                    break

    def snapshot(self, name: str) -> Sharing:
        """Return a copy of the tree of a queue and of who holds nodes there, for whatever thread."""
        twin = copy(self)
        twin.charges = self.charges.snapshot(self.tree.part(name))
        return twin

    def apart(self) -> Sharing:
        """Return the same queues, whose use in time to come is tried on copies, in whatever thread."""
        twin = copy(self)
        vars(twin).update(charges=self.charges.apart(), _options=SizedDict(_OPTIONS_BYTES))
        return twin

    # What may be had.

    def options(self, name: str, amounts: Mapping[str, int], held: Iterable[str] = ()) -> Sequence[Option]:
        """Return where a gang of a queue may be placed, what it prefers first.

        A gang stays in the flavor in which it holds anything: `held` are the UIDs of its pods that may do.
        """
        if name not in self.tree:
            return ANYWHERE
        key = (name, *amounts)
        options = self._options.get(key)
        if options is None:
            options = self._options.keep(key, self._open_to(name, amounts), 1000 + 2 * size_of(key))
        kept = {charge.flavor for uid in held if (charge := self.charges.of(uid)) is not None}
        kept.discard("")
        return [option for option in options if option.flavor in kept] if kept else options

    def _open_to(self, name: str, resources: Iterable[str]) -> Sequence[Option]:
        """Return the flavors of a queue that have quota for all of these resources of which it has any."""
        tree = self.tree
        limits = {flavor: tree.limited(name, flavor) for flavor in tree.flavors(name)}
        asked = frozenset().union(*limits.values()).intersection(resources)
        if not asked:
            return ANYWHERE
        return [Option(flavor, tree.node_selector(name, flavor)) for flavor, has in limits.items() if asked <= has]

    def shortage(
        self, name: str, option: Option, amounts: Mapping[str, int], fixed: Mapping[str, int] = _NO_AMOUNTS
    ) -> QuotaShortage | None:
        """Return what quota a queue lacks for `amounts`; None if it has enough, or needs none.

        What is `fixed` of that is for pods that cannot be evicted: they would never give back what they borrow, so they
        have nominal quota alone unless their Queue says otherwise.
        """
        tree = self.tree
        if name not in tree:
            return None
        short = tree.shortage(name, option.flavor, amounts)
        if not fixed or tree.queue(name).preemption.non_preemptible is NonPreemptible.ANYWHERE:
            return short
        never = self.charges.nonpreemptible.shortage(tree, name, option.flavor, fixed)
        return short if never is None or (short is not None and short.ever) else never

    def borrows(self, name: str, option: Option, amounts: Mapping[str, int]) -> bool:
        """Tell whether a queue would use more than its quota with `amounts` charged to it."""
        return name in self.tree and self.tree.borrows(name, option.flavor, amounts)

    def is_strict(self, name: str) -> bool:
        """Tell whether no gang in a queue may pass one that cannot start yet."""
        return name in self.tree and self.tree.queue(name).strategy is QueueingStrategy.STRICT_FIFO

    def root(self, name: str) -> str:
        """Return the root of the tree that a queue is in, itself if it is in none."""
        return self.tree.root(name)

    def turn(self, name: str) -> tuple[object, ...]:
        """Return the sort key of a queue: who has less of its share goes first."""
        totals = self.totals()
        if name in self.tree:
            past = None if self.history is None else self.history.means
            # Names would decide before the gangs' own priority and age does, which is for the queue order to say.
            return tuple(key[:-1] for key in self.tree.standing(name, totals, past))
        usage = self.tree.usage(name).items()
        used = max((amount / totals[resource] for resource, amount in usage if totals.get(resource)), default=0.0)
        return ((0, 0.0, used),)

    def excess(self, name: str) -> tuple[tuple[float, int], ...]:
        """Return the sort key of a queue in use by which who is furthest above its weighted share gives back first.

        From the root down: what it borrows of its share, the most first, then its priority, the lowest first.
        """
        past = None if self.history is None else self.history.means
        keys = self.tree.standing(name, self.totals(), past)
        return tuple((-borrowed, -minus_priority) for minus_priority, borrowed, _, _ in keys)

    def evens(
        self, name: str, flavor: str, amounts: Mapping[str, int], other: str, leaving: Iterable[str] = ()
    ) -> bool:
        """Tell whether weighted shares even out if one queue takes `amounts`, and pods leave another of its tree.

        By the fair sharing strategy of the queue that takes: its share with them is no larger than that of the other
        once the pods with the UIDs `leaving` have left, or smaller than that before. What is nominal is no part of it.
        """
        tree, strategy = self.tree, self.tree.queue(name).preemption.fair_sharing
        if strategy is FairSharingStrategy.NEVER or tree.root(name) != tree.root(other):
            return False
        final = strategy is FairSharingStrategy.FINAL_SHARE
        tree.charge(name, flavor, amounts)
        try:
            with self.charges.without(leaving if final else ()):
                mine, theirs = tree.shares_where_they_meet(name, other, self.totals())
        finally:
            tree.refund(name, flavor, amounts)
        return mine <= theirs + _EQUAL_SHARES if final else mine < theirs - _EQUAL_SHARES

    def uneven(self, name: str, flavor: str, amounts: Mapping[str, int]) -> set[str]:
        """Return the other queues that have borrowed, and above whose shares a queue is not with `amounts`."""
        lent = (each for each in self.tree.charged_beside(name) if self.tree.borrows_from(each, name, flavor, amounts))
        return {each for each in lent if each != name and self.evens(name, flavor, amounts, each)}

    def totals(self) -> Mapping[str, int]:
        """Return how much of each resource the cluster has."""
        table = self._model.table
        if self._totals[0] != table.last_node_change:
            sums = table.allocatable[:, : table.rows].sum(axis=1).tolist()
            self._totals = table.last_node_change, dict(zip(table.resources, sums, strict=True))
        return self._totals[1]

    def remember(self) -> None:
        """Take what is charged now into the means of past usage, where those count."""
        if self.history is not None:
            usage = {name: self.tree.usage(name) for name in self.tree.charged()}
            self.history.advance(self._clock.now().timestamp(), usage)

    def follow(self, gang: Gang) -> None:
        """Take in that a gang has changed: what its members hold goes with it from queue to queue."""
        name, peer = self.queue_of(gang), gang.peer_queue
        before = self._names.get(gang.ref, (name, peer))
        known, now = self._standings.get(gang.ref, _ORDINARY), _Standing.of(gang)
        if before[0] != name or known != now:
            changed: Iterable[str] = gang.members
            one_by_one = known.spare is not None and now.spare is not None and known.priority == now.priority
            if before[0] == name and one_by_one:
                changed = (known.spare or frozenset()) ^ (now.spare or frozenset())
            charged = list(filter(self.charges.is_charged, changed))
            self.charges.look_at(charged)
            if charged and before[0] == name and gang.ref in self._names:
                self._model.table.outdate()  # others can have, or do have, less or more of what it holds
        if before != (name, peer):
            self.forget(gang.ref)
        self._names[gang.ref] = name, peer
        self._standings.pop(gang.ref, None)
        if now != _ORDINARY:
            self._standings[gang.ref] = now
        for each in (name, peer):
            self._gangs.setdefault(each, {})[gang.ref] = None

    def forget(self, ref: GroupRef) -> None:
        """Forget a gang that is gone."""
        self._standings.pop(ref, None)
        for name in self._names.pop(ref, ()):
            gangs = self._gangs.get(name, {})
            gangs.pop(ref, None)
            if not gangs:
                self._gangs.pop(name, None)

    def take_concerned(self) -> list[GroupRef]:
        """Hand over the gangs that changes of Queues concern, beside those that these changes have touched.

        They are those of the trees that changed, and those whose queue is not in use: what they are told may depend on
        any other.
        """
        stirred = self._stirred | set(map(self.tree.root, self.charges.shifted))
        self.forget_changes()
        found: list[GroupRef] = []
        for name, gangs in self._gangs.items() if stirred else ():
            if name != NAMELESS and (name not in self.tree or self.tree.root(name) in stirred):
                found += gangs
        return found

    def forget_changes(self) -> None:
        """Take in that whatever changes of Queues concern is known."""
        self._stirred.clear()
        self.charges.shifted.clear()

    def _follow(self, queue: Queue, change: Callable[[], Iterable[str]]) -> None:
        """Have a Queue changed in the tree, from or to `queue`.

        Pods are charged again whose queue has moved, or that are in another one now, and their gangs taken in again.
        """
        self._stirred.add(self.tree.root(queue.name))
        moved = change()
        self.charges.nonpreemptible.forget_tree()
        self._stirred.add(self.tree.root(queue.name))
        self._options.clear()
        self._known_names = ""
        now = self.queues.get(queue.name)
        self.draining -= {queue.name}
        self.consolidating -= {queue.name}
        self.sparing -= {queue.name}
        self.timing -= {queue.name}
        self.limiting -= {queue.name}
        if now is not None and now.stop_policy is StopPolicy.HOLD_AND_DRAIN:
            self.draining.add(queue.name)
        if now is not None and now.preemption.consolidation is not None:
            self.consolidating.add(queue.name)
        if now is not None and now.spares is not None:
            self.sparing.add(queue.name)
        if now is not None and now.max_runtime is not None:
            self.timing.add(queue.name)
        if now is not None and now.limits:
            self.limiting.add(queue.name)
        names = dict.fromkeys([queue.name, *moved])
        defaults = [each for each in (queue, *map(self.queues.get, names)) if each is not None and each.default]
        renewed: dict[str, str] = {}
        for namespace, default in list(self._defaults.items()) if defaults else ():
            labels = labels_of(namespace, self._labels(namespace))
            if any(default == each.name or admits(each, labels) for each in defaults) and self._renew(namespace):
                renewed[namespace] = default
        self.charges.look_at_queues(moved)
        for namespace, default in renewed.items():
            self._follow_default(namespace, default)
        self._touch(ref for name in names for ref in self._gangs.get(name, ()))

    def _renew(self, namespace: str) -> bool:
        """Find the default of a namespace again; return whether it was another one before, if it was known."""
        before = self._defaults.pop(namespace, None)
        return before is not None and self._default(namespace) != before

    def _follow_default(self, namespace: str, before: str) -> None:
        """Take in that the default of a namespace is another one."""
        self.charges.look_at_namespace(before, namespace)
        self._touch(ref for ref in self._gangs.get(before, ()) if ref.namespace == namespace)

    def _touch(self, refs: Iterable[GroupRef]) -> None:
        """Have gangs taken in again."""
        self._model.gangs.touch_called(refs)

    def _default(self, namespace: str) -> str:
        if namespace not in self._defaults:
            found = self.tree.default_for(namespace, self._labels(namespace)) if self.queues else NAMELESS
            self._defaults[namespace] = found
        return self._defaults[namespace]

    def _labels(self, namespace: str) -> Mapping[str, str]:
        """Return a namespace's labels; of an unknown one, what every namespace has."""
        return self._namespaces.get(namespace, {"kubernetes.io/metadata.name": namespace})


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """What a queue allows of members of one gang.

    `gang` is the gang's UID, `amounts` what the members ask for together. `patient` names the gang that has waited for
    so long that no other may borrow in this tree of queues, "" without one. `fixed` is what of that could not be
    evicted once it is placed.
    """

    sharing: Sharing
    gang: str
    queue: str
    amounts: Mapping[str, int]
    patient: str = ""
    fixed: Mapping[str, int] = field(default_factory=dict)

    def on(self, sharing: Sharing, amounts: Mapping[str, int] | None = None) -> QuotaCheck:
        """Return the same of a copy of the queues, and of other members perhaps, which ask for `amounts`."""
        if amounts is None:
            return replace(self, sharing=sharing)
        fixed = amounts if self.fixed == self.amounts else self.fixed
        return replace(self, sharing=sharing, amounts=amounts, fixed=fixed)

    def offer(self, option: Option, leaving: Iterable[str] = ()) -> FlavorOffer:
        """Return what the queue allows in one flavor once the pods with the UIDs `leaving` have left."""
        sharing, queue, amounts = self.sharing, self.queue, self.amounts
        with sharing.charges.apart_from(self.gang), sharing.charges.without(leaving):
            shortage = sharing.shortage(queue, option, amounts, self.fixed)
            borrows = shortage is None and self.patient and sharing.borrows(queue, option, amounts)
            return FlavorOffer(option, shortage, self.patient if borrows else "")

    def given_back(self, uid: str) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Yield what a pod gives back of what its queue is limited in: (queue, flavor, resource) and the amount."""
        charges = self.sharing.charges
        charge = charges.of(uid)
        if charge is not None and charge.queue in charges.tree:
            for resource in charge.amounts.keys() & charges.tree.limited(charge.queue, charge.flavor):
                yield (charge.queue, charge.flavor, resource), charge.amounts[resource]


def _deciding(queue: Queue) -> tuple[object, ...]:
    """Return all of a Queue but what its status says."""
    return (
        *(queue.uid, queue.parent, queue.flavors, queue.weight, queue.priority, queue.namespaces, queue.default),
        *(queue.strategy, queue.preemption, queue.max_running_gangs, queue.stop_policy, queue.spares),
        *(queue.limits, queue.max_runtime),
        queue.problems,
    )
