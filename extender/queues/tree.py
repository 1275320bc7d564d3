"""The queues in use: how much each may still take, which queue is next, and which give back what they borrowed.

Whether a queue reclaims from another can depend on a third one. While a sibling has borrowed what is missing, no queue
of another branch gives anything back; once the sibling has given that back, the other branch may owe the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from extender.objects.queue import Queue
from extender.objects.reason import Problem
from extender.queues.defaults import Defaults, admits
from extender.queues.forest import Forest, NodeSelector, in_turn
from extender.queues.member import Amounts, Key, QueueShare, QuotaNode, age_of, sum_of

Usage: TypeAlias = Mapping[str, Mapping[str, float]]
"""By queue and resource, the decayed mean usage of a queue and its children; never changed, only replaced."""

_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """What a queue is short of.

    `queue` is where it is short: the queue itself, which may not borrow more, or the ancestor that has no more. `asked`
    and `available` are of the queue that asks (milli-CPU, bytes, counts). `ever` says that it could not have so much if
    nothing were used at all; `most` is what it could have then. `nonpreemptible` says that there may be more, for
    gangs that can be evicted.
    """

    queue: str
    flavor: str
    resource: str
    asked: int
    available: int
    ever: bool
    most: int
    nonpreemptible: bool = False


# Example. GPUs of one flavor. Queue org has no quota of its own and three children: a (8, of which it lends 4 at
# most), b (8) and c (0, may borrow 6). 10 GPUs are charged to b. org has what its children lend it: 4 + 8 = 12.
#
#            nominal   used   borrowed   available
#   org           12     10          0           2
#   a              8      0          0           6     the 4 that it never lends, and the 2 that are left in org
#   b              8     10          2           2
#   c              0      0          0           2
#
# c asks for 4: QuotaShortage at org, 2 available, not for good. c asks for 7: more than it may ever borrow (`ever`).
# a asks for 8: short at org, but within its own quota, and b has borrowed 2: a `reclaims` from b.
# With 32 GPUs in the cluster b has borrowed 2 of the 12 that could be lent: share 0.167; a and c have 0 and go first.
class QueueTree:
    """Trees of queues, and what is charged to them.

    Queues of different trees share nothing. Amounts are milli-CPU, bytes and counts. A charge and its refund cancel
    out whatever happens in between, so that charging is also how to ask what if.

    Queues come and go one by one, while what is charged to them stays: the answers are those of a tree that is built
    afresh.
    """

    def __init__(self, queues: Iterable[Queue] = ()) -> None:
        """Build the trees of all queues that are sound; never raises."""
        self._charged: dict[str, Amounts] = {}  # of whatever queue, known or not
        self._gangs: dict[str, int] = {}
        self._forest = Forest(self._charged, self._gangs)
        self._members = self._forest.nodes
        self._defaults = Defaults()
        self._totals: Mapping[str, int] = {}
        self._past: Usage | None = None
        self._epoch = 0
        for queue in queues:
            self.put(queue)

    def put(self, queue: Queue) -> Iterable[str]:
        """Take in a Queue; return of which queues the pods may have to be charged in another flavor now.

        These came into use or left it, have other flavors, or have quota of other resources. Never raises.
        Complexity: O(the queue, those below it and its ancestors), but for the case that `forest` tells of.
        """
        moved = self._forest.put(queue)
        self._follow(moved or (queue.name,))
        return moved

    def drop(self, name: str) -> Iterable[str]:
        """Forget a Queue; return as `put` does."""
        moved = self._forest.drop(name)
        self._follow(moved)
        return moved

    def _follow(self, names: Iterable[str]) -> None:
        """Keep the default queues in step with those in use."""
        for name in names:
            member = self._members.get(name)
            if member is None:
                self._defaults.drop(name)
            else:
                self._defaults.put(member.queue)

    @property
    def problems(self) -> Mapping[str, tuple[Problem, ...]]:
        """What is wrong, by queue, of those of which anything is: see `problems_of`."""
        found = ((name, self.problems_of(name)) for name in self._forest.queues)
        return {name: problems for name, problems in found if problems}

    def problems_of(self, name: str) -> tuple[Problem, ...]:
        """Return why a queue is not in use, or that it is a default queue beside an older one."""
        problem = self._defaults.problem(name)
        return self._forest.problems(name) if problem is None else (problem,)

    def part(self, name: str) -> QueueTree:
        """Return a copy of the tree that a queue is in and of what is charged to it; an empty one if it is in none."""
        member = self._members.get(name)
        return self._copy([] if member is None else [member.path[-1]])

    def whole(self) -> QueueTree:
        """Return a copy of all trees and of whatever is charged."""
        twin = self._copy([*{id(each.path[-1]): each.path[-1] for each in tuple(self._members.values())}.values()])
        for name, flavors in tuple(self._charged.items()):
            for flavor, amounts in tuple(flavors.items()) if name not in twin else ():
                twin.charge(name, flavor, dict(amounts))
        return twin

    def _copy(self, below: list[QuotaNode]) -> QueueTree:
        """Return a copy of the trees with some roots, in whatever thread."""
        twin = QueueTree()
        for each in below:
            below += tuple(each.children)  # in one step: the original may change meanwhile
            twin.put(each.queue)
            for flavor, amounts in tuple(each.own.items()):
                twin.charge(each.queue.name, flavor, dict(amounts))
            twin.count(each.queue.name, self._gangs.get(each.queue.name, 0))
        return twin

    def __contains__(self, name: object) -> bool:
        """Tell whether a queue is in use."""
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the queues in use, parents first. Complexity: O(queues), sorted."""
        return (node.queue.name for node in in_turn(self._members.values()))

    def __len__(self) -> int:
        """Count the queues in use."""
        return len(self._members)

    def queue(self, name: str) -> Queue:
        """Return the queue called `name`."""
        return self._members[name].queue

    def root(self, name: str) -> str:
        """Return the root of the tree that a queue is in, itself if it is in none."""
        return self._members[name].root if name in self._members else name

    def path(self, name: str) -> tuple[str, ...]:
        """Return the names of a queue and its ancestors, the root last."""
        return tuple(member.queue.name for member in self._members[name].path)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of a queue's children, the oldest first."""
        return tuple(member.queue.name for member in self._members[name].children)

    # Who may use them.

    def default_for(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Return the oldest default queue that takes gangs of `namespace`, "" if none does."""
        return self._defaults.of(namespace, labels)

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
        return self._forest.selector(self._members[name].root, flavor)

    def limited(self, name: str, flavor: str) -> frozenset[str]:
        """Return the resources of which there is quota, with the queue itself, an ancestor or a descendant."""
        return frozenset(self._members[name].accounts.get(flavor, ()))

    # What is charged.

    def charge(self, name: str, flavor: str, amounts: Mapping[str, int]) -> None:
        """Charge `amounts` to a queue, of resources without quota to its share alone.

        What is charged to one that is not in use counts as soon as it is.
        """
        self._charge(name, flavor, amounts, 1)

    def refund(self, name: str, flavor: str, amounts: Mapping[str, int]) -> None:
        """Undo the charge of `amounts` to a queue."""
        self._charge(name, flavor, amounts, -1)

    def _charge(self, name: str, flavor: str, amounts: Mapping[str, int], sign: int) -> None:
        member = self._members.get(name)
        own = self._charged.get(name, {}) if member is None else member.own
        held = own.setdefault(flavor, {})
        for resource, amount in amounts.items():
            held[resource] = held.get(resource, 0) + sign * amount
            if not held[resource]:
                del held[resource]
        if not held:
            del own[flavor]
        if own:
            self._charged[name] = own
        else:
            self._charged.pop(name, None)
        if member is not None:
            member.charge(flavor, amounts, sign)

    def count(self, name: str, gangs: int) -> None:
        """Take in that so many more gangs hold nodes in a queue, in use or not."""
        total = self._gangs.pop(name, 0) + gangs
        if total:
            self._gangs[name] = total
        if name in self._members:
            self._members[name].count(gangs)

    def gangs(self, name: str) -> int:
        """Return how many gangs hold nodes in a queue and those below it."""
        return self._members[name].gangs

    def charged(self) -> Iterator[str]:
        """Iterate over the queues in use that anything is charged to, and those above them."""
        members = (self._members[name] for name in self._charged if name in self._members)
        return iter(dict.fromkeys(above.queue.name for member in members for above in member.path))

    def charged_beside(self, name: str) -> list[str]:
        """Return the queues of a queue's tree that anything is charged to, a parent and all below it together."""
        beside = self._members[name].path[-1].charged.values() if name in self._members else ()
        lines = sorted((tuple(age_of(above.queue) for above in reversed(each.path)), each) for each in beside)
        return [each.queue.name for _, each in lines]

    def usage(self, name: str) -> Mapping[str, int]:
        """Return all that a queue and its children use, by resource, in whatever flavor, with or without quota.

        Of one that is not in use it is what is charged to that alone.
        """
        member = self._members.get(name)
        if member is None:
            return sum_of(self._charged.get(name, {}).values())
        return {resource: amount for resource, amount in member.total.items() if amount}

    def used(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue uses, and its children beyond what they keep for themselves."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.usage

    def nominal(self, name: str, flavor: str, resource: str) -> int:
        """Return the quota that `used` is of: the queue's own and what its children contribute."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.subtree

    def own_nominal(self, name: str, flavor: str, resource: str) -> int:
        """Return the quota that is stated for a queue itself."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.nominal

    def borrowed(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue and its children use of others' quota."""
        account = self._members[name].account(flavor, resource)
        return 0 if account is None else account.borrowed

    def lent(self, name: str, flavor: str, resource: str) -> int:
        """Return what others use of the quota of a queue and its children.

        Whose unused quota is borrowed cannot be said; each lends in proportion to what it has unused.
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

    def shortage(self, name: str, flavor: str, amounts: Mapping[str, int]) -> QuotaShortage | None:
        """Return what keeps `amounts` from being charged to a queue; None if they may be.

        What it can never have goes before what it cannot have now.
        """
        accounts = self._members[name].accounts.get(flavor, {})
        found: QuotaShortage | None = None
        for resource, asked in amounts.items():
            account = accounts.get(resource)
            if account is None or (short := account.short(asked)) is None:
                continue
            ever = asked > account.potential
            if found is None or ever:
                found = QuotaShortage(short.name, flavor, resource, asked, account.available(), ever, account.potential)
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
        within its quota; here it is the whole branch, so that no gang takes from other branches what another queue
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

    # Which queue is next.

    def share(self, name: str, totals: Mapping[str, int], usage: Mapping[str, float] | None = None) -> QueueShare:
        """Return how much of its share a queue and its children use.

        Args:
            name: the queue.
            totals: how much of each resource the cluster has.
            usage: the decayed mean usage of the queue and its children. Of each resource the larger counts, that or
                what is used now: neither hides the other.
        """
        return self._members[name].share(totals, usage or {})

    def shares_where_they_meet(self, one: str, other: str, totals: Mapping[str, int]) -> tuple[float, float]:
        """Return what the branches of two queues below where they meet borrow, of their weighted shares."""
        first, second = self._members[one], self._members[other]
        meet = first.meet(second)
        return first.share_below(meet, totals).borrowed, second.share_below(meet, totals).borrowed

    def standing(self, name: str, totals: Mapping[str, int], past: Usage | None = None) -> tuple[Key, ...]:
        """Return the sort key by which the queue whose turn it is comes first.

        From the root down, for each queue on the way: its priority, what it borrows, what it uses, its name. A queue's
        own gangs compete with its children as one more child of weight 1. `totals` and `past` as in `share`.
        """
        if totals != self._totals or past is not self._past:
            self._totals, self._past = dict(totals), past
            self._epoch += 1
        return self._members[name].standing(self._totals, past or {}, self._epoch)


def reclaimable(tree: QueueTree, preemptor: str, flavor: str, amounts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the queues whose gangs a gang of `preemptor` that asks for `amounts` may have evicted.

    If it asks for no more than its queue's own quota, it is within quota once all of them are within theirs. Those from
    which it reclaims at once come first.
    """
    found: list[tuple[str, Mapping[str, int]]] = []
    others = [name for name in tree.charged_beside(preemptor) if name != preemptor and tree.excess(name, flavor)]
    others.sort(key=lambda name: (len(tree.path(name)), age_of(tree.queue(name))))
    try:
        # Each round but the first takes in the branch of one more ancestor: there are no more than these.
        while taken := [name for name in others if tree.reclaims(preemptor, name, flavor, amounts)]:
            for name in taken:
                excess = tree.excess(name, flavor)
                tree.refund(name, flavor, excess)
                found.append((name, excess))
            others = [name for name in others if name not in set(taken)]
    finally:
        for name, excess in found:
            tree.charge(name, flavor, excess)
    return tuple(name for name, _ in found)
