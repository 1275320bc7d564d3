"""From nccl-tests output to entries of a calibration, and what each of them changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import yaml

from extender.hardware.calibration import CLIQUE_LEVEL, DATA_KEY, LIST_KEY, Calibration, Measurement, predicted
from extender.hardware.products import Products
from extender.objects.levels import NODE_LEVEL
from extender.objects.topology import Objective
from muster_lab.tools.nccl_tests import NcclRun, NotUsableError

#: Sizes below which an all-reduce does not reach its bandwidth, in bytes. Source: nccl-tests#212 (256 MB is too small);
#: H100 and B200 gain 5 % more from 1 GiB to 8 GiB (nccl-tests#309).
LARGE_ENOUGH = 2**30

#: Figures that should be the same and differ by more than this were not measured on a quiet network.
STEADY = 0.05


@dataclass(frozen=True, slots=True)
class Stated:
    """What people say of a run; what they leave open ("", 0 or None) is taken from its output."""

    product: str = ""
    nodes: int = 0
    gpus_per_node: int = 0
    level: str = ""
    collective: Objective | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What the model predicts, in GB/s, for the size of a measurement before and after it is taken into account.

    Before, nothing is taken off for the level. `factor` is what the level's becomes, None where it has none or where
    the nodes were the bound.
    """

    measurement: Measurement
    before: float
    after: float
    factor: float | None


def measurement_of(run: NcclRun, stated: Stated) -> Measurement:
    """Return what a run measured; raise NotUsableError where it contradicts what is stated, or leaves a question."""
    collective = stated.collective or run.collective
    if collective is None:
        raise NotUsableError("the output does not say which test it is of; say --collective allreduce or alltoall")
    if stated.collective and run.collective and stated.collective is not run.collective:
        raise NotUsableError(f"this is of {run.collective}, not {stated.collective}")
    nodes, gpus_per_node = _shape(run, stated)
    level = NODE_LEVEL if nodes == 1 else stated.level
    if not level:
        raise NotUsableError(
            f"{nodes} nodes took part: say with --level which is the lowest level that they share, `cluster` if none"
        )
    if nodes > 1 and level == NODE_LEVEL:
        raise NotUsableError(f"{nodes} nodes took part, so --level cannot be {NODE_LEVEL}")
    if collective is Objective.ALLTOALL and level in {NODE_LEVEL, CLIQUE_LEVEL}:
        raise NotUsableError("all-to-all is predicted from the network only: measure it over nodes")
    return Measurement(_product(run, stated), gpus_per_node, nodes, level, run.gbps, collective, stated.source)


def _shape(run: NcclRun, stated: Stated) -> tuple[int, int]:
    """Return how many nodes took part with how many GPUs each.

    The hosts of the output may be pods that share a node, so people know better, as long as the GPUs add up.
    """
    nodes, each = stated.nodes, stated.gpus_per_node
    if not run.gpus:
        if nodes and each:
            return nodes, each
        raise NotUsableError("the output does not list its ranks; say --nodes and --gpus-per-node")
    if not (nodes or each):
        return run.nodes, run.gpus_per_node
    nodes = nodes or run.gpus // each
    each = each or run.gpus // nodes
    if nodes * each != run.gpus:
        raise NotUsableError(f"the output lists {run.gpus} ranks, not {nodes} nodes with {each} GPUs each")
    return nodes, each


def _product(run: NcclRun, stated: Stated) -> str:
    """Return what the product table calls by a label: as stated, or as the driver names the device."""
    table = Products()
    candidates = [stated.product] if stated.product else [run.device.replace(" ", "-"), run.device.replace(" ", "_")]
    found = next((one for one in candidates if one and table.named(one)), None)
    if found is None:
        said = stated.product or run.device or "nothing"
        raise NotUsableError(
            f"the product is {said!r}, which the table does not know; say --product with the value that the node "
            "label nvidia.com/gpu.product has"
        )
    return found


def combined(measurements: Iterable[Measurement]) -> list[tuple[Measurement, float]]:
    """Return the mean of all measurements of the same size, each with its spread as a share of the mean."""
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault(_size(one), []).append(one)
    result = []
    for same in groups.values():
        rates = [one.gbps for one in same]
        mean = fmean(rates)
        result.append((replace(same[0], gbps=mean), (max(rates) - min(rates)) / mean))
    return result


def merged(existing: Sequence[Measurement], new: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the existing measurements with the new ones over those of the same size, then the rest of the new ones."""
    over = {_size(one): one for one in new}
    kept = [over.pop(_size(one), one) for one in existing]
    return (*kept, *over.values())


def _size(measurement: Measurement) -> tuple[object, ...]:
    """Return the size under the table's name of the product, which has several labels."""
    product = Products().named(measurement.product)
    return measurement.size if product is None else replace(measurement, product=product.name).size


def effect(measurement: Measurement, calibration: Calibration, instance: str = "") -> Effect:
    """Return what `calibration`, which `measurement` is part of, makes of the prediction for its size.

    `instance` is the nodes' instance type, "" for the network that the product has by itself.
    """
    table = Products().named(measurement.product, instance)
    corrected = Products(calibration).named(measurement.product, instance)
    if table is None or corrected is None:
        raise NotUsableError(f"the product table does not know {measurement.product!r}")
    factors = corrected.alltoall_factors if measurement.collective is Objective.ALLTOALL else corrected.level_factors
    factor = factors.get(measurement.level)
    return Effect(
        measurement=measurement,
        before=predicted(table, measurement, 1.0),
        after=predicted(corrected, measurement, 1.0 if factor is None else factor),
        factor=factor,
    )


def calibration_data(measurements: Iterable[Measurement]) -> dict[str, str]:
    """Return the ConfigMap's data that `read_calibration` reads as these measurements."""
    entries = [
        {
            "product": one.product,
            "gpusPerNode": one.gpus_per_node,
            "nodes": one.nodes,
            "level": one.level,
            "busBandwidthGBps": float(f"{one.gbps:.4g}"),
            "collective": str(one.collective),
            **({"source": one.source} if one.source else {}),
        }
        for one in measurements
    ]
    return {DATA_KEY: yaml.safe_dump({LIST_KEY: entries}, sort_keys=False, width=120)}
