"""Bus bandwidths that others measured, and the tables of docs/bandwidth.md that hold them against the model.

`python -m tests.hardware.published` prints both tables, to be put into the page when one of them changes.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from extender.hardware.calibration import CLIQUE_LEVEL, Measurement, predicted
from extender.hardware.products import Product, Products

PRODUCTS = Path(__file__).parents[2] / "extender" / "hardware" / "products.toml"

#: The table has this very figure; a rule or constant of the model was chosen with it in sight; neither.
TABLE, SEEN, UNSEEN = "table", "seen", "unseen"

_RACK_LEVEL = "rack"


@dataclass(frozen=True, slots=True)
class Published:
    """One published all-reduce: `low` to `high` GB/s among `gpus` GPUs on each of `nodes` nodes.

    `nics` and `nic` stand where the network is not the product's, `reason` where the model is known to be off.
    """

    product: str
    nodes: int
    gpus: int
    low: float
    high: float
    kind: str
    source: str
    level: str = _RACK_LEVEL
    bridged: bool = False
    nics: int | None = None
    nic: float | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the table's name of the product."""
        return self.hardware.name

    @property
    def hardware(self) -> Product:
        """Return the product with the network that the measurement had."""
        product = Products().named(self.product)
        assert product is not None, f"the product table lost {self.product}"
        return replace(product, nics=self.nics or product.nics, nic=self.nic or product.nic)

    @property
    def predicted(self) -> float:
        """Return the model's GB/s, with no tier factor."""
        if self.bridged:
            assert self.hardware.bridged is not None, f"{self.name} has no bridge"
            return self.hardware.bridged
        level = "node" if self.nodes == 1 else self.level
        return predicted(self.hardware, Measurement(self.product, self.gpus, self.nodes, level, self.low), 1.0)

    @property
    def off(self) -> tuple[float, float]:
        """Return by which share the prediction lies above the highest and above the lowest figure."""
        return self.predicted / self.high - 1, self.predicted / self.low - 1

    @property
    def worst(self) -> float:
        """Return the larger of the two deviations, without sign."""
        return max(map(abs, self.off))


H100, H200, B200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-B200"
A100, V100 = "NVIDIA-A100-SXM4-80GB", "Tesla-V100-SXM2-16GB"
GB200, GB300 = "NVIDIA-GB200", "NVIDIA-GB300"
_SHARP = "ml-engineering, SHARP"
_OCI = "OCI GPU Quick Start: NVIDIA GB300"
_DEFAULTS = (
    "NCCL's default channels and queue pairs; the same nodes reach 391 with NCCL_MIN_CTAS=24 and two queue pairs"
)

FIGURES = (
    Published(A100, 1, 8, 230, 232, TABLE, "nccl-tests#149, #175"),
    Published(H100, 1, 8, 476, 480, TABLE, "nccl-tests#212, #290"),
    Published("NVIDIA-H800", 1, 8, 215, 215, TABLE, "nccl#1374"),
    Published(H200, 1, 4, 363, 363, TABLE, _SHARP),
    Published(H200, 1, 5, 414, 414, TABLE, _SHARP),
    Published(H200, 1, 6, 436, 436, TABLE, _SHARP),
    Published(H200, 1, 7, 460, 460, TABLE, _SHARP),
    Published(H200, 1, 8, 473, 475, TABLE, f"{_SHARP}; nccl-tests#272"),
    Published(B200, 1, 4, 673, 673, TABLE, _SHARP),
    Published(B200, 1, 5, 678, 678, TABLE, _SHARP),
    Published(B200, 1, 6, 778, 778, TABLE, _SHARP),
    Published(B200, 1, 7, 811, 811, TABLE, _SHARP),
    Published(B200, 1, 8, 838, 838, TABLE, _SHARP),
    Published(GB200, 18, 4, 835, 847, TABLE, "coreweave/nccl-tests README", level=CLIQUE_LEVEL),
    Published("AMD_Instinct_MI300X_OAM", 1, 8, 315, 316, TABLE, "hisohara/ai-scripts"),
    Published("NVIDIA-A100-80GB-PCIe", 1, 2, 208, 208, TABLE, "nccl-tests#178", bridged=True),
    Published("NVIDIA-A100-80GB-PCIe", 1, 3, 20, 20, TABLE, "nccl-tests#178"),
    Published("NVIDIA-H100-PCIe", 1, 2, 116, 116, TABLE, "nccl#1161", bridged=True),
    Published(
        "NVIDIA-H100-PCIe",
        1,
        8,
        35,
        45,
        TABLE,
        "alayanew (third party)",
        reason="the table has the middle of the range",
    ),
    Published("NVIDIA-GeForce-RTX-5090", 1, 4, 35, 35, TABLE, "nccl#1639"),
    Published("NVIDIA-GeForce-RTX-5090", 1, 8, 28, 28, TABLE, "nccl#1639"),
    Published(
        "NVIDIA-GeForce-RTX-4090",
        1,
        4,
        24,
        35,
        TABLE,
        "nccl#1130, nccl#1086",
        reason="35 over two NUMA zones: without peer-to-peer the CPU's memory is the bound; the table has the lower",
    ),
    Published(V100, 4, 8, 40, 40, SEEN, "nccl-tests#29", reason="NCCL of 2017, which used less of a NIC than 0.94"),
    Published(A100, 2, 8, 86, 96, SEEN, "nccl-tests#175, #119", nics=4),
    Published(H100, 2, 8, 440, 470, SEEN, "coreweave/nccl-tests#92, nccl-tests#309"),
    Published(H100, 4, 8, 366, 366, SEEN, "nccl-tests#309"),
    Published(H100, 8, 8, 386, 386, SEEN, "coreweave/nccl-tests README"),
    Published(H100, 4, 8, 320, 320, SEEN, "nccl#1221", reason="RoCE as it comes; InfiniBand reaches 366"),
    Published(
        H100,
        2,
        8,
        216,
        231,
        SEEN,
        "nccl#2409",
        reason="misconfigured RoCE: no model of hardware can know; calibrate",
    ),
    Published(
        H200,
        248,
        8,
        300,
        350,
        SEEN,
        "nccl-tests#283",
        reason="dips below 300 with other traffic: a tier factor of 0.93",
    ),
    Published(B200, 2, 8, 690, 690, SEEN, "coreweave/nccl-tests#92"),
    Published(B200, 4, 8, 382, 382, SEEN, "ml-engineering (EFA)"),
    Published(GB200, 36, 4, 792, 820, SEEN, "coreweave/nccl-tests README"),
    Published(
        GB200,
        360,
        4,
        405,
        405,
        SEEN,
        "coreweave/nccl-tests README",
        reason="the share of 0.5 over more than two cliques is this figure and no other",
    ),
    Published(H100, 2, 8, 467, 467, UNSEEN, "nccl-tests#309, second cluster"),
    Published(H100, 4, 8, 325, 325, UNSEEN, "nccl-tests#309, second cluster", reason=_DEFAULTS),
    Published(H100, 8, 8, 321, 391, UNSEEN, "nccl-tests#309, second cluster", reason=_DEFAULTS),
    Published(H100, 128, 8, 367, 367, UNSEEN, "nccl-tests#322"),
    Published(H100, 2, 8, 337, 339, UNSEEN, "lessizzmore/create-a3mega-ztan-fork (A3 Mega)", nic=25),
    Published(H200, 2, 8, 485, 486, UNSEEN, "OpenShift on H200 with BlueField-3, NCCL 2.30"),
    Published(GB300, 1, 4, 681, 685, UNSEEN, _OCI),
    Published(GB300, 2, 4, 838, 842, UNSEEN, _OCI, level=CLIQUE_LEVEL),
    Published(
        GB300,
        16,
        4,
        898,
        931,
        UNSEEN,
        _OCI,
        level=CLIQUE_LEVEL,
        reason="a newer NCCL gets more of the switch the more GPUs there are; the table is GB200's",
    ),
    Published(
        GB300, 32, 4, 709, 740, UNSEEN, _OCI, reason="the share of 0.96 over two cliques is one cluster's, GB200"
    ),
    Published(
        "AMD_Instinct_MI300X_OAM",
        2,
        8,
        356,
        357,
        UNSEEN,
        "hisohara/ai-scripts",
        reason="RCCL over two nodes is faster than inside one; the model takes the lesser of node and network",
    ),
)


def published_table() -> str:
    """Return the table of published figures against predictions, in Markdown."""
    lines = [
        "| GPUs | nodes x GPUs | measured | predicted | off | figure | source |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.name}{', one bridge' if one.bridged else ''} | {one.nodes} x {one.gpus} | {_range(one.low, one.high)} "
        f"| {one.predicted:.0f} | {_signed(one)} | {one.kind} | {one.source} |"
        for one in FIGURES
    ]
    return "\n".join(lines)


def outlier_list() -> str:
    """Return the rows that the model is known to miss, with the reason, in Markdown."""
    return "\n".join(
        f"- {one.name}, {one.nodes} x {one.gpus}, {_range(one.low, one.high)} GB/s ({one.source}): {one.reason}."
        for one in FIGURES
        if one.reason
    )


def product_table() -> str:
    """Return the product table in Markdown; a star marks what is an assumption, wholly or in part."""
    lines = [
        "| product | joined by | GB/s among GPUs of a node | one bridge, or clique | NICs, GB/s each |",
        "|---|---|---|---|---|",
    ]
    for entry in tomllib.loads(PRODUCTS.read_text(encoding="utf-8"))["product"]:
        sources = entry["sources"]
        inner = ", ".join(f"{size}: {rate}" for size, rate in entry["inner"].items())
        special = next((f"{entry[key]}{_star(sources[key])}" for key in ("bridged", "clique") if key in entry), "")
        lines.append(
            f"| {entry['name']} | {entry['interconnect']} | {inner}{_star(sources['inner'])} | {special} "
            f"| {entry['nics']} x {entry['nic']}{_star(sources['network'])} |"
        )
    return "\n".join(lines)


def _star(source: str) -> str:
    return " *" if "assumption" in source else ""


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def _signed(one: Published) -> str:
    below, above = (math.floor(100 * share + 0.5) for share in one.off)
    return f"{below:+d} %" if below == above else f"{below:+d} to {above:+d} %"


if __name__ == "__main__":
    print(f"{published_table()}\n\n{outlier_list()}\n\n{product_table()}")  # noqa: T201 - its result is what it prints
