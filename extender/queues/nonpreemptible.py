"""What gangs use that cannot be evicted: what they borrow never comes back, so they stay within nominal quota.

They use the nominal quota of their own queue first, then that of the queues above it, and never what another branch of
the tree contributes. What others use does not count: they can be evicted.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.queues.tree import QueueTree, QuotaShortage

# Example. GPUs of one flavor. Queue org has a quota of 4 of its own and two children: a (2) and b (8).
#
#            nominal   asked for below   goes up   left
#   org            4       1 (of a)            0      3
#   a              2       3                   1      0
#   b              8       0                   0      8
#
# Gangs of a that cannot be evicted hold 3 GPUs: 2 of a's quota and 1 of org's. Three more may have what is left of
# org's, and a fourth has to wait, though b uses nothing: b could not have it back.


class NonPreemptibleUse:
    """Keep what those use of each queue who cannot be evicted; milli-CPU, bytes and counts."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._own: dict[tuple[str, str], dict[str, int]] = {}  # by flavor and resource, then queue
        self._used: dict[tuple[str, str], dict[str, int]] = {}  # the same with what comes up from below

    def charge(self, tree: QueueTree, queue: str, flavor: str, amounts: Mapping[str, int], sign: int) -> None:
        """Charge `amounts` to a queue, or with a `sign` of -1 give them back."""
        for resource, amount in amounts.items():
            key, change = (flavor, resource), sign * amount
            own = self._own.setdefault(key, {})
            own[queue] = own.get(queue, 0) + change
            if not own[queue]:
                del own[queue]
            if not own:
                del self._own[key]
            if key in self._used:
                _pass_on(tree, self._used[key], key, queue, change)

    def forget_tree(self) -> None:
        """Take in that queues or quotas have changed: what goes up from where is found out again."""
        self._used.clear()

    def copy(self) -> NonPreemptibleUse:
        """Return a copy, for whatever thread."""
        twin = NonPreemptibleUse()
        twin._own = {key: dict(own) for key, own in tuple(self._own.items())}
        return twin

    def shortage(self, tree: QueueTree, name: str, flavor: str, amounts: Mapping[str, int]) -> QuotaShortage | None:
        """Return what nominal quota a queue in use lacks for `amounts` that would never be given back; None if it has.

        What it can never have goes before what it cannot have now.
        """
        found: QuotaShortage | None = None
        for resource in amounts.keys() & tree.limited(name, flavor):
            key, asked = (flavor, resource), amounts[resource]
            used = self._used_of(tree, key)
            nominal = {each: tree.own_nominal(each, flavor, resource) for each in tree.path(name)}
            left = sum(max(0, nominal[each] - used.get(each, 0)) for each in nominal)
            most = sum(nominal.values())
            if 0 < asked > left and (found is None or asked > most):
                found = QuotaShortage(name, flavor, resource, asked, left, asked > most, most, nonpreemptible=True)
        return found

    def _used_of(self, tree: QueueTree, key: tuple[str, str]) -> dict[str, int]:
        """Return what is used by queue, with what the queues below it have no quota for. O(queues) after a change."""
        if key not in self._used:
            used = self._used[key] = {}
            for queue, amount in self._own.get(key, {}).items():
                _pass_on(tree, used, key, queue, amount)
        return self._used[key]


def _pass_on(tree: QueueTree, used: dict[str, int], key: tuple[str, str], queue: str, change: int) -> None:
    """Add `change` to what a queue uses, and what it has no quota for to those above it."""
    for name in tree.path(queue) if queue in tree else ():
        nominal, before = tree.own_nominal(name, *key), used.get(name, 0)
        used[name] = before + change
        change = max(0, used[name] - nominal) - max(0, before - nominal)
        if not change:
            return
