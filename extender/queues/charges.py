"""What is charged to the queues: what gangs hold and are promised, what is spoken for, and decayed past usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from extender.caches import size_of, sized_cache
from extender.cluster.claims import Claim
from extender.cluster.model import ClusterModel
from extender.objects.keys import GROUP, USER
from extender.objects.meta import read_timestamp
from extender.objects.pod import CHARGED, Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Queue
from extender.queues.member import age_of, sum_of
from extender.queues.nonpreemptible import NonPreemptibleUse
from extender.queues.tree import QueueTree

#: GPUs and gangs that each payer, as (label, value), runs.
Running: TypeAlias = dict[tuple[str, str], tuple[int, set[GroupRef]]]

_NOTHING: Mapping[str, float] = MappingProxyType({})

#: A mean below this (milli-CPU, bytes, counts) is forgotten, so that a resource that is used no more goes away.
_NEGLIGIBLE = 1e-3

_AMOUNTS_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class _Past:
    """The mean usage as of `at` (epoch seconds), and what has been used since, None where it is unknown."""

    at: float
    mean: Mapping[str, float]
    used: Mapping[str, float] | None


class ShareHistory:
    """Exponentially decayed mean usage of each queue.

    Of a usage that stays the same, half is in the mean after one half-life, three quarters after two. What is told at
    one moment holds until the next is told, so it does not matter how often that is.

    Attributes:
        means: by queue and resource; a new mapping after each change.
    """

    def __init__(self, half_life: float) -> None:
        """Start without a past; `half_life` is in seconds, above 0."""
        if not half_life > 0:
            msg = f"half-life of {half_life} s: must be above 0"
            raise ValueError(msg)
        self._half_life = half_life
        self._pasts: dict[str, _Past] = {}
        self.means: Mapping[str, Mapping[str, float]] = _NO_MEANS

    def advance(self, now: float, usage: Mapping[str, Mapping[str, float]]) -> None:
        """Bring the means to `now` (epoch seconds), from which on each queue uses `usage`.

        A queue that is not in `usage` uses nothing; one that used nothing before either is forgotten. A clock that goes
        backwards changes nothing of the means.
        """
        for name in self._pasts.keys() | usage.keys():
            used = dict(usage.get(name, _NOTHING))
            past = self._pasts.get(name) or _Past(now, {}, used)
            at = max(now, past.at)
            # What ran while Muster did not, as during a restart, is taken to be what runs now.
            mean = self._decay(past.mean, used if past.used is None else past.used, at - past.at)
            if mean or used:
                self._pasts[name] = _Past(at, mean, used)
            else:
                self._pasts.pop(name, None)
        self._publish()

    def of(self, queue: str) -> Mapping[str, float]:
        """Return the mean usage of a queue by resource, as of `as_of`."""
        return self.means.get(queue, _NOTHING)

    def as_of(self, queue: str) -> float | None:
        """Return the moment that the mean usage of a queue is of (epoch seconds), None if nothing is known of it."""
        past = self._pasts.get(queue)
        return None if past is None else past.at

    def load(self, queue: Queue) -> None:
        """Take up what a Queue's status remembers, unless more recent news is known of that queue."""
        at = read_timestamp(queue.history_at)
        known = self._pasts.get(queue.name)
        if at is None or (known is not None and known.at >= at):
            return
        self._pasts[queue.name] = _Past(at, dict(queue.history), None)
        self._publish()

    def forget(self, queue: str) -> None:
        """Forget a queue that is gone."""
        if self._pasts.pop(queue, None) is not None:
            self._publish()

    def _decay(self, mean: Mapping[str, float], used: Mapping[str, float], seconds: float) -> dict[str, float]:
        kept = 0.5 ** (seconds / self._half_life)
        new: dict[str, float] = {}
        for resource in mean.keys() | used.keys():
            now = used.get(resource, 0.0)
            value = now + (mean.get(resource, 0.0) - now) * kept
            if value > _NEGLIGIBLE:
                new[resource] = value
        return new

    def _publish(self) -> None:
        self.means = {name: past.mean for name, past in self._pasts.items()}


_NO_MEANS: Mapping[str, Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Charge:
    """What one pod of some priority takes of the quota of its queue, and whether it can be evicted.

    The `priority` is its PodGroup's, where that has one.
    `peer` is the queue that its gang would be in if there were one of that name, "" if there is no question. `payers`
    are its user and its group as (label, value), and `gpus` what it takes of their limits.
    """

    holder: GroupRef
    queue: str
    flavor: str
    amounts: Mapping[str, int]
    priority: int = 0
    peer: str = ""
    preemptible: bool = True
    payers: tuple[tuple[str, str], ...] = ()
    gpus: int = 0


@dataclass(slots=True)
class RunningUse:
    """What a user or a group runs in one queue: GPUs, and how many pods of which gangs."""

    gpus: int = 0
    pods: Counter[GroupRef] = field(default_factory=Counter)


class Charges:
    """Keep the tree of queues in step with what is claimed on nodes.

    Attributes:
        tree: the queues and what is charged to them; use it after `refresh`.
        nonpreemptible: what of that is charged to pods that cannot be evicted.
        shifted: the queues between which charges went over since the reader emptied it.
    """

    def __init__(self, model: ClusterModel, queue_of_pod: Callable[[Pod], tuple[str, str]]) -> None:
        """Charge the pods of `model` to the queue that `queue_of_pod` names, which may be a peer's."""
        self._model = model
        self._queue_of_pod = queue_of_pod
        self.tree = QueueTree()
        self.nonpreemptible = NonPreemptibleUse()
        self.shifted: set[str] = set()
        self._charges: dict[str, Charge] = {}
        self._promises: dict[str, tuple[Charge, tuple[str, ...]]] = {}
        self._leaving: set[str] = set()
        self._let_go: frozenset[str] = frozenset()
        self._holders: dict[str, dict[GroupRef, dict[str, None]]] = {}
        self._peers: dict[str, dict[str, None]] = {}
        self._priorities: dict[str, Counter[int]] = {}
        self._running: dict[tuple[str, str], dict[str, RunningUse]] = {}  # by payer and queue

    def refresh(self) -> None:
        """Charge to the queues what has been claimed since last time, and give back what has been released."""
        table = self._model.table
        if table.claimed:
            claimed, table.claimed = table.claimed, {}
            self.look_at(claimed)

    def queue_of(self, uids: Iterable[str]) -> str:
        """Return the queue that the first of some pods is charged to which is charged at all, "" for none."""
        return next((known.queue for known in map(self._charges.get, uids) if known is not None), "")

    def look_at(self, uids: Iterable[str]) -> None:
        """Charge pods again, as they are now, each once; those in a row together of which the same is charged."""
        assessment = _Assessment(self._model, self.tree, self._queue_of_pod, self._charges)
        row: list[str] = []
        before: Charge | None = None
        charge: Charge | None = None
        for uid in uids:
            gone = uid in self._leaving or uid in self._let_go
            known, now = self._charges.get(uid), None if gone else assessment.charge(uid)
            if row and (known is not before or now is not charge or (known is not None and now is not None)):
                self._recharge(row, before, charge)
                row = []
            before, charge = known, now
            row.append(uid)
        if row:
            self._recharge(row, before, charge)

    def look_at_queues(self, names: Iterable[str]) -> None:
        """Charge the pods again that are charged to some queues, or may be now."""
        for name in names:
            held = [uid for uids in self._holders.get(name, {}).values() for uid in uids]
            self.look_at(dict.fromkeys([*held, *self._peers.get(name, ())]))

    def look_at_namespace(self, queue: str, namespace: str) -> None:
        """Charge the pods of a namespace again that are charged to a queue."""
        holders = self._holders.get(queue, {}).items()
        self.look_at([uid for ref, uids in holders if ref.namespace == namespace for uid in uids])

    def held(self) -> list[str]:
        """Return the queues in which gangs hold nodes: those in use with parents first, behind all others."""
        tree = self.tree
        line = [((len(tree.path(name)), age_of(tree.queue(name))), name) for name in self._holders if name in tree]
        return [*sorted(self._holders.keys() - {name for _, name in line}), *(name for _, name in sorted(line))]

    def holders(self, name: str) -> Mapping[GroupRef, Iterable[str]]:
        """Return who holds nodes in a queue, with the UIDs of the pods that do."""
        return self._holders.get(name, {})

    def of(self, uid: str) -> Charge | None:
        """Return what is charged for a pod; None if nothing is."""
        return self._charges.get(uid)

    def running(self, payer: tuple[str, str], queue: str) -> tuple[int, set[GroupRef]]:
        """Return how many GPUs a payer uses in a queue and those below it, and its gangs there."""
        gpus, gangs = 0, set[GroupRef]()
        for name, use in self._running.get(payer, {}).items():
            if name in self.tree and queue in self.tree.path(name):
                gpus += use.gpus
                gangs |= use.pods.keys()
        return gpus, gangs

    def running_in(self, queues: Iterable[str]) -> dict[str, Running]:
        """Return the same of everything that runs in some queues and those below them, by queue and payer."""
        found: dict[str, Running] = {name: {} for name in queues}
        for payer, uses in self._running.items():
            for name, use in uses.items() if found else ():
                for queue in self.tree.path(name) if name in self.tree else ():
                    if queue in found:
                        gpus, gangs = found[queue].get(payer, (0, set[GroupRef]()))
                        found[queue][payer] = gpus + use.gpus, gangs | use.pods.keys()
        return found

    def lowest_priority(self, name: str) -> int | None:
        """Return the lowest priority of pods that hold nodes in a queue, None if none do."""
        return min(self._priorities.get(name, ()), default=None)

    def is_charged(self, uid: str) -> bool:
        """Tell whether anything is charged for a pod."""
        return uid in self._charges

    def let_go(self, uids: frozenset[str]) -> None:
        """Charge nothing for these pods, and for no others that were let go before: they are on nodes that are lost.

        What comes in their stead is charged, and what is kept for it.
        """
        if uids != self._let_go:
            changed, self._let_go = uids ^ self._let_go, uids
            self.look_at(changed)

    def promise(self, uid: str, charge: Charge, leaving: Iterable[str]) -> None:
        """Charge what a gang asks for whose place is being cleared, and nothing for the pods that leave, ahead of time.

        So it is not to be had twice, until `withdraw`.
        """
        self.withdraw(uid)
        self._promises[uid] = (charge, tuple(dict.fromkeys(leaving)))
        self._leaving.update(self._promises[uid][1])
        self.look_at(self._promises[uid][1])
        self._charge_ahead(charge, 1)

    def withdraw(self, uid: str) -> None:
        """Charge nothing ahead for a gang any more."""
        if uid in self._promises:
            charge, leaving = self._promises.pop(uid)
            self._charge_ahead(charge, -1)
            self._leaving.difference_update(leaving)
            self.look_at(leaving)

    def snapshot(self, tree: QueueTree) -> Charges:
        """Return who holds nodes in a copy of some queues, those of the lowest priority first, for whatever thread."""
        twin, names = copy(self), ("", *filter(self._holders.__contains__, tree))
        held = {name: tuple(self._holders.get(name, {}).items()) for name in names}  # each in one step
        known = {name: [(ref, dict.fromkeys(tuple(uids))) for ref, uids in each] for name, each in held.items()}
        vars(twin).update(
            tree=tree,
            nonpreemptible=self.nonpreemptible.copy(),
            _holders={name: dict(sorted(each, key=self._rank)) for name, each in known.items()},
            _priorities={name: Counter(dict(self._priorities.get(name, ()))) for name in names},
            _running={
                payer: {name: RunningUse(use.gpus, Counter(dict(use.pods))) for name, use in tuple(uses.items())}
                for payer, uses in tuple(self._running.items())
            },
        )
        return twin

    def apart(self) -> Charges:
        """Return the same charges on queues of their own, to be charged there; who holds nodes is shared."""
        twin = copy(self)
        vars(twin).update(tree=self.tree.whole(), nonpreemptible=self.nonpreemptible.copy(), _promises={})
        return twin

    def _rank(self, holder: tuple[GroupRef, Iterable[str]]) -> int:
        """Return the priority of the first pod of a holder: near enough to look at the low ones first."""
        charge = self._charges.get(next(iter(holder[1]), ""))
        return 0 if charge is None else charge.priority

    @contextmanager
    def apart_from(self, uid: str) -> Iterator[None]:
        """Look at the queues as a gang sees them: what is charged ahead for it is its own once the others have left."""
        if uid not in self._promises:
            yield
            return
        charge, leaving = self._promises[uid]
        self._charge_ahead(charge, -1)
        assessment = _Assessment(self._model, self.tree, self._queue_of_pod, self._charges)
        staying = [each for each in map(assessment.charge, leaving) if each is not None]
        for each in staying:
            self.book(each, 1)
        try:
            yield
        finally:
            for each in staying:
                self.book(each, -1)
            self._charge_ahead(charge, 1)

    def _charge_ahead(self, charge: Charge, sign: int) -> None:
        """Charge what is promised, or with -1 undo that; what has no quota counts once it is held."""
        if charge.queue:
            self.book(charge, sign)
            self._run(charge, 1, sign)

    def book(self, charge: Charge, times: int) -> None:
        """Charge to a queue so many times, or with less than 0 undo that."""
        amounts, sign = charge.amounts, 1 if times > 0 else -1
        if times != sign:
            amounts = {resource: amount * sign * times for resource, amount in amounts.items()}
        (self.tree.charge if times > 0 else self.tree.refund)(charge.queue, charge.flavor, amounts)
        if not charge.preemptible:
            self.nonpreemptible.charge(self.tree, charge.queue, charge.flavor, amounts, sign)

    @contextmanager
    def without(self, uids: Iterable[str]) -> Iterator[None]:
        """Look at the queues as if these pods had left."""
        leaving: dict[tuple[str, str, bool], list[Charge]] = {}
        for charge in filter(None, map(self._charges.get, uids)):
            leaving.setdefault((charge.queue, charge.flavor, charge.preemptible), []).append(charge)
        together = [replace(each[0], amounts=sum_of(one.amounts for one in each)) for each in leaving.values()]
        for charge in together:
            self.book(charge, -1)
        try:
            yield
        finally:
            for charge in together:
                self.book(charge, 1)

    def exceeds_ahead_only(self, name: str, flavor: str) -> bool:
        """Tell whether a queue uses more than its own quota only by what is charged ahead, not by what holds nodes."""
        ahead = [charge for charge, _ in self._promises.values() if charge.queue == name]
        for charge in ahead:
            self.book(charge, -1)
        try:
            return bool(ahead) and not self.tree.excess(name, flavor)
        finally:
            for charge in ahead:
                self.book(charge, 1)

    def _recharge(self, uids: Sequence[str], before: Charge | None, charge: Charge | None) -> None:
        """Charge pods otherwise than before: several if they were charged nothing, or are not any more."""
        if before is not None:
            for uid in uids:
                del self._charges[uid]
            self.book(before, -len(uids))
            self._hold(before, uids, -1)
        if charge is not None:
            if before is not None and before.queue != charge.queue:
                self.shifted |= {before.queue, charge.queue}
            self._charges |= dict.fromkeys(uids, charge)
            self.book(charge, len(uids))
            self._hold(charge, uids, 1)

    def _hold(self, charge: Charge, uids: Sequence[str], sign: int) -> None:
        """Take in that pods that are charged the same hold nodes, or with -1 that they do not any more."""
        holders = self._holders.setdefault(charge.queue, {})
        held = holders.setdefault(charge.holder, {})
        if len(held) == (0 if sign > 0 else len(uids)):
            self.tree.count(charge.queue, sign)
        _note(held, uids, sign)
        if not held:
            del holders[charge.holder]
        if charge.peer:
            peers = self._peers.setdefault(charge.peer, {})
            _note(peers, uids, sign)
            if not peers:
                del self._peers[charge.peer]
        if not holders:
            del self._holders[charge.queue]
        self._run(charge, len(uids), sign)
        priorities = self._priorities.setdefault(charge.queue, Counter())
        priorities[charge.priority] += sign * len(uids)
        if not priorities[charge.priority]:
            del priorities[charge.priority]
        if not priorities:
            del self._priorities[charge.queue]

    def _run(self, charge: Charge, pods: int, sign: int) -> None:
        """Take in for a user and a group that so many pods run which are charged the same, or with -1 that they end."""
        for payer in charge.payers:
            uses = self._running.setdefault(payer, {})
            use = uses.setdefault(charge.queue, RunningUse())
            use.gpus += sign * pods * charge.gpus
            use.pods[charge.holder] += sign * pods
            if not use.pods[charge.holder]:
                del use.pods[charge.holder]
            if not use.pods:
                del uses[charge.queue]
            if not uses:
                del self._running[payer]


#: Who pays for pods that name neither.
_NOBODY: Final = ((USER, ""), (GROUP, ""))


def payers_of(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the user and the group of a pod, as (label, value): "" where it does not say."""
    user, group = pod.labels.get(USER, ""), pod.labels.get(GROUP, "")
    return ((USER, user), (GROUP, group)) if user or group else _NOBODY


def _note(noted: dict[str, None], uids: Iterable[str], sign: int) -> None:
    """Note pods, or with -1 forget them."""
    if sign > 0:
        noted |= dict.fromkeys(uids)
        return
    for uid in uids:
        noted.pop(uid, None)


class _Terms(NamedTuple):
    """What the charges of a gang's members have in common, and those that have been worked out.

    `priority` is its PodGroup's, None where it states none; `spare` are those that can be evicted if not all can. The
    `first` member has this charge already, None if it has none.
    """

    queue: str
    peer: str
    priority: int | None
    spare: frozenset[str] | None
    first: Charge | None
    charges: dict[tuple[Shape, str, int, bool, tuple[tuple[str, str], ...]], Charge]


class _Assessment:
    """Work out what pods take of the quota of their queues at one moment, once for those that are alike.

    Members of one gang that are charged the same have the very same charge.
    """

    def __init__(
        self,
        model: ClusterModel,
        tree: QueueTree,
        queue_of_pod: Callable[[Pod], tuple[str, str]],
        before: Mapping[str, Charge],
    ) -> None:
        """Work it out for the pods of `model`; `tree` are the queues, of which `queue_of_pod` names a pod's.

        Who pays stays as it was `before`: a label that is changed while a pod runs makes no room for another one.
        """
        self._before = before
        self._model = model
        self._tree = tree
        self._queue_of_pod = queue_of_pod
        self._of_gang: dict[GroupRef, _Terms] = {}
        self._latest: tuple[Claim | None, _Terms | None, int, bool, object] = (None, None, 0, False, None)
        self._charge: Charge | None = None

    def charge(self, uid: str) -> Charge | None:
        """Return what a pod takes of the quota of its queue where it is, or is promised to be; None if nothing."""
        model = self._model
        pod, claim = model.pods.get(uid), model.table.claim_of(uid)
        if pod is None or claim is None or not model.manages(pod):
            return None
        terms = self._of_gang.get(pod.group)
        if terms is None:
            terms = self._of_gang[pod.group] = self._terms(pod)
        priority = pod.priority if terms.priority is None else terms.priority
        preemptible = terms.spare is None or uid in terms.spare
        latest, before = self._latest, self._before.get(uid)
        payers = payers_of(pod) if before is None else before.payers
        if latest[0] is claim and latest[1] is terms and latest[2:] == (priority, preemptible, payers):
            return self._charge
        self._latest = claim, terms, priority, preemptible, payers
        amounts = _amounts(claim.shape.requests)
        key = claim.shape, self._flavor(terms.queue, claim.node, amounts), priority, preemptible, payers
        self._charge = terms.charges.get(key)
        if self._charge is None:
            gpus = claim.shape.gpus
            charge = Charge(pod.group, terms.queue, key[1], amounts, priority, terms.peer, preemptible, payers, gpus)
            self._charge = terms.charges[key] = terms.first if terms.first == charge else charge
        return self._charge

    def _terms(self, pod: Pod) -> _Terms:
        (queue, peer), gang = self._queue_of_pod(pod), self._model.gang_of(pod)
        priority = None if gang is None or gang.group is None else gang.group.priority
        spare = None if gang is None or gang.preemptible else gang.spare
        first = None if gang is None else self._before.get(next(iter(gang.members), ""))
        return _Terms(queue, peer, priority, spare, first, {})

    def _flavor(self, queue: str, node_name: str, amounts: Mapping[str, int]) -> str:
        """Return the flavor that a pod on a node is charged to: the first of its queue that the node is of."""
        node = self._model.table.find(node_name)
        if queue not in self._tree or node is None:
            return ""
        for flavor in self._tree.flavors(queue):
            if not self._tree.limited(queue, flavor).isdisjoint(amounts) and all(
                node.labels.get(key) == value for key, value in self._tree.node_selector(queue, flavor)
            ):
                return flavor
        return ""


@sized_cache(_AMOUNTS_BYTES, lambda requests: 300 + 2 * size_of(requests))
def _amounts(requests: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """Return what a pod takes, by the names of what has quota: one mapping for all pods of a shape."""
    amounts = Counter[str]()
    for resource, amount in requests:
        amounts[resource.removesuffix(CHARGED)] += amount
    return MappingProxyType(dict(amounts))
