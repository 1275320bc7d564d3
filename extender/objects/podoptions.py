"""What a pod's labels and annotations ask for: its gang, its role there, and Muster's and other schedulers' options.

Which gang it belongs to is asked of every source of gangs: `extender.objects.sources`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Final, NamedTuple

from extender.caches import Shared, size_of, sized_cache
from extender.objects.keys import (
    KNOWN_LABELS,
    MIN_MEMBER,
    NO_OPTIONS,
    PREFIX,
    QUEUE,
    ROLE,
    TOLD_KEYS,
    Options,
    parse_count,
    read_options,
)
from extender.objects.meta import LabelSet, ObjectMeta, ObjectRef, share_labels
from extender.objects.peers import (
    KAI_FRACTIONS,
    KUEUE_QUEUE,
    PEER_KEYS,
    field_of,
    fraction_problems,
    read_peer_queue,
    read_peers,
)
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import PodSpec
from extender.objects.reason import Problem, quoted
from extender.objects.sources.controllers import COMPLETION_INDEX, POD_INDEX
from extender.objects.sources.table import SOURCES
from extender.objects.text import parse_integer

#: Who wrote a PodGroup for the pods of an operator wants that to count, so references to one come first.
_ASKED: Final = sorted((each for each in SOURCES if each.label or each.gang), key=lambda each: not each.explicit)
_GANG_KEYS: Final = frozenset(key for each in SOURCES for key in (each.label, *each.gang_keys) if key)
_NAMING_ROLES: Final = tuple(each.role for each in SOURCES if each.role is not None)
_ROLE_KEYS: Final = frozenset(key for each in SOURCES for key in each.role_keys)

#: Roles whose members come before all others: rank 0 is theirs in MPI, PyTorch, Ray and Spark.
LEADING_ROLES = frozenset({"leader", "master", "launcher", "head", "chief", "driver"})

#: Where controllers write a member's number among those of its role, first match wins.
_INDEX_KEYS: Final = (COMPLETION_INDEX, POD_INDEX, *(key for each in SOURCES for key in each.index_keys))
_OUTER_KEYS: Final = tuple(each.outer_index for each in SOURCES if each.outer_index)
_WHOLE_KEYS: Final = tuple(each.whole_index for each in SOURCES if each.whole_index)


class RoleRank(NamedTuple):
    """A member's place in its gang: leading roles first, then role by role, then by number.

    `indices` are the numbers that controllers gave, the outermost first. Of a LeaderWorkerSet they say everything, as
    each group has its own leader: `role` is empty then.
    """

    follows: bool = True
    role: str = ""
    indices: tuple[int, ...] = ()


#: What ranks that members share may take together (bytes): 20,000 of them.
_RANK_BYTES = 8 << 20

#: The rank of a member of which nothing is known but its name.
UNRANKED = RoleRank()

#: One object for all pods that an object has made.
_shared_owner: Final = Shared[ObjectRef]()


class PodWords(NamedTuple):
    """What a pod's metadata and its references say: whose it is, and what is asked for it.

    `group` is None for a pod that names none. `options` are without regard to the resources that the pod asks for.
    """

    labels: LabelSet
    group: GroupRef | None
    role: str
    rank: RoleRank
    options: Options
    gates: tuple[str, ...]
    controller: str
    owner: ObjectRef | None


def asking(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return those of a pod's annotations that `read_words` reads."""
    return {
        key: text
        for key, text in annotations.items()
        if key in _ASKING_KEYS or (key.startswith(PREFIX) and key not in TOLD_KEYS)
    }


def read_words(meta: ObjectMeta, spec: PodSpec) -> PodWords:
    """Read what metadata and references of a pod say, but for what it holds; `asking` annotations are enough."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    gates = tuple([intern(gate.name or "") for gate in spec.scheduling_gates]) if spec.scheduling_gates else ()
    role = intern(read_role(labels, annotations))
    return PodWords(
        labels=share_labels(labels),
        group=read_group(spec, intern(meta.namespace or ""), labels, annotations),
        role=role,
        rank=read_rank(labels, annotations, role),
        options=read_pod_options(labels, annotations, gates),
        gates=gates,
        controller=intern(meta.controller) if meta.owner_references else "",
        owner=_shared_owner(owner) if (owner := meta.owner) is not None else None,
    )


def read_group(
    spec: PodSpec, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> GroupRef | None:
    """Return the group that a pod names, or None if it names none."""
    if spec.scheduling_group is None and _GANG_KEYS.isdisjoint(labels) and _GANG_KEYS.isdisjoint(annotations):
        return None  # as most pods of a shared cluster are
    for source in _ASKED:
        name = labels.get(source.label, "") if source.gang is None else source.gang(spec, labels, annotations)
        if name:
            return GroupRef(source.api, namespace, name)
    return None


def read_role(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return a member's role, "" if none is named; Muster's own label counts first."""
    if role := labels.get(ROLE):
        return role
    if _ROLE_KEYS.isdisjoint(labels) and _ROLE_KEYS.isdisjoint(annotations):
        return ""
    for role_of in _NAMING_ROLES:
        if role := role_of(labels, annotations):
            return role
    return ""


def read_rank(labels: Mapping[str, str], annotations: Mapping[str, str], role: str) -> RoleRank:
    """Return a member's rank; what is no number counts as none."""
    for whole in _WHOLE_KEYS:
        if whole[-1] in labels:
            return _shared_rank("", tuple([labels.get(key, "0") for key in whole]))
    text = _index(labels)
    if text is None:
        text = _index(annotations)
    outer = [labels[key] for key in _OUTER_KEYS if key in labels]
    return _shared_rank(role, (*outer, text or ""))


def _index(keyed: Mapping[str, str]) -> str | None:
    for key in _INDEX_KEYS:
        if (text := keyed.get(key)) is not None:
            return text
    return None


@sized_cache(_RANK_BYTES, lambda role, texts: 300 + 2 * size_of((role, texts)))
def _shared_rank(role: str, texts: tuple[str, ...]) -> RoleRank:
    """Return the rank of members of `role` with these numbers, up to the first that is none: every gang has a 0."""
    numbers: list[int] = []
    for text in texts:
        number = parse_integer(text)
        if number is None:
            break
        numbers.append(number)
    return RoleRank(role not in LEADING_ROLES, role, tuple(numbers)) if role or numbers else UNRANKED


#: How many pods start together, in the words of those whose gangs have no object that says it; Muster's own is read
#: with its other keys.
SIZES: Final = tuple(each.size_annotation for each in SOURCES if each.size_annotation not in {"", MIN_MEMBER})
_READ: Final = PEER_KEYS.union(SIZES, KAI_FRACTIONS)
_ASKING_KEYS: Final = _READ.union(_GANG_KEYS, _ROLE_KEYS, _INDEX_KEYS)

#: Words longer than this are read for each pod by itself, so that one pod does not crowd out the others (characters).
_LONGEST_SHARED = 1024
#: What options that pods share may take together (bytes).
_SHARED_BYTES = 8 << 20


def _size(labels: tuple[tuple[str, str], ...], annotations: tuple[tuple[str, str], ...], peer_queue: str) -> int:
    """Return about what options take, with the words that they were read from (bytes)."""
    return 2000 + 3 * size_of((labels, annotations, peer_queue))


def read_pod_options(labels: Mapping[str, str], annotations: Mapping[str, str], gates: Sequence[str] = ()) -> Options:
    """Read what a pod asks for; `gates` are its own.

    Equal words give one object: members of a gang say the same, and most pods say nothing.
    """
    said = [
        (key, text)
        for key, text in labels.items()
        if key.startswith(PREFIX) and (key == QUEUE or key not in KNOWN_LABELS)
    ]
    words = [
        (key, text)
        for key, text in annotations.items()
        if key in _READ or (key.startswith(PREFIX) and key not in TOLD_KEYS)
    ]
    peer_queue = read_peer_queue(labels, gates) if KUEUE_QUEUE in labels else ""
    if not (said or words or peer_queue):
        return NO_OPTIONS
    if len(peer_queue) + sum(len(key) + len(text) for key, text in (*said, *words)) > _LONGEST_SHARED:
        return _read(dict(said), dict(words), peer_queue)
    return _shared(tuple(said), tuple(words), peer_queue)


@sized_cache(_SHARED_BYTES, _size)
def _shared(labels: tuple[tuple[str, str], ...], annotations: tuple[tuple[str, str], ...], peer_queue: str) -> Options:
    return _read(dict(labels), dict(annotations), peer_queue)


def _read(labels: Mapping[str, str], annotations: Mapping[str, str], peer_queue: str) -> Options:
    options = read_options(labels, annotations).with_peers(*read_peers(annotations)).with_peer_queue(peer_queue)
    return _with_size(options.with_problems(fraction_problems(annotations)), annotations)


def _with_size(options: Options, annotations: Mapping[str, str]) -> Options:
    """Return a pod's options with the size of its gang, if another operator says it and Muster's own key does not."""
    key = next((key for key in SIZES if key in annotations), None)
    if key is None:
        return options
    count = parse_count(annotations[key])
    if count is None:
        message = f"{quoted(annotations[key])} is not a whole number of at least 1"
        return options.with_problems((Problem(field_of(key), message),))
    return replace(options, min_member=options.min_member or count)
