"""Which sets of GPUs are worth a look: all of a small board; of a large one those within what is joined closely."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

#: Up to so many GPUs every set is looked at. Twice as many have 65,536 sets, and that is too long for one decision.
EXACT = 8


class Islands:
    """The islands of one board: GPUs that are joined more closely with each other than with the rest.

    For every score that a pair has, those GPUs are one island that pairs of at least this score connect. Islands are
    nested, so there are at most twice as many as GPUs.
    """

    def __init__(self, gpus: int, pair: Callable[[int, int], int], given: Sequence[int] = ()) -> None:
        """Find the islands of `gpus` GPUs.

        Args:
            gpus: how many there are.
            pair: the score of two GPUs by device index; higher is closer.
            given: further islands as bit masks, such as NUMA zones.
        """
        self.exact = gpus <= EXACT
        scores = {pair(i, j) for i in range(gpus) for j in range(i)}
        found = {(1 << gpus) - 1, *given}
        if not self.exact:
            for score in scores:
                found |= _connected(gpus, pair, score)
        self._islands = sorted((mask for mask in found if mask), key=lambda mask: (mask.bit_count(), mask))
        self._children = {island: self._inside(island) for island in self._islands}

    def sets(self, free: int, size: int) -> Iterator[int]:
        """Yield sets of `size` of the `free` GPUs: each once, all of them on a small board.

        On a large one: single GPUs, and one set within each island that holds it, which leaves islands inside whole
        where it can.
        """
        if self.exact or size == 1:
            bits = [1 << index for index in range(free.bit_length()) if free >> index & 1]
            yield from map(sum, combinations(bits, size))
            return
        seen: set[int] = set()
        for island in self._islands:
            if (island & free).bit_count() >= size:
                chosen = self._fill(island, free, size)
                if chosen not in seen:
                    seen.add(chosen)
                    yield chosen

    def _fill(self, island: int, free: int, size: int) -> int:
        """Take `size` free GPUs of an island: the tightest island inside that holds them, else whole ones first."""
        within = island & free
        if within.bit_count() == size or not self._children.get(island):
            return _lowest(within, size)
        children = {child & free: child for child in self._children[island] if child & free}
        chosen = 0
        while size and children:
            holding = [mask for mask in children if mask.bit_count() >= size]
            if holding:
                tightest = min(holding, key=lambda mask: (mask.bit_count(), mask))
                return chosen | self._fill(children[tightest], free, size)
            largest = min(children, key=lambda mask: (-mask.bit_count(), mask))
            del children[largest]
            chosen |= largest
            size -= largest.bit_count()
        return chosen

    def _inside(self, island: int) -> tuple[int, ...]:
        """Return the largest islands inside one, and its other GPUs one by one; disjoint, together the whole of it."""
        children: list[int] = []
        rest = island
        for other in reversed(self._islands):
            if other != island and not other & ~rest:
                children.append(other)
                rest &= ~other
        singles = (1 << index for index in range(rest.bit_length()) if rest >> index & 1)
        return (*children, *singles) if children else ()


def _connected(gpus: int, pair: Callable[[int, int], int], score: int) -> set[int]:
    """Return the sets of GPUs that pairs of at least `score` connect."""
    groups: list[int] = []
    for gpu in range(gpus):
        joined = [group for group in groups if any(group >> i & 1 and pair(gpu, i) >= score for i in range(gpu))]
        groups = [group for group in groups if group not in joined]
        groups.append(sum(joined) | 1 << gpu)
    return set(groups)


def _lowest(mask: int, count: int) -> int:
    """Return the `count` lowest bits of a mask."""
    chosen = 0
    for _ in range(count):
        low = mask & -mask
        chosen |= low
        mask ^= low
    return chosen
