"""Machines of go-gpuallocator's own tests, as Muster's annotation writes them, and layouts of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.hardware.gpusets import GpuLayout, GpuSets
from extender.hardware.links import LinkMatrix, Path, matrix_of, read_matrix
from extender.hardware.products import Product, Products

#: Two NVLinks on 0-3 and 1-2; 0-1 and 2-3 share a socket.
RTX_8000 = read_matrix("X NODE SYS NV2; NODE X NV2 SYS; SYS NV2 X NODE; NV2 SYS NODE X")

#: The halves of an HGX board.
HALVES = (0, 0, 0, 0, 1, 1, 1, 1)


def dgx1_pascal() -> LinkMatrix:
    """Return the cube mesh of a DGX-1 with P100: two full quads, 0-4 to 3-7 between them; 0-2, 1-3, .. on a switch."""
    nvlinks, paths = {}, {}
    for first in range(8):
        for second in range(first + 1, 8):
            same_half = first // 4 == second // 4
            if same_half or second - first == 4:
                nvlinks[first, second] = 1
            if same_half:
                paths[first, second] = Path.PIX if second - first == 2 and first % 4 < 2 else Path.PHB
            else:
                paths[first, second] = Path.SYS
    return matrix_of(8, nvlinks, paths)


def product(label: str, gpus: int = 8) -> Product:
    """Return the product of a node with this label and so many GPUs."""
    found = Products().find({"nvidia.com/gpu.product": label}, gpus)
    assert found is not None, f"the table has no {label}"
    return found


def v100() -> GpuSets:
    """Return the sets of a DGX-1 with V100."""
    return GpuSets(GpuLayout(8, product("Tesla-V100-SXM2-32GB"), zones=HALVES))


def h100(**fields: Any) -> GpuSets:
    """Return the sets of an HGX H100 board; keywords are fields of GpuLayout."""
    return GpuSets(replace(GpuLayout(8, product("NVIDIA-H100-80GB-HBM3"), zones=HALVES), **fields))
