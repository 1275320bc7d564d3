"""Searches on large clusters, against the budget."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import timed
from bench.preemption.occupied import Occupied, Sizes, heads, occupy
from extender.objects.topology import TopologyRequest
from extender.placement.candidates import PlacementTerms

#: Racks of eight nodes: 1,000 nodes, which is what the budget speaks of, and 5,000.
RACKS, MANY_RACKS, SHORT_RACKS = 125, 625, 25

#: What pods of the gangs that run ask for: a mixture, or one GPU each, which makes 8,000 pods on 1,000 nodes.
MIXED, SINGLE = (1, 1, 2, 4, 8), (1,)

#: Milliseconds: the budget for one search on 1,000 nodes.
BOUND_MS = 100.0

#: Gangs as pods x GPUs of each shape, and the level of which they need one domain, "" for any place.
GANGS: Sequence[tuple[tuple[tuple[int, int], ...], str]] = (
    (((64, 1),), ""),
    (((64, 8),), ""),
    (((64, 1),), "rack"),
    (((8, 8),), "rack"),
    (((64, 8),), "block"),
    (((64, 4), (8, 8)), ""),
    (((64, 1), (8, 8)), "block"),
)

_REPEATS, _SHORT_REPEATS = 20, 2


def measure(options: Options, say: Say) -> list[Figure]:
    """Time searches; milliseconds."""
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    figures: list[Figure] = []
    sites = ((SHORT_RACKS, MIXED),) if options.short else ((RACKS, MIXED), (RACKS, SINGLE), (MANY_RACKS, MIXED))
    for racks, gpus in sites:
        site = occupy(1, Sizes(racks, gpus=gpus))
        nodes = len(site.table)
        say(f"searching on {nodes:,} nodes full of {len(site.victims):,} gangs with {site.pods:,} pods")
        bound = BOUND_MS if racks <= RACKS else None
        figures += [search_figure(site, gang, repeats, bound) for gang in GANGS]
    return figures


def search_figure(
    site: Occupied, gang: tuple[tuple[tuple[int, int], ...], str], repeats: int, bound: float | None
) -> Figure:
    """Time the search for one gang."""
    shapes, level = gang
    pods, terms = heads(shapes), PlacementTerms(topology=TopologyRequest(required=level))
    asked = "_and_".join(f"{count}x{gpus}" for count, gpus in shapes)

    def find() -> None:
        found = site.search(pods, terms)
        if found is None or not found.evictions:
            raise AssertionError(f"nobody has to go for {asked}, so that there is nothing to time")

    where = f"_in_a_{level}" if level else ""
    name = f"search_{len(site.table)}_nodes_{site.pods}_pods_{asked}{where}"
    return of_repeats(name, "ms", timed(find, lambda _: None, repeats), bound=bound, exclusive=True)
