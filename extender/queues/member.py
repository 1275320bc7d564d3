"""One queue of a tree: its accounts, its share and its relations to the others.

Shares are dominant resource fairness (Ghodsi et al., NSDI 2011), weighted, over a tree. As in Kueue what counts first
is what a queue borrows, relative to what its cohort could lend (pkg/cache/scheduler/fair_sharing.go).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TypeAlias

from extender.objects.queue import Queue, Quota
from extender.queues.account import QuotaAccount

#: Behind every RFC 3339 time.
_UNKNOWN_TIME = "~"

Amounts: TypeAlias = dict[str, dict[str, int]]
"""By flavor and resource, without what is 0 (milli-CPU, bytes, counts)."""

Key: TypeAlias = tuple[int, float, float, str]
"""Where a queue is among its siblings: -priority, what it borrows, what it uses, name; the lowest first."""

_NOTHING: Mapping[str, float] = {}

_NO_TOTALS: Mapping[str, int] = {}


def age_of(queue: Queue) -> tuple[str, str]:
    """Return the sort key by which the older of two queues comes first."""
    return queue.created or _UNKNOWN_TIME, queue.name


@dataclass(frozen=True, slots=True, order=True)
class QueueShare:
    """How much of its share a queue uses, divided by its weight: 0 for nothing, 1 for all there is at weight 1.

    `borrowed` is what is above its nominal quota, of what the queues below its parent could use at most; without any
    quota, all of it, of what the cluster has. `used` is all of it, of what the cluster has.
    """

    borrowed: float
    used: float


def dominant(amounts: Iterable[tuple[str, float]], *wholes: Mapping[str, int]) -> float:
    """Return the largest part that an amount is of its resource's whole; the first of `wholes` that has any counts."""
    largest = 0.0
    for resource, amount in amounts:
        if amount > 0:
            whole = next((there for each in wholes if (there := each.get(resource, 0)) > 0), 0)
            if whole:
                largest = max(largest, amount / whole)
    return largest


class QuotaNode:
    """A queue in use, which comes and goes without children; what it changes above is worked out at once.

    Attributes:
        own: what is charged to it, whether it has quota of that or not.
        path: itself and its ancestors, the root last.
        children: the oldest first.
        accounts: by flavor and resource, wherever it, an ancestor or a descendant has quota.
        total: what it and its children use, by resource.
        gangs: how many gangs hold nodes in it and below it.
        key: where it is among its siblings, None if that has to be computed again.
        own_key: the same of its own gangs among its children.
        stamp: as of when the two are.
        version: of a root, how often anything but charges has changed in its tree.
        charges: of a root, how often charges have.
        charged: of a root, the queues of its tree to which anything is charged.
    """

    __slots__ = (
        *("_lendable", "_lent", "_lent_flavors", "accounts", "charged", "charges", "children", "gangs", "key", "own"),
        *("own_key", "path", "queue", "stamp", "stated_flavors", "total", "version"),
    )

    def __init__(self, queue: Queue, parent: QuotaNode | None, own: Amounts, gangs: int) -> None:
        """Put `queue` below `parent`, if it has one; `own` is charged to it, to so many `gangs`."""
        self.queue = queue
        self.path: tuple[QuotaNode, ...] = (self,) if parent is None else (self, *parent.path)
        self.children: list[QuotaNode] = []
        stated = tuple(flavor.name for flavor in queue.flavors)
        self.stated_flavors: tuple[str, ...] = stated or (() if parent is None else parent.stated_flavors)
        self.own = own
        self.accounts: dict[str, dict[str, QuotaAccount]] = {}
        self.total: dict[str, int] = {}
        self.gangs = 0
        self.key: Key | None = None
        self.own_key: Key | None = None
        self.stamp = (0, -1)
        self.version = self.charges = 0
        self.charged: dict[str, QuotaNode] = {}
        self._lendable: tuple[int, Mapping[str, int]] = (-1, _NO_TOTALS)
        self._lent: dict[tuple[str, str], tuple[tuple[int, int], Mapping[QuotaNode, int]]] = {}
        self._lent_flavors: tuple[int, tuple[str, ...]] = (-1, ())
        if parent is not None:
            insort(parent.children, self, key=_age)
        for member in self.path:
            for flavor, quotas in member.quotas():
                for resource in quotas:
                    self._open(flavor, resource)
        self._state(1)
        self._add(1, gangs)

    def restate(self, queue: Queue) -> None:
        """Take in other figures of the queue, which has quota of the same as before."""
        self.queue = queue
        for flavor, quotas in self.quotas():
            for resource, quota in quotas.items():
                self.accounts[flavor][resource].state(quota)
        self.path[-1].version += 1

    def detach(self) -> None:
        """Take it, which has no children, out of its tree."""
        self._add(-1, -self.gangs)
        for _, _, account in self.each_account():
            account.close()
        self._state(-1)
        if self.parent is not None:
            siblings = self.parent.children
            del siblings[bisect_left(siblings, _age(self), key=_age)]

    @property
    def parent(self) -> QuotaNode | None:
        """The queue above it, None for a root."""
        return self.path[1] if len(self.path) > 1 else None

    @property
    def root(self) -> str:
        """The name of the root of its tree."""
        return self.path[-1].queue.name

    @property
    def flavors(self) -> tuple[str, ...]:
        """What its gangs may choose from, in order: its own flavors, else those above it, else those below it."""
        if self.stated_flavors:
            return self.stated_flavors
        version = self.path[-1].version
        if self._lent_flavors[0] != version:
            below = (flavor for child in self.children for flavor in child.flavors)
            self._lent_flavors = version, tuple(dict.fromkeys(below))
        return self._lent_flavors[1]

    def quotas(self) -> Iterator[tuple[str, Mapping[str, Quota]]]:
        """Iterate over its own quotas by flavor."""
        return ((flavor.name, flavor.quotas) for flavor in self.queue.flavors)

    def account(self, flavor: str, resource: str) -> QuotaAccount | None:
        """Return what it has of a resource in a flavor, None if there is no limit."""
        accounts = self.accounts.get(flavor)
        return None if accounts is None else accounts.get(resource)

    def each_account(self) -> Iterator[tuple[str, str, QuotaAccount]]:
        """Iterate over flavor, resource and account."""
        for flavor, accounts in self.accounts.items():
            for resource, account in accounts.items():
                yield flavor, resource, account

    def charge(self, flavor: str, amounts: Mapping[str, int], sign: int) -> None:
        """Take in that `amounts` have been added to `own`, or taken off if `sign` is -1."""
        accounts = self.accounts.get(flavor)
        if accounts is not None:
            for resource, amount in amounts.items():
                account = accounts.get(resource)
                if account is not None:
                    account.charge(sign * amount)
        self.own_key = None
        for member in self.path:
            member.key, total = None, member.total
            for resource, amount in amounts.items():
                total[resource] = total.get(resource, 0) + sign * amount
        self._note_charges()

    def count(self, gangs: int) -> None:
        """Take in that so many more gangs hold nodes in it."""
        for member in self.path:
            member.gangs += gangs

    def _note_charges(self) -> None:
        top = self.path[-1]
        top.charges += 1
        if self.own:
            top.charged[self.queue.name] = self
        else:
            top.charged.pop(self.queue.name, None)

    def _add(self, sign: int, gangs: int) -> None:
        """Count what is charged to it for it and all above it, or no more if `sign` is -1."""
        self.count(gangs)
        for amounts in self.own.values():
            for member in self.path:
                for resource, amount in amounts.items():
                    member.total[resource] = member.total.get(resource, 0) + sign * amount
        top = self.path[-1]
        top.version += 1
        self._note_charges()
        if sign < 0:
            top.charged.pop(self.queue.name, None)

    def _state(self, sign: int) -> None:
        """State its own quota; all above it have accounts of what is stated below them, and no others."""
        for flavor, quotas in self.quotas():
            for resource, quota in quotas.items():
                account: QuotaAccount | None = self.accounts[flavor][resource]
                if sign > 0 and account is not None:
                    account.state(quota)
                while account is not None:
                    account.stated += sign
                    account = account.parent if account.stated == (sign > 0) else None
                if sign < 0 and self.parent is not None:
                    self.parent.close(flavor, resource)

    def _open(self, flavor: str, resource: str) -> QuotaAccount:
        """Return an account, with those above it, which are opened if need be."""
        account = self.account(flavor, resource)
        if account is None:
            parent = None if self.parent is None else self.parent._open(flavor, resource)  # noqa: SLF001 - another one
            account = self.accounts.setdefault(flavor, {})[resource] = QuotaAccount(self.queue.name, parent)
            account.charge(self.own.get(flavor, {}).get(resource, 0))
        return account

    def close(self, flavor: str, resource: str) -> None:
        """Close an account, and those above it, unless quota of that is stated there, above it or below it."""
        account = self.account(flavor, resource)
        if account is None or account.stated or any(_states(above, flavor, resource) for above in self.path):
            return
        account.close()
        del self.accounts[flavor][resource]
        if not self.accounts[flavor]:
            del self.accounts[flavor]
        if self.parent is not None:
            self.parent.close(flavor, resource)

    # Which queue has borrowed from which.

    def meet(self, other: QuotaNode) -> QuotaNode:
        """Return the nearest common ancestor with another queue of the tree, which may be one of the two."""
        pairs = zip(reversed(self.path), reversed(other.path), strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        return self.path[-common]

    def stays_within(self, above: QuotaNode, flavor: str, amounts: Mapping[str, int]) -> bool:
        """Tell whether the branch below `above` that it is in stays within its quota if it is charged `amounts`."""
        accounts = self.accounts.get(flavor, {})
        asked = [(accounts[each], each, amount) for each, amount in amounts.items() if amount > 0 and each in accounts]
        if self is above:
            return all(account.own + amount <= account.nominal for account, _, amount in asked)
        branch = self._branch_below(above).accounts[flavor] if asked else {}
        return not any(branch[each].exceeds(account.arriving(amount, branch[each])) for account, each, amount in asked)

    def _branch_below(self, above: QuotaNode) -> QuotaNode:
        return self.path[-len(above.path) - 1]

    def has_borrowed(self, above: QuotaNode, flavor: str, amounts: Mapping[str, int]) -> bool:
        """Tell whether there is one of `amounts` of which its own gangs, and each queue below `above`, borrow."""
        line = self.path[: len(self.path) - len(above.path)]
        for resource, amount in amounts.items():
            account = self.account(flavor, resource)
            if amount <= 0 or account is None or not account.own_borrowed:
                continue
            if all(member.accounts[flavor][resource].exceeds() for member in line):
                return True
        return False

    def lent(self, flavor: str, resource: str) -> int:
        """Return what others use of its quota and its children's."""
        lent = 0
        if self.account(flavor, resource) is not None:
            for above, member in pairwise(reversed(self.path)):
                lent = above._lent_by(flavor, resource, lent)[member]  # noqa: SLF001 - another one
        return lent

    def _lent_by(self, flavor: str, resource: str, outside: int) -> Mapping[QuotaNode, int]:
        """Return what each child lends to others, if those outside this queue have borrowed `outside` of it.

        Complexity: O(children) once after a change; who asks for one of them asks for the others too.
        """
        top = self.path[-1]
        as_of, found = self._lent.get((flavor, resource), ((-1, -1), {}))
        if as_of == (top.version, top.charges):
            return found
        account, shares = self.accounts[flavor][resource], dict[QuotaNode, int]()
        siblings = {each: at for each in self.children if (at := each.account(flavor, resource)) is not None}
        lent = account.own_borrowed + sum(at.borrowed for at in siblings.values()) - account.borrowed + outside
        before = max(0, account.nominal - account.own)
        total = before + sum(at.unused for at in siblings.values())
        for child, there in siblings.items():
            after = before + there.unused
            shares[child] = lent * after // total - lent * before // total if total else 0
            before = after
        self._lent[flavor, resource] = (top.version, top.charges), shares
        return shares

    def lendable(self) -> Mapping[str, int]:
        """Return the most that could be used of each resource, if nothing were used anywhere."""
        version = self.path[-1].version
        if self._lendable[0] != version:
            sums: dict[str, int] = {}
            for _, resource, account in self.each_account():
                sums[resource] = sums.get(resource, 0) + account.potential
            self._lendable = version, sums
        return self._lendable[1]

    # Shares.

    def share(self, totals: Mapping[str, int], past: Mapping[str, float]) -> QueueShare:
        """Return its share, of what its parent's queues could use at most and of what the cluster has."""
        used: Mapping[str, float] = self.total
        if past:
            used = {each: max(self.total.get(each, 0), past.get(each, 0.0)) for each in (*self.total, *past)}
        if not self.accounts:
            part = dominant(used.items(), totals) / self.queue.weight
            return QueueShare(part, part)
        above: dict[str, float] = {}
        nominal: dict[str, int] = {}
        for _, resource, account in self.each_account():
            above[resource] = above.get(resource, 0.0) + account.borrowed
            nominal[resource] = nominal.get(resource, 0) + account.subtree
        for resource in above.keys() & past.keys():
            above[resource] = max(above[resource], past[resource] - nominal[resource])
        lendable = _NO_TOTALS if self.parent is None else self.parent.lendable()
        borrowed = dominant(above.items(), lendable, totals)
        return QueueShare(borrowed / self.queue.weight, dominant(used.items(), totals) / self.queue.weight)

    def share_below(self, above: QuotaNode, totals: Mapping[str, int]) -> QueueShare:
        """Return the share of the branch below `above` that it is in; of its own gangs if it is that itself."""
        return self._own_share(totals) if self is above else self._branch_below(above).share(totals, {})

    def _own_share(self, totals: Mapping[str, int]) -> QueueShare:
        """Return the share of its own gangs, as of one more child."""
        used = dominant(sum_of(self.own.values()).items(), totals)
        if not self.accounts:
            return QueueShare(used, used)
        above: dict[str, float] = {}
        for _, resource, account in self.each_account():
            above[resource] = above.get(resource, 0.0) + account.own_borrowed
        return QueueShare(dominant(above.items(), self.lendable(), totals), used)

    def standing(
        self, totals: Mapping[str, int], past: Mapping[str, Mapping[str, float]], epoch: int
    ) -> tuple[Key, ...]:
        """Return the keys from the root down; those of this `epoch` that no change concerns since are at hand."""
        keys, stamp = [], (epoch, self.path[-1].version)
        for member in reversed(self.path):
            if member.stamp != stamp:
                member.stamp, member.key, member.own_key = stamp, None, None
            key = member.key
            if key is None:
                share = member.share(totals, past.get(member.queue.name, _NOTHING))
                key = member.key = (-member.queue.priority, share.borrowed, share.used, member.queue.name)
            keys.append(key)
        if self.children:
            if self.own_key is None:
                share = self._own_share(totals)
                self.own_key = (0, share.borrowed, share.used, "")
            keys.append(self.own_key)
        return tuple(keys)


def _age(node: QuotaNode) -> tuple[str, str]:
    return age_of(node.queue)


def _states(node: QuotaNode, flavor: str, resource: str) -> bool:
    return any(resource in quotas for name, quotas in node.quotas() if name == flavor)


def sum_of(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return amounts by resource, of all flavors together."""
    found: dict[str, int] = {}
    for each in amounts:
        for resource, amount in each.items():
            found[resource] = found.get(resource, 0) + amount
    return found
