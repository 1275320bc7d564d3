"""Values that were read, made to share what values of the watch share: some of it is told apart by identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.domain.keys import Options
from extender.domain.labels import share_labels
from extender.domain.pod import Pod, Shape
from extender.domain.podgroup import PodGroup
from extender.domain.topology import SILENT, TopologyTerms


class Settler:
    """Let equal shapes and options be one object each, and terms that say nothing the one that stands for that."""

    def __init__(self) -> None:
        """Know none yet."""
        self._shapes: dict[Shape, Shape] = {}
        self._options: dict[Options, Options] = {}

    def settled(self, value: Any) -> Any:  # noqa: ANN401 - whatever an input takes
        """Return an argument as the watch would have made it."""
        if isinstance(value, Pod):
            return replace(
                value,
                shape=self._shapes.setdefault(value.shape, value.shape),
                options=self._settled(value.options),
                labels=share_labels(value.labels),
            )
        if isinstance(value, PodGroup):
            return replace(value, options=self._settled(value.options))
        return value

    def _settled(self, options: Options) -> Options:
        found = self._options.get(options)
        if found is None:
            found = replace(options, topology=_terms(options.topology), peers=_terms(options.peers))
            self._options[options] = found
        return found


def _terms(terms: TopologyTerms) -> TopologyTerms:
    return SILENT if terms == SILENT else terms
