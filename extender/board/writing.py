"""The board written down: as lists for programs, and in columns for the page that shows all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.board.board import Change, Picture
from extender.board.document import Json
from extender.board.noderows import NodeRow, Resources


def gangs_json(picture: Picture) -> list[Json]:
    """Return the rows of all gangs, each with its position among those that wait (1 is judged first).

    Those that wait come first, in that order, then the others by age.
    """
    gangs = picture.gangs
    positions = {ref: place for place, ref in enumerate((ref for ref in picture.order if ref in gangs), start=1)}
    rest = sorted((ref for ref in gangs if ref not in positions), key=lambda ref: (gangs[ref]["since"] or "~", ref))
    return [{**gangs[ref], "position": positions.get(ref)} for ref in (*positions, *rest)]


def node_json(node: NodeRow, resources: Resources) -> Json:
    """Return a node's row as JSON, with what it has of some resources and has left."""
    gpus = len(node.cells)
    return {
        "name": node.name,
        "schedulable": node.schedulable,
        "domains": list(node.domains),
        "product": node.product or None,
        "gpus": {
            "allocatable": gpus,
            "used": gpus - node.free - node.reserved,
            "reserved": node.reserved,
            "free": node.free,
        },
        "holders": list(node.cells),
        "reserved": list(node.promised),
        "resources": {name: {"allocatable": total, "free": free} for name, (total, free) in resources.items()},
    }


def picture_json(picture: Picture) -> Json:
    """Return the whole board, nodes in columns: at 5,000 nodes lists of objects would be four times as long."""
    return {
        "seq": picture.seq,
        "status": picture.status,
        "levels": list(picture.levels),
        "gangs": gangs_json(picture),
        "queues": list(picture.queues),
        "events": list(picture.events),
        **_columns(picture.levels, picture.nodes),
    }


def change_json(change: Change) -> Json:
    """Return what has changed, with names in place of numbers; parts that are as they were are left out."""
    gangs: Json = {"put": list(change.put), "gone": list(change.gone)}
    document: Json = {
        "seq": change.seq,
        "status": change.status,
        "gangs": gangs if change.order is None else {**gangs, "order": list(change.order)},
        "events": list(change.events),
        "nodes": {"put": [_changed(node) for node in change.nodes], "gone": list(change.nodes_gone)},
    }
    return document if change.queues is None else {**document, "queues": list(change.queues)}


def _changed(node: NodeRow) -> Json:
    return {
        "name": node.name,
        "domains": list(node.domains),
        "gpus": len(node.cells),
        "schedulable": int(node.schedulable),
        "cells": list(node.cells),
        "reserved": [int(promised) for promised in node.promised],
    }


def _columns(levels: Sequence[str], nodes: Iterable[NodeRow]) -> Json:
    """Return `domains`, `nodes` and `holders`: names once, and numbers of names everywhere else.

    A cell is 0 for a free GPU, k for one that holder k (from 1 on) has, -k for one that is promised to it.
    """
    nodes = tuple(nodes)
    domains: list[dict[str, int]] = [{} for _ in levels]
    holders: dict[str, int] = {}
    paths = [
        [
            known.setdefault(node.domains[level], len(known))
            if level < len(node.domains) and node.domains[level]
            else -1
            for node in nodes
        ]
        for level, known in enumerate(domains)
    ]
    cells = [[_cell(holders, *cell) for cell in zip(node.cells, node.promised, strict=True)] for node in nodes]
    return {
        "domains": [list(known) for known in domains],
        "nodes": {
            "names": [node.name for node in nodes],
            "domains": paths,
            "gpus": [len(node.cells) for node in nodes],
            "schedulable": [int(node.schedulable) for node in nodes],
            "cells": cells,
        },
        "holders": list(holders),
    }


def _cell(holders: dict[str, int], holder: str, promised: bool) -> int:  # noqa: FBT001 - a cell of two columns
    number = holders.setdefault(holder, len(holders) + 1) if holder else 0
    return -number if promised else number
