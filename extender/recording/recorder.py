"""What the outside tells and asks, done and noted: the one way to whatever changes a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from extender.admission.admission import Admission
from extender.admission.answers import Arrival, Filtered
from extender.admission.defragment import Defragmentation
from extender.admission.effects import Effects
from extender.clock import Clock
from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.domain.reason import Wait
from extender.numa.nodetopology import NodeTopology
from extender.recording import inputs
from extender.recording.archive import Snapshot
from extender.recording.clocks import NotedClock, Readings, microseconds
from extender.recording.desk import Desk
from extender.recording.entries import Entry
from extender.recording.inputs import Input
from extender.recording.journal import Journal, Recording
from extender.recording.outcomes import Raised
from extender.recording.standing import Standing
from extender.settings import Settings

_MEGABYTE = 1 << 20
_NO_READINGS = Readings()


class Recorder:
    """Do what the outside asks for, and note it with the clock's readings and what came out.

    Whoever only reads has `admission`; whatever could change a decision goes through here.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Start with an empty cluster, and with a recording unless the settings want none."""
        self._settings = settings
        self._calendar = clock
        self._clock = NotedClock(clock)
        self._desk = Desk(settings, self._clock)
        self._deciding = False
        self._desk.admission.model.table.occupancy.before_refresh = partial(self._asked, inputs.OCCUPANCY_ASKED)
        self._desk.admission.sharing.charges.before_refresh = partial(self._asked, inputs.CHARGES_ASKED)
        limit = round(settings.recording_megabytes * _MEGABYTE)
        self._journal = Journal(limit, clock.now(), self._clock.taken())

    @property
    def admission(self) -> Admission:
        """Return what decides, to be read."""
        return self._desk.admission

    @property
    def recording(self) -> Recording:
        """Return how the recording stands."""
        return self._journal.standing()

    def snapshot(self) -> Callable[[], Snapshot] | None:
        """Collect all that a snapshot holds; return what puts it together, in a thread, None if nothing is recorded.

        What is collected is of this moment, whatever happens afterwards.
        """
        excerpt = self._journal.excerpt()
        if excerpt is None:
            return None
        standing, saved = Standing.of(self._desk), microseconds(self._calendar.now())
        return lambda: Snapshot.of(excerpt, standing, self._settings, saved)

    # What is seen of the cluster.

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that was added or changed."""
        self._do(inputs.POD_SEEN, pod, known=self.admission.model.pods.get(pod.uid))

    def pod_gone(self, uid: str) -> None:
        """Forget a pod that was deleted."""
        self._do(inputs.POD_GONE, uid)

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup that was added or changed."""
        self._do(inputs.GROUP_SEEN, group)

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup that was deleted."""
        self._do(inputs.GROUP_GONE, ref, uid)

    def queue_seen(self, queue: Queue) -> None:
        """Take in a Queue that was added or changed."""
        self._do(inputs.QUEUE_SEEN, queue)

    def queue_gone(self, name: str) -> None:
        """Forget a Queue that was deleted."""
        self._do(inputs.QUEUE_GONE, name)

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace that was added or changed."""
        self._do(inputs.NAMESPACE_SEEN, name, labels)

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace that was deleted."""
        self._do(inputs.NAMESPACE_GONE, name)

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Take in a PodDisruptionBudget that was added or changed."""
        self._do(inputs.BUDGET_SEEN, budget)

    def budget_gone(self, namespace: str, name: str) -> None:
        """Forget a PodDisruptionBudget that was deleted."""
        self._do(inputs.BUDGET_GONE, namespace, name)

    def node_seen(self, node: Node) -> None:
        """Take in a node that was added or changed."""
        self._do(inputs.NODE_SEEN, node, known=self.admission.model.table.find(node.name))

    def node_gone(self, name: str) -> None:
        """Forget a node that was deleted."""
        self._do(inputs.NODE_GONE, name)

    def node_topology_seen(self, topology: NodeTopology) -> bool:
        """Take in a node's NUMA zones; return whether they were not known."""
        return bool(self._do(inputs.NODE_TOPOLOGY_SEEN, topology))

    def node_topology_gone(self, name: str) -> bool:
        """Forget a node's NUMA zones; return whether there were any."""
        return bool(self._do(inputs.NODE_TOPOLOGY_GONE, name))

    def hyper_node_seen(self, hyper_node: HyperNode) -> bool:
        """Take in a HyperNode; return whether it says anything new."""
        return bool(self._do(inputs.HYPER_NODE_SEEN, hyper_node))

    def hyper_node_gone(self, name: str) -> bool:
        """Forget a HyperNode; return whether it was there."""
        return bool(self._do(inputs.HYPER_NODE_GONE, name))

    def levels_seen(self, levels: LevelList) -> bool:
        """Take in an object that lists network tiers; return whether it says anything new."""
        return bool(self._do(inputs.LEVELS_SEEN, levels))

    def levels_gone(self, group: str, name: str) -> bool:
        """Forget an object that listed network tiers; return whether it was there."""
        return bool(self._do(inputs.LEVELS_GONE, group, name))

    def device_seen(self, report: DeviceReport) -> bool:
        """Take in what is said of a node's GPUs; return whether it is new."""
        return bool(self._do(inputs.DEVICE_SEEN, report))

    def device_gone(self, name: str) -> bool:
        """Forget what was said of a node's GPUs; return whether there was anything."""
        return bool(self._do(inputs.DEVICE_GONE, name))

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> bool:
        """Take in measured bandwidths; return whether they are new."""
        return bool(self._do(inputs.CALIBRATION_SEEN, about, data))

    def calibration_gone(self) -> bool:
        """Forget the measured bandwidths; return whether there were any."""
        return bool(self._do(inputs.CALIBRATION_GONE))

    def eviction_refused(self, uid: str, why: str) -> None:
        """Take in that the API server will not evict a pod."""
        self._do(inputs.EVICTION_REFUSED, uid, why)

    # Who decides, and when.

    def rebuild(self) -> None:
        """Take up deciding, from what stands in the cluster."""
        self._do(inputs.REBUILD)

    def stand_down(self) -> None:
        """Give up deciding."""
        self._do(inputs.STAND_DOWN)

    def hold_off(self, obstacle: Wait | None) -> None:
        """Place nobody from now on, for that reason; None lifts it."""
        self._do(inputs.HOLD_OFF, obstacle)

    def tick(self) -> None:
        """Do what time alone asks for."""
        self._do(inputs.TICK)

    def decide(self) -> bool:
        """Run the pass if anything asks for it; return whether it ran."""
        return bool(self._do(inputs.DECIDE))

    def take_effects(self) -> Effects:
        """Hand over what is to be written and answered."""
        effects: Effects = self._do(inputs.TAKE_EFFECTS)
        return effects

    def defragment(self, ref: GroupRef, *, apply: bool) -> Defragmentation:
        """Return which moves of others would make a gang fit; raise KeyError if there is no such gang."""
        found: Defragmentation = self._do(inputs.DEFRAGMENT, ref, apply)
        return found

    # What the scheduler asks.

    def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Say which of the offered nodes the pod may go to."""
        answer: Filtered = self._do(inputs.FILTER, pod, names, known=self.admission.model.pods.get(pod.uid))
        return answer

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Return a score of 0 to 10 for each offered node."""
        scores: list[int] = self._do(inputs.PRIORITIZE, pod, names, known=self.admission.model.pods.get(pod.uid))
        return scores

    def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Return which candidate nodes may be preempted on, given the UIDs of the victims of each."""
        nodes: list[str] = self._do(inputs.PREEMPT, pod, victims, known=self.admission.model.pods.get(pod.uid))
        return nodes

    def mistaken(self, uid: str, namespace: str, name: str) -> str:
        """Return why a bind call contradicts itself, or ""; nothing is changed by asking."""
        return self._desk.verbs.mistaken(uid, namespace, name)

    def arrive(self, uid: str, node: str) -> Arrival:
        """Take in a bind call."""
        arrival: Arrival = self._do(inputs.ARRIVE, uid, node)
        return arrival

    def prediction(self, uid: str) -> Mapping[str, str]:
        """Return the annotations that say which GPUs and zones a pod will hold; nothing is changed by asking."""
        return self._desk.verbs.prediction(uid)

    def leave(self, uid: str) -> None:
        """Take in that a held bind call has been answered without a Binding."""
        self._do(inputs.LEAVE, uid)

    def binding_failed(self, uid: str, why: str, *, final: bool) -> None:
        """Take in that a Binding was not made, for good or perhaps."""
        self._do(inputs.BINDING_FAILED, uid, why, final)

    def _do(self, what: Input, *arguments: object, known: object = None) -> Any:  # noqa: ANN401 - each input has its own
        """Do it and note it; `known` is the first argument as it is known already, if it is."""
        clock, desk = self._clock, self._desk
        clock.begin()
        self._deciding = True
        try:
            result = what.run(desk, *arguments)
        except Exception as error:
            self._journal.add(Entry(what, arguments, known, clock.taken(), Raised.of(error)))
            raise
        finally:
            self._deciding = False
        self._journal.add(Entry(what, arguments, known, clock.taken(), what.seize(desk, result)))
        return result

    def _asked(self, what: Input) -> None:
        """Note that somebody who only looks has something worked out; whoever decides does so in an input."""
        if not self._deciding:
            self._journal.add(Entry(what, (), None, _NO_READINGS, None))
