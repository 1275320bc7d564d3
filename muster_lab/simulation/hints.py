"""What the managers of a simulated kubelet tell its Topology Manager: hints; and how they say no.

Source: k8s.io/kubernetes pkg/kubelet/cm/topologymanager, release 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol, TypeAlias

from extender.objects.requests import ContainerRequest, Stage

Mask: TypeAlias = frozenset[int]
"""The NUMA zones of an affinity."""


class AdmissionError(Exception):
    """The kubelet's no: what becomes reason and message of a failed pod's status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Hint:
    """An affinity that a manager could serve, None for any; `preferred` if none could be narrower."""

    mask: Mask | None
    preferred: bool


#: What a manager says that has no preference, and one that cannot serve a request at all.
DO_NOT_CARE = (Hint(None, preferred=True),)
IMPOSSIBLE = (Hint(None, preferred=False),)


class Manager(Protocol):
    """A hint provider that also allocates."""

    def asked(self, container: ContainerRequest) -> dict[str, int]:
        """Return what this manager serves of a container's requests."""
        ...

    def hints(self, asked: Mapping[str, int]) -> list[Sequence[Hint]]:
        """Return one list of hints for each resource."""
        ...

    def allocate(self, uid: str, asked: Mapping[str, int], stage: Stage, affinity: Mask | None) -> None:
        """Give a container of the pod `uid` what it asks for; raise AdmissionError."""
        ...

    def begin(self) -> None:
        """Forget what an earlier pod's init containers left to reuse."""
        ...

    def release(self, uid: str) -> None:
        """Take back all that a pod holds."""
        ...

    def held(self, uid: str) -> dict[int, dict[str, int]]:
        """Return what a pod holds, by zone and resource."""
        ...


def unexpected(message: str) -> AdmissionError:
    """Return the error of a manager that admitted what it cannot allocate. Source: admission.GetPodAdmitResult."""
    return AdmissionError("UnexpectedAdmissionError", f"Allocate failed due to {message}, which is unexpected")


def affinities(zones: Iterable[int]) -> Iterator[Mask]:
    """Iterate over all masks, narrow ones first. Source: bitmask.IterateBitMasks."""
    zones = sorted(zones)
    for width in range(1, len(zones) + 1):
        yield from map(frozenset, combinations(zones, width))


def narrowness(mask: Mask) -> tuple[int, int]:
    """Order masks as the kubelet does: narrow ones first, then by the number that their bits make."""
    return len(mask), sum(1 << zone for zone in mask)
