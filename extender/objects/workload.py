"""Objects that make no pods while they are suspended, and the pods that are expected of them when they are resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from extender.objects.meta import ObjectMeta, ObjectRef
from extender.objects.pod import EXPECTED, Pod
from extender.objects.podgroup import GroupRef, PodGroup

#: Label of a namespace with the value "true": Muster resumes and suspends its Jobs that name a queue.
MANAGE_JOBS: Final = "muster.dev/manage-jobs"

#: What makes objects from time to time, and leaves them alone then.
_ONLY_MAKERS: Final = frozenset({"CronJob", "RayCronJob"})

#: Longer places are not written (characters): all annotations of an object may take 256 KiB.
_LONGEST_PLACE: Final = 150_000


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """Pods of one template that its controller makes when it is resumed: one for each of `numbers`.

    `template` is one of them, but for its number. Its priority counts unless it names a `priority_class`. Those that
    are `indexed` carry their number, of the others none is told from another.
    """

    template: Pod
    numbers: tuple[int, ...]
    priority_class: str = ""
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Suspendable:
    """An object that Muster may resume, when there is a place for its pods, and suspend again.

    `resource` is what the API calls its collection: `jobs`. `version` is its resourceVersion. `group` is the gang that
    its pods are without naming another one. Of the pods that it has at a time, `left` have not succeeded, nor others in
    their place. `place` is where its pods were planned when Muster resumed it. One that has `ended` makes no pods any
    more. It is suspended by its `field`. Of one that is `described` other news tell of the gang. Pods of one whose pods
    others make for it are `named`: they are told by the gang that they name, not by their controller.
    """

    about: ObjectRef
    resource: str
    version: str
    group: PodGroup
    pods: tuple[ExpectedPods, ...]
    left: int
    suspended: bool
    ended: bool = False
    place: str = ""
    field: tuple[str, ...] = ("spec", "suspend")
    described: bool = False
    named: bool = False

    @property
    def uid(self) -> str:
        """Return the UID of the object."""
        return self.about.uid

    @property
    def ref(self) -> GroupRef:
        """Return the gang that its pods belong to."""
        named = next((each.template.group for each in self.pods if not each.template.group.is_pod), None)
        return named or self.group.ref

    @property
    def uids(self) -> list[str]:
        """Return the UIDs of the pods that it has when it is resumed; they follow from the object's own."""
        return [f"{EXPECTED}{self.uid}/{at}/{number}" for at, each in enumerate(self.pods) for number in each.numbers]

    def expected(self, priorities: Mapping[str, int], default: int) -> dict[str, Pod]:
        """Return the pods that it has when it is resumed, by UID, in the order of `uids`."""
        found: dict[str, Pod] = {}
        uids = iter(self.uids)
        for each in self.pods:
            priority = priorities.get(each.priority_class, default)
            base = replace(each.template, group=self.ref, priority=priority, created=self.group.created)
            for number in each.numbers:
                uid, rank = next(uids), base.rank
                if each.indexed:
                    rank = rank._replace(indices=(*rank.indices, number))
                found[uid] = replace(base, uid=uid, name=f"{base.name}-{number}", rank=rank)
        return found


def is_part(meta: ObjectMeta) -> bool:
    """Tell whether another object decides when this one runs, as a JobSet of its Jobs; a CronJob only makes Jobs."""
    return any(owner.controller and owner.kind not in _ONLY_MAKERS for owner in meta.owner_references or ())


def write_place(uids: Iterable[str], nodes: Mapping[str, str]) -> str:
    """Return where pods are planned, in the order of their `uids`: `node-1*8,node-2*4`; "-" stands for no node."""
    runs = ((node, sum(1 for _ in run)) for node, run in groupby(nodes.get(uid, "-") for uid in uids))
    text = ",".join(f"{node}*{count}" for node, count in runs)
    return text if len(text) <= _LONGEST_PLACE else "-"


def read_place(text: str, uids: Sequence[str]) -> Mapping[str, str]:
    """Return the nodes that a place names for pods, by UID; nothing where it is about other pods, or unreadable."""
    nodes: list[str] = []
    for node, count in _runs(text):
        if len(nodes) + count > len(uids):
            return {}
        nodes += [node] * count
    if len(nodes) != len(uids):
        return {}
    return {uid: node for uid, node in zip(uids, nodes, strict=True) if node != "-"}


def _runs(text: str) -> Iterator[tuple[str, int]]:
    for run in text.split(","):
        node, star, count = run.rpartition("*")
        if star and count.isascii() and count.isdigit() and len(count) < 6:  # noqa: PLR2004 - a gang has fewer members
            yield node, int(count)
