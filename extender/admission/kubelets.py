"""What kubelets make of the pods that are sent to them: whether they take them, and what they give them."""

from __future__ import annotations

from extender.admission.effects import Effects, Fact, Note, Observation
from extender.admission.rejections import Rejections
from extender.cluster.model import ClusterModel
from extender.domain.holdings import Holding
from extender.domain.pod import Pod, Rejection

#: How the kubelet begins the message of a pod that it turned away. Source: k8s.io/kubernetes pkg/kubelet, rejectPod.
_KUBELET_WORDS = "Pod was rejected: "


class Kubelets:
    """Follow what becomes of pods on their nodes."""

    def __init__(self, model: ClusterModel, rejections: Rejections) -> None:
        """Look at the pods of `model`, and remember in `rejections` what kubelets refuse."""
        self._model = model
        self._rejections = rejections

    def follow(self, pod: Pod, before: Pod | None, effects: Effects | None) -> bool:
        """Take in what has become of a pod that was `before` (None: unknown); return whether others may fit elsewhere.

        What is worth telling goes to `effects`; with None, nobody is told. Of pods that were found as they are, when
        everything was listed say, it has been told before.
        """
        if before is not None and before.bound and not pod.bound and pod.rejection is None:
            self._rejections.eased(before.node_name)
        told = effects if before is not None and self._model.manages(pod) else None
        if told is not None and before is not None:
            told.observations += self._observations(pod, before)
        if pod.rejection is None or not pod.node_name or (before is not None and before.rejection is not None):
            return before is not None and pod.observed != before.observed and not _as_predicted(pod)
        seconds = self._rejections.add(pod.shape, pod.node_name)
        self._model.table.reassess(pod.node_name)
        if told is not None:
            told.rejections.append(pod.rejection.reason)
            if seconds is not None:
                told.notes.append(self._warning(pod, pod.rejection, seconds))
        return True

    def _warning(self, pod: Pod, rejection: Rejection, seconds: float) -> Note:
        """Return what to tell the pod's owner; pods that are turned away with it are not told of again."""
        words = rejection.message.removeprefix(_KUBELET_WORDS) or "no message"
        topology = self._model.table.occupancy.topology(pod.node_name)
        policy = "" if topology is None else f" (Topology Manager policy {topology.policy})"
        message = (
            f"the kubelet of node {pod.node_name}{policy} turned away a pod, {rejection.reason}: {words}; "
            f"for {seconds:.0f} s no pod that asks for the same is sent there"
        )
        return Note(pod.group or pod, warning=True, reason="PodRejected", message=message)

    def _observations(self, pod: Pod, before: Pod) -> list[Observation]:
        """Compare what a pod holds with what was predicted, as soon as it is known, each fact once."""
        if pod.observed is None or pod.predicted is None or pod.observed == before.observed:
            return []
        known = before.observed or Holding()
        translated = self._model.table.occupancy.indices(pod.node_name, pod.observed.uuids)
        facts = (
            (Fact.GPUS, known.gpus or known.uuids, pod.observed.gpus or translated, pod.predicted.gpus),
            (Fact.ZONES, known.zones, pod.observed.zones, pod.predicted.zones),
        )
        return [
            Observation(fact, observed == predicted)
            for fact, known_before, observed, predicted in facts
            if observed and predicted and not known_before
        ]


def _as_predicted(pod: Pod) -> bool:
    """Tell whether what was observed of a pod is no news."""
    if pod.observed is None or pod.predicted is None:
        return False
    return (pod.observed.gpus, pod.observed.zones) == (pod.predicted.gpus, pod.predicted.zones)
