"""GB/s among the GPUs of one set: meshes, bridges, PCIe, NVSwitch and nodes that nobody knows."""

from __future__ import annotations

from math import inf

import pytest

from extender.hardware.bandwidth import NOMINAL, SetBandwidth
from extender.hardware.gpusets import mask_of
from extender.hardware.links import read_matrix
from extender.hardware.products import Product
from tests.hardware.machines import HALVES, RTX_8000, product

V100 = "Tesla-V100-SXM2-32GB"
BRIDGES = read_matrix("X NV12 NODE SYS; NV12 X NODE SYS; NODE NODE X SYS; SYS SYS SYS X")
SWITCH = "; ".join(" ".join("X" if i == j else "NV18" for j in range(4)) for i in range(4))


def rate(bandwidth: SetBandwidth, *gpus: int) -> float:
    """Return the GB/s of a set."""
    return bandwidth.of(mask_of(gpus))


def with_product(label: str, matrix: str = "", zones: tuple[int, ...] = ()) -> SetBandwidth:
    """Return the bandwidths of eight GPUs of a product; without matrix none is known."""
    return SetBandwidth(8, product(label), read_matrix(matrix) if matrix else None, zones)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ((0, 3), 40),
        ((0, 1), 20),
        ((0, 1, 2, 3), 80),
        (range(8), 120),
        ((2, 5), 15),
        ((0, 1, 4, 5), 60),
        ((0, 3, 5), 15),
    ],
)
def test_mesh_is_as_fast_as_its_worst_joined_gpu(gpus: tuple[int, ...], expected: float) -> None:
    """In a DGX-1 with V100 each NVLink inside the set is 20 GB/s; GPUs that NVLinks do not connect talk over PCIe."""
    assert rate(with_product(V100), *gpus) == pytest.approx(expected)


def test_sets_of_one_gpu_or_none_do_not_communicate() -> None:
    """There is nothing to be slow among one GPU or none."""
    assert (rate(with_product(V100), 3), rate(with_product(V100))) == (inf, inf)


def test_mesh_without_known_links_is_flat() -> None:
    """A mesh of which no links are known has the product's figures whichever the GPUs are."""
    bandwidth = with_product("AMD_Instinct_MI300X_OAM")
    assert rate(bandwidth, 0, 7) == rate(bandwidth, 2, 3) == 45


def test_bridge_joins_one_pair_and_no_more() -> None:
    """An A100 pair on a bridge has 208 GB/s; pairs without it, and sets that go beyond it, are PCIe-bound."""
    bandwidth = SetBandwidth(4, product("NVIDIA-A100-PCIE-40GB", 4), BRIDGES, ())
    assert rate(bandwidth, 0, 1) == 208
    assert rate(bandwidth, 0, 2) == rate(bandwidth, 0, 1, 2) == 20
    assert rate(bandwidth, 2, 3) == 15
    assert rate(bandwidth, 0, 1, 2, 3) == 20


def test_bridge_over_four_gpus_joins_all_of_them() -> None:
    """Where a bridge joins four GPUs, two of them use a third of its links."""
    matrix = "X NV6 NV6 NV6 SYS; NV6 X NV6 NV6 SYS; NV6 NV6 X NV6 SYS; NV6 NV6 NV6 X SYS; SYS SYS SYS SYS X"
    bandwidth = SetBandwidth(5, product("NVIDIA-H200-NVL", 5), read_matrix(matrix), ())
    assert rate(bandwidth, 0, 1, 2, 3) == 337
    assert rate(bandwidth, 0, 1) == pytest.approx(337 / 3)
    assert rate(bandwidth, 0, 4) == 40


def test_bridges_are_not_assumed() -> None:
    """Without a link matrix nobody knows which GPUs have bridges: all sets are PCIe-bound."""
    assert rate(with_product("NVIDIA-A100-PCIE-40GB"), 0, 1) == 20


def test_all_gpus_on_bridges_of_one_size() -> None:
    """Where every pair of the node has equally many NVLinks, they are links that all pairs share."""
    bandwidth = SetBandwidth(4, product("NVIDIA-H200-NVL", 4), read_matrix(SWITCH), ())
    assert rate(bandwidth, 0, 1) == rate(bandwidth, 0, 1, 2, 3) == 337


@pytest.mark.parametrize(("gpus", "expected"), [((0, 1), 20), ((0, 2), 20 * 20 / 24), ((0, 4), 20 * 15 / 24)])
def test_pcie_is_as_slow_as_its_longest_path(gpus: tuple[int, ...], expected: float) -> None:
    """The product's figure is that of GPUs on one switch where there are some; bridges and sockets cost a share."""
    rows = [
        " ".join(
            "X" if i == j else "PIX" if i // 2 == j // 2 else "NODE" if i // 4 == j // 4 else "SYS" for j in range(8)
        )
        for i in range(8)
    ]
    assert rate(with_product("NVIDIA-L40S", ";".join(rows)), *gpus) == pytest.approx(expected)


def test_zones_stand_in_for_unknown_paths() -> None:
    """Zones alone tell paths within a socket from those between two."""
    bandwidth = with_product("NVIDIA-L40S", zones=HALVES)
    assert (rate(bandwidth, 0, 3), rate(bandwidth, 3, 4)) == (20, 15)
    assert rate(bandwidth, *range(8)) == 20
    assert (bandwidth.pair(0, 3), bandwidth.pair(3, 4), bandwidth.closeness(mask_of((2, 3, 4)))) == (20, 10, 40)


def test_boards_without_peer_to_peer_do_not_reward_packing() -> None:
    """GPUs that reach each other only through the CPU's memory are alike, in one zone or in two."""
    bandwidth = with_product("NVIDIA-GeForce-RTX-4090", zones=HALVES)
    assert rate(bandwidth, 0, 1) == rate(bandwidth, 0, 4) == 24


def test_nvswitch_is_flat() -> None:
    """On NVSwitch only the number of GPUs counts, whatever a matrix says."""
    bandwidth = with_product("NVIDIA-H100-80GB-HBM3", zones=HALVES)
    assert [rate(bandwidth, *range(k)) for k in (2, 4, 5, 8)] == [365, 365, 414, 475]


def test_unknown_products() -> None:
    """Without product and links every set is rated alike; with links by them, a switch's counted once."""
    unknown: Product | None = None
    assert rate(SetBandwidth(8, unknown, None, HALVES), 0, 4) == NOMINAL
    assert rate(SetBandwidth(8, unknown, RTX_8000, ()), 0, 4) == NOMINAL  # not a matrix of eight GPUs
    bridged = SetBandwidth(4, unknown, RTX_8000, ())
    assert [rate(bridged, *gpus) for gpus in ((0, 3), (0, 1), (0, 2), (0, 1, 2, 3))] == [40, 20, 15, 15]
    assert rate(SetBandwidth(4, unknown, read_matrix(SWITCH), ()), 0, 1, 2, 3) == 360


def test_links_on_a_product_that_has_none() -> None:
    """NVLinks that a matrix shows count by their number on a product that is not known to have any."""
    assert rate(SetBandwidth(4, product("NVIDIA-L40S", 4), RTX_8000, ()), 0, 3) == 40
