"""The nearest miss: the domain that comes closest to holding the members that a gang needs, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.admission.explaining.gathering import Gathering
from extender.admission.explaining.scene import Scene
from extender.admission.explaining.waterfall import Waterfall
from extender.admission.site import Capacity
from extender.cluster.table import NodeTable

#: Nodes that are told of at most: beyond, everybody lacks something somewhere.
MOST_ROWS = 64

#: Of a node that is to take more pods so many are looked at: beyond, the node is as good as empty.
_MOST_MORE = 64


@dataclass(frozen=True, slots=True, eq=False)
class NearestMiss:
    """The domain in which most of those fit that have to be together, and what it lacks for the others.

    `level` and `domain` are "cluster" and "" where nothing has to be together. `lacks` is by resource (milli-CPU,
    bytes, counts) what would have to become free on the nodes that lack least; empty if by numbers nothing is short,
    but zones are. `rows` are those nodes, MOST_ROWS at most, those that lack least first.
    """

    level: str
    domain: str
    fits: int
    needed: int
    lacks: Mapping[str, int]
    rows: tuple[int, ...]


def nearest_miss(scene: Scene, falls: Sequence[Waterfall]) -> NearestMiss | None:
    """Return where the members of a gang come closest to finding room; None if they would, or there is no domain."""
    if not falls:
        return None
    gathering = Gathering.of(scene, {fall.shape: (fall.pods, fall.room) for fall in falls})
    domain = gathering.best
    if domain is None:
        return None
    fits, needed = gathering.held(domain), gathering.size
    if fits >= needed or all(fall.fits >= fall.pods for fall in falls):
        return None
    inside = gathering.rows(domain)
    lacks: dict[str, int] = {}
    rows: dict[int, None] = {}
    for fall in falls:
        missing = gathering.missing(fall.shape, domain)
        if missing > 0:
            amounts, at = _deficit(scene, fall, inside, missing)
            lacks = {name: lacks.get(name, 0) + amounts.get(name, 0) for name in lacks.keys() | amounts.keys()}
            rows |= dict.fromkeys(at)
    levels = scene.tree.levels
    name = scene.tree.domain_name(gathering.level, domain, scene.table.node)
    return NearestMiss(
        levels.name(gathering.level), name, fits, needed, dict(sorted(lacks.items())), tuple(rows)[:MOST_ROWS]
    )


def _deficit(
    scene: Scene, fall: Waterfall, inside: NDArray[np.bool_], missing: int
) -> tuple[dict[str, int], list[int]]:
    """Return what `missing` more pods of a shape lack on the nodes that lack least, and the rows of these.

    What the empty nodes cannot take either lacks all that it asks for.
    """
    table, site = scene.table, scene.site(scene.option)
    rows = np.flatnonzero(inside & fall.open_to)
    vector = table.vector(fall.shape.requests)
    names = [table.resources[column] for column in vector.columns.tolist()]
    asked = vector.amounts
    free, room = site.snapshot(Capacity.FREE).free[vector.columns][:, rows], fall.room[rows]
    lacking: list[NDArray[np.int64]] = []
    at: list[NDArray[np.intp]] = []
    if rows.shape[0]:
        most = _most_when_empty(table, vector.columns, asked, rows) - room
        left = free - room * asked[:, None]
        # A pod lacks no more than it asks for, even where others have more than there is.
        lacking.append(np.clip(asked[:, None] - left, 0, asked[:, None])[:, most > 0])
        at.append(rows[most > 0])
        for more in range(1, min(missing, _MOST_MORE)):
            further = rows[most > more]
            if not further.shape[0]:
                break
            lacking.append(np.repeat(asked[:, None], further.shape[0], axis=1))
            at.append(further)
    amounts = np.concatenate(lacking, axis=1) if lacking else np.zeros((len(names), 0), dtype=np.int64)
    where = np.concatenate(at) if at else np.zeros(0, dtype=np.intp)
    shares = (amounts / np.maximum(asked, 1)[:, None]).sum(axis=0)
    chosen = np.argsort(shares, kind="stable")
    taken = chosen[:missing]
    total = amounts[:, taken].sum(axis=1) + asked * (missing - taken.shape[0])
    lacks = {name: int(amount) for name, amount in zip(names, total.tolist(), strict=True) if amount > 0}
    return lacks, list(dict.fromkeys(where[chosen[: max(missing, MOST_ROWS)]].tolist()))


def _most_when_empty(
    table: NodeTable, columns: NDArray[np.intp], asked: NDArray[np.int64], rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return (len(rows),) how many pods each node takes when empty, by numbers."""
    some = asked > 0
    if not some.any():
        return np.full(rows.shape[0], _MOST_MORE, dtype=np.int64)
    whole = table.allocatable[columns[some]][:, rows]
    most: NDArray[np.int64] = (whole // asked[some][:, None]).min(axis=0)
    return most
