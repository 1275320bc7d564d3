"""Which gangs may read differently since somebody last looked."""

from __future__ import annotations

from collections.abc import Iterable

from extender.domain.membership import GroupRef

#: Of more gangs it is not remembered which changed: whoever asks then looks at all of them.
_MOST_GANGS = 10_000


class ChangedGangs:
    """Remember for one reader which gangs changed; nobody may ever ask, so what is remembered is bounded."""

    def __init__(self) -> None:
        """Start with everything changed."""
        self._refs: set[GroupRef] | None = None

    def note(self, refs: Iterable[GroupRef]) -> None:
        """Take in that these gangs changed, came or went."""
        if self._refs is None:
            return
        self._refs.update(refs)
        if len(self._refs) > _MOST_GANGS:
            self._refs = None

    def note_all(self) -> None:
        """Take in that any gang may have changed."""
        self._refs = None

    def take(self) -> set[GroupRef] | None:
        """Return the gangs that changed since this was last asked, None for all there are and were."""
        refs, self._refs = self._refs, set()
        return refs
