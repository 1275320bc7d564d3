"""All that decides, as one: the admission, the verbs, and what is learned of network and hardware."""

from __future__ import annotations

from collections.abc import Mapping

from extender.admission.admission import Admission
from extender.admission.defragment import Defragmentation
from extender.admission.verbs import Verbs
from extender.clock import Clock
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.objectref import ObjectRef
from extender.numa.nodetopology import NodeTopology
from extender.settings import Settings


class Desk:
    """Hold what decides; equal inputs at equal times give equal answers.

    Attributes:
        admission: the admission.
        verbs: what answers kube-scheduler from it.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Start with an empty cluster."""
        self.admission = Admission(settings, clock)
        self.verbs = Verbs(self.admission)

    def node_topology_seen(self, topology: NodeTopology) -> bool:
        """Take in a node's NUMA zones; return whether they were not known."""
        new = self.admission.model.put_node_topology(topology)
        if new:
            self.admission.rejections.eased(topology.node)
        return self._learned(new=new)

    def node_topology_gone(self, name: str) -> bool:
        """Forget a node's NUMA zones; return whether there were any."""
        return self._learned(new=self.admission.model.drop_node_topology(name))

    def hyper_node_seen(self, hyper_node: HyperNode) -> bool:
        """Take in a HyperNode; return whether it says anything new."""
        return self._learned(new=self.admission.model.put_hyper_node(hyper_node))

    def hyper_node_gone(self, name: str) -> bool:
        """Forget a HyperNode; return whether it was there."""
        return self._learned(new=self.admission.model.drop_hyper_node(name))

    def levels_seen(self, levels: LevelList) -> bool:
        """Take in an object that lists network tiers; return whether it says anything new."""
        return self._learned(new=self.admission.model.put_levels(levels))

    def levels_gone(self, group: str, name: str) -> bool:
        """Forget an object that listed network tiers; return whether it was there."""
        return self._learned(new=self.admission.model.drop_levels(group, name))

    def device_seen(self, report: DeviceReport) -> bool:
        """Take in what is said of a node's GPUs; return whether it is new."""
        return self._learned(new=self.admission.model.put_device(report))

    def device_gone(self, name: str) -> bool:
        """Forget what was said of a node's GPUs; return whether there was anything."""
        return self._learned(new=self.admission.model.drop_device(name))

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> bool:
        """Take in measured bandwidths; return whether they are new."""
        return self._learned(new=self.admission.model.put_calibration(about, data))

    def calibration_gone(self) -> bool:
        """Forget the measured bandwidths; return whether there were any."""
        return self._learned(new=self.admission.model.drop_calibration())

    def defragment(self, ref: GroupRef, *, apply: bool) -> Defragmentation:
        """Return which moves of others would make a gang fit; raise KeyError if there is no such gang."""
        gang = self.admission.model.gangs.get(ref)
        if gang is None:
            raise KeyError(ref)
        return self.admission.defragment(gang, apply=apply)

    def _learned(self, *, new: bool) -> bool:
        """Have everybody judged anew when something is known that was not."""
        if new:
            self.admission.reconsider()
        return new
