"""Bandwidths that were measured with nccl-tests on the cluster, read from a ConfigMap, and what they say of a product.

    data:
      calibration.yaml: |
        measurements:
        - product: NVIDIA-H100-80GB-HBM3  # a value of nvidia.com/gpu.product, or a name of the product table
          gpusPerNode: 8                  # how many GPUs of each node took part
          nodes: 4
          level: rack                     # the lowest level that the nodes share: "node" for one node, "cluster" if
                                          # they share none, "clique" if one multi-node NVLink domain joins them
          busBandwidthGBps: 366.2
          collective: allreduce           # or alltoall; allreduce when left out
          source: second week of March    # for people; may be left out

Entries that cannot be read become problems; the others count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import Struct

from extender.hardware.bandwidth import IslandUse, contribution
from extender.hardware.product import Product
from extender.objects.levels import CLUSTER_LEVEL, NODE_LEVEL
from extender.objects.meta import Decoder, ObjectMeta
from extender.objects.reason import Problem
from extender.objects.topology import Objective
from extender.strictyaml import DocumentError, load_documents


class ConfigMap(Struct, gc=False, frozen=True):
    """A ConfigMap."""

    metadata: ObjectMeta | None = None
    data: dict[str, str] | None = None


decode_config_map = Decoder(ConfigMap)

#: The ConfigMap's key, and the list in it.
DATA_KEY = "calibration.yaml"
LIST_KEY = "measurements"

#: The level of nodes that one multi-node NVLink domain joins.
CLIQUE_LEVEL = "clique"

#: A measurement this close to what the nodes themselves allow says nothing about the network between them.
#: It is the model's own error (docs/bandwidth.md).
NODE_BOUND = 0.9
_FIELDS = frozenset({"product", "gpusPerNode", "nodes", "level", "busBandwidthGBps", "collective", "source"})
_COLLECTIVES = {"allreduce": Objective.ALLREDUCE, "alltoall": Objective.ALLTOALL}
_FEWEST_GPUS = 2
_MOST = 1_000_000  # nodes of a test: none has so many
_SMALL = 1e-6


@dataclass(frozen=True, slots=True)
class Measurement:
    """One bus bandwidth, in GB/s, of `nodes` nodes with `gpus_per_node` GPUs each; `field` is where it stands."""

    product: str
    gpus_per_node: int
    nodes: int
    level: str
    gbps: float
    collective: Objective = Objective.ALLREDUCE
    source: str = ""
    field: str = field(default="", compare=False)

    @property
    def size(self) -> tuple[object, ...]:
        """Return what tells it from other measurements: all but the result and where it is from."""
        return self.product, self.gpus_per_node, self.nodes, self.level, self.collective

    @property
    def gpus(self) -> int:
        """Return how many GPUs took part."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Calibration:
    """All measurements of a cluster, and what of the ConfigMap could not be read."""

    measurements: tuple[Measurement, ...] = ()
    problems: tuple[Problem, ...] = ()


class _UnreadableError(ValueError):
    """One entry says something impossible; carries the Problem."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(where, message)


def read_calibration(data: Mapping[str, str]) -> Calibration:
    """Read a ConfigMap's data; what cannot be read becomes a problem that names entry and field."""
    key = f"data[{DATA_KEY}]"
    text = data.get(DATA_KEY)
    if text is None:
        return Calibration(problems=(Problem(key, "missing; `muster calibrate` writes it"),))
    try:
        documents = load_documents(text)
    except DocumentError as error:
        return Calibration(problems=(Problem(key, str(error)),))
    document = documents[0] if len(documents) == 1 else None
    entries = document.get(LIST_KEY) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        return Calibration(problems=(Problem(key, f"is not one document with a list under `{LIST_KEY}`"),))
    measurements: dict[tuple[object, ...], Measurement] = {}
    problems = []
    for index, entry in enumerate(entries):
        try:
            one = _measurement(f"{key}.{LIST_KEY}[{index}]", entry)
        except _UnreadableError as error:
            problems.append(error.problem)
            continue
        if (first := measurements.setdefault(one.size, one)) is not one:
            problems.append(Problem(one.field, f"is of the same size as {first.field}, which counts; remove one"))
    return Calibration(tuple(measurements.values()), tuple(problems))


def _measurement(where: str, entry: object) -> Measurement:
    if not isinstance(entry, dict):
        raise _UnreadableError(where, "is not a mapping")
    unknown = sorted(str(key) for key in entry if key not in _FIELDS)
    if unknown:
        raise _UnreadableError(f"{where}.{unknown[0]}", f"unknown field; known here: {', '.join(sorted(_FIELDS))}")
    collective = _text(where, entry, "collective", "allreduce")
    if collective not in _COLLECTIVES:
        raise _UnreadableError(f"{where}.collective", f"{collective!r} is not {' or '.join(_COLLECTIVES)}")
    measurement = Measurement(
        product=_text(where, entry, "product"),
        gpus_per_node=_count(where, entry, "gpusPerNode"),
        nodes=_count(where, entry, "nodes"),
        level=_text(where, entry, "level"),
        gbps=_rate(where, entry, "busBandwidthGBps"),
        collective=_COLLECTIVES[collective],
        source=_text(where, entry, "source", ""),
        field=where,
    )
    _check(measurement)
    return measurement


def _check(measurement: Measurement) -> None:
    """Raise _UnreadableError for fields that contradict each other."""
    where, one_node = measurement.field, measurement.nodes == 1
    if measurement.gpus < _FEWEST_GPUS:
        raise _UnreadableError(f"{where}.gpusPerNode", "one GPU has no other to communicate with")
    if one_node and measurement.level != NODE_LEVEL:
        raise _UnreadableError(f"{where}.level", f"{measurement.level!r}, but one node is the level {NODE_LEVEL!r}")
    if not one_node and measurement.level == NODE_LEVEL:
        raise _UnreadableError(
            f"{where}.level",
            f"{NODE_LEVEL!r}, but there are {measurement.nodes} nodes; name the lowest level that they share, "
            f"{CLUSTER_LEVEL!r} if none",
        )
    if measurement.collective is Objective.ALLTOALL and measurement.level in {NODE_LEVEL, CLIQUE_LEVEL}:
        raise _UnreadableError(f"{where}.collective", "alltoall is predicted from the network only: measure over nodes")


def _text(where: str, entry: Mapping[object, object], key: str, default: str | None = None) -> str:
    value = entry.get(key, default)
    if value is None:
        raise _UnreadableError(f"{where}.{key}", "missing")
    if not isinstance(value, str) or (default is None and not value):
        raise _UnreadableError(f"{where}.{key}", f"{value!r} is not a text; put it in quotes")
    return value


def _count(where: str, entry: Mapping[object, object], key: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
        raise _UnreadableError(f"{where}.{key}", f"{value!r} is not a whole number from 1 to {_MOST}")
    return value


def _rate(where: str, entry: Mapping[object, object], key: str) -> float:
    value = entry.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise _UnreadableError(f"{where}.{key}", f"{value!r} is not a number of GB/s above 0")
    return float(value)


def calibrated(product: Product, measurements: Iterable[Measurement]) -> Product:
    """Return `product` with what was measured on it over what its table says."""
    network: dict[tuple[Objective, str], list[Measurement]] = {}
    table = list(product.table)
    cliques: list[Measurement] = []
    for one in measurements:
        if one.level == NODE_LEVEL:
            if one.gpus_per_node - _FEWEST_GPUS < len(table):
                table[one.gpus_per_node - _FEWEST_GPUS] = one.gbps
        elif one.level == CLIQUE_LEVEL:
            cliques.append(one)
        else:
            network.setdefault((one.collective, one.level), []).append(one)
    clique = product.clique
    if clique is not None and cliques:
        clique = max(cliques, key=lambda one: one.nodes).gbps
    inside = replace(product, table=tuple(table), clique=clique)
    factors: dict[Objective, dict[str, float]] = {Objective.ALLREDUCE: {}, Objective.ALLTOALL: {}}
    for (collective, level), found in network.items():
        factor = level_factor(inside, found)
        if factor is not None:
            factors[collective][level] = factor
    return replace(
        inside,
        level_factors={**product.level_factors, **factors[Objective.ALLREDUCE]},
        alltoall_factors={**product.alltoall_factors, **factors[Objective.ALLTOALL]},
    )


def level_factor(product: Product, measurements: Sequence[Measurement]) -> float | None:
    """Return the factor of a level that makes the prediction for the measured size equal the measurement.

    Of several measurements the one on most nodes counts: the more nodes, the more of it is the network. None if what
    was measured is what the nodes allow by themselves, whatever the network.
    """
    most = max(measurements, key=lambda one: one.nodes)
    boundless = predicted(product, most, math.inf)
    if predicted(product, most, 1.0) >= boundless and most.gbps >= NODE_BOUND * boundless:
        return None
    # The network's term grows with the factor in proportion: take it where nothing else can be the bound.
    return most.gbps / (predicted(product, most, _SMALL) / _SMALL)


def predicted(product: Product, measurement: Measurement, factor: float) -> float:
    """Return the GB/s that the model predicts for a measured size if the network leaves `factor` of its bandwidth."""
    gpus = measurement.gpus_per_node
    if measurement.level == NODE_LEVEL:
        return product.inner(gpus)
    if product.clique is not None and measurement.level == CLIQUE_LEVEL:
        return product.clique
    islands = measurement.nodes
    if product.clique is not None:  # they share only the level, so they are not one clique
        islands = max(2, math.ceil(measurement.gpus / product.clique_gpus))
        gpus = math.ceil(measurement.gpus / islands)
    use = IslandUse(
        inner=product.clique if product.clique is not None and gpus > product.gpus else product.inner(gpus),
        outer=product.outer(measurement.gpus_per_node) * measurement.nodes / islands,
        nic=product.nic,
        gpus=gpus,
        nvls=product.nvls,
        clique=product.clique is not None,
    )
    return contribution(use, islands, measurement.gpus, (factor, factor), measurement.collective)
