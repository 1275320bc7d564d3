"""Who may be evicted, and who is."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.pod import Pod


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may be evicted, or a pod without one.

    `name` is namespace/name, `uid` the gang's or the pod's. `core` are the bound pods that can only go together,
    `extras` those beyond minMember: each may go alone, the first to go first. `seconds` is how long it has run.
    """

    name: str
    uid: str
    queue: str
    flavor: str
    priority: int
    created: str
    core: tuple[Pod, ...]
    extras: tuple[Pod, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Eviction:
    """Which pods of a victim go: some of its extras, or all that it has."""

    victim: Victim
    pods: tuple[Pod, ...]
