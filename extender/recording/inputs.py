"""What can be told to and asked of whoever decides: each input with its arguments, what it does and what comes out.

One list serves both sides: whoever records runs an input and notes it, whoever plays runs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

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
from extender.recording import outcomes
from extender.recording.desk import Desk
from extender.recording.namelists import NameList


def _nothing(_desk: Desk, _result: object) -> None:
    """Seize nothing: no answer is given."""


def _itself(_desk: Desk, result: object) -> object:
    """Seize the answer, which nobody changes later."""
    return result


def _plain(seized: object) -> object:
    """Report what is plain already."""
    return seized


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that can be told or asked.

    Attributes:
        name: what it is called in a recording.
        takes: the types of its arguments.
        run: does it to a desk.
        seize: takes at once what could be something else later of what came out.
        report: makes plain values of what was seized, whenever there is time.
    """

    name: str
    takes: tuple[Any, ...]
    run: Callable[..., Any]
    seize: Callable[[Desk, Any], Any] = _nothing
    report: Callable[[Any], object] = _plain


_Names = Mapping[str, str]

POD_SEEN: Final = Input("pod_seen", (Pod,), lambda desk, pod: desk.admission.pod_seen(pod))
POD_GONE: Final = Input("pod_gone", (str,), lambda desk, uid: desk.admission.pod_gone(uid))
NODE_SEEN: Final = Input("node_seen", (Node,), lambda desk, node: desk.admission.node_seen(node))
NODE_GONE: Final = Input("node_gone", (str,), lambda desk, name: desk.admission.node_gone(name))
GROUP_SEEN: Final = Input("group_seen", (PodGroup,), lambda desk, group: desk.admission.group_seen(group))
GROUP_GONE: Final = Input("group_gone", (GroupRef, str), lambda desk, ref, uid: desk.admission.group_gone(ref, uid))
QUEUE_SEEN: Final = Input("queue_seen", (Queue,), lambda desk, queue: desk.admission.queue_seen(queue))
QUEUE_GONE: Final = Input("queue_gone", (str,), lambda desk, name: desk.admission.queue_gone(name))
NAMESPACE_SEEN: Final = Input(
    "namespace_seen", (str, _Names), lambda desk, name, labels: desk.admission.namespace_seen(name, labels)
)
NAMESPACE_GONE: Final = Input("namespace_gone", (str,), lambda desk, name: desk.admission.namespace_gone(name))
BUDGET_SEEN: Final = Input("budget_seen", (DisruptionBudget,), lambda desk, budget: desk.admission.budget_seen(budget))
BUDGET_GONE: Final = Input(
    "budget_gone", (str, str), lambda desk, namespace, name: desk.admission.budget_gone(namespace, name)
)
NODE_TOPOLOGY_SEEN: Final = Input(
    "node_topology_seen", (NodeTopology,), lambda desk, topology: desk.node_topology_seen(topology), _itself
)
NODE_TOPOLOGY_GONE: Final = Input(
    "node_topology_gone", (str,), lambda desk, name: desk.node_topology_gone(name), _itself
)
HYPER_NODE_SEEN: Final = Input("hyper_node_seen", (HyperNode,), lambda desk, node: desk.hyper_node_seen(node), _itself)
HYPER_NODE_GONE: Final = Input("hyper_node_gone", (str,), lambda desk, name: desk.hyper_node_gone(name), _itself)
LEVELS_SEEN: Final = Input("levels_seen", (LevelList,), lambda desk, levels: desk.levels_seen(levels), _itself)
LEVELS_GONE: Final = Input("levels_gone", (str, str), lambda desk, group, name: desk.levels_gone(group, name), _itself)
DEVICE_SEEN: Final = Input("device_seen", (DeviceReport,), lambda desk, report: desk.device_seen(report), _itself)
DEVICE_GONE: Final = Input("device_gone", (str,), lambda desk, name: desk.device_gone(name), _itself)
CALIBRATION_SEEN: Final = Input(
    "calibration_seen", (ObjectRef, _Names), lambda desk, about, data: desk.calibration_seen(about, data), _itself
)
CALIBRATION_GONE: Final = Input("calibration_gone", (), lambda desk: desk.calibration_gone(), _itself)
#: What is worked out when somebody looks decides in which order claims count: whoever looks is an input.
OCCUPANCY_ASKED: Final = Input("occupancy_asked", (), lambda desk: desk.admission.model.table.occupancy.refresh())
CHARGES_ASKED: Final = Input("charges_asked", (), lambda desk: desk.admission.sharing.charges.refresh())
EVICTION_REFUSED: Final = Input(
    "eviction_refused", (str, str), lambda desk, uid, why: desk.admission.eviction_refused(uid, why)
)
REBUILD: Final = Input("rebuild", (), lambda desk: desk.admission.rebuild())
STAND_DOWN: Final = Input("stand_down", (), lambda desk: desk.admission.stand_down())
HOLD_OFF: Final = Input("hold_off", (Wait | None,), lambda desk, obstacle: desk.admission.hold_off(obstacle))
TICK: Final = Input("tick", (), lambda desk: desk.admission.tick())
DECIDE: Final = Input("decide", (), lambda desk: desk.admission.decide(), outcomes.seize_pass, outcomes.report_pass)
TAKE_EFFECTS: Final = Input(
    "take_effects", (), lambda desk: desk.admission.take_effects(), outcomes.seize_effects, outcomes.report_effects
)
DEFRAGMENT: Final = Input(
    "defragment",
    (GroupRef, bool),
    lambda desk, ref, apply: desk.defragment(ref, apply=apply),
    _itself,
    outcomes.report_moves,
)
FILTER: Final = Input(
    "filter",
    (Pod, NameList),
    lambda desk, pod, names: desk.verbs.filter(pod, names),
    _itself,
    outcomes.report_filtered,
)
PRIORITIZE: Final = Input(
    "prioritize",
    (Pod, NameList),
    lambda desk, pod, names: desk.verbs.prioritize(pod, names),
    _itself,
    outcomes.report_scores,
)
PREEMPT: Final = Input(
    "preempt",
    (Pod, Mapping[str, list[str]]),
    lambda desk, pod, victims: desk.verbs.preempt(pod, victims),
    _itself,
)
ARRIVE: Final = Input(
    "arrive", (str, str), lambda desk, uid, node: desk.verbs.arrive(uid, node), _itself, outcomes.report_arrival
)
LEAVE: Final = Input("leave", (str,), lambda desk, uid: desk.verbs.leave(uid))
BINDING_FAILED: Final = Input(
    "binding_failed",
    (str, str, bool),
    lambda desk, uid, why, final: desk.verbs.binding_failed(uid, why, final=final),
)

#: Every input by its name in a recording.
INPUTS: Final[Mapping[str, Input]] = {each.name: each for each in list(vars().values()) if isinstance(each, Input)}
