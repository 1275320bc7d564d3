"""Members without which a gang would break are annotated for autoscalers, when they get their node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from extender.admission.events import PodSeen
from extender.admission.verbs import Verbs
from tests.worlds import Job, World

KARPENTER = {"karpenter.sh/do-not-disrupt": "true"}
POOL = {"karpenter.sh/nodepool": "gpu"}


def said(world: World, job: Job) -> list[Mapping[str, str]]:
    """Return what each member of a gang gets on the node that it is promised, but for predictions."""
    verbs, nodes = Verbs(world.admission), job.reserved
    found = (verbs.annotations(pod.uid, nodes[pod.name]) for pod in job.pods if pod.name in nodes)
    return [{key: text for key, text in each.items() if not key.startswith("muster.dev/")} for each in found]


@pytest.mark.parametrize(
    ("where", "labels", "annotations"),
    [
        ("karpenter", POOL, KARPENTER),
        ("karpenter", {}, {}),
        ("always", {}, KARPENTER | {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        ("never", POOL, {}),
    ],
)
def test_a_gang_that_needs_all_members_keeps_them(
    where: str, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    """By default where Karpenter has made the node: elsewhere the annotation means nothing."""
    world = World(protect_members=where)
    world.nodes(2, labels=labels)
    assert said(world, world.gang("train", 2)) == [annotations] * 2


def test_members_beyond_the_minimum_may_be_moved() -> None:
    """Two of four are needed, whichever come first; the others may leave."""
    world = World()
    world.nodes(4, labels=POOL)
    assert said(world, world.gang("train", 4, min_member=2)) == [KARPENTER, KARPENTER, {}, {}]


def test_a_pod_that_names_no_group_is_as_any_other() -> None:
    """Its owner says whether it may be moved."""
    world = World()
    world.nodes(1, labels=POOL)
    pod = world.pod("single", 8)
    world.tell(PodSeen(pod))
    world.judge()
    slot = world.state.slot(pod)
    assert slot is not None
    found = Verbs(world.admission).annotations(pod.uid, slot.node)
    assert not {key for key in found if not key.startswith("muster.dev/")}


def test_what_is_not_known_gets_nothing() -> None:
    """Neither a pod that is gone, nor one on a node that is."""
    world = World()
    world.nodes(1, labels=POOL)
    job = world.gang("train", 1)
    verbs = Verbs(world.admission)
    assert verbs.annotations("nobody", "node-0") == {}
    assert "karpenter.sh/do-not-disrupt" not in verbs.annotations(job.pods[0].uid, "nowhere")
