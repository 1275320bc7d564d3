"""Which sets of a board's GPUs are looked at."""

from __future__ import annotations

from math import comb

from hypothesis import given
from hypothesis import strategies as st

from extender.hardware.bandwidth import Islands
from extender.hardware.gpusets import mask_of


def switches_and_sockets(first: int, second: int) -> int:
    """Score GPUs in fours on a switch and in eights on a socket."""
    if first // 4 == second // 4:
        return 50
    return 20 if first // 8 == second // 8 else 10


def alike(first: int, second: int) -> int:
    """Score every pair alike."""
    return int(first != second)


def test_small_boards_have_every_set() -> None:
    """Of up to eight GPUs every set of a size is looked at, each once."""
    islands = Islands(8, switches_and_sockets)
    for size in range(1, 9):
        found = list(islands.sets(255, size))
        assert len(found) == len(set(found)) == comb(8, size)
    assert list(islands.sets(0b101, 2)) == [0b101]


def test_large_boards_have_one_set_for_each_island() -> None:
    """Of sixteen GPUs those within a switch, within a socket, and of the whole board are looked at."""
    islands = Islands(16, switches_and_sockets)
    assert set(islands.sets(0xFFFF, 4)) == {0xF, 0xF0, 0xF00, 0xF000}
    assert set(islands.sets(0xFFFF, 8)) == {0xFF, 0xFF00}
    assert len(set(islands.sets(0xFFFF, 1))) == 16


def test_what_spans_islands_breaks_as_few_as_possible() -> None:
    """Six GPUs are a whole switch and two of another; of broken switches the one that fits is used up."""
    islands = Islands(16, switches_and_sockets)
    assert set(islands.sets(0xFFFF, 6)) == {0x3F, 0x3F00}
    assert 0xC3 in set(islands.sets(mask_of((0, 1, 2, 3, 6, 7)) & ~0xC, 4))
    assert 0b1100_1111 in set(islands.sets(0b1100_1111, 6))


def test_boards_of_equal_pairs_have_one_island() -> None:
    """Where all pairs are alike, the lowest GPUs are as good as any; given islands are considered beside."""
    assert list(Islands(12, alike).sets(0xFFF, 3)) == [0b111]
    assert set(Islands(12, alike, (0xFC0,)).sets(0xFFF, 3)) == {0b111 << 6}


@given(
    st.integers(9, 20).flatmap(
        lambda gpus: st.tuples(st.just(gpus), st.integers(0, 2**gpus - 1), st.integers(1, gpus), st.integers(0, 2**32))
    )
)
def test_sets_have_their_size_and_are_free(board: tuple[int, int, int, int]) -> None:
    """Every set has the size asked for and free GPUs only; there is one if and only if enough are free."""
    gpus, free, size, seed = board

    def pair(first: int, second: int) -> int:
        return (seed >> (first * second + first + second) % 31 & 3) * 100

    found = list(Islands(gpus, pair).sets(free, size))
    assert all(each.bit_count() == size and not each & ~free for each in found)
    assert bool(found) == (free.bit_count() >= size)
    assert len(found) <= 2 * gpus
