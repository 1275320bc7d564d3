"""What pods take of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from extender.domain.holdings import Holding
from extender.domain.node import Node
from extender.domain.pod import Shape


@dataclass(frozen=True, slots=True)
class Claim:
    """What one pod takes, or is promised, on one node.

    A lasting claim is one that Muster cannot expect to end: pods of other schedulers, DaemonSets among them. `observed`
    and `predicted` are which GPUs and zones it holds, as somebody has written onto the pod.
    """

    node: str
    shape: Shape
    lasting: bool = False
    observed: Holding | None = None
    predicted: Holding | None = None


class Claims(Protocol):
    """What occupancy reads of the node table."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""

    def row(self, name: str) -> int | None:
        """Return the row of a node, or None."""

    def find(self, name: str) -> Node | None:
        """Return the node called `name`, or None."""

    def nodes(self) -> list[Node]:
        """Return all nodes in row order."""

    def claim_of(self, uid: str) -> Claim | None:
        """Return what a pod claims, or None."""

    def claims_on(self, node: str) -> Iterable[tuple[str, Claim]]:
        """Iterate over UIDs and claims of the pods that claim something on a node, in the order of the claims."""
