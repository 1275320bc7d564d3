"""Pods as a watch tells of them, again and again: what repeats is read once.

A pod is told of three or four times before it runs, mostly with nothing new but its node or its status, and members of
a gang are made from one template. So three parts of each pod are known again by their text: what it asks for, which a
whole template shares, its annotations, and its labels with what refers to others. The text is taken field by field:
volumes have random names, and what is not read may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.caches import SizedDict
from extender.objects.meta import BareMeta, Body, DecodeError, Decoder, ObjectMeta
from extender.objects.pod import Pod, PodForm, PodTold, assemble, read_form, read_told
from extender.objects.podoptions import PodWords, asking, read_words
from extender.objects.podspec import (
    PodCondition,
    PodObject,
    PodSpec,
    PodSpecFields,
    PodStatus,
    PodStatusFields,
    decode_pod,
)

_NULL_TEXT: Final = b"null"
_NULL: Final = Raw(_NULL_TEXT)


class _Container(Struct, gc=False, frozen=True, rename="camel"):
    name: str | None = None
    resources: Raw = _NULL
    restart_policy: str | None = None


class _ContainerStatus(Struct, gc=False, frozen=True, rename="camel"):
    name: str | None = None
    allocated_resources: Raw = _NULL
    resources: Raw = _NULL


class _Meta(BareMeta, gc=False, frozen=True, rename="camel"):
    labels: Raw = _NULL
    annotations: Raw = _NULL
    owner_references: Raw = _NULL


class _Spec(PodSpecFields, gc=False, frozen=True, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Raw = _NULL
    resources: Raw = _NULL
    node_selector: Raw = _NULL
    affinity: Raw = _NULL
    tolerations: Raw = _NULL
    scheduling_gates: Raw = _NULL
    scheduling_group: Raw = _NULL
    resource_claims: Raw = _NULL


class _Status(PodStatusFields, gc=False, frozen=True, rename="camel"):
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    allocated_resources: Raw = _NULL
    resources: Raw = _NULL


class _Pod(Struct, gc=False, frozen=True):
    """A pod of which the parts that many have in common are left as they are written."""

    metadata: _Meta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


# Two of the parts as documents of their own, in the form of a pod: their text is the key, and is read like a pod.


class _FormSpec(Struct, gc=False, frozen=True, rename="camel"):
    containers: list[_Container] | None
    init_containers: list[_Container] | None
    overhead: Raw
    resources: Raw
    node_selector: Raw
    affinity: Raw
    tolerations: Raw
    resource_claims: Raw


class _FormStatus(Struct, gc=False, frozen=True, rename="camel"):
    container_statuses: list[_ContainerStatus] | None
    init_container_statuses: list[_ContainerStatus] | None
    allocated_resources: Raw
    resources: Raw
    conditions: list[PodCondition]


class _Form(Struct, gc=False, frozen=True):
    spec: _FormSpec
    status: _FormStatus


class _WordsMeta(Struct, gc=False, frozen=True, rename="camel"):
    namespace: str | None
    labels: Raw
    annotations: Raw
    owner_references: Raw


class _WordsSpec(Struct, gc=False, frozen=True, rename="camel"):
    scheduling_gates: Raw
    scheduling_group: Raw


class _Words(Struct, gc=False, frozen=True):
    metadata: _WordsMeta
    spec: _WordsSpec


class SeenPod(NamedTuple):
    """A pod that a watch told of: what is its own, and the parts that it may share."""

    metadata: BareMeta
    spec: PodSpecFields
    status: PodStatusFields
    form: PodForm
    words: PodWords
    told: PodTold

    def pod(self, default_priority: int = 0) -> Pod:
        """Return the pod; `default_priority` is that of a pod that names none, the global default."""
        return assemble(self.metadata, self.spec, self.status, self.form, self.words, self.told, default_priority)


class _Annotated(NamedTuple):
    """What annotations say: what they tell of the pod, and the text of those that ask for something."""

    told: PodTold
    asked: Raw


R = TypeVar("R")

#: What is remembered of each part may take so much (bytes): thousands of templates, and the labels of the few thousand
#: pods that are on their way at a time.
_REMEMBERED_BYTES = 4 << 20
#: What is remembered with each text, besides what grows with it (bytes).
_FIXED_BYTES = 1500
#: Longer texts are read each time, so that one pod does not crowd out the others (bytes).
_LONGEST = 16 << 10

#: The condition that tells of a resize that is still to come. Source: k8s.io/api/core/v1 PodResizePending.
_RESIZE_PENDING = "PodResizePending"
_NO_META, _NO_SPEC, _NO_STATUS = _Meta(), _Spec(), _Status()

_encode = msgspec.json.Encoder().encode
_decode_annotations = Decoder(dict[str, str], "annotations")


class SeenPodDecoder:
    """Decode pods that a watch tells of; the outcome is that of `decode_pod` and `read_pod`, errors and all."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._decode = Decoder(_Pod)
        self._forms: SizedDict[bytes, PodForm] = SizedDict(_REMEMBERED_BYTES)
        self._words: SizedDict[bytes, PodWords] = SizedDict(_REMEMBERED_BYTES)
        self._annotations: SizedDict[bytes, _Annotated] = SizedDict(_REMEMBERED_BYTES)

    def __call__(self, body: Body) -> SeenPod:
        """Decode a pod; raise DecodeError for one that cannot be read."""
        try:
            return self._complete(self._decode(body))
        except DecodeError:  # what is wrong is said of the whole pod, in its order
            return _plain(decode_pod(body))

    def changed(self, line: bytes) -> SeenPod | None:
        """Return the pod of an ADDED or MODIFIED line that can be decoded, else None."""
        pod = self._decode.changed(line)
        if pod is None:
            return None
        try:
            return self._complete(pod)
        except DecodeError:
            return None

    def _complete(self, pod: _Pod) -> SeenPod:
        """Read the parts that are still text, or know them again; raise DecodeError for what cannot be read."""
        meta, spec, status = pod.metadata or _NO_META, pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        resizes = [each for each in status.conditions or () if each.type == _RESIZE_PENDING]
        form = _Form(
            _FormSpec(
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.resource_claims,
            ),
            _FormStatus(
                status.container_statuses,
                status.init_container_statuses,
                status.allocated_resources,
                status.resources,
                resizes,
            ),
        )
        told, asked = _known(self._annotations, bytes(meta.annotations), _read_annotations)
        words = _Words(
            _WordsMeta(meta.namespace, meta.labels, asked, meta.owner_references),
            _WordsSpec(spec.scheduling_gates, spec.scheduling_group),
        )
        return SeenPod(
            meta,
            spec,
            status,
            _known(self._forms, _encode(form), _read_form),
            _known(self._words, _encode(words), _read_words),
            told,
        )


#: The one reader of pods that watches tell of.
decode_seen_pod = SeenPodDecoder()


def _known(known: SizedDict[bytes, R], text: bytes, read: Callable[[bytes], R]) -> R:
    """Return what a part amounts to, by its text; raise DecodeError for what cannot be read."""
    found = known.get(text)
    if found is None:
        found = read(text)
        if len(text) <= _LONGEST:
            known.keep(text, found, _FIXED_BYTES + 3 * len(text))
    return found


def _read_form(text: bytes) -> PodForm:
    return read_form(decode_pod(text))


def _read_annotations(text: bytes) -> _Annotated:
    annotations = {} if text == _NULL_TEXT else _decode_annotations(text)
    return _Annotated(read_told(annotations), Raw(_encode(asking(annotations))))


def _read_words(text: bytes) -> PodWords:
    pod = decode_pod(text)
    return read_words(pod.metadata or ObjectMeta(), pod.spec or PodSpec())


def _plain(pod: PodObject) -> SeenPod:
    """Return a pod that was decoded whole."""
    meta, spec, status = pod.metadata or ObjectMeta(), pod.spec or PodSpec(), pod.status or PodStatus()
    told = read_told(meta.annotations or {})
    return SeenPod(meta, spec, status, read_form(pod), read_words(meta, spec), told)
