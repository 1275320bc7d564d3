"""What is counted of what the admission reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from extender.domain.holdings import Holding
from extender.domain.pod import Phase, Rejection, RejectionReason
from tests.control.conftest import Muster


async def test_refusals_of_kubelets_are_counted_and_told(muster: Muster) -> None:
    """A pod that its kubelet turned away counts by reason, and its gang gets a Warning that names the node."""
    (name,) = muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    bound = replace(pod, node_name=name)
    muster.controller.observer.pod_seen(bound)
    rejection = Rejection(RejectionReason.TOPOLOGY_AFFINITY, "Pod was rejected: no locality")
    muster.controller.observer.pod_seen(replace(bound, phase=Phase.FAILED, rejection=rejection))
    await asyncio.sleep(1)
    assert muster.sample("muster_kubelet_refusals_total", reason="TopologyAffinityError") == 1
    (event,) = [event for event in muster.api.events if event.reason == "PodRejected"]
    assert (event.about.kind, event.about.name, event.warning) == ("PodGroup", "a", True)
    assert f"the kubelet of node {name} turned away a pod, TopologyAffinityError: no locality" in event.message


async def test_predictions_are_counted_by_how_they_turned_out(muster: Muster) -> None:
    """GPUs and zones each count as a match or a mismatch when they are observed."""
    (name,) = muster.nodes(1)
    muster.sync()
    predicted = Holding(gpus=(0, 1), zones=(0,))
    for number, seen in enumerate((Holding((0, 1), (0,)), Holding((2, 3), (0,)))):
        pod = replace(muster.pod(f"pod-{number}", 2), node_name=name, predicted=predicted)
        muster.controller.observer.pod_seen(pod)
        muster.controller.observer.pod_seen(replace(pod, observed=seen))
    counted = {
        (fact, outcome): muster.sample(f"muster_predicted_{fact}_total", outcome=outcome)
        for fact in ("gpus", "zones")
        for outcome in ("match", "mismatch")
    }
    assert counted == {("gpus", "match"): 1, ("gpus", "mismatch"): 1, ("zones", "match"): 2, ("zones", "mismatch"): 0}
