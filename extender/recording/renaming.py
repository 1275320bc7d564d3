"""Which words of which values are names: every input's arguments, said with other words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.keys import Options
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.domain.taints import Taint
from extender.domain.topology import RoleGroup, Slice, TopologyTerms
from extender.fabric.calibration import DATA_KEY, LIST_KEY
from extender.numa.nodetopology import NodeTopology
from extender.recording.pseudonyms import Space
from extender.recording.words import Words
from extender.settings import Settings


class Renamer(Words):
    """Say values with other names; the first time, before `Pseudonyms.settle`, this only hears them."""

    def arguments(self, kind: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments of an input by its name."""
        words = _WORDS.get(kind)
        if words is None:
            return tuple(self.value(each) for each in arguments)
        return tuple(word(self, each) for word, each in zip(words, arguments, strict=True))

    def value(self, value: Any) -> Any:  # noqa: ANN401, C901, PLR0911 - whatever an input takes
        """Return a value said with other names; what has none is returned as it is."""
        match value:
            case Pod():
                return self._pod(value)
            case Node():
                return self._node(value)
            case PodGroup():
                return self._group(value)
            case GroupRef():
                return self.ref(value)
            case Queue():
                return self._queue(value)
            case DisruptionBudget():
                return self._budget(value)
            case NodeTopology():
                # The fingerprint is a hash over names of pods.
                return replace(value, node=self.place(value.node), fingerprint="", problem=self.problem(value.problem))
            case HyperNode():
                return self._hyper_node(value)
            case LevelList():
                levels = tuple(self.tier(each) for each in value.levels)
                return replace(
                    value, about=self.object(value.about), levels=levels, problems=self.problems(value.problems)
                )
            case DeviceReport():
                return replace(value, about=replace(value.about, name=self.place(value.about.name)))
            case _:
                return value

    def settings(self, settings: Settings) -> Settings:
        """Return settings without names."""
        levels = tuple(
            each.model_copy(update={"name": self.level(each.name), "node_label": self.key(each.node_label)})
            for each in settings.topology_levels
        )
        fields = Settings.model_fields
        return settings.model_copy(
            update={
                "topology_levels": levels,
                "scheduler_lease": fields["scheduler_lease"].default,
                "calibration_config_map": fields["calibration_config_map"].default,
            }
        )

    def measurements(self, data: Mapping[str, str]) -> dict[str, str]:
        """Return a calibration without where its figures come from; one that cannot be read becomes empty."""
        try:
            document = yaml.safe_load(data.get(DATA_KEY, ""))
            entries = [
                {**entry, "level": self.level(str(entry.get("level", ""))), "source": ""}
                for entry in document[LIST_KEY]
            ]
        except (yaml.YAMLError, TypeError, KeyError, ValueError):
            return {DATA_KEY: ""}
        return {DATA_KEY: yaml.safe_dump({LIST_KEY: entries})}

    def _pod(self, pod: Pod) -> Pod:
        return replace(
            pod,
            namespace=self.namespace(pod.namespace),
            name=self.names.name(Space.POD, pod.name),
            shape=self.shape(pod.shape),
            group=None if pod.group is None else self.ref(pod.group),
            role=self.role(pod.role),
            rank=pod.rank._replace(role=self.role(pod.rank.role)),
            node_name=self.place(pod.node_name),
            nominated_node=self.place(pod.nominated_node),
            refusal=self.text(pod.refusal),
            options=self._options(pod.options),
            problem=self.problem(pod.problem),
            rejection=None
            if pod.rejection is None
            else replace(pod.rejection, message=self.text(pod.rejection.message)),
            labels=self.labels(pod.labels),
            gates=tuple(map(self.key, pod.gates)),
        )

    def _options(self, options: Options) -> Options:
        return replace(
            options,
            role_minimums=tuple((self.role(role), least) for role, least in options.role_minimums),
            topology=self._terms(options.topology),
            peers=self._terms(options.peers),
            queue=self.queue(options.queue),
            peer_queue=self.queue(options.peer_queue),
            problems=self.problems(options.problems),
        )

    def _terms(self, terms: TopologyTerms) -> TopologyTerms:
        return replace(
            terms,
            required=self.level(terms.required),
            preferred=self.level(terms.preferred),
            slices=tuple(Slice(each.size, self.level(each.level), self.roles(each.roles)) for each in terms.slices),
            role_groups=tuple(
                RoleGroup(self.roles(each.roles), self.level(each.level), each.required) for each in terms.role_groups
            ),
            podset=terms.podset and self.names.name(Space.SET, terms.podset),
        )

    def _node(self, node: Node) -> Node:
        return replace(
            node,
            name=self.place(node.name),
            labels=self.labels(node.labels),
            taints=tuple(
                Taint(self.key(each.key), self.label_value(each.key, each.value), each.effect) for each in node.taints
            ),
            problem=self.problem(node.problem),
        )

    def _group(self, group: PodGroup) -> PodGroup:
        about = group.about
        return replace(
            group,
            ref=self.ref(group.ref),
            role_minimums=tuple((self.role(role), least) for role, least in group.role_minimums),
            options=self._options(group.options),
            problem=self.problem(group.problem),
            about=None if about is None else self.object(about),
            steps=tuple(replace(step, role=self.role(step.role)) for step in group.steps),
        )

    def _queue(self, queue: Queue) -> Queue:
        return replace(
            queue,
            name=self.queue(queue.name),
            parent=self.queue(queue.parent),
            flavors=tuple(
                replace(
                    each,
                    name=self.names.name(Space.FLAVOR, each.name),
                    node_selector=None if each.node_selector is None else tuple(sorted(self.pairs(each.node_selector))),
                )
                for each in queue.flavors
            ),
            namespaces=None if queue.namespaces is None else self.label_selector(queue.namespaces),
            problems=self.problems(queue.problems),
        )

    def _budget(self, budget: DisruptionBudget) -> DisruptionBudget:
        return replace(
            budget,
            namespace=self.namespace(budget.namespace),
            name=self.names.name(Space.OBJECT, budget.name),
            selector=None if budget.selector is None else self.label_selector(budget.selector),
        )

    def _hyper_node(self, node: HyperNode) -> HyperNode:
        known = [name for name in self.names.heard(Space.PLACE) if any(_matches(each, name) for each in node.patterns)]
        return replace(
            node,
            about=replace(node.about, name=self.place(node.about.name)),
            tier_name=self.level(node.tier_name),
            nodes=frozenset(
                map(self.place, [*node.nodes, *known])
            ),  # a pattern is about names that nobody has any more
            patterns=(),
            selectors=tuple(tuple(map(self.requirement, wanted)) for wanted in node.selectors),
            children=tuple(map(self.place, node.children)),
            problems=self.problems(node.problems),
        )


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


def _kept(_: Renamer, value: Any) -> Any:  # noqa: ANN401 - whatever an input takes
    return value


def _object_name(renamer: Renamer, name: str) -> str:
    return renamer.names.name(Space.OBJECT, name)


_Word = Callable[[Renamer, Any], Any]
#: Arguments that are plain texts: what they are, by the input's name.
_WORDS: Final[Mapping[str, tuple[_Word, ...]]] = {
    "pod_gone": (_kept,),
    "node_gone": (Renamer.place,),
    "group_gone": (Renamer.ref, _kept),
    "queue_gone": (Renamer.queue,),
    "namespace_seen": (Renamer.namespace, Renamer.labels),
    "namespace_gone": (Renamer.namespace,),
    "budget_gone": (Renamer.namespace, _object_name),
    "node_topology_gone": (Renamer.place,),
    "hyper_node_gone": (Renamer.place,),
    "levels_gone": (_kept, _object_name),
    "device_gone": (Renamer.place,),
    "calibration_seen": (lambda renamer, about: renamer.object(about), Renamer.measurements),
    "eviction_refused": (_kept, Renamer.text),
    "filter": (Renamer.value, Renamer.places),
    "prioritize": (Renamer.value, Renamer.places),
    "preempt": (Renamer.value, lambda renamer, victims: {renamer.place(node): uids for node, uids in victims.items()}),
    "arrive": (_kept, Renamer.place),
    "binding_failed": (_kept, Renamer.text, _kept),
}
