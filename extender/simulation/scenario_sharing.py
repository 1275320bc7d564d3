"""Reading what a scenario says of sharing: Queues, priority classes, namespaces, and what its gangs say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from extender.domain import keys
from extender.domain.queue import Queue, read_queue
from extender.quota.tree import QueueTree
from extender.simulation.duration import write_duration
from extender.simulation.manifests import namespace_manifest, queue_manifest
from extender.simulation.objects import Json
from extender.simulation.problems import Problems
from extender.simulation.scenario import DisruptionLimit, ScenarioGang, Sharing
from extender.simulation.scenario_document import GangDocument, ScenarioDocument
from extender.simulation.sharing_document import NamespaceDocument, QueueDocument
from extender.wire.codec import decode_queue, encode

#: The highest value of a PriorityClass that is not the system's.
#: Source: k8s.io/kubernetes pkg/apis/scheduling, HighestUserDefinablePriority.
_HIGHEST_PRIORITY = 1_000_000_000


@dataclass(slots=True)
class SharingReader:
    """Turn parts of a document into how gangs share; what is wrong with them is added to `problems`."""

    problems: Problems
    _queues: dict[str, Queue] = field(default_factory=dict)
    _classes: Mapping[str, int] = field(default_factory=dict)
    _declared: bool = False

    def read(
        self, head: ScenarioDocument | None, queues: Sequence[Any], namespaces: Sequence[Any]
    ) -> tuple[tuple[Json, ...], dict[str, Mapping[str, str]]]:
        """Take in what stands at the top; return the Queues, and the labels of the namespaces that are listed."""
        if head is not None:
            self._classes, self._declared = head.priority_classes, head.declare_duration
            for name, value in head.priority_classes.items():
                if value > _HIGHEST_PRIORITY:
                    self.problems.add(f"priorityClasses.{name}", f"'{value}' is above {_HIGHEST_PRIORITY}")
        read = [self.problems.parse(NamespaceDocument, item, f"namespaces[{i}]") for i, item in enumerate(namespaces)]
        listed = [document for document in read if document is not None]
        self.problems.unique("namespaces", "namespace", (document.name for document in listed))
        manifests = [self._queue(item, f"queues[{index}]") for index, item in enumerate(queues)]
        found = [manifest for manifest in manifests if manifest is not None]
        self.problems.unique("queues", "queue", (manifest["metadata"]["name"] for manifest in found))
        return tuple(found), {document.name: document.labels for document in listed}

    def sharing(
        self, queues: tuple[Json, ...], labels: Mapping[str, Mapping[str, str]], gangs: Iterable[ScenarioGang]
    ) -> Sharing:
        """Put together what `read` has returned; every gang's namespace is there."""
        names = dict.fromkeys([*labels, *(gang.namespace for gang in gangs)])
        return Sharing(
            queues=queues,
            priority_classes=self._classes,
            namespaces=tuple(namespace_manifest(name, labels.get(name, {})) for name in names),
            warnings=tuple(
                f"queue '{name}': {problem}"
                for name, problems in QueueTree(self._queues.values()).problems.items()
                for problem in problems
            ),
        )

    def priority(self, gang: GangDocument, path: str) -> int:
        """Return the priority of a gang's pods."""
        name = gang.priority_class_name
        if name is None:
            return gang.priority or 0
        if name not in self._classes:
            self.problems.add(
                f"{path}.priorityClassName", _unknown(name, "priority class", "priorityClasses", self._classes)
            )
            return 0
        value = self._classes[name]
        if gang.priority not in {None, value}:
            self.problems.add(f"{path}.priority", f"'{gang.priority}' is not {value}, the value of '{name}'")
        return value

    def queue_of(self, gang: GangDocument, path: str) -> str:
        """Return the queue that a gang names, empty if it names none."""
        if gang.queue is not None and gang.queue not in self._queues:
            self.problems.add(f"{path}.queue", _unknown(gang.queue, "queue", "queues", self._queues))
        return gang.queue or ""

    def annotations(self, gang: GangDocument, path: str) -> dict[str, str]:
        """Return the annotations of a gang's PodGroup, with those that keys of their own amount to."""
        said = {
            "preemptible": (keys.PREEMPTIBLE, None if gang.preemptible is None else str(gang.preemptible).lower()),
            "belowMinimum": (keys.BELOW_MINIMUM, gang.below_minimum),
            "expectedDuration": (keys.EXPECTED_DURATION, self._expected(gang, path)),
        }
        annotations = dict(gang.annotations)
        for own, (key, text) in said.items():
            if text is None:
                continue
            if key in gang.annotations:
                self.problems.add(f"{path}.annotations.{key}", f"'{gang.annotations[key]}': {own} says it too")
            annotations[key] = text
        return annotations

    def grace_period(self, gang: GangDocument, path: str) -> int:
        """Return the grace period of a gang's pods (seconds)."""
        seconds = gang.termination_grace_period
        if seconds != int(seconds):
            self.problems.add(f"{path}.terminationGracePeriod", f"'{seconds}' is not in whole seconds")
        return int(seconds)

    def _expected(self, gang: GangDocument, path: str) -> str | None:
        if gang.expected_duration is not None:
            if gang.declare_duration:
                self.problems.add(
                    f"{path}.declareDuration", "expectedDuration says how long, right or wrong: leave one out"
                )
            return write_duration(gang.expected_duration)
        if gang.declare_duration and gang.duration is None:
            self.problems.add(f"{path}.declareDuration", "there is no duration to declare")
        declared = self._declared if gang.declare_duration is None else gang.declare_duration
        return write_duration(gang.rendezvous + gang.duration) if declared and gang.duration is not None else None

    def _queue(self, item: object, path: str) -> Json | None:
        """Check what only the whole tells, in the end by Muster's own reading."""
        problems, before = self.problems, len(self.problems.lines)
        document = problems.parse(QueueDocument, item, path)
        if document is None:
            return None
        manifest = queue_manifest(
            document.name, document.model_dump(by_alias=True, exclude_none=True, exclude={"name"})
        )
        queue = read_queue(
            decode_queue(encode({**manifest, "metadata": {"name": document.name, "uid": document.name}}))
        )
        self._queues[queue.name] = queue
        if len(problems.lines) == before:
            for problem in queue.problems:
                problems.add(f"{path}.{problem.field.removeprefix('spec.')}", problem.message)
        return manifest


def disruption_limit(gang: GangDocument) -> DisruptionLimit | None:
    """Return what the PodDisruptionBudget of a gang says, None if it has none."""
    budget = gang.disruption_budget
    return None if budget is None else DisruptionLimit(budget.min_available, budget.max_unavailable)


def _unknown(name: str, kind: str, where: str, known: Iterable[str]) -> str:
    """Say that there is no such thing, and what could be meant."""
    names = list(known)
    if not names:
        return f"'{name}' is no {kind}: there are none under {where}"
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names[:10])}"
    return f"'{name}' is no {kind} of the scenario; {hint}"
