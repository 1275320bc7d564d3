"""What a source of gangs is: how its pods are told, and which objects describe them.

Each source has a module of its own beside this one, and a row in `extender.objects.sources.table`. The watches, the
reading of pods, `muster explain -f` and the simulated API server all work from these values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder
from extender.objects.podgroup import PodGroup, SubmittedPodSet
from extender.objects.podspec import PodSpec

T = TypeVar("T")

Keyed: TypeAlias = Mapping[str, str]
"""Labels or annotations."""

PriorityValues: TypeAlias = Mapping[str, int]
"""Name of a PriorityClass -> its value."""

Expand: TypeAlias = Callable[[Manifest], Sequence[SubmittedPodSet]]
"""The pods that a controller makes at first of an object, as if it were not suspended."""


@dataclass(frozen=True, slots=True)
class Suspending(Generic[T]):
    """How objects of a kind say that they are suspended, and make no pods until they are resumed.

    `field` leads to what says so, `is_set` reads it. Where Jobs that an object makes have its pods, as `by_jobs` says,
    these are told by the gang that they name, else by their controller. Where the object makes another one that is a
    gang by itself, as `by_part` says, it is one in place of that, and those of its kind that name no queue are none.
    """

    field: tuple[str, ...]
    is_set: Callable[[T], bool]
    by_jobs: bool = False
    by_part: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadKind(Generic[T]):
    """A kind of object that describes gangs, or of which a controller makes pods.

    `versions` are those of the API that are understood, newest first. `read` returns the gangs that an object
    describes, none where its pods say everything. `expand` is None for a kind that makes no pods, `suspending` for one
    that always makes them. What is known too late of a `vital` kind starts a gang in part.
    """

    group: str
    kind: str
    resource: str
    versions: tuple[str, ...]
    decode: Decoder[T]
    read: Callable[[T, PriorityValues], Sequence[PodGroup]]
    expand: Expand | None = None
    vital: bool = False
    suspending: Suspending[T] | None = None

    @property
    def name(self) -> str:
        """Return what the API calls its collection in full: `rayclusters.ray.io`."""
        return f"{self.resource}.{self.group}"

    @property
    def api_version(self) -> str:
        """Return the newest version, as objects say it: `ray.io/v1`."""
        return f"{self.group}/{self.versions[0]}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where gangs come from.

    Attributes:
        api: the API group of its objects, or of what its pods say; `GroupRef.api` of its gangs.
        noun: what people call the object that describes a gang.
        label: the label with the name of a pod's gang, "" where `gang` returns it.
        gang: returns what a pod's spec, labels and annotations call its gang, "" for a pod of another source.
        gang_keys: the labels and annotations by which `gang` goes; it is asked only about pods that have one of them.
        explicit: its pods name a PodGroup, which was written for them. That counts before the keys of operators.
        kinds: the objects; none where the pods say everything.
        role: returns the role that a pod's labels and annotations name, "" where they name none.
        role_keys: the labels and annotations by which `role` goes.
        index_keys: where pods carry their number among those of their role.
        outer_index: the label with the number of the part that a pod's number is within, "" without such parts.
        whole_index: labels with numbers, the outermost first, that order all members without roles where the last is
            there.
        size_annotation: the annotation in which pods say how many of them start together, "" where an object says it.
        wrappers: kinds of `api` that make one object of the first of `kinds`, and the field that holds its spec.
    """

    api: str
    noun: str
    label: str = ""
    gang: Callable[[PodSpec, Keyed, Keyed], str] | None = None
    gang_keys: tuple[str, ...] = ()
    explicit: bool = False
    kinds: tuple[WorkloadKind[Any], ...] = ()
    role: Callable[[Keyed, Keyed], str] | None = None
    role_keys: tuple[str, ...] = ()
    index_keys: tuple[str, ...] = ()
    outer_index: str = ""
    whole_index: tuple[str, ...] = ()
    size_annotation: str = ""
    wrappers: Mapping[str, str] = field(default_factory=dict)


def one(read: Callable[[T], PodGroup]) -> Callable[[T, PriorityValues], Sequence[PodGroup]]:
    """Return the `read` of a kind whose objects are one gang each, with the priority of its pods."""
    return lambda item, _priorities: (read(item),)


def no_gang(_item: object, _priorities: PriorityValues) -> tuple[PodGroup, ...]:
    """Return nothing: the `read` of a kind of which the pods say everything."""
    return ()
