"""A controller of gangs for stories in which members are lost: it makes another pod for each that is deleted."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from localcluster.errors import ApiError
from localcluster.sandbox import Sandbox
from localcluster.story import Gang, Pod

#: How often it looks (seconds): the Job controller hears of a deletion within milliseconds too.
_LOOK_SECONDS = 0.02


class GangController:
    """Replace members that are being deleted, under new names, as the Job controller does.

    It does not wait until they are gone: its podReplacementPolicy is TerminatingOrFailed.
    """

    def __init__(self, cluster: Sandbox, gangs: Sequence[Gang]) -> None:
        """Follow some gangs, whose members have been created."""
        self._cluster = cluster
        self._members = {gang: list(gang.created) for gang in gangs}
        for gang, members in self._members.items():
            gang.members = members
        self._serial = itertools.count(1)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gang-controller", daemon=True)
        self.replaced: list[str] = []

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            for members in self._members.values():
                for index, member in enumerate(members):
                    if _is_leaving(member):
                        members[index] = self._instead(member)

    def _instead(self, member: Pod) -> Pod:
        manifest = copy.deepcopy(member.manifest)
        manifest["metadata"]["name"] = f"{member.name.partition('.')[0]}.{next(self._serial)}"
        again = member.beside(manifest)
        try:
            again.create()
        except ApiError:
            return member  # it is tried again
        self._cluster.wait_until(lambda: again.exists, f"{again.name} seen by the watch")
        self.replaced.append(member.name)
        return again


def _is_leaving(member: Pod) -> bool:
    current = member.object
    return current is None or current["metadata"].get("deletionTimestamp") is not None
