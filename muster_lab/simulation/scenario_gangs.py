"""Reading the gangs of a scenario: their pods, and what they say of priority, queue and runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from extender.objects import keys
from muster_lab.simulation.notation import write_duration
from muster_lab.simulation.objects import Json
from muster_lab.simulation.podgroups import GROUP_APIS
from muster_lab.simulation.problems import DocumentProblems
from muster_lab.simulation.scenario import (
    DisruptionLimit,
    GangScaling,
    GangSource,
    ScenarioGang,
    ScenarioMember,
    ScenarioPlacement,
)
from muster_lab.simulation.scenario_devices import DeviceReader
from muster_lab.simulation.scenario_document import (
    GangDocument,
    RoleDocument,
    SinglePodDocument,
    StandingDocument,
    WorkDocument,
)
from muster_lab.simulation.scenario_objects import ObjectReader


@dataclass(frozen=True, slots=True)
class GangReader:
    """Check gangs against what else the scenario has; what is wrong with them is added to `problems`.

    Attributes:
        nodes: the names of the nodes.
        queues: the names of the Queues.
        classes: the values of the priority classes.
        declares: whether gangs declare how long they take unless they say otherwise.
        devices: takes in what pods claim.
    """

    problems: DocumentProblems
    nodes: Collection[str]
    queues: Collection[str]
    classes: Mapping[str, int]
    declares: bool
    devices: DeviceReader

    def gang(self, item: object, path: str) -> ScenarioGang | None:
        """Return a gang, None if it cannot be read."""
        document = self.problems.parse(GangDocument, item, path)
        if document is None:
            return None
        members = self._members(document, path)
        if not members:
            return None
        scaling = self._scaling(document, members, path)
        budget = document.disruption_budget
        return replace(
            self._work(document, path),
            # More than there are pods is no mistake: it is how a gang looks whose controller has not created them all.
            min_member=document.min_member or len(scaling[0].members if scaling else members),
            scaling=scaling,
            elastic=document.elastic,
            members=members,
            disruption_budget=None if budget is None else DisruptionLimit(budget.min_available, budget.max_unavailable),
            placed=self._placed(document, path, members),
            source=document.source,
            group_spec=self._group_spec(document, path),
        )

    def singles(self, item: object, path: str) -> list[ScenarioGang]:
        """Return pods without a gang, each as a gang of one; none if they cannot be read."""
        document = self.problems.parse(SinglePodDocument, item, path)
        if document is None:
            return []
        self.problems.amounts(document.requests, f"{path}.requests")
        name, count = document.name, document.count
        names = [name] if count == 1 else [f"{name}-{index}" for index in range(count)]
        standing = None
        if document.node is not None:
            standing = self.problems.parse(StandingDocument, document.standing, path)
        for key, value in document.standing.items() if document.node is None else ():
            self.problems.add(f"{path}.{key}", f"'{value}' without a node")
        place = None if standing is None else self._place(standing, document, path)
        one = replace(self._work(document, path), source=GangSource.POD)
        claims = self._claims(document, path)
        if claims and place is not None:
            self.problems.add(f"{path}.node", f"'{place.node}': a pod that claims devices has to find a node first")
        return [
            replace(
                one,
                name=each,
                members=(ScenarioMember(each, document.requests, claims=claims),),
                placed={each: place} if place else {},
            )
            for each in names
        ]

    def _work(self, document: WorkDocument, path: str) -> ScenarioGang:
        """Return what is said of a gang and of a pod without one in the same words, as a gang without pods."""
        if document.age and document.arrival:
            said = f"'{write_duration(document.age)}' with an arrival: what is created later has no age at the start"
            self.problems.add(f"{path}.age", said)
        return ScenarioGang(
            name=document.name,
            namespace=document.namespace,
            min_member=1,
            members=(),
            priority=self._priority(document, path),
            arrival=document.arrival,
            age=document.age,
            rendezvous=document.rendezvous,
            duration=document.duration,
            annotations=self._annotations(document, path),
            node_selector=document.node_selector,
            guaranteed=document.guaranteed,
            queue=self._queue_of(document, path),
            priority_class=document.priority_class_name or "",
            checkpoint_interval=document.checkpoint_interval,
            grace_period=self._grace_period(document, path),
            tolerations=tuple(t.model_dump(exclude_defaults=True) for t in document.tolerations),
        )

    def _group_spec(self, gang: GangDocument, path: str) -> Mapping[str, Any]:
        """Return what the spec of a gang's PodGroup says beside what the gang does, checked as its CRD would."""
        api = GROUP_APIS[gang.source]
        for key in sorted(api.stated & gang.pod_group_spec.keys()):
            self.problems.add(f"{path}.podGroupSpec.{key}", "the gang's minMember and priority say it: leave it out")
        ObjectReader(self.problems).spec(api.collection, api.struct, gang.pod_group_spec, f"{path}.podGroupSpec")
        return gang.pod_group_spec

    def _members(self, gang: GangDocument, path: str) -> tuple[ScenarioMember, ...]:
        """Return the gang's pods: `NAME-0`, `NAME-1`, ... or, with roles, `NAME-ROLE-0`, `NAME-ROLE-1`, ..."""
        self.problems.amounts(gang.requests, f"{path}.requests")
        annotations = gang.pod_annotations
        claims = self._claims(gang, path)
        if not gang.roles:
            replicas = gang.replicas or gang.min_member
            if replicas is None:
                self.problems.add(path, "one of minMember, replicas and roles is needed")
                return ()
            return tuple(
                ScenarioMember(f"{gang.name}-{i}", gang.requests, annotations=annotations, claims=claims)
                for i in range(_most(gang, "", replicas))
            )
        members: list[ScenarioMember] = []
        for index, role in enumerate(gang.roles):
            requests = gang.requests if role.requests is None else role.requests
            if role.requests is not None:
                self.problems.amounts(role.requests, f"{path}.roles[{index}].requests")
            said = annotations | role.annotations
            own = self._claims_of_role(gang, role, claims, f"{path}.roles[{index}]")
            members += (
                ScenarioMember(f"{gang.name}-{role.name}-{i}", requests, role.name, role.labels, said, own)
                for i in range(_most(gang, role.name, role.replicas))
            )
        self.problems.unique(f"{path}.roles", "role", (role.name for role in gang.roles))
        total = sum(role.replicas for role in gang.roles)
        if gang.replicas not in {None, total}:
            self.problems.add(f"{path}.replicas", f"'{gang.replicas}' is not the sum over the roles, {total}")
        return tuple(members)

    def _scaling(self, gang: GangDocument, members: tuple[ScenarioMember, ...], path: str) -> tuple[GangScaling, ...]:
        """Return which members there are from which time on, in order of time; nothing where they stay the same."""
        if not gang.scale:
            return ()
        by_role: dict[str, list[str]] = {}
        for member in members:
            by_role.setdefault(member.role, []).append(member.name)
        counts = {role.name: role.replicas for role in gang.roles} or {"": gang.replicas or gang.min_member or 0}
        steps = [GangScaling(gang.arrival, _first(by_role, counts))]
        for index, step in sorted(enumerate(gang.scale), key=lambda each: each[1].at):
            role, where = step.role or "", f"{path}.scale[{index}]"
            if step.at <= gang.arrival:
                self.problems.add(f"{where}.at", f"'{write_duration(step.at)}' is not after the arrival")
            if role not in counts:
                known = [each.name for each in gang.roles]
                said = _unknown(role, "role", "roles", known) if known else f"'{role}': there are no roles"
                self.problems.add(f"{where}.role", said if role else f"one of {', '.join(known)} is to be named")
                continue
            counts[role] = step.replicas
            steps.append(GangScaling(step.at, _first(by_role, counts)))
        return tuple(steps)

    def _claims(self, work: WorkDocument, path: str) -> tuple[Json, ...]:
        """Return what pods say of the devices that they claim."""
        return self.devices.of_pods((work.namespace, work.name), work.devices, work.resource_claims, path)

    def _claims_of_role(
        self, gang: GangDocument, role: RoleDocument, claims: tuple[Json, ...], path: str
    ) -> tuple[Json, ...]:
        """Return what the pods of a role say: what the gang does, where the role says nothing itself."""
        if role.devices is None and role.resource_claims is None:
            return claims
        owner = (gang.namespace, f"{gang.name}-{role.name}")
        return self.devices.of_pods(owner, role.devices or (), role.resource_claims or (), path)

    def _placed(
        self, gang: GangDocument, path: str, members: tuple[ScenarioMember, ...]
    ) -> dict[str, ScenarioPlacement]:
        names = {member.name for member in members}
        self.problems.unique(f"{path}.pods", "pod", (pod.name for pod in gang.pods))
        claiming = {member.name for member in members if member.claims}
        for index, pod in enumerate(gang.pods):
            if pod.name in claiming:
                said = "claims devices, and has to find a node first: it cannot be placed from the start"
                self.problems.add(f"{path}.pods[{index}].name", f"'{pod.name}' {said}")
            if pod.name not in names:
                self.problems.add(f"{path}.pods[{index}].name", f"'{pod.name}' is no pod of the gang")
        placed = {pod.name: self._place(pod, gang, f"{path}.pods[{index}]") for index, pod in enumerate(gang.pods)}
        return {pod.name: replace(placed[pod.name], annotations=pod.annotations) for pod in gang.pods}

    def _place(self, pod: StandingDocument, work: WorkDocument, path: str) -> ScenarioPlacement:
        """Return where a pod is already; it has been running for as long as it has been there, unless it says so."""
        if pod.node not in self.nodes:
            self.problems.add(f"{path}.node", f"'{pod.node}' is no node of the scenario")
        running_for = work.age if pod.running_for is None else pod.running_for
        if running_for > work.age:
            longer, age = write_duration(running_for), write_duration(work.age)
            self.problems.add(f"{path}.runningFor", f"'{longer}' is longer than the age of the pod, {age}")
        return ScenarioPlacement(pod.node, pod.state, running_for=running_for, terminating=pod.terminating)

    def _priority(self, gang: WorkDocument, path: str) -> int:
        """Return the priority of a gang's pods."""
        name = gang.priority_class_name
        if name is None:
            return gang.priority or 0
        if name not in self.classes:
            self.problems.add(
                f"{path}.priorityClassName", _unknown(name, "priority class", "priorityClasses", self.classes)
            )
            return 0
        value = self.classes[name]
        if gang.priority not in {None, value}:
            self.problems.add(f"{path}.priority", f"'{gang.priority}' is not {value}, the value of '{name}'")
        return value

    def _queue_of(self, gang: WorkDocument, path: str) -> str:
        """Return the queue that a gang names, empty if it names none."""
        if gang.queue is not None and gang.queue not in self.queues:
            self.problems.add(f"{path}.queue", _unknown(gang.queue, "queue", "queues", self.queues))
        return gang.queue or ""

    def _annotations(self, gang: WorkDocument, path: str) -> dict[str, str]:
        """Return the annotations of a PodGroup, or of a pod without one, with what keys of their own amount to."""
        said = {
            "preemptible": (keys.PREEMPTIBLE, None if gang.preemptible is None else str(gang.preemptible).lower()),
            "belowMinimum": (keys.BELOW_MINIMUM, gang.below_minimum if isinstance(gang, GangDocument) else None),
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

    def _grace_period(self, gang: WorkDocument, path: str) -> int:
        """Return the grace period of a gang's pods (seconds)."""
        seconds = gang.termination_grace_period
        if seconds != int(seconds):
            self.problems.add(f"{path}.terminationGracePeriod", f"'{seconds}' is not in whole seconds")
        return int(seconds)

    def _expected(self, gang: WorkDocument, path: str) -> str | None:
        if gang.expected_duration is not None:
            if gang.declare_duration:
                self.problems.add(
                    f"{path}.declareDuration", "expectedDuration says how long, right or wrong: leave one out"
                )
            return write_duration(gang.expected_duration)
        if gang.declare_duration and gang.duration is None:
            self.problems.add(f"{path}.declareDuration", "there is no duration to declare")
        declared = self.declares if gang.declare_duration is None else gang.declare_duration
        return write_duration(gang.rendezvous + gang.duration) if declared and gang.duration is not None else None


def _most(gang: GangDocument, role: str, replicas: int) -> int:
    """Return how many pods of a role there ever are."""
    return max([replicas, *(step.replicas for step in gang.scale if (step.role or "") == role)])


def _first(by_role: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> frozenset[str]:
    """Return the first so many members of each role."""
    return frozenset(name for role, names in by_role.items() for name in names[: counts.get(role, 0)])


def _unknown(name: str, kind: str, where: str, known: Iterable[str]) -> str:
    """Say that there is no such thing, and what could be meant."""
    names = list(known)
    if not names:
        return f"'{name}' is no {kind}: there are none under {where}"
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names[:10])}"
    return f"'{name}' is no {kind} of the scenario; {hint}"
