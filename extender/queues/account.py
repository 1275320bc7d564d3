"""What one queue has of one resource in one flavor, and what is charged to it.

The rules are Kueue's (kubernetes-sigs/kueue pkg/cache/scheduler/resource_node.go), for queues that may hold gangs at
any depth: a queue keeps what its lending limit does not give away, and what it uses beyond that is charged to its
parent.
"""

from __future__ import annotations

from extender.objects.queue import Quota


class QuotaAccount:
    """Amounts of one (queue, flavor, resource): milli-CPU, bytes or counts.

    Attributes:
        nominal: the queue's own quota.
        subtree: that and what its children contribute.
        kept: how much of `subtree` is never lent.
        own: what is charged to the queue itself.
        usage: that and what its children use beyond what they keep.
        stated: how many say that there is quota: the queue itself, and each child that it is said of or below.
    """

    __slots__ = (
        *("borrowing_limit", "kept", "lending_limit", "name", "nominal", "own", "parent", "stated", "subtree"),
        "usage",
    )

    def __init__(self, name: str, parent: QuotaAccount | None) -> None:
        """Open an account without quota for the queue called `name`, below that of its parent if that has one."""
        self.name = name
        self.parent = parent
        self.borrowing_limit: int | None = None
        self.lending_limit: int | None = None
        self.nominal = self.subtree = self.kept = self.own = self.usage = self.stated = 0

    def state(self, quota: Quota) -> None:
        """Take in the queue's own quota, in place of that before."""
        more, self.nominal = quota.nominal - self.nominal, quota.nominal
        self.borrowing_limit, self.lending_limit = quota.borrowing_limit, quota.lending_limit
        self._move(more, 0)

    def close(self) -> None:
        """Contribute nothing to the parent any more: the account is as if it had never been."""
        self.lending_limit = None
        self._move(-self.subtree, -self.usage)

    def charge(self, amount: int) -> None:
        """Charge `amount` to the queue, or give it back if it is negative; the order of charges does not matter."""
        self.own += amount
        account, change = self, amount
        while change:
            before = account.usage
            account.usage = before + change
            if account.parent is None:
                return
            change = max(0, account.usage - account.kept) - max(0, before - account.kept)
            account = account.parent

    def _move(self, quota: int, usage: int) -> None:
        """Add to quota and usage, and what that changes to those of the accounts above."""
        account: QuotaAccount | None = self
        while account is not None:
            lends, spills = account.subtree - account.kept, max(0, account.usage - account.kept)
            account.subtree += quota
            account.usage += usage
            account.kept = 0 if account.lending_limit is None else max(0, account.subtree - account.lending_limit)
            quota = account.subtree - account.kept - lends
            usage = max(0, account.usage - account.kept) - spills
            account = account.parent if quota or usage else None

    @property
    def potential(self) -> int:
        """The most that the queue could ever use, if nothing were used anywhere."""
        if self.parent is None:
            return self.subtree
        most = self.kept + self.parent.potential
        return most if self.borrowing_limit is None else min(most, self.subtree + self.borrowing_limit)

    def available(self) -> int:
        """Return how much more could be charged.

        Where more is charged above than there is quota, as after a quota was lowered, what the queue keeps for itself
        is available all the same; Kueue takes the excess off that too.
        """
        account, kept = self, 0
        least: int | None = None
        while account.parent is not None:
            kept += account.kept_free
            if account.borrowing_limit is not None:
                most = kept + max(0, account.borrowable)
                least = most if least is None else min(least, most)
            account = account.parent
        most = kept + max(0, account.subtree - account.usage)
        return most if least is None else min(least, most)

    def short(self, amount: int) -> QuotaAccount | None:
        """Return the account, of the queue or an ancestor, that has no room for `amount` more; None if all have."""
        account, rest = self, amount
        while rest > 0 and account.parent is not None:
            rest -= account.kept_free
            if account.borrowing_limit is not None and rest > max(0, account.borrowable):
                return account
            account = account.parent
        return account if rest > 0 and rest > account.subtree - account.usage else None

    def arriving(self, amount: int, at: QuotaAccount) -> int:
        """Return how much more the ancestor `at` would be charged if the queue were charged `amount` more."""
        account, change = self, amount
        while account is not at and account.parent is not None:
            change = max(0, account.usage + change - account.kept) - max(0, account.usage - account.kept)
            account = account.parent
        return change

    def exceeds(self, amount: int = 0) -> bool:
        """Tell whether queue and children would use more than their quota if they were charged `amount` more."""
        return self.usage + amount > self.subtree

    @property
    def borrowed(self) -> int:
        """What queue and children use of others' quota."""
        return max(0, self.usage - self.subtree)

    @property
    def own_borrowed(self) -> int:
        """What the queue's own gangs use of the quota of others, its children's included."""
        return max(0, self.own - self.nominal)

    @property
    def unused(self) -> int:
        """What the queue contributes to its parent and does not use."""
        return max(0, self.subtree - max(self.kept, self.usage))

    @property
    def kept_free(self) -> int:
        """What is left of that which is never lent."""
        return max(0, self.kept - self.usage)

    @property
    def borrowable(self) -> int:
        """How much more the parent may be charged; only where there is a borrowing limit."""
        lent = self.subtree - self.kept
        return lent - max(0, self.usage - self.kept) + (self.borrowing_limit or 0)
