"""Whose word counts where a PodGroup and the members of its gang say different things.

For each thing: the PodGroup's word, then that of the first member that says anything. Muster's own keys count before
those of other schedulers, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from extender.cluster.tally import Voice
from extender.domain.keys import BelowMinimum, Options, Packing
from extender.domain.pod import Pod, Shape
from extender.domain.podgroup import PodGroup
from extender.domain.roles import LEADING_ROLES
from extender.domain.topology import SILENT, UNCONSTRAINED, Statement, TopologyRequest, settle

_NO_MINIMUMS: Mapping[str, int] = MappingProxyType({})


def in_order(said: Iterable[Voice], members: Iterable[Pod], member_order: Callable[[Pod], Any]) -> tuple[Voice, ...]:
    """Return the voices of `members` that ask for anything, given as `said`, in the order of the first that has each.

    Complexity: O(voices), unless members of one role disagree; then O(members).
    """
    voices = set(said)
    if len({voice.role for voice in voices}) == len(voices):
        return tuple(sorted(voices, key=lambda voice: (voice.role not in LEADING_ROLES, voice.role)))
    first: dict[Voice, Any] = {}
    for pod in members:
        voice = Voice(pod.role, pod.options)
        if voice in voices:
            place = member_order(pod)
            first[voice] = min(first.get(voice, place), place)
    return tuple(sorted(first, key=first.__getitem__))


def packing(group: PodGroup | None, said: Iterable[Voice], shapes: Iterable[Shape]) -> Packing:
    """Return how a gang spreads over nodes, whose members have `shapes`; binpack if nobody says."""
    words = [voice.options for voice in said]
    if group is not None:
        words.insert(0, group.options)
    asked = {resource for shape in shapes for resource, _ in shape.requests} if any(w.packings for w in words) else ()
    return next((found for word in words if (found := word.packing_of(asked)) is not None), Packing.BINPACK)


def role_minimums(group: PodGroup | None, said: Sequence[Voice]) -> Mapping[str, int]:
    """Return how many members of which role must start together at least."""
    if not said and (group is None or not (group.role_minimums or group.options.role_minimums)):
        return _NO_MINIMUMS  # as of most gangs, with every event of every member
    words = [voice.options.role_minimums for voice in said]
    if group is not None:
        words = [group.options.role_minimums, *words, group.role_minimums]
    return dict(next((word for word in words if word), ()))


def topology(group: PodGroup | None, said: Sequence[Voice], roles: Iterable[str]) -> TopologyRequest:
    """Return what a gang whose members have `roles` asks of the topology."""
    if not said and (group is None or (group.options.topology is SILENT and group.options.peers is SILENT)):
        return UNCONSTRAINED
    own = [Statement(voice.options.topology, voice.role) for voice in said]
    peers = [Statement(voice.options.peers, voice.role) for voice in said]
    tiers = [own, peers]
    if group is not None:
        tiers = [[Statement(group.options.topology, None)], own, [Statement(group.options.peers, None)], peers]
    spoken = tuple(tuple(each for each in tier if each.terms != SILENT) for tier in tiers)
    return settle(spoken, frozenset(roles)) if any(spoken) else UNCONSTRAINED


def queue(group: PodGroup | None, said: Sequence[Voice]) -> str:
    """Return the name of the queue that a gang asks for in Muster's own words, "" if nobody says."""
    return next((word.queue for word in _words(group, said) if word.queue), "")


def peer_queue(group: PodGroup | None, said: Sequence[Voice]) -> str:
    """Return the name of the queue that a gang asks for in the words of other schedulers, "" if nobody says."""
    return next((word.peer_queue for word in _words(group, said) if word.peer_queue), "")


def expected_duration(group: PodGroup | None, said: Sequence[Voice]) -> float | None:
    """Return how long a gang says that it runs (seconds), None if nobody says."""
    durations = (word.expected_duration for word in _words(group, said))
    return next((seconds for seconds in durations if seconds is not None), None)


def preemptible(group: PodGroup | None, said: Sequence[Voice]) -> bool:
    """Tell whether a gang lets itself be preempted; it does if nobody says."""
    return next((word.preemptible for word in _words(group, said) if word.preemptible is not None), True)


def below_minimum(group: PodGroup | None, said: Sequence[Voice]) -> BelowMinimum:
    """Return what shall become of a running gang that lost members for good; eviction if nobody says."""
    policies = (word.below_minimum for word in _words(group, said))
    return next((policy for policy in policies if policy is not None), BelowMinimum.EVICT)


def _words(group: PodGroup | None, said: Sequence[Voice]) -> Iterator[Options]:
    if group is not None:
        yield group.options
    for voice in said:
        yield voice.options
