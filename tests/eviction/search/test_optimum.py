"""Searches against every choice that there is, judged by plans, quota and budgets: none is better, none was missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from extender.cluster.whatif import WhatIf
from extender.eviction.search.search import FoundPreemption
from extender.eviction.search.units import VictimEviction
from extender.objects.pod import Pod
from extender.objects.topology import RoleGroup, Slice
from extender.placement.candidates import PlacementTerms
from extender.placement.plan import Plan, plan
from tests.eviction.search.clusters import (
    PodBudget,
    ShortQuota,
    Site,
    align,
    cost,
    every_choice,
    full,
    gang,
    racks,
    required,
)

KINDS = ("plain", "zones", "budget", "quota", "shapes", "slices", "roles")

#: Clusters of each kind: with few pieces, and with more than can be tried in all ways.
SMALL, LARGE = 20, 5


def drawn(random: Random, kind: str, site: Site) -> tuple[list[Pod], PlacementTerms]:
    """Draw a gang that comes to a site, and what is peculiar to the kind."""
    count, each = random.randint(1, 6), random.choice((1, 2, 4, 8))
    terms = required(random.choice(("rack", "block"))) if random.random() < 0.5 else PlacementTerms()
    match kind:
        case "zones":
            align(site.table)
        case "budget":
            site.budgets = PodBudget(
                random.choice(("job", "job0", f"job0{random.randint(0, 3)}")), random.randint(1, 4)
            )
        case "quota":
            site.quota = ShortQuota(random.choice("ab"), random.choice((2, 4, 8, 12)))
        case "shapes":
            return [*gang(count, each), *gang(random.randint(1, 3), random.choice((1, 2, 4)), "other")], terms
        case "slices":
            slices = (Slice(random.choice((1, 2, 3)), "rack"),)
            return gang(count, each), replace(terms, topology=replace(terms.topology, slices=slices))
        case "roles":
            groups = tuple(RoleGroup(frozenset({role}), "rack") for role in "ab")
            pods = [*gang(count, each, role="a"), *gang(random.randint(1, 3), each, "other", role="b")]
            return pods, replace(terms, topology=replace(terms.topology, role_groups=groups))
    return gang(count, each), terms


def needless(site: Site, pods: Sequence[Pod], terms: PlacementTerms, evictions: Sequence[VictimEviction]) -> list[str]:
    """Return what of some evictions can be left out: a gang, or one of the extras that go alone."""
    found = []
    for number, eviction in enumerate(evictions):
        others = [*evictions[:number], *evictions[number + 1 :]]
        if site.suffices(pods, terms, others):
            found.append(eviction.victim.name)
        if not set(eviction.pods) <= set(eviction.victim.extras):
            continue
        for pod in eviction.pods:
            fewer = VictimEviction(eviction.victim, tuple(each for each in eviction.pods if each is not pod))
            if fewer.pods and site.suffices(pods, terms, [*others, fewer]):
                found.append(pod.name)
    return found


def check(site: Site, pods: Sequence[Pod], terms: PlacementTerms, found: FoundPreemption) -> None:
    """Assert that the evictions do what they are for, that none is needless, and that the plan is one of the ledger."""
    assert site.suffices(pods, terms, found.evictions)
    assert needless(site, pods, terms, found.evictions) == []
    for eviction in found.evictions:
        alone = set(eviction.pods) <= set(eviction.victim.extras)
        assert alone or set(eviction.pods) == {*eviction.victim.core, *eviction.victim.extras}
    for pod in (pod for eviction in found.evictions for pod in eviction.pods):
        site.table.release(pod.uid)
    assert found.plan.nodes.keys() == {pod.uid for pod in pods}
    for pod in pods:
        site.table.claim(pod.uid, found.plan.nodes[pod.uid], pod.shape)
    assert all(site.table.short_of(name) == frozenset() for name in found.plan.nodes.values())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_better_where_there_are_few(kind: str) -> None:
    """With a dozen pieces at most the search finds the optimum, and a way whenever there is one."""
    searched = 0
    for seed in range(SMALL):
        random = Random(f"{kind} {seed}")
        site = full(random, racks(random.randint(1, 3), random.randint(1, 3)), random.randint(1, 6))
        pods, terms = drawn(random, kind, site)
        found = site.search(pods, terms)
        has_room = site.trial(pods, terms)[0].has_room_beside
        victims = site.victims
        choices = sorted(every_choice(victims), key=lambda choice: cost(choice, victims, has_room))
        best = next((choice for choice in choices if site.suffices(pods, terms, choice)), None)
        assert (found is None) == (best is None), seed
        if found is not None and best is not None:
            searched += bool(found.evictions)
            assert cost(found.evictions, victims, has_room) == cost(best, victims, has_room), seed
            check(site, pods, terms, found)
    assert searched > 1


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_goes_in_vain_where_there_are_many(kind: str) -> None:
    """With more pieces the search finds a way whenever everybody's going is one, and nobody's going is needless."""
    searched = 0
    for seed in range(LARGE):
        random = Random(f"{kind} {seed}")
        site = full(random, racks(4, 4), 40)
        pods, terms = drawn(random, kind, site)
        found = site.search(pods, terms)
        if found is not None:
            searched += bool(found.evictions)
            check(site, pods, terms, found)
        elif kind != "budget":
            whatif = WhatIf(site.table)
            whatif.vacate(pod.uid for victim in site.victims for pod in (*victim.core, *victim.extras))
            everybody = [pod for victim in site.victims for pod in (*victim.core, *victim.extras)]
            fits = isinstance(plan(pods, whatif, site.candidates, terms), Plan)
            assert not (fits and site.within_quota(everybody)), seed
    assert searched > 1
