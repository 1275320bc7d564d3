"""Who shares the cluster: which queue a gang is in, what is charged to it, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.admission.charges import Charges, Holder
from extender.admission.flavormasks import FlavorMasks
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.queue import Queue, QueueingStrategy, StopPolicy
from extender.domain.reason import Reason, Wait
from extender.placement.ground import Eligible
from extender.quota.history import History
from extender.quota.tree import Lack, QueueTree

#: The queue of whoever names none where no Queue is the default: without quota, and nobody else's to reclaim from.
NAMELESS = ""

#: How many names of queues an explanation lists.
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Option:
    """Nodes that a gang may be placed on: those of one flavor of its queue; of none, "", any."""

    flavor: str = ""
    selector: tuple[tuple[str, str], ...] = ()


ANYWHERE = (Option(),)


class Sharing:
    """Keep the queues, what is charged to each, and by whom.

    Attributes:
        charges: what is charged to the queues.
        queues: every Queue by name, those that cannot be used included.
    """

    def __init__(self, model: ClusterModel, clock: Clock, half_life: float | None = None) -> None:
        """Start without queues. Past usage counts with `half_life` (seconds), or not at all."""
        self._model = model
        self._clock = clock
        self.queues: dict[str, Queue] = {}
        self.charges = Charges(model, self.queue_of_pod)
        self._masks = FlavorMasks(model.table)
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._defaults: dict[str, str] = {}
        self._options: dict[tuple[str, ...], Sequence[Option]] = {}
        self._named: dict[GroupRef, str] = {}
        self._totals: tuple[int, Mapping[str, int]] = (-1, {})
        self.history = None if half_life is None else History(half_life)

    @property
    def tree(self) -> QueueTree:
        """Return the queues and what is charged to them."""
        return self.charges.tree

    # What is told.

    def put_queue(self, queue: Queue) -> bool:
        """Take in a Queue; return whether it decides anything otherwise than before."""
        before = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        if before is not None and _deciding(before) == _deciding(queue):
            return False
        if before is None and self.history is not None:
            self.history.load(queue)
        self._regrow()
        return True

    def drop_queue(self, name: str) -> bool:
        """Forget a Queue; return whether it was there."""
        if self.queues.pop(name, None) is None:
            return False
        if self.history is not None:
            self.history.forget(name)
        self._regrow()
        return True

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """Take in a namespace; return whether its queues may be others now."""
        if self._namespaces.get(name) == labels:
            return False
        self._namespaces[name] = labels
        if self.queues:
            self._regrow()
        return bool(self.queues)

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

    def queue_of_pod(self, pod: Pod) -> str:
        """Return the name of the queue of a pod, its gang's if it has one."""
        gang = self._model.gang_of(pod)
        if gang is not None:
            return self.queue_of(gang)
        return pod.options.queue or self._known(pod.options.peer_queue) or self._default(pod.namespace)

    def _known(self, name: str) -> str:
        return name if name in self.queues else ""

    def unusable(self, name: str, namespace: str) -> Wait | None:
        """Return why nothing of a namespace can start in a queue, whatever is free; None if it can."""
        if name == NAMELESS:
            return None
        names = {"queue": name}
        if name not in self.queues:
            known = sorted(self.queues)
            shown = ", ".join(known[:_MOST_NAMED]) or "none"
            more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
            return Wait(Reason.UNKNOWN_QUEUE, names=names | {"known": shown + more})
        if name not in self.tree:
            detail = "; ".join(map(str, self.tree.problems.get(name, ())))
            return Wait(Reason.INVALID_QUEUE, names=names | {"detail": detail})
        if not self.tree.admits(name, self._labels(namespace)):
            return Wait(Reason.NAMESPACE_NOT_ALLOWED, names=names | {"namespace": namespace})
        return None

    def barred(self, name: str, holder: Holder) -> Wait | None:
        """Return why nobody new may start in a queue just now; None for who runs there already, or if one may."""
        if name == NAMELESS or holder in self.charges.holders(name):
            return None
        for each in self.tree.path(name):
            queue = self.queues[each]
            if queue.stop_policy is not StopPolicy.NONE:
                return Wait(Reason.QUEUE_STOPPED, names={"queue": each, "policy": queue.stop_policy})
            if queue.max_running_gangs is not None and isinstance(holder, GroupRef):
                running = self.charges.running(each)
                if running >= queue.max_running_gangs:
                    numbers = {"running": running, "most": queue.max_running_gangs}
                    return Wait(Reason.TOO_MANY_RUNNING, numbers, {"queue": each})
        return None

    def drained(self) -> Iterator[tuple[str, Holder]]:
        """Iterate over who holds nodes in queues that are to be drained, with the queue that says so."""
        for name in self.tree:
            for each in self.tree.path(name):
                if self.queues[each].stop_policy is StopPolicy.HOLD_AND_DRAIN:
                    yield from ((each, holder) for holder in self.charges.holders(name))
                    break

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
            options = self._options[key] = self._open_to(name, amounts)
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

    def within(self, eligible: Eligible, option: Option) -> Eligible:
        """Return `eligible` without the nodes that are not of an option's flavor."""
        return self._masks.within(eligible, option.selector)

    def nodes_of(self, option: Option) -> NDArray[np.bool_]:
        """Return (rows,) which nodes are of an option's flavor."""
        return self._masks.of(option.selector)

    def lack(self, name: str, option: Option, amounts: Mapping[str, int]) -> Lack | None:
        """Return what quota a queue lacks for `amounts`; None if it has enough, or needs none."""
        return self.tree.lack(name, option.flavor, amounts) if name in self.tree else None

    def borrows(self, name: str, option: Option, amounts: Mapping[str, int]) -> bool:
        """Tell whether a queue would use more than its quota with `amounts` charged to it."""
        return name in self.tree and self.tree.borrows(name, option.flavor, amounts)

    def is_strict(self, name: str) -> bool:
        """Tell whether nobody in a queue may pass a gang that cannot start yet."""
        return name in self.tree and self.tree.queue(name).strategy is QueueingStrategy.STRICT_FIFO

    def root(self, name: str) -> str:
        """Return the root of the tree that a queue is in, itself if it is in none."""
        return self.tree.path(name)[-1] if name in self.tree else name

    def turn(self, name: str) -> tuple[object, ...]:
        """Return the sort key of a queue: who has less of its share goes first."""
        totals = self.totals()
        if name in self.tree:
            past = None if self.history is None else self.history.means
            # Names would decide before the gangs' own priority and age does, which is for the queue order to say.
            return tuple(key[:-1] for key in self.tree.standing(name, totals, past))
        usage = self.charges.unlimited_usage(name).items()
        used = max((amount / totals[resource] for resource, amount in usage if totals.get(resource)), default=0.0)
        return ((0, 0.0, used),)

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
            self.history.advance(self._clock.now().timestamp(), {name: self.tree.usage(name) for name in self.tree})

    def follow(self, gang: Gang) -> None:
        """Take in that a gang has changed: what its members hold goes with it from queue to queue."""
        name = self.queue_of(gang)
        if self._named.get(gang.ref, name) != name:
            self.charges.look_at(filter(self.charges.is_charged, gang.members))
        self._named[gang.ref] = name

    def forget(self, ref: GroupRef) -> None:
        """Forget a gang that is gone."""
        self._named.pop(ref, None)

    def _regrow(self) -> None:
        """Make the tree anew, and charge everything to it."""
        self._defaults.clear()
        self._options.clear()
        self.charges.regrow(QueueTree(self.queues.values()))

    def _default(self, namespace: str) -> str:
        if namespace not in self._defaults:
            self._defaults[namespace] = self.tree.default_for(namespace, self._labels(namespace))
        return self._defaults[namespace]

    def _labels(self, namespace: str) -> Mapping[str, str]:
        """Return a namespace's labels; of one that was not heard of, what every namespace has."""
        return self._namespaces.get(namespace, {"kubernetes.io/metadata.name": namespace})


def _deciding(queue: Queue) -> tuple[object, ...]:
    """Return all of a Queue but what its status says."""
    return (
        *(queue.uid, queue.parent, queue.flavors, queue.weight, queue.priority, queue.namespaces, queue.default),
        *(queue.strategy, queue.preemption, queue.max_running_gangs, queue.stop_policy, queue.problems),
    )
