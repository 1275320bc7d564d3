"""Nominations that kube-scheduler takes off are written again, but not in circles."""

from __future__ import annotations

from extender.admission.events import Tick
from tests.worlds import World


def test_a_nomination_that_is_taken_off_again_and_again_is_left_to_the_nudge(world: World) -> None:
    """Three times it is written again at once; from then on only after the pauses of nudging, which grow."""
    world.nodes(1)
    job = world.gang("job", 1)
    world.judge()
    node = job.reserved[job.pods[0].name]
    pod, at_once = job.pods[0], []
    for _ in range(6):
        job.see(0, nominated_node=node)
        world.effects()
        pod = job.see(0, nominated_node="")
        at_once.append(pod.uid in world.effects().nominations)
    assert at_once == [True, True, True, False, False, False]
    world.clock.advance(1)
    world.tell(Tick())
    assert world.effects().nominations[pod.uid].node == node
