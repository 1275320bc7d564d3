"""One queue of a tree: its accounts, its share and its relations to the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise, takewhile
from typing import TypeAlias

from extender.domain.queue import Quota
from extender.quota.account import Account
from extender.quota.forest import Place
from extender.quota.share import Share, dominant

Key: TypeAlias = tuple[int, float, float, str]
"""Where a queue is among its siblings: -priority, what it borrows, what it uses, name; the lowest first."""

_NOTHING: Mapping[str, float] = {}


class Member:
    """A queue in use; `add_up` its children before it, then `connect` it before them.

    Attributes:
        path: itself and its ancestors, the root last.
        flavors: what its gangs may choose from, in order.
        accounts: by flavor and resource, wherever it, an ancestor or a descendant has quota.
        limited: the resources of `accounts` by flavor.
        total: what it and its children use, by resource.
        key: where it is among its siblings, None if that has to be worked out anew.
        own_key: the same of its own gangs among its children.
    """

    def __init__(self, place: Place, members: Mapping[str, Member]) -> None:
        """Take the queue's place in its tree, below a parent that is one of `members`."""
        self.queue = place.queue
        self.root = place.root
        self.flavors = place.flavors
        self.parent = None if place.parent is None else members[place.parent.queue.name]
        self.children: list[Member] = []
        self.path: tuple[Member, ...] = (self,)
        self._quotas: dict[str, Mapping[str, Quota]] = {each.name: each.quotas for each in place.queue.flavors}
        self._inherited: set[tuple[str, str]] = {
            (flavor, resource) for flavor, quotas in self._quotas.items() for resource in quotas
        }
        if self.parent is not None:
            self.parent.children.append(self)
            self.path += self.parent.path
            self._inherited |= self.parent._inherited  # noqa: SLF001 - another Member
        self.accounts: dict[str, dict[str, Account]] = {}
        self.limited: dict[str, frozenset[str]] = {}
        self.total: dict[str, int] = {}
        self._own_total: dict[str, int] = {}
        self._lendable: dict[str, int] = {}
        self._nominal: dict[str, int] = {}
        self.key: Key | None = None
        self.own_key: Key | None = None

    def add_up(self) -> None:
        """Open the accounts, with what the children contribute."""
        below = ((flavor, resource) for child in self.children for flavor, resource, _ in child.each_account())
        for flavor, resource in dict.fromkeys(chain(sorted(self._inherited), below)):
            quota = self._quotas.get(flavor, {}).get(resource)
            children = [each for child in self.children if (each := child.account(flavor, resource)) is not None]
            self.accounts.setdefault(flavor, {})[resource] = Account(self.queue.name, quota, children)
        self.limited = {flavor: frozenset(accounts) for flavor, accounts in self.accounts.items()}

    def connect(self) -> None:
        """Put the accounts below the parent's."""
        for flavor, resource, account in self.each_account():
            above = None if self.parent is None else self.parent.account(flavor, resource)
            if above is not None:
                account.connect(above)
            self._lendable[resource] = self._lendable.get(resource, 0) + account.potential
            self._nominal[resource] = self._nominal.get(resource, 0) + account.subtree

    def account(self, flavor: str, resource: str) -> Account | None:
        """Return what it has of a resource in a flavor, None if there is no limit."""
        accounts = self.accounts.get(flavor)
        return None if accounts is None else accounts.get(resource)

    def each_account(self) -> Iterator[tuple[str, str, Account]]:
        """Iterate over flavor, resource and account."""
        for flavor, accounts in self.accounts.items():
            for resource, account in accounts.items():
                yield flavor, resource, account

    def charge(self, flavor: str, amounts: Mapping[str, int], sign: int) -> None:
        """Charge `amounts`, or refund them if `sign` is -1."""
        accounts = self.accounts.get(flavor)
        if accounts is not None:
            for resource, amount in amounts.items():
                account = accounts.get(resource)
                if account is not None:
                    account.charge(sign * amount)
        totals = [self._own_total]
        self.own_key = None
        for member in self.path:
            member.key = None
            totals.append(member.total)
        for total in totals:
            for resource, amount in amounts.items():
                total[resource] = total.get(resource, 0) + sign * amount

    # Who has borrowed from whom.

    def meet(self, other: Member) -> Member:
        """Return the nearest common ancestor with another queue of the tree, which may be one of the two."""
        pairs = zip(reversed(self.path), reversed(other.path), strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        return self.path[-common]

    def stays_within(self, above: Member, flavor: str, amounts: Mapping[str, int]) -> bool:
        """Tell whether the branch below `above` that it is in stays within its quota if it is charged `amounts`."""
        accounts = self.accounts.get(flavor, {})
        asked = [(accounts[each], each, amount) for each, amount in amounts.items() if amount > 0 and each in accounts]
        if self is above:
            return all(account.own + amount <= account.nominal for account, _, amount in asked)
        branch = self.path[-len(above.path) - 1].accounts[flavor] if asked else {}
        return not any(branch[each].exceeds(account.arriving(amount, branch[each])) for account, each, amount in asked)

    def has_borrowed(self, above: Member, flavor: str, amounts: Mapping[str, int]) -> bool:
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
                lent = above.lent_by(member, flavor, resource, lent)
        return lent

    def lent_by(self, child: Member, flavor: str, resource: str, outside: int) -> int:
        """Return what a child lends to others, if those outside this queue have borrowed `outside` of it."""
        account = self.accounts[flavor][resource]
        siblings = {each: at for each in self.children if (at := each.account(flavor, resource)) is not None}
        lent = account.own_borrowed + sum(at.borrowed for at in siblings.values()) - account.borrowed + outside
        unused = [max(0, account.nominal - account.own), *(at.unused for at in siblings.values())]
        total, index = sum(unused), 1 + list(siblings).index(child)
        if not total:
            return 0
        before = sum(unused[:index])
        return lent * (before + unused[index]) // total - lent * before // total

    # Shares.

    def share(self, totals: Mapping[str, int], past: Mapping[str, float]) -> Share:
        """Return its share, of what its parent's queues could use at most and of what the cluster has."""
        used: Mapping[str, float] = self.total
        if past:
            used = {each: max(self.total.get(each, 0), past.get(each, 0.0)) for each in (*self.total, *past)}
        if not self.accounts:
            part = dominant(used.items(), totals) / self.queue.weight
            return Share(part, part)
        above: dict[str, float] = {}
        for _, resource, account in self.each_account():
            above[resource] = above.get(resource, 0.0) + account.borrowed
        for resource in above.keys() & past.keys():
            above[resource] = max(above[resource], past[resource] - self._nominal[resource])
        lendable = _NO_TOTALS if self.parent is None else self.parent._lendable  # noqa: SLF001 - another Member
        borrowed = dominant(above.items(), lendable, totals)
        return Share(borrowed / self.queue.weight, dominant(used.items(), totals) / self.queue.weight)

    def _own_share(self, totals: Mapping[str, int]) -> Share:
        """Return the share of its own gangs, as of one more child."""
        used = dominant(self._own_total.items(), totals)
        if not self.accounts:
            return Share(used, used)
        above: dict[str, float] = {}
        for _, resource, account in self.each_account():
            above[resource] = above.get(resource, 0.0) + account.own_borrowed
        return Share(dominant(above.items(), self._lendable, totals), used)

    def standing(self, totals: Mapping[str, int], past: Mapping[str, Mapping[str, float]]) -> tuple[Key, ...]:
        """Return the keys from the root down; those that nothing has been charged to since are at hand."""
        keys = []
        for member in reversed(self.path):
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


_NO_TOTALS: Mapping[str, int] = {}
