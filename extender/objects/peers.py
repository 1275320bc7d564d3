"""What the annotations of other schedulers and operators ask for, in Muster's terms: of the topology above all.

Kueue's are about one set of pods, KAI's about the whole gang. Sources: kubernetes-sigs/kueue
apis/kueue/v1beta2/topology_types.go and KEP-2724; kai-scheduler/KAI-Scheduler docs/topology and
docs/developer/designs/segmented-subgroups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from extender.objects.keys import is_level, parse_count, parse_slices
from extender.objects.meta import DecodeError, Decoder
from extender.objects.reason import Problem, quoted
from extender.objects.topology import SILENT, Slice, TopologyTerms


class SliceConstraint(Struct, gc=False, frozen=True):
    """One layer of slices: every `size` pods in one domain of `topology`, or slices of several `sizes`."""

    topology: str | None = None
    size: int | str | None = None
    sizes: list[Any] | None = None


decode_slice_constraints = Decoder(list[SliceConstraint], "slice constraints")
_KUEUE = "kueue.x-k8s.io/"
KUEUE_REQUIRED = f"{_KUEUE}podset-required-topology"
KUEUE_PREFERRED = f"{_KUEUE}podset-preferred-topology"
KUEUE_UNCONSTRAINED = f"{_KUEUE}podset-unconstrained-topology"
KUEUE_SLICE_REQUIRED = f"{_KUEUE}podset-slice-required-topology"
KUEUE_SLICE_SIZE = f"{_KUEUE}podset-slice-size"
KUEUE_SLICE_LAYERS = f"{_KUEUE}podset-slice-required-topology-constraints"
KUEUE_GROUP_NAME = f"{_KUEUE}podset-group-name"
KUEUE_QUEUE = f"{_KUEUE}queue-name"

#: Labels of pods that Kueue itself manages, and of those whose workload it has admitted. Source: kubernetes-sigs/kueue
#: pkg/controller/constants and pkg/constants.
_KUEUE_MANAGED = f"{_KUEUE}managed"
_KUEUE_PODSET = f"{_KUEUE}podset"
_KAI = "kai.scheduler/"
KAI_REQUIRED = f"{_KAI}topology-required-placement"
KAI_PREFERRED = f"{_KAI}topology-preferred-placement"
KAI_SEGMENT_SIZE = f"{_KAI}segment-size"
KAI_SEGMENT_REQUIRED = f"{_KAI}segment-topology-required-placement"
KAI_SEGMENT_PREFERRED = f"{_KAI}segment-topology-preferred-placement"

#: What a pod asks KAI's binder for: a part of a GPU, that much of its memory, parts of several. Source: KAI-Scheduler
#: pkg/common/constants.
KAI_FRACTIONS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")

#: Every annotation that is read here.
PEER_KEYS = frozenset(
    {
        *(KUEUE_REQUIRED, KUEUE_PREFERRED, KUEUE_UNCONSTRAINED, KUEUE_GROUP_NAME),
        *(KUEUE_SLICE_REQUIRED, KUEUE_SLICE_SIZE, KUEUE_SLICE_LAYERS),
        *(KAI_REQUIRED, KAI_PREFERRED, KAI_SEGMENT_SIZE, KAI_SEGMENT_REQUIRED, KAI_SEGMENT_PREFERRED),
    }
)


class Reading:
    """Terms that several peers may state, from the one that counts most to the one that counts least.

    Attributes:
        problems: what cannot be used, and where two peers contradict each other.
        refused: the first of them without which the gang would not be what its owner requires.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._levels: dict[str, tuple[str, str]] = {}
        self._slices: tuple[tuple[Slice, ...], str] = ((), "")
        self.refused: Problem | None = None

    def level(self, term: str, value: str, where: str) -> None:
        """Take in the level that `where` states for `term`, `required` or `preferred`; no value states nothing."""
        if not value:
            return
        first, first_where = self._levels.setdefault(term, (value, where))
        if first != value:
            self.problem(where, f"{quoted(value)} contradicts {first_where}, which says {quoted(first)} and counts")

    def slices(self, value: tuple[Slice, ...], where: str) -> None:
        """Take in the slices that `where` states."""
        first, first_where = self._slices
        if not first:
            self._slices = (value, where)
        elif value and value != first:
            self.problem(where, f"contradicts {first_where}, which counts")

    def problem(self, where: str, message: str) -> None:
        """Take in that something cannot be used."""
        self.problems.append(Problem(where, message))

    def refuse(self, where: str, message: str) -> None:
        """Take in that something required cannot be kept: the gang is not to start without it."""
        self.problem(where, message)
        self.refused = self.refused or self.problems[-1]

    def terms(self, podset: str | None = None) -> TopologyTerms:
        """Return what is asked for."""
        required, preferred = (self._levels.get(term, ("", ""))[0] for term in ("required", "preferred"))
        terms = TopologyTerms(required, preferred, self._slices[0], podset=podset)
        return SILENT if terms == TopologyTerms(podset=podset) else terms


def read_peers(
    annotations: Mapping[str, str], reading: Reading | None = None
) -> tuple[TopologyTerms, tuple[Problem, ...]]:
    """Read what other schedulers' annotations on an object ask for; what cannot be used becomes a problem.

    `reading` holds what counts more than they do: the object's own fields.
    """
    reading = reading or Reading()
    podset = None
    if not PEER_KEYS.isdisjoint(annotations):
        podset = _read_kueue(annotations, reading)
        _read_kai(annotations, reading)
    return reading.terms(podset), tuple(reading.problems)


def _read_kueue(annotations: Mapping[str, str], reading: Reading) -> str | None:
    """Read Kueue's annotations; return the set of pods that the levels are about, None without any level."""
    required = _level(annotations, KUEUE_REQUIRED, reading)
    preferred = _level(annotations, KUEUE_PREFERRED, reading)
    reading.level("required", required, field_of(KUEUE_REQUIRED))
    reading.level("preferred", preferred, field_of(KUEUE_PREFERRED))
    free = annotations.get(KUEUE_UNCONSTRAINED)
    if free is not None and free not in {"true", "false"}:
        reading.problem(field_of(KUEUE_UNCONSTRAINED), f"{quoted(free)} is not true or false")
    elif free == "true" and (required or preferred):
        counts = KUEUE_REQUIRED if required else KUEUE_PREFERRED
        reading.problem(field_of(KUEUE_UNCONSTRAINED), f"contradicts {field_of(counts)}, which counts")
    _read_kueue_slices(annotations, reading)
    return annotations.get(KUEUE_GROUP_NAME, "") if required or preferred else None


def _read_kueue_slices(annotations: Mapping[str, str], reading: Reading) -> None:
    size, level = annotations.get(KUEUE_SLICE_SIZE), annotations.get(KUEUE_SLICE_REQUIRED)
    _read_one_slice((KUEUE_SLICE_SIZE, size), (KUEUE_SLICE_REQUIRED, level), reading)
    text = annotations.get(KUEUE_SLICE_LAYERS)
    if text is not None:
        expected = 'layers of one size each that divide each other, such as [{"topology": "rack", "size": 4}]'
        slices = _layers(text)
        if slices:
            reading.slices(slices, field_of(KUEUE_SLICE_LAYERS))
        else:
            reading.problem(field_of(KUEUE_SLICE_LAYERS), f"{quoted(text)} is not {expected}")


def _layers(text: str) -> tuple[Slice, ...]:
    """Read several layers of slices; nothing where they are not what Muster can keep."""
    try:
        layers = decode_slice_constraints(text.encode(errors="surrogatepass"))
    except DecodeError:
        return ()
    if any(layer.sizes is not None for layer in layers):
        return ()
    return parse_slices([(layer.topology or "", parse_count(str(layer.size))) for layer in layers])


def _read_kai(annotations: Mapping[str, str], reading: Reading) -> None:
    for term, key in (("required", KAI_REQUIRED), ("preferred", KAI_PREFERRED)):
        reading.level(term, _level(annotations, key, reading), field_of(key))
    size, level = annotations.get(KAI_SEGMENT_SIZE), annotations.get(KAI_SEGMENT_REQUIRED)
    if KAI_SEGMENT_PREFERRED in annotations:
        message = (
            f"is not kept: say {KAI_SEGMENT_REQUIRED}, or nothing, as members in order share domains where they can"
        )
        reading.problem(field_of(KAI_SEGMENT_PREFERRED), message)
    if level is not None or KAI_SEGMENT_PREFERRED not in annotations:
        _read_one_slice((KAI_SEGMENT_SIZE, size), (KAI_SEGMENT_REQUIRED, level), reading)


def _read_one_slice(size: tuple[str, str | None], level: tuple[str, str | None], reading: Reading) -> None:
    """Read slices whose size and level stand in two annotations, given as (key, text)."""
    (size_key, size_text), (level_key, level_text) = size, level
    if size_text is None and level_text is None:
        return
    if size_text is None or level_text is None:
        given, missing = (level_key, size_key) if size_text is None else (size_key, level_key)
        reading.problem(field_of(given), f"says nothing without {missing}")
        return
    count = parse_count(size_text)
    if count is None:
        reading.problem(field_of(size_key), f"{quoted(size_text)} is not a whole number of at least 1")
    elif not is_level(level_text):
        reading.problem(field_of(level_key), f"{quoted(level_text)} is not the name of a level or a node label key")
    else:
        reading.slices((Slice(count, level_text),), field_of(level_key))


def _level(annotations: Mapping[str, str], key: str, reading: Reading) -> str:
    """Return the level that an annotation names, "" if it is not there or cannot be one."""
    text = annotations.get(key)
    if text is None or is_level(text):
        return text or ""
    reading.problem(field_of(key), f"{quoted(text)} is not the name of a level or a node label key")
    return ""


def read_peer_queue(labels: Mapping[str, str], gates: Sequence[str] = ()) -> str:
    """Return the queue that Kueue's label names, "" if none.

    Where Kueue itself decides, by a gate or on the workload that a pod is of, the queue is Kueue's and was its affair.
    """
    queue = labels.get(KUEUE_QUEUE, "")
    if not queue or labels.get(_KUEUE_MANAGED) == "true" or _KUEUE_PODSET in labels:
        return ""
    return "" if any(gate.startswith(_KUEUE) for gate in gates) else queue


def fraction_problems(annotations: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problem of a pod of Muster's that asks KAI for a part of a GPU, () for one that does not."""
    key = next((key for key in KAI_FRACTIONS if key in annotations), None)
    if key is None:
        return ()
    message = "gives the pod no GPU: only KAI's binder shares out GPUs by it, to pods of schedulerName kai-scheduler"
    return (Problem(field_of(key), message),)


def field_of(key: str) -> str:
    """Return how a problem names an annotation."""
    return f"metadata.annotations[{key}]"
