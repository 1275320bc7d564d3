"""The queues in use: how much each may still take, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from extender.domain.queue import Queue
from extender.domain.reason import Problem
from extender.quota.defaults import admits, rivals
from extender.quota.forest import Forest, NodeSelector, age_of
from extender.quota.member import Key, Member
from extender.quota.share import Share

FlavorResource: TypeAlias = tuple[str, str]
"""Names of a flavor and of a resource."""

Usage: TypeAlias = Mapping[str, Mapping[str, float]]
"""By queue and resource, the decayed mean usage of a queue and its children; never changed, only replaced."""

_NONE: frozenset[str] = frozenset()
_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Lack:
    """What a queue is short of.

    `queue` is where it is short: the queue itself, which may not borrow more, or the ancestor that has no more. `asked`
    and `available` are of the queue that asks (milli-CPU, bytes, counts). `ever` says that it could not have so much if
    nothing were used at all.
    """

    queue: str
    flavor: str
    resource: str
    asked: int
    available: int
    ever: bool


class QueueTree:
    """Trees of queues, and what is charged to them.

    Queues of different trees share nothing. Amounts are milli-CPU, bytes and counts. A charge and its refund cancel
    out whatever happens in between, so that charging is also how to ask what if.

    Attributes:
        problems: what is wrong, by queue: why one is not in use, or that one is a default queue beside an older one.
    """

    def __init__(self, queues: Iterable[Queue]) -> None:
        """Build the trees of all queues that are sound; never raises."""
        forest = Forest(queues)
        self._members: dict[str, Member] = {}
        for place in forest.places.values():
            self._members[place.queue.name] = Member(place, self._members)
        for name in reversed(forest.places):
            self._members[name].add_up()
        for member in self._members.values():
            member.connect()
        self._selectors = forest.selectors
        self._defaults = sorted((each.queue for each in self._members.values() if each.queue.default), key=age_of)
        warnings = rivals(self._defaults)
        self.problems: Mapping[str, tuple[Problem, ...]] = forest.problems | {
            name: (problem,) for name, problem in warnings.items()
        }
        self._totals: Mapping[str, int] = {}
        self._past: Usage | None = None

    def __contains__(self, name: object) -> bool:
        """Tell whether a queue is in use."""
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the queues in use, parents first."""
        return iter(self._members)

    def __len__(self) -> int:
        """Count the queues in use."""
        return len(self._members)

    def queue(self, name: str) -> Queue:
        """Return the queue called `name`."""
        return self._members[name].queue

    def path(self, name: str) -> tuple[str, ...]:
        """Return the names of a queue and its ancestors, the root last."""
        return tuple(member.queue.name for member in self._members[name].path)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of a queue's children, the oldest first."""
        return tuple(member.queue.name for member in self._members[name].children)

    # Who may use them.

    def default_for(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Return the oldest default queue that takes gangs of `namespace`, "" if none does."""
        known = labels if _NAME_LABEL in labels else {**labels, _NAME_LABEL: namespace}
        return next((queue.name for queue in self._defaults if admits(queue, known)), "")

    def admits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether gangs of a namespace with `labels` may use a queue."""
        return admits(self._members[name].queue, labels)

    # Flavors.

    def flavors(self, name: str) -> tuple[str, ...]:
        """Return the flavors of a queue in order of preference.

        They are its own, else its nearest ancestor's, else its children's.
        """
        return self._members[name].flavors

    def node_selector(self, name: str, flavor: str) -> NodeSelector:
        """Return the labels of the nodes that are of a flavor of a queue, () for every node."""
        return self._selectors.get((self._members[name].root, flavor), ())

    def limited(self, name: str, flavor: str) -> frozenset[str]:
        """Return the resources of which there is quota, with the queue itself, an ancestor or a descendant."""
        return self._members[name].limited.get(flavor, _NONE)

    # What is charged.

    def charge(self, name: str, flavor: str, amounts: Mapping[str, int]) -> None:
        """Charge `amounts` to a queue, of resources without quota to its share alone; ignore unknown queues."""
        member = self._members.get(name)
        if member is not None:
            member.charge(flavor, amounts, 1)

    def refund(self, name: str, flavor: str, amounts: Mapping[str, int]) -> None:
        """Undo the charge of `amounts` to a queue."""
        member = self._members.get(name)
        if member is not None:
            member.charge(flavor, amounts, -1)

    def usage(self, name: str) -> Mapping[str, int]:
        """Return all that a queue and its children use, by resource, in whatever flavor, with or without quota."""
        return {resource: amount for resource, amount in self._members[name].total.items() if amount}

    def used(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue uses, and its children beyond what they keep for themselves."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.usage

    def nominal(self, name: str, flavor: str, resource: str) -> int:
        """Return the quota that `used` is of: the queue's own and what its children contribute."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.subtree

    def borrowed(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue and its children use of others' quota."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.borrowed

    def lent(self, name: str, flavor: str, resource: str) -> int:
        """Return what others use of the quota of a queue and its children.

        Whose unused quota it is that somebody borrows cannot be said; each lends in proportion to what it has unused.
        """
        return self._members[name].lent(flavor, resource)

    def excess(self, name: str, flavor: str) -> Mapping[str, int]:
        """Return what a queue's own gangs use beyond its own quota, by resource; without what is 0."""
        accounts = self._members[name].accounts.get(flavor, {})
        return {resource: account.own_borrowed for resource, account in accounts.items() if account.own_borrowed}

    # What may be charged.

    def available(self, name: str, flavor: str, resource: str) -> int | None:
        """Return how much more may be charged to a queue, None for without limit."""
        account = self._members[name].account(flavor, resource)
        return None if account is None else account.available()

    def lack(self, name: str, flavor: str, amounts: Mapping[str, int]) -> Lack | None:
        """Return what keeps `amounts` from being charged to a queue; None if they may be.

        What it can never have goes before what it cannot have now.
        """
        accounts = self._members[name].accounts.get(flavor, {})
        found: Lack | None = None
        for resource, asked in amounts.items():
            account = accounts.get(resource)
            if account is None or (short := account.short(asked)) is None:
                continue
            ever = asked > account.potential
            if found is None or ever:
                found = Lack(short.name, flavor, resource, asked, account.available(), ever)
            if ever:
                break
        return found

    def borrows(self, name: str, flavor: str, amounts: Mapping[str, int] = _NO_AMOUNTS) -> bool:
        """Tell whether a queue, charged `amounts` more, uses more than its quota of one of them; of any if none."""
        accounts = self._members[name].accounts.get(flavor, {})
        if not amounts:
            return any(account.exceeds() for account in accounts.values())
        return any(accounts[each].exceeds(amount) for each, amount in amounts.items() if each in accounts)

    def reclaims(self, preemptor: str, victim: str, flavor: str, amounts: Mapping[str, int]) -> bool:
        """Tell whether a gang of `preemptor` that asks for `amounts` takes back what a gang of `victim` borrows.

        It does if the branch of the tree that `preemptor` is in, below the common ancestor, stays within its quota with
        them, and `borrows_from` says that `victim` has borrowed some of it. Kueue lets any queue between the two be
        within its quota; here it is the whole branch, so that nobody takes from other branches what another queue
        of its own branch has borrowed.
        """
        one, other = self._members.get(preemptor), self._members.get(victim)
        if one is None or other is None or one.root != other.root:
            return False
        meet = one.meet(other)
        return one.stays_within(meet, flavor, amounts) and other.has_borrowed(meet, flavor, amounts)

    def borrows_from(self, victim: str, preemptor: str, flavor: str, amounts: Mapping[str, int]) -> bool:
        """Tell whether every queue from `victim` up to the common ancestor uses more than its quota of a same resource.

        `amounts` has the resources that are asked for.
        """
        one, other = self._members.get(preemptor), self._members.get(victim)
        if one is None or other is None or one.root != other.root:
            return False
        return other.has_borrowed(one.meet(other), flavor, amounts)

    # Whose turn it is.

    def share(self, name: str, totals: Mapping[str, int], usage: Mapping[str, float] | None = None) -> Share:
        """Return how much of its share a queue and its children use.

        Args:
            name: the queue.
            totals: how much of each resource the cluster has.
            usage: the decayed mean usage of the queue and its children. Of each resource the larger counts, that or
                what is used now: neither hides the other.
        """
        return self._members[name].share(totals, usage or {})

    def standing(self, name: str, totals: Mapping[str, int], past: Usage | None = None) -> tuple[Key, ...]:
        """Return the sort key by which the queue whose turn it is comes first.

        From the root down, for each queue on the way: its priority, what it borrows, what it uses, its name. A queue's
        own gangs compete with its children as one more child of weight 1. `totals` and `past` as in `share`.
        """
        if totals != self._totals or past is not self._past:
            self._totals, self._past = dict(totals), past
            for member in self._members.values():
                member.key = member.own_key = None
        return self._members[name].standing(self._totals, past or {})


#: The label with its own name that the API server puts onto every namespace.
_NAME_LABEL = "kubernetes.io/metadata.name"
