"""So many pods of one template, with the keys that their controller puts onto them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from extender.domain.keys import ADMISSION_GATE
from extender.domain.submission.manifest import Manifest
from extender.wire.kubernetes import Container, ObjectMeta, Pod, PodSpec, Resources
from extender.wire.templates import PodTemplate

#: Most pods of one question: what is asked about far more is a mistake in a number.
MOST_PODS = 10_000

#: How the UIDs begin of pods that exist nowhere: the API server's are hexadecimal.
HYPOTHETICAL = "hypothetical:"


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that a controller makes of one template.

    `where` is the path of the template in its object. `names` are those of the pods, in their order. The controller
    adds `labels` and `annotations` to all of them, and both as labels and as annotations the keys `numbered` with each
    pod's number, which is `first` for the first.
    """

    template: PodTemplate | None
    where: str
    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    numbered: tuple[str, ...] = ()
    first: int = 0

    def pods(self, of: Manifest) -> Iterator[Pod]:
        """Yield the pods; raise SubmissionError if the template says nothing that could run."""
        if not self.names:
            return
        template = self.template or PodTemplate()
        if template.spec is None or not template.spec.containers:
            raise of.refuse(f"{self.where}.spec.containers", "there is none; nothing can be said of such a pod")
        meta = template.metadata or ObjectMeta()
        labels = {**(meta.labels or {}), **self.labels}
        annotations = {**(meta.annotations or {}), **self.annotations}
        for number, name in enumerate(self.names, start=self.first):
            keyed = dict.fromkeys(self.numbered, str(number))
            yield bare_pod(of.namespace, name, labels | keyed, annotations | keyed, template.spec)


def bare_pod(
    namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodSpec
) -> Pod:
    """Return a pod as it is when it has just been created, whatever became of the one that it was copied from.

    Where a container has a limit and no request, the limit is the request, as the API server has it. Muster's own
    scheduling gate is left out: Muster takes it off as soon as there is quota.
    """
    gates = [gate for gate in spec.scheduling_gates or () if gate.name != ADMISSION_GATE]
    meta = ObjectMeta(name, namespace, f"{HYPOTHETICAL}{namespace}/{name}", labels=dict(labels))
    meta = msgspec.structs.replace(meta, annotations=dict(annotations))
    created = msgspec.structs.replace(
        spec,
        containers=[_defaulted(container) for container in spec.containers or ()],
        init_containers=[_defaulted(container) for container in spec.init_containers or ()],
        resources=_requested(spec.resources),
        node_name=None,
        scheduling_gates=gates or None,
    )
    return Pod(meta, created)


def _defaulted(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=_requested(container.resources))


def _requested(resources: Resources | None) -> Resources | None:
    """Return resources with a request for whatever has a limit.

    Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Pod.
    """
    if resources is None or not resources.limits:
        return resources
    return Resources({**resources.limits, **(resources.requests or {})}, resources.limits)


def numbered(name: str, count: int, of: Manifest, where: str) -> tuple[str, ...]:
    """Return so many names `NAME-0`, `NAME-1`, ...; raise SubmissionError for a negative or absurd number."""
    if count < 0:
        raise of.refuse(where, f"{count} is negative")
    if count > MOST_PODS:
        raise of.refuse(where, f"{count} pods are more than a question may be about, {MOST_PODS}")
    return tuple(f"{name}-{index}" for index in range(count))
