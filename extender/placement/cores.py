"""Which other members a gang may start with, where the first in member order find no place."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from typing import Final, TypeAlias

from extender.cluster.gangs import Gang, core, member_order, role_gaps
from extender.objects.branches import Branch
from extender.objects.pod import Pod, Shape

_Kind: TypeAlias = tuple[str, Shape]
"""Members with one role and one shape: which of them start makes no difference."""

#: Choices of which it is counted what they ask for: some 10 ms of work.
_MOST_COUNTED: Final = 1024


# Example. minMember is 3 of two members of role a and four of role b, and only one of a has room anywhere:
#
#   the first in member order   a a b
#   the others, in this order   a b b, then b b b
#
# With a minimum of 1 for role a the last is left out.
def other_cores(
    gang: Gang, pods: int, most: Callable[[Shape], int], free: Mapping[str, int] | None = None
) -> Iterator[list[Pod]]:
    """Yield other choices of `pods` members to start with, those with the most of the first choice first.

    Each has what each role lacks of its own minimum. `most` is how many pods of a shape have room at all. Of the first
    ones those that ask for more of a resource than is `free` are left out. Members that kube-scheduler refuses are in
    none. Complexity: O(members), then O(kinds of members^2) for each choice.
    """
    tree = gang.tree
    if tree is not None and tree.has_choice:
        yield from _other_parts(gang, tree, free)
        return
    members: dict[_Kind, list[Pod]] = {}
    for pod in gang.unplaced():
        if pod.uid not in gang.refused:
            members.setdefault((pod.role, pod.shape), []).append(pod)
    if len(members) < 2:  # noqa: PLR2004 - two kinds to choose from
        return
    caps = {kind: min(len(own), most(kind[1])) for kind, own in members.items()}
    usual = Counter((pod.role, pod.shape) for pod in core(gang, pods))
    kinds, gaps = list(members), role_gaps(gang)
    first = _nearest([usual[kind] for kind in kinds], kinds, caps, gaps, pods)
    if first is None:
        return
    for number, counts in enumerate(_outwards(first, kinds, caps, gaps)):
        asks_too_much = number < _MOST_COUNTED and not _is_within(free, counts, kinds)
        if counts != tuple(usual[kind] for kind in kinds) and not asks_too_much:
            chosen = [pod for kind, count in zip(kinds, counts, strict=True) for pod in members[kind][:count]]
            yield sorted(chosen, key=member_order)


def _other_parts(gang: Gang, tree: Branch, free: Mapping[str, int] | None) -> Iterator[list[Pod]]:
    """Yield what other parts of the gang lack that would do as well; those that ask for too much are left out."""
    by_role: dict[str, list[Pod]] = {}
    for pod in gang.unplaced():
        if pod.uid not in gang.refused:
            by_role.setdefault(pod.role, []).append(pod)
    for minimums in islice(tree.choices(gang.standing), 1, _MOST_COUNTED):
        gaps = {role: max(least - gang.standing(role).placed, 0) for role, least in minimums.items()}
        if any(len(by_role.get(role, ())) < gap for role, gap in gaps.items()):
            continue
        chosen = [pod for role, gap in gaps.items() for pod in by_role.get(role, ())[:gap]]
        kinds = Counter((pod.role, pod.shape) for pod in chosen)
        if chosen and _is_within(free, list(kinds.values()), list(kinds)):
            yield sorted(chosen, key=member_order)


def _outwards(
    first: tuple[int, ...], kinds: Sequence[_Kind], caps: Mapping[_Kind, int], gaps: Mapping[str, int]
) -> Iterator[tuple[int, ...]]:
    """Yield all choices with room by numbers, those first that differ least from the first."""
    edge, seen = deque([first]), {first}
    while edge:
        counts = edge.popleft()
        yield counts
        for less, more in permutations(range(len(kinds)), 2):
            other = tuple(count - (at == less) + (at == more) for at, count in enumerate(counts))
            within = counts[less] and counts[more] < caps[kinds[more]]
            if within and other not in seen and _has_minimums(other, kinds, gaps):
                seen.add(other)
                edge.append(other)


def _nearest(
    usual: Sequence[int], kinds: Sequence[_Kind], caps: Mapping[_Kind, int], gaps: Mapping[str, int], pods: int
) -> tuple[int, ...] | None:
    """Return the choice with room by numbers that has the most of the usual one; None if there is none."""
    counts = [min(count, caps[kind]) for count, kind in zip(usual, kinds, strict=True)]
    for role in (*gaps, None):
        for index, kind in enumerate(kinds):
            short = pods - sum(counts)
            if role is not None:
                own = sum(count for count, other in zip(counts, kinds, strict=True) if other[0] == role)
                short = min(short, gaps[role] - own) if kind[0] == role else 0
            counts[index] += max(min(short, caps[kind] - counts[index]), 0)
    return tuple(counts) if sum(counts) == pods and _has_minimums(counts, kinds, gaps) else None


def _is_within(free: Mapping[str, int] | None, counts: Sequence[int], kinds: Sequence[_Kind]) -> bool:
    """Tell whether so many members of each kind ask for no more of any resource than is free."""
    if free is None:
        return True
    asked: Counter[str] = Counter()
    for count, (_, shape) in zip(counts, kinds, strict=True):
        for resource, amount in shape.requests if count else ():
            asked[resource] += count * amount
    return all(amount <= free.get(resource, 0) for resource, amount in asked.items())


def _has_minimums(counts: Sequence[int], kinds: Sequence[_Kind], gaps: Mapping[str, int]) -> bool:
    found: Counter[str] = Counter()
    for count, (role, _) in zip(counts, kinds, strict=True):
        found[role] += count
    return all(found[role] >= gap for role, gap in gaps.items())
