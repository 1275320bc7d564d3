"""What is charged to the queues: what gangs hold and are promised, and what is spoken for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from extender.cluster.model import ClusterModel
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.quota.tree import QueueTree

#: A gang, or the UID of a pod without one.
Holder: TypeAlias = GroupRef | str


@dataclass(frozen=True, slots=True)
class Charge:
    """What one pod of some priority takes of the quota of its queue."""

    holder: Holder
    queue: str
    flavor: str
    amounts: Mapping[str, int]
    priority: int = 0


class Charges:
    """Keep the tree of queues in step with what is claimed on nodes.

    Attributes:
        tree: the queues and what is charged to them; use it after `refresh`.
        before_refresh: called whenever something is about to be charged, for whoever repeats a history exactly.
    """

    def __init__(self, model: ClusterModel, queue_of_pod: Callable[[Pod], str]) -> None:
        """Charge what is claimed in `model` to the queues that `queue_of_pod` names."""
        self._model = model
        self._queue_of_pod = queue_of_pod
        self.tree = QueueTree(())
        self.before_refresh: Callable[[], None] = _unheard
        self._charges: dict[str, Charge] = {}
        self._promises: dict[str, tuple[Charge, tuple[str, ...]]] = {}
        self._leaving: set[str] = set()
        self._holders: dict[str, dict[Holder, dict[str, None]]] = {}
        self._usage: dict[str, Counter[str]] = {}
        self._priorities: dict[str, Counter[int]] = {}

    def regrow(self, tree: QueueTree) -> None:
        """Charge everything to other queues from now on."""
        self.tree = tree
        claimed = self._model.table.claimed
        self._model.table.claimed = dict.fromkeys([*self._charges, *claimed])
        self._charges.clear()
        self._holders.clear()
        self._usage.clear()
        self._priorities.clear()
        for charge, _ in self._promises.values():
            tree.charge(charge.queue, charge.flavor, charge.amounts)

    def refresh(self) -> None:
        """Charge to the queues what has been claimed since last time, and give back what has been released."""
        table = self._model.table
        if table.claimed:
            self.before_refresh()
            claimed, table.claimed = table.claimed, {}
            self.look_at(claimed)

    def look_at(self, uids: Iterable[str]) -> None:
        """Charge pods anew."""
        for uid in uids:
            self._recharge(uid)

    def running(self, name: str) -> int:
        """Count the gangs that hold nodes in a queue and those below it."""
        own = sum(1 for holder in self._holders.get(name, ()) if isinstance(holder, GroupRef))
        return own + sum(map(self.running, self.tree.children(name)))

    def holders(self, name: str) -> Mapping[Holder, Iterable[str]]:
        """Return who holds nodes in a queue, with the UIDs of the pods that do."""
        return self._holders.get(name, {})

    def of(self, uid: str) -> Charge | None:
        """Return what is charged for a pod; None if nothing is."""
        return self._charges.get(uid)

    def unlimited_usage(self, name: str) -> Mapping[str, int]:
        """Return what is held by whoever names a queue that is not in the tree, by resource."""
        return self._usage.get(name, {})

    def lowest_priority(self, name: str) -> int | None:
        """Return the lowest priority of pods that hold nodes in a queue, None if none do."""
        return min(self._priorities.get(name, ()), default=None)

    def is_charged(self, uid: str) -> bool:
        """Tell whether anything is charged for a pod."""
        return uid in self._charges

    def promise(self, uid: str, charge: Charge, leaving: Iterable[str]) -> None:
        """Charge what a gang asks for whose place is being cleared, and nothing for the pods that leave, ahead of time.

        So it is not to be had twice, until `withdraw`.
        """
        self.withdraw(uid)
        self._promises[uid] = (charge, tuple(dict.fromkeys(leaving)))
        self._leaving.update(self._promises[uid][1])
        self.look_at(self._promises[uid][1])
        self.tree.charge(charge.queue, charge.flavor, charge.amounts)

    def withdraw(self, uid: str) -> None:
        """Charge nothing ahead for a gang any more."""
        if uid in self._promises:
            charge, leaving = self._promises.pop(uid)
            self.tree.refund(charge.queue, charge.flavor, charge.amounts)
            self._leaving.difference_update(leaving)
            self.look_at(leaving)

    @contextmanager
    def apart_from(self, uid: str) -> Iterator[None]:
        """Look at the queues as a gang sees them: what is charged ahead for it is its own once the others have left."""
        if uid not in self._promises:
            yield
            return
        charge, leaving = self._promises[uid]
        self.tree.refund(charge.queue, charge.flavor, charge.amounts)
        staying = [each for each in map(self._charge_for, leaving) if each is not None]
        for each in staying:
            self.tree.charge(each.queue, each.flavor, each.amounts)
        try:
            yield
        finally:
            for each in staying:
                self.tree.refund(each.queue, each.flavor, each.amounts)
            self.tree.charge(charge.queue, charge.flavor, charge.amounts)

    def _recharge(self, uid: str) -> None:
        charge = self._charges.pop(uid, None)
        if charge is not None:
            self.tree.refund(charge.queue, charge.flavor, charge.amounts)
            self._hold(charge, uid, -1)
        charge = None if uid in self._leaving else self._charge_for(uid)
        if charge is not None:
            self._charges[uid] = charge
            self.tree.charge(charge.queue, charge.flavor, charge.amounts)
            self._hold(charge, uid, 1)

    def _charge_for(self, uid: str) -> Charge | None:
        """Return what a pod takes of the quota of its queue where it is, or is promised to be; None if nothing."""
        pod, claim = self._model.pods.get(uid), self._model.table.claim_of(uid)
        if pod is None or claim is None or not self._model.manages(pod):
            return None
        queue, amounts = self._queue_of_pod(pod), dict(claim.shape.requests)
        return Charge(pod.group or uid, queue, self._flavor(queue, claim.node, amounts), amounts, pod.priority)

    def _hold(self, charge: Charge, uid: str, sign: int) -> None:
        holders = self._holders.setdefault(charge.queue, {})
        uids = holders.setdefault(charge.holder, {})
        if sign > 0:
            uids[uid] = None
        else:
            uids.pop(uid, None)
            if not uids:
                del holders[charge.holder]
        priorities = self._priorities.setdefault(charge.queue, Counter())
        priorities[charge.priority] += sign
        if not priorities[charge.priority]:
            del priorities[charge.priority]
        if charge.queue not in self.tree:
            usage = self._usage.setdefault(charge.queue, Counter())
            for resource, amount in charge.amounts.items():
                usage[resource] += sign * amount

    def _flavor(self, queue: str, node_name: str, amounts: Mapping[str, int]) -> str:
        """Return the flavor that a pod on a node is charged to: the first of its queue that the node is of."""
        node = self._model.table.find(node_name)
        if queue not in self.tree or node is None:
            return ""
        for flavor in self.tree.flavors(queue):
            if not self.tree.limited(queue, flavor).isdisjoint(amounts) and all(
                node.labels.get(key) == value for key, value in self.tree.node_selector(queue, flavor)
            ):
                return flavor
        return ""


def _unheard() -> None:
    """Tell nobody."""
