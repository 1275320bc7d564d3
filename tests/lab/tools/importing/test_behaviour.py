"""What is imported admits as much as it did, worked out by hand from the rules of Kueue and Volcano."""

from __future__ import annotations

import pytest

from extender.objects.queue import BorrowWithin, Reclaim, WithinQueue
from extender.queues.tree import QueueTree
from muster_lab.tools.importing.objects import Imported
from tests.lab.tools.importing.examples import KUEUE, VOLCANO, kueue, queues, volcano

GPU = "nvidia.com/gpu"

#: The two teams of Kueue's documentation of cohorts: 9 and 12 CPUs. What they add to their quotas is the examples'.
TEAMS = """
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: default}, spec: {}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohortName: team-ab
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 9%s}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-b}
spec:
  cohortName: team-ab
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 12%s}]}]
"""


def tree(imported: Imported) -> QueueTree:
    """Return the imported queues at work; all of them are sound."""
    grown = QueueTree(queues(imported).values())
    assert grown.problems == {}
    return grown


@pytest.mark.parametrize(
    ("of_a", "of_b", "most"),
    [
        ("", "", 21),  # all of both, while team-b uses nothing
        (", borrowingLimit: 1", "", 10),
        ("", ", lendingLimit: 1", 10),
        (", borrowingLimit: 5", ", lendingLimit: 3", 12),
    ],
)
def test_kueues_documented_examples_of_borrowing_hold(of_a: str, of_b: str, most: int) -> None:
    """So many CPUs may team-a use in all; one more is never admitted."""
    imported = tree(kueue(TEAMS % (of_a, of_b)))
    assert imported.available("team-a", "default", "cpu") == most * 1000
    shortage = imported.shortage("team-a", "default", {"cpu": most * 1000 + 1})
    assert shortage is not None
    assert shortage.ever


def test_lent_quota_can_be_reclaimed_and_kept_quota_was_never_lent() -> None:
    """team-a keeps 8 of its 16 GPUs for itself; what team-b borrows beyond that comes back."""
    imported = tree(kueue(KUEUE))
    assert imported.available("team-a", "h100", GPU) == 16 + 8
    assert imported.available("team-b", "h100", GPU) == 16 + 8
    imported.charge("team-b", "h100", {GPU: 24})
    assert imported.borrowed("team-b", "h100", GPU) == 8
    assert imported.available("team-a", "h100", GPU) == 8
    assert imported.shortage("team-a", "h100", {GPU: 8}) is None
    assert imported.shortage("team-a", "h100", {GPU: 16}) is not None
    assert imported.reclaims("team-a", "team-b", "h100", {GPU: 16})
    assert not imported.reclaims("team-a", "team-b", "h100", {GPU: 17})


def test_cohorts_of_cohorts_lend_what_they_may() -> None:
    """Below research 15 of which 4 are lent, prod has 6: prod may use 10, research 11 of its own and those 10."""
    cohort = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: %s}"
    group = "[{coveredResources: [x/gpu], flavors: [{name: f, resources: [{name: x/gpu, nominalQuota: %s}]}]}]"
    queue = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: %s}, spec: %s}"
    imported = tree(
        kueue(
            cohort % ("company", "{}"),
            cohort % ("research", f"{{parentName: company, resourceGroups: {group % '10, lendingLimit: 4'}}}"),
            queue % ("r", f"{{cohortName: research, resourceGroups: {group % 5}}}"),
            queue % ("prod", f"{{cohortName: company, resourceGroups: {group % 6}}}"),
        )
    )
    assert imported.available("prod", "f", "x/gpu") == 10
    assert imported.available("r", "f", "x/gpu") == 21
    imported.charge("r", "f", {"x/gpu": 13})
    assert imported.available("prod", "f", "x/gpu") == 8
    imported.charge("prod", "f", {"x/gpu": 8})
    assert imported.available("r", "f", "x/gpu") == 0


def test_policies_are_those_that_were_stated() -> None:
    """Stated ones, and Kueue's defaults where nothing is stated."""
    imported = tree(kueue(KUEUE))
    stated, unstated = (imported.queue(name).preemption for name in ("team-a", "team-b"))
    assert (stated.within_queue, stated.reclaim_within_cohort) == (WithinQueue.LOWER_OR_NEWER, Reclaim.ANY)
    assert (unstated.within_queue, unstated.reclaim_within_cohort) == (WithinQueue.NEVER, Reclaim.NEVER)
    assert unstated.borrow_within_cohort is BorrowWithin.NEVER


def test_the_one_with_the_larger_weight_borrows_more_before_it_is_second() -> None:
    """Shares are what is borrowed of what can be lent, by weight: at weight 2 team-a may borrow twice as much."""
    imported = tree(kueue(KUEUE))
    imported.charge("team-a", "h100", {GPU: 16 + 4})
    imported.charge("team-b", "h100", {GPU: 16 + 3})
    totals = {GPU: 40}
    assert imported.standing("team-a", totals) < imported.standing("team-b", totals)


def test_volcanos_documented_example_of_reclaiming_holds() -> None:
    """queue1 deserves 2 of 8 CPUs and uses all; queue2 takes back the 6 that it deserves, and no more."""
    queue = (
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: {deserved: {cpu: %s}}}"
    )
    imported = tree(volcano(queue % ("queue1", 2), queue % ("queue2", 6), capacity={"cpu": 8000}))
    assert imported.available("queue1", "default", "cpu") == 8000
    imported.charge("queue1", "default", {"cpu": 8000})
    assert imported.available("queue2", "default", "cpu") == 0
    assert imported.reclaims("queue2", "queue1", "default", {"cpu": 6000})
    assert not imported.reclaims("queue2", "queue1", "default", {"cpu": 7000})


def test_volcanos_capability_caps_and_its_guarantee_is_kept() -> None:
    """Queue train may use 24 of 64 GPUs, its parent 48 in all; nobody else gets the 4 that are guaranteed."""
    imported = tree(volcano(VOLCANO, capacity={"cpu": 512_000, GPU: 64}))
    assert imported.available("train", "default", GPU) == 24
    assert imported.available("notebooks", "default", GPU) == 48 - 4
    assert imported.available("default", "default", GPU) == 64 - 4
    imported.charge("default", "default", {GPU: 60})
    assert imported.available("train", "default", GPU) == 4
    assert imported.reclaims("notebooks", "default", "default", {GPU: 8})
