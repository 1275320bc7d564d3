"""The table of products, and which of them a node has by its labels."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from extender.hardware.calibration import CLIQUE_LEVEL, Calibration, Measurement, calibrated
from extender.hardware.product import Interconnect, Product
from extender.objects.reason import Problem
from extender.objects.text import parse_integer

__all__ = ["Interconnect", "Product", "Products"]

#: Node labels that name the product, the most exact one first.
PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
INSTANCE_LABEL = "node.kubernetes.io/instance-type"
#: How many pods GPU feature discovery lets share one GPU.
REPLICAS_LABEL = "nvidia.com/gpu.replicas"

#: As many as a node has at most, whatever is usual: DGX-2, a2-megagpu-16g.
_MOST_GPUS = 16

_SHARED = re.compile(r"-SHARED$")
_MIG = re.compile(r"-MIG-.+$")


@dataclass(frozen=True, slots=True)
class _Network:
    """NICs of a node, GB/s of each."""

    nics: int
    nic: float


@dataclass(frozen=True, slots=True)
class _Table:
    """The file of products: entries by name, names by what labels say (folded), networks by instance type."""

    entries: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, str]
    instances: Mapping[str, _Network]
    mig: Mapping[str, Any]


@cache
def _table() -> _Table:
    """Read the file once; it never changes while a program runs."""
    document = tomllib.loads(files("extender.hardware").joinpath("products.toml").read_text(encoding="utf-8"))
    entries = {entry["name"]: entry for entry in document["product"]}
    names = {
        said.casefold(): name
        for name, entry in entries.items()
        for said in (name, *entry["labels"], *entry.get("accelerators", ()))
    }
    instances = {
        one["type"]: _Network(one["nics"], float(one["nic"]))
        for cloud in document["instances"].values()
        for one in cloud["types"]
    }
    return _Table(entries, names, instances, document["mig"])


@dataclass(frozen=True, slots=True)
class Products:
    """What each node's GPUs are: the table, with what was measured on this cluster over it."""

    calibration: Calibration = field(default_factory=Calibration)
    _found: dict[tuple[str, str, int, int], Product | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what of the calibration cannot be used."""
        unusable = (_unusable(one) for one in self.calibration.measurements)
        return (*self.calibration.problems, *(one for one in unusable if one is not None))

    def find(self, labels: Mapping[str, str], gpus: int, described: str = "") -> Product | None:
        """Return what a node with these labels and so many GPUs has; None if the table does not know it.

        `described` is the product that drivers name in ResourceSlices; it counts where no label names one.
        GPUs are those of the resource, so shared ones and MIG slices count each. Equal nodes get the same object.
        """
        said = next((labels[key] for key in (*PRODUCT_LABELS, ACCELERATOR_LABEL) if labels.get(key)), described)
        replicas = parse_integer(labels.get(REPLICAS_LABEL, "")) or 1
        key = (said, labels.get(INSTANCE_LABEL, ""), gpus, replicas)
        if key not in self._found:
            self._found[key] = self._make(*key)
        return self._found[key]

    def named(self, said: str, instance: str = "") -> Product | None:
        """Return a whole node of the product that a label, or the table, calls so; None if the table has none.

        With `instance`, an instance type, it has that one's network.
        """
        name = _name(said)
        return None if name is None else self._make(name, instance, _table().entries[name]["gpus"], 1)

    def _make(self, said: str, instance: str, gpus: int, replicas: int) -> Product | None:
        name = _name(said)
        if name is None:
            return None
        entry, network = _table().entries[name], _table().instances.get(instance)
        if _MIG.search(_SHARED.sub("", said)):
            return _sliced(entry, network, gpus)
        whole = _whole(entry, network, gpus, max(1, gpus // max(1, replicas)))
        usable = (one for one in self.calibration.measurements if _name(one.product) == name and not _unusable(one))
        return calibrated(whole, usable)


def same_product(one: str, other: str) -> bool:
    """Tell whether two words for a product, without what sharing and slicing append, mean the same one."""
    names = [_name(each) or _MIG.sub("", _SHARED.sub("", each)).casefold() for each in (one, other)]
    return names[0] == names[1]


def _name(said: str) -> str | None:
    """Return the table's name of what a label calls a product, without what sharing and slicing append."""
    return _table().names.get(_MIG.sub("", _SHARED.sub("", said)).casefold())


def _unusable(measurement: Measurement) -> Problem | None:
    name = _name(measurement.product)
    if name is None:
        known = ", ".join(sorted(label for entry in _table().entries.values() for label in entry["labels"]))
        return Problem(f"{measurement.field}.product", f"{measurement.product!r} is not in the table; known: {known}")
    entry = _table().entries[name]
    if measurement.level == CLIQUE_LEVEL and "clique" not in entry:
        return Problem(f"{measurement.field}.level", f"{CLIQUE_LEVEL!r}, but {name} has no multi-node NVLink")
    if measurement.gpus_per_node > max(entry["gpus"], _MOST_GPUS):
        return Problem(
            f"{measurement.field}.gpusPerNode",
            f"{measurement.gpus_per_node}, but a node of {name} has {entry['gpus']} GPUs",
        )
    return None


def _whole(entry: Mapping[str, Any], network: _Network | None, gpus: int, physical: int) -> Product:
    """Return a node of `physical` whole GPUs that are handed out as `gpus`."""
    usual: int = entry["gpus"]
    # A part of the usual node has its part of the usual NICs.
    nics = network.nics if network else max(1, -(-entry["nics"] * physical // usual))
    return Product(
        name=entry["name"],
        interconnect=Interconnect(entry["interconnect"]),
        gpus=max(1, gpus),
        table=_by_size(entry["inner"], max(usual, gpus)),
        nics=nics,
        nic=network.nic if network else float(entry["nic"]),
        nvls=entry.get("nvls", False),
        peer_to_peer=entry.get("peer_to_peer", True),
        bridged=entry.get("bridged"),
        clique=entry.get("clique"),
        clique_gpus=entry.get("clique_gpus", 0),
        zones=_zones(entry["zones"], gpus),
        links=entry.get("links") if gpus == usual else None,
        source="; ".join(f"{what}: {said}" for what, said in entry["sources"].items()),
    )


def _sliced(entry: Mapping[str, Any], network: _Network | None, gpus: int) -> Product:
    """Return a node whose GPUs are cut into `gpus` MIG slices: they reach each other through the CPU's memory."""
    mig = _table().mig
    return Product(
        name=f"{entry['name']} MIG",
        interconnect=Interconnect.PCIE,
        gpus=max(1, gpus),
        table=(float(mig["inner"]),),
        nics=network.nics if network else entry["nics"],
        nic=network.nic if network else float(entry["nic"]),
        peer_to_peer=False,
        source=f"inner: {mig['source']}; network: {entry['sources']['network']}",
    )


def _by_size(inner: Mapping[str, float], most: int) -> tuple[float, ...]:
    """Return the GB/s of 2, 3 .. `most` GPUs from a table whose entries hold up to the next one."""
    by_size, rate = [], math.inf
    for size in range(2, max(2, most) + 1):
        rate = float(inner.get(str(size), rate))
        by_size.append(rate)
    return tuple(by_size)


def _zones(usual: list[int], gpus: int) -> tuple[int, ...]:
    """Return GPUs per zone of a node with so many GPUs: evenly over as many zones, () if they cannot be."""
    each, rest = divmod(gpus, len(usual))
    if gpus == 1:
        return (1,)
    return (each,) * len(usual) if each and not rest else ()
