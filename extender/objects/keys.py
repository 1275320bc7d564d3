"""Labels and annotations under `muster.dev/`: which exist, and what they may say."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Self, TypeVar

from extender.objects.branches import Branch, read_tree
from extender.objects.holdings import OWN_HOLDING_KEYS
from extender.objects.jobsigns import EVICTION_ACKNOWLEDGED, LAST_CHECKPOINT, NO_SIGNS, SIGN_KEYS, JobSigns, read_signs
from extender.objects.reason import Problem, quoted
from extender.objects.text import parse_go_duration, parse_integer
from extender.objects.topology import SILENT, Objective, RoleGroup, Slice, TopologyTerms

PREFIX = "muster.dev/"
GANG = "muster.dev/gang"
MIN_MEMBER = "muster.dev/min-member"
MAX_MEMBER = "muster.dev/max-member"
ROLE = "muster.dev/role"
PLACEMENT = "muster.dev/placement"
#: Annotation of an object that Muster has resumed: where its pods are planned.
PLACE = "muster.dev/place"
ROLE_MINIMUMS = "muster.dev/role-minimums"
TREE = "muster.dev/tree"
TOPOLOGY_REQUIRED = "muster.dev/topology-required"
TOPOLOGY_PREFERRED = "muster.dev/topology-preferred"
TOPOLOGY_SLICE = "muster.dev/topology-slice"
TOPOLOGY_ROLE_GROUPS = "muster.dev/topology-role-groups"
OBJECTIVE = "muster.dev/objective"
QUEUE = "muster.dev/queue"
#: Labels of pods by whom they were submitted, and of which group that is: policies at admission set them.
USER, GROUP = "muster.dev/user", "muster.dev/group"
EXPECTED_DURATION = "muster.dev/expected-duration"
PREEMPTIBLE = "muster.dev/preemptible"
BELOW_MINIMUM = "muster.dev/below-minimum"
CHECKPOINT_INTERVAL = "muster.dev/checkpoint-interval"
EVICTION_NOTICE = "muster.dev/eviction-notice"
MAX_RUNTIME = "muster.dev/max-runtime"
HOLD = "muster.dev/hold"

_TOPOLOGY_KEYS = frozenset({TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_SLICE, TOPOLOGY_ROLE_GROUPS, OBJECTIVE})
#: Those by which a gang says how it shares the cluster with others.
SHARING_KEYS = frozenset(
    {QUEUE, EXPECTED_DURATION, PREEMPTIBLE, BELOW_MINIMUM, MAX_RUNTIME, CHECKPOINT_INTERVAL, LAST_CHECKPOINT}
    | {EVICTION_NOTICE, EVICTION_ACKNOWLEDGED, HOLD}
)
#: Every key by which people ask for something, and where it stands.
KNOWN_LABELS = frozenset({GANG, ROLE, QUEUE, USER, GROUP})
KNOWN_ANNOTATIONS = frozenset({MIN_MEMBER, MAX_MEMBER, PLACEMENT, ROLE_MINIMUMS, TREE}) | _TOPOLOGY_KEYS | SHARING_KEYS

#: Keys that ask for nothing: what pods hold, where they are planned, and what a running job and Muster tell each other.
TOLD_KEYS = OWN_HOLDING_KEYS | SIGN_KEYS | {PLACE}

#: Scheduling gate that Muster takes off a pod when its gang could start.
ADMISSION_GATE = "muster.dev/admission"

#: Annotations of nodes that say how their GPUs are linked: Muster's own, and those of HAMi's device plugin. Of all the
#: others nothing is kept.
GPU_LINKS = "muster.dev/gpu-links"
HAMI_SCORE = "hami.io/node-nvidia-score"
HAMI_REGISTER = "hami.io/node-nvidia-register"
NODE_ANNOTATIONS = frozenset({GPU_LINKS, HAMI_SCORE, HAMI_REGISTER})

#: Annotation of Koordinator's Device objects: which sets of GPUs the fabric manager can join.
GPU_PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"

#: Upper bound of minMember; the API's field is an int32.
MAX_MIN_MEMBER = 2**31 - 1

#: The name of a level, a node label key or a resource. Source: apimachinery validation IsQualifiedName; this lets a
#: little more through, and a level that nothing is called is found out later.
_LEVEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?", re.ASCII)
#: A role is a label's value.
_ROLE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
#: The name of a Queue, which has no namespace. Source: apimachinery validation IsDNS1123Subdomain.
_QUEUE = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,9})?", re.ASCII)
#: Go's durations are int64 of nanoseconds (seconds).
_LONGEST_DURATION = (2**63 - 1) / 1e9

#: Roles of one gang that may have a minimum of their own: each event of each of its pods asks for all of them.
MOST_ROLES = 64
#: Characters of a value that are read: more than MOST_ROLES with the longest names take.
_LONGEST_VALUE = 8_192
_ROLES_EXPECTED = f"at most {MOST_ROLES} roles with whole numbers of at least 1, such as leader=1,worker=4"

_TREE_EXPECTED = (
    'parts as JSON, such as {"parts": [{"name": "a", "required": "rack", "roles": {"leader": 1, "worker": 4}}]}: '
    "names of roles are there once, and no minimum is above the number of parts"
)

_DURATION_EXPECTED = "a duration such as 90m or 1h30m, or a number of seconds"

_Read = TypeVar("_Read")


class Packing(StrEnum):
    """How a gang spreads over nodes: as few as possible, or as many as possible."""

    BINPACK = "binpack"
    SPREAD = "spread"


class BelowMinimum(StrEnum):
    """What becomes of a running gang that lost members for good."""

    EVICT = "evict"
    """It is repaired if there is room, else evicted whole."""
    REPAIR = "repair"
    """It waits for room to be repaired, however long."""
    IGNORE = "ignore"
    """Nothing is kept for it and nothing is evicted."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the labels and annotations of one object ask for; None and empty where they say nothing.

    `packings` are (resource, packing of pods that ask for it), what counts first in front. `role_minimums` are (role,
    least members that must start together) in order of the roles; a `tree` says it of parts. `says_parts` tells whether
    either is there. `topology` is what Muster's own keys say, `peers` what those of other schedulers do; so are `queue`
    and `peer_queue`. `expected_duration`, `checkpoint_interval`, `eviction_notice` and `max_runtime` are in seconds.
    `signs` are what the object says while its job runs; those of a pod are the pod's.
    """

    min_member: int | None = None
    max_member: int | None = None
    packing: Packing | None = None
    role_minimums: tuple[tuple[str, int], ...] = ()
    topology: TopologyTerms = SILENT
    peers: TopologyTerms = SILENT
    packings: tuple[tuple[str, Packing], ...] = ()
    queue: str = ""
    peer_queue: str = ""
    expected_duration: float | None = None
    preemptible: bool | None = None
    below_minimum: BelowMinimum | None = None
    checkpoint_interval: float | None = None
    eviction_notice: float | None = None
    max_runtime: float | None = None
    hold: bool | None = None
    signs: JobSigns = NO_SIGNS
    tree: Branch | None = None
    problems: tuple[Problem, ...] = ()
    says_parts: bool = field(init=False, repr=False, compare=False, default=False)
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Hash once: members are counted by their options, with every event of every pod."""
        object.__setattr__(self, "says_parts", bool(self.role_minimums) or self.tree is not None)
        asked = (self.min_member, self.packing, self.packings, self.role_minimums, self.topology, self.peers)
        object.__setattr__(self, "_hash", hash((asked, self.tree, self._sharing, self.problems)))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash

    @property
    def speaks_for_gang(self) -> bool:
        """Tell whether anything is asked for that members of one gang can disagree about, minMember aside."""
        said = bool(self.role_minimums or self.tree or self.packings) or self.packing is not None
        return said or self.topology is not SILENT or self.peers is not SILENT or self._sharing != _UNSHARED

    @property
    def asks_muster(self) -> bool:
        """Tell whether any key of Muster's own is there, even one that cannot be read."""
        own = replace(self, peers=SILENT, peer_queue="", problems=())
        return own != NO_OPTIONS or any(PREFIX in problem.field for problem in self.problems)

    @property
    def _sharing(self) -> tuple[object, ...]:
        ends = (self.expected_duration, self.preemptible, self.below_minimum, self.checkpoint_interval)
        return (self.queue, self.peer_queue, self.max_member, *ends, self.eviction_notice, self.max_runtime, self.hold)

    def packing_of(self, resources: Container[str]) -> Packing | None:
        """Return the packing of pods that ask for `resources`, None if it is not said."""
        if self.packing is not None:
            return self.packing
        return next((packing for resource, packing in self.packings if resource in resources), None)

    def alone(self, resources: Container[str]) -> Self:
        """Return the options of a pod without gang that asks for `resources`: it has one packing."""
        return replace(self, packing=self.packing_of(resources), packings=())

    def with_maximum(self, most: int | None, least: int) -> Self:
        """Return these options with a greatest number of members, a problem in its place if that is below `least`."""
        if most is None or most >= least:
            return self if most == self.max_member else replace(self, max_member=most)
        problem = Problem(f"metadata.annotations[{MAX_MEMBER}]", f"{most} is less than the minimum of {least}")
        return replace(self, max_member=None, problems=(*self.problems, problem))

    def with_problems(self, problems: tuple[Problem, ...]) -> Self:
        """Return these options with further problems, themselves if there are none."""
        return replace(self, problems=self.problems + problems) if problems else self

    def with_peers(self, terms: TopologyTerms, problems: tuple[Problem, ...]) -> Self:
        """Return these options with what other schedulers' keys ask for, themselves if that is nothing."""
        if terms is SILENT and not problems:
            return self
        return replace(self, peers=terms, problems=self.problems + problems)

    def with_peer_queue(self, queue: str) -> Self:
        """Return these options with the queue that other schedulers' keys or fields name, themselves if none does."""
        return replace(self, peer_queue=queue) if queue else self


_UNSHARED: tuple[object, ...] = ("", "", *(None,) * 8)

#: The options of an object that asks for nothing, as most pods do.
NO_OPTIONS = Options()


def read_options(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Options:
    """Read the `muster.dev/` keys of an object; unknown keys and bad values become problems, never silence."""
    problems = [
        *_unknown("metadata.labels", labels, KNOWN_LABELS),
        *_unknown("metadata.annotations", annotations.keys() - TOLD_KEYS, KNOWN_ANNOTATIONS),
    ]
    queue = _read_queue(labels.get(QUEUE, ""), annotations.get(QUEUE, ""), problems)

    def read(key: str, parse: Callable[[str], _Read | None], expected: str) -> _Read | None:
        text = annotations.get(key)
        value = None if text is None or len(text) > _LONGEST_VALUE else parse(text)
        if text is not None and value is None:
            problems.append(Problem(f"metadata.annotations[{key}]", f"{quoted(text)} is not {expected}"))
        return value

    min_member = read(MIN_MEMBER, parse_count, "a whole number of at least 1")
    max_member = read(MAX_MEMBER, parse_count, "a whole number of at least 1")
    packings = read(PLACEMENT, _packings, f"{' or '.join(Packing)}, or such as nvidia.com/gpu=binpack,cpu=spread") or ()
    packing = packings[0][1] if packings and not packings[0][0] else None
    minimums = read(ROLE_MINIMUMS, _role_minimums, _ROLES_EXPECTED)
    topology = SILENT
    if not _TOPOLOGY_KEYS.isdisjoint(annotations):
        level = "the name of a level or a node label key"
        topology = TopologyTerms(
            required=read(TOPOLOGY_REQUIRED, _level, level) or "",
            preferred=read(TOPOLOGY_PREFERRED, _level, level) or "",
            slices=read(TOPOLOGY_SLICE, _slices, "levels with sizes that divide each other, such as rack=4,node=2")
            or (),
            role_groups=read(TOPOLOGY_ROLE_GROUPS, _role_groups, "roles with a level, such as leader+worker=rack")
            or (),
            objective=read(OBJECTIVE, _objective, _one_of(Objective)),
        )
    signs = read_signs(annotations)
    tree = read(TREE, lambda text: read_tree(text, is_level, _slices), _TREE_EXPECTED)
    if tree is not None:
        if minimums:
            problems.append(Problem(f"metadata.annotations[{ROLE_MINIMUMS}]", f"says nothing beside {TREE}"))
        topology = topology.or_else(tree.terms)
    return Options(
        min_member=min_member,
        packing=packing,
        role_minimums=minimums or (),
        tree=tree,
        topology=topology,
        packings=packings if packing is None else (),
        queue=queue,
        expected_duration=read(EXPECTED_DURATION, _duration, _DURATION_EXPECTED),
        checkpoint_interval=read(CHECKPOINT_INTERVAL, _duration, _DURATION_EXPECTED),
        eviction_notice=read(EVICTION_NOTICE, _duration, _DURATION_EXPECTED),
        max_runtime=read(MAX_RUNTIME, _duration, _DURATION_EXPECTED),
        preemptible=read(PREEMPTIBLE, {"true": True, "false": False}.get, "true or false"),
        hold=read(HOLD, {"true": True, "false": False}.get, "true or false"),
        below_minimum=read(BELOW_MINIMUM, _below_minimum, _one_of(BelowMinimum)),
        signs=signs,
        problems=(*problems, *signs.problems),
    ).with_maximum(max_member, min_member or 1)


def parse_slices(sizes: Sequence[tuple[str, int | None]]) -> tuple[Slice, ...]:
    """Make slices of (level, size), outermost first, or nothing if they cannot be.

    Sizes are at least 1, the levels are different, and each inner size is a true divisor of the one around it.
    """
    sound = [(size, level) for level, size in sizes if size is not None and is_level(level)]
    layers = sorted(sound, reverse=True)
    nested = all(outer > inner and outer % inner == 0 for (outer, _), (inner, _) in pairwise(layers))
    if len(sound) < len(sizes) or len({level for _, level in layers}) < len(layers) or not nested:
        return ()
    return tuple(Slice(size, level) for size, level in layers)


def is_level(text: str) -> bool:
    """Tell whether a level could be called that; whether one is, only the levels can tell."""
    return _LEVEL.fullmatch(text) is not None


def parse_count(text: str) -> int | None:
    """Read a number of pods, at least 1, or return None."""
    count = parse_integer(text)
    return count if count is not None and 1 <= count <= MAX_MIN_MEMBER else None


def _unknown(field: str, keys: Iterable[str], known: frozenset[str]) -> list[Problem]:
    return [
        Problem(f"{field}[{key}]", f"unknown key; known here: {', '.join(sorted(known))}")
        for key in sorted(key for key in keys if key.startswith(PREFIX) and key not in known)
    ]


def _read_queue(label: str, annotation: str, problems: list[Problem]) -> str:
    """Return the queue that an object names; one that cannot be a Queue's name stays, since no other is meant."""
    name = label or annotation
    where = f"metadata.{'labels' if label else 'annotations'}[{QUEUE}]"
    if label and annotation and label != annotation:
        problems.append(Problem(f"metadata.annotations[{QUEUE}]", f"contradicts {where}, which counts"))
    if name and _QUEUE.fullmatch(name) is None:
        message = f"{quoted(name)} cannot be the name of a Queue: lower-case letters, digits, - and ."
        problems.append(Problem(where, message))
    return name


def _one_of(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


def _duration(text: str) -> float | None:
    seconds = float(text) if _SECONDS.fullmatch(text) else parse_go_duration(text)
    return seconds if seconds is not None and 0 < seconds <= _LONGEST_DURATION else None


def _below_minimum(text: str) -> BelowMinimum | None:
    return BelowMinimum(text) if text in set(BelowMinimum) else None


def _packings(text: str) -> tuple[tuple[str, Packing], ...] | None:
    """Read one packing for all, as that of the resource "", or one for each of some resources."""
    if text in set(Packing):
        return (("", Packing(text)),)
    pairs = _pairs(text)
    sound = all(_LEVEL.fullmatch(resource) and packing in set(Packing) for resource, packing in pairs)
    if not sound or len({resource for resource, _ in pairs}) < len(pairs):
        return None
    return tuple((resource, Packing(packing)) for resource, packing in pairs)


def _objective(text: str) -> Objective | None:
    return Objective(text) if text in set(Objective) else None


def _level(text: str) -> str | None:
    return text if is_level(text) else None


def _slices(text: str) -> tuple[Slice, ...] | None:
    return parse_slices([(level, parse_count(size)) for level, size in _pairs(text)]) or None


def _role_minimums(text: str) -> tuple[tuple[str, int], ...] | None:
    pairs = _pairs(text)
    if len(pairs) > MOST_ROLES:
        return None
    minimums = {role: parse_count(count) for role, count in pairs}
    sound = tuple(sorted((role, count) for role, count in minimums.items() if count and _ROLE.fullmatch(role)))
    return sound if len(sound) == len(pairs) else None


def _role_groups(text: str) -> tuple[RoleGroup, ...] | None:
    groups = [(frozenset(part.strip() for part in roles.split("+")), level) for roles, level in _pairs(text)]
    sound = all(is_level(level) and all(map(_ROLE.fullmatch, roles)) for roles, level in groups)
    return tuple(RoleGroup(roles, level) for roles, level in groups) if sound else None


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split `a=1, b=2`; what has no value has an empty one."""
    parts = [part.partition("=") for part in text.split(",")]
    return [(name.strip(), value.strip()) for name, _, value in parts]
