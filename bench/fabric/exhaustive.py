"""Muster's plan and every placement that there is, on clusters small enough to try them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from bench.fabric.clusters import MACHINES, Job, Sizes, draw_cluster
from bench.fabric.site import Nodes, Site, by_count, muster
from bench.figures import Figure
from bench.options import Options, Say
from extender.cluster.whatif import WhatIf
from extender.hardware.bandwidth import STEP
from extender.objects.topology import PlacementGoal
from extender.placement.room import room

#: Clusters, and how large they are.
CLUSTERS, SHORT_CLUSTERS = 300, 20
SIZES = Sizes(nodes=(3, 7), jobs=(2, 6), most_pods=6)

#: A gang with more placements than this is left out.
MOST_PLACEMENTS = 1_000


def measure(options: Options, say: Say) -> list[Figure]:
    """Count the gangs that come within 5 % of the best of all placements, by Muster and by the reference.

    Muster looks for bandwidth first: that a faster place is passed by for what it breaks up is not what is asked here.
    """
    count = (options.repeats or 1) * (SHORT_CLUSTERS if options.short else CLUSTERS)
    say(f"trying every placement on {count} small clusters")
    alike, mixed = Tally(), Tally()
    reference_best = 0
    for seed in range(count):
        cluster = draw_cluster(seed, SIZES)
        site = Site(cluster, PlacementGoal.BANDWIDTH)
        for job in cluster.arriving:
            mixed.add(*_try_mixed(site, _roles(Random(f"{seed} {job.name}"), job)))
            own, _ = site.ask(muster, job)
            tried = [site.worth(job, nodes) for nodes in every_placement(site, job)]
            if alike.add(None if own is None else [site.worth(job, own)], tried):
                other, _ = site.ask(by_count, job)
                reference_best += other is not None and reaches(site.worth(job, other), _best(tried))
            if own is not None:
                site.take(job, own)
    return [
        _exactly("muster_short_of_every_placement", "gangs", alike.gangs - alike.best, bound=0),
        _exactly("muster_refuses_what_fits", "gangs", alike.wrong + mixed.wrong, bound=0),
        _exactly("muster_within_5_percent_of_every_placement", "share", alike.best / max(alike.gangs, 1)),
        _exactly("best_fit_within_5_percent_of_every_placement", "share", reference_best / max(alike.gangs, 1)),
        _exactly("muster_within_5_percent_if_two_kinds_of_pods", "share", mixed.best / max(mixed.gangs, 1)),
        _exactly("muster_bandwidth_vs_best_if_two_kinds_of_pods", "ratio", mixed.ratios / max(mixed.gangs, 1)),
        _exactly("gangs_tried_exhaustively", "gangs", alike.gangs),
        _exactly("gangs_of_two_kinds_of_pods_tried_exhaustively", "gangs", mixed.gangs),
        _exactly("placements_tried", "placements", alike.placements + mixed.placements),
    ]


@dataclass(slots=True)
class Tally:
    """What came out of trying every placement.

    `gangs` have a bandwidth, `best` of them come within 5 % of the best of all `placements`; `ratios` is the sum of
    their shares of it. `wrong` counts gangs that were refused though they fit, or placed though they do not.
    """

    gangs: int = 0
    best: int = 0
    placements: int = 0
    wrong: int = 0
    ratios: float = 0.0

    def add(self, own: Sequence[float | None] | None, tried: Sequence[float | None]) -> bool:
        """Take in a gang, and return whether it counts.

        Args:
            own: the bandwidth of Muster's placement (GB/s), None if it found none, empty if it was not asked.
            tried: the bandwidth of every placement that there is.
        """
        if own is not None and not own:
            return False
        self.wrong += (own is None) != (not tried)
        best = _best(tried)
        if own is None or best is None or len(tried) > MOST_PLACEMENTS:
            return False
        self.gangs += 1
        self.placements += len(tried)
        self.best += reaches(own[0], best)
        self.ratios += (own[0] or 0.0) / best
        return True


def _roles(random: Random, job: Job) -> tuple[Job, Job]:
    """Return a gang of two kinds of pods on the machines of `job`, those that ask for more GPUs first."""
    sizes = [size for size in (1, 2, 4) if size <= MACHINES[job.machine].gpus]
    small, large = sorted(random.sample(sizes, 2))
    return (
        Job(f"{job.name}-large", job.machine, random.randint(1, 3), large),
        Job(f"{job.name}-small", job.machine, random.randint(1, 4), small),
    )


def _try_mixed(site: Site, roles: tuple[Job, Job]) -> tuple[list[float | None] | None, list[float | None]]:
    """Return the bandwidth of Muster's placement of a gang of two kinds of pods, and those of all placements."""
    first, second = roles
    tried: list[float | None] = []
    for nodes in every_placement(site, first):
        with site.tried(first, nodes):
            for others in every_placement(site, second):
                with site.tried(second, others):
                    tried.append(site.bandwidth({**nodes, **others}))
                if len(tried) > MOST_PLACEMENTS:
                    return [], tried
    found = muster([*first.members(), *second.members()], WhatIf(site.table), site.candidates)
    if found is None:
        return None, tried
    nodes, others = ({pod.uid: found[pod.uid] for pod in job.members()} for job in roles)
    with site.tried(first, nodes), site.tried(second, others):
        return [site.bandwidth(found)], tried


def _best(tried: Sequence[float | None]) -> float | None:
    return max((worth for worth in tried if worth is not None), default=None)


def every_placement(site: Site, job: Job) -> Iterator[Nodes]:
    """Yield every way to place a gang: how many of its pods go to which node, as pods are all alike."""
    pods, shape = job.members(), job.shape
    counts = room(WhatIf(site.table), shape, site.candidates.eligible(shape)).tolist()
    names = [node.name for node in site.table.nodes()]
    for shares in product(*(range(min(count, job.pods) + 1) for count in counts)):
        if sum(shares) == job.pods:
            nodes = [name for name, share in zip(names, shares, strict=True) for _ in range(share)]
            yield {pod.uid: name for pod, name in zip(pods, nodes, strict=True)}


def reaches(bandwidth: float | None, best: float | None) -> bool:
    """Tell whether a bandwidth is within 5 % of the best."""
    return bandwidth is not None and best is not None and bandwidth * STEP >= best * (1 - 1e-9)


def _exactly(name: str, unit: str, value: float, bound: float | None = None) -> Figure:
    """Return a figure that is counted, and the same each time."""
    return Figure(name, unit, value, value, value, bound)
