"""Why a gang does not fit, told apart."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import PodSeen
from extender.objects.pod import Shape
from extender.objects.reason import Reason
from tests.worlds import GPU, World


def test_members_that_have_no_room_beside_each_other_lack_no_zones(world: World) -> None:
    """Where no kubelet aligns anything, two shapes that share a node's CPUs are not told of NUMA zones."""
    world.nodes(1)
    job = world.gang("train", 2, 1, cpu=60_000)
    wider = Shape((("cpu", 60_000), (GPU, 2), ("pods", 1)))
    job.pods[0] = replace(job.pods[0], shape=wider)
    world.tell(PodSeen(job.pods[0]))
    world.judge()
    assert job.reason is Reason.EXCEEDS_CLUSTER
    assert job.wait is not None
    assert job.wait.numbers == {"fits": 1, "minMember": 2}
