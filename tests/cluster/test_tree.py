"""Specification of the level tree: which domain of each tier a node is in follows from labels, objects and cliques."""

from __future__ import annotations

import numpy as np
import pytest

from extender.cluster.table import NodeTable
from extender.cluster.tree import TreeKeeper, build
from extender.objects.levels import Level, Levels
from tests.cluster.conftest import node, pod, table_of

TIERS = Levels((Level("block", "block"), Level("rack", "rack")))
CLIQUE = "nvidia.com/gpu.clique"
UUIDS = ("7b968a6d-c8aa-45e1-9e07-e1e51be99c31.0", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1")


def labelled(*labels: dict[str, str]) -> NodeTable:
    """Return a table of nodes `n-0`, `n-1`, ... with these labels."""
    return table_of(node(f"n-{index}", labels=each) for index, each in enumerate(labels))


def rows(*indices: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return rows."""
    return np.array(indices, dtype=np.intp)


class TestDomains:
    """Which domains there are."""

    def test_namesakes(self) -> None:
        """Racks of one name in different blocks are different racks, though they are called the same."""
        tree = build(labelled({"block": "a", "rack": "1"}, {"block": "b", "rack": "1"}), TIERS)
        assert tree.names == (("a", "b"), ("1", "1"))
        assert tree.domains.tolist() == [[0, 1], [0, 1]]

    def test_missing_label(self) -> None:
        """A node without the label of a level has no domain there, but may have one further in."""
        tree = build(labelled({"block": "a"}, {"rack": "1"}, {}), TIERS)
        assert tree.domains.tolist() == [[0, -1, -1], [-1, 0, -1]]

    def test_members(self) -> None:
        """Domains that objects describe are read from those."""
        levels = Levels((Level("leaf", "hypernode/1"),), members={"hypernode/1": {"n-0": "s0", "n-1": "s0"}})
        tree = build(labelled({}, {}, {}), levels)
        assert tree.domains.tolist() == [[0, 0, -1]]
        assert tree.names == (("s0",),)

    def test_ranks(self) -> None:
        """Domains are ranked by the natural order of their names."""
        tree = build(labelled({"block": "b-10"}, {"block": "b-9"}), Levels((Level("block", "block"),)))
        assert tree.ranks[0].tolist() == [1, 0]

    def test_no_levels(self) -> None:
        """Without levels there are only the cluster and its nodes."""
        tree = build(labelled({}, {}), Levels())
        assert tree.depth == 0
        assert tree.common(rows(0, 1)) == (-1, 0)
        assert tree.factors(-1) == (1.0, 1.0)


class TestCommon:
    """The lowest domain that nodes have in common."""

    @pytest.mark.parametrize(
        ("among", "expected"),
        [((0, 1), (1, 0)), ((0, 2), (0, 0)), ((0, 3), (-1, 0)), ((2,), (2, 2)), ((0, 4), (-1, 0))],
    )
    def test_common(self, among: tuple[int, ...], expected: tuple[int, int]) -> None:
        """It is the rack, the block, the cluster, for one node that node; unlabelled nodes share the cluster only."""
        table = labelled(*({"block": b, "rack": r} for b, r in ("a1", "a1", "a2", "b1")), {})
        tree = build(table, TIERS)
        assert tree.common(rows(*among)) == expected
        level, domain = expected
        names = {(1, 0): "1", (0, 0): "a", (-1, 0): "", (2, 2): "n-2"}
        assert tree.domain_name(level, domain, table.node) == names[level, domain]


class TestCliques:
    """Multi-node NVLink domains."""

    def test_innermost(self) -> None:
        """They are a level of their own inside the innermost that none of them crosses."""
        found = [{"block": "a", "rack": "1", CLIQUE: UUIDS[index // 2]} for index in range(4)]
        tree = build(labelled(*found), TIERS)
        assert [level.name for level in tree.levels.levels] == ["block", "rack", "clique"]
        assert tree.cliques == 2
        assert tree.domains[2].tolist() == [0, 0, 1, 1]

    def test_across_racks(self) -> None:
        """Where one spans several racks the level goes outside of the racks."""
        tree = build(labelled(*({"block": "a", "rack": str(n), CLIQUE: UUIDS[0]} for n in range(2))), TIERS)
        assert [level.name for level in tree.levels.levels] == ["block", "clique", "rack"]
        assert tree.common(rows(0, 1)) == (1, 0)

    def test_factors_stay(self) -> None:
        """Racks and blocks keep the factors that they have without the level in between."""
        plain = build(labelled({"block": "a", "rack": "1"}), TIERS)
        tree = build(labelled({"block": "a", "rack": "1", CLIQUE: UUIDS[0]}), TIERS)
        assert [tree.factors(level) for level in range(-1, 2)] == [plain.factors(level) for level in range(-1, 2)]

    def test_listed(self) -> None:
        """A list of levels may have them itself."""
        levels = Levels((Level("block", "block"), Level("nvl", CLIQUE)))
        tree = build(labelled({"block": "a", CLIQUE: UUIDS[0]}, {"block": "a"}), levels)
        assert tree.cliques == 1
        assert tree.domains[1].tolist() == [0, -1]

    def test_no_name(self) -> None:
        """A fabric without a name joins nobody: unrelated nodes report it."""
        zero = "00000000-0000-0000-0000-000000000000.0"
        assert build(labelled({CLIQUE: zero}, {CLIQUE: zero}), TIERS).cliques is None


class TestKeeper:
    """The tree is built when it has to be."""

    def test_kept(self) -> None:
        """It is the same as long as no label and no level changes, and another one afterwards."""
        table = labelled({"block": "a"})
        keeper = TreeKeeper(table)
        first = keeper.tree(TIERS)
        table.claim("pod", "n-0", pod("p").shape)
        assert keeper.tree(TIERS) is first
        table.upsert(node("n-0", labels={"block": "b"}))
        second = keeper.tree(TIERS)
        assert second.names[0] == ("b",)
        assert keeper.tree(Levels()) is not second
