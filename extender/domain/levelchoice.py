"""Which of all that describes the network is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.domain.levelobjects import LevelList
from extender.domain.levels import Level, Levels
from extender.domain.presets import PRESETS, Preset

#: Believe what is there, in the order of `choose_levels`; believe nothing.
AUTO, NONE = "auto", "none"


def choose_levels(
    configured: Sequence[Level],
    preset: str,
    hyper_nodes: Levels | None,
    lists: Sequence[LevelList],
    labelled: Mapping[str, int],
) -> Levels:
    """Return the levels to plan with, and in `source` where they come from.

    A `configured` list wins, then a `preset` that is named. With AUTO: HyperNodes, else the first of `lists` that has
    levels, else the preset whose labels most nodes carry. `labelled` counts the nodes that carry a label.
    """
    if configured:
        return Levels(tuple(configured), source="settings")
    if preset == NONE:
        return Levels(source="settings: topology_preset none")
    if preset != AUTO:
        named = next(each for each in PRESETS if each.name == preset)
        return Levels(_fitting(named, labelled), source=f"preset {preset}")
    if hyper_nodes is not None and hyper_nodes.levels:
        return hyper_nodes
    for each in lists:
        if each.levels:
            return Levels(each.levels, source=f"{each.about.kind} {each.about.group}/{each.about.name}")
    best = max(PRESETS, key=lambda each: (_coverage(each, labelled) > 0, not each.fallback, _coverage(each, labelled)))
    if not _coverage(best, labelled):
        return Levels(source="no node has labels of a known preset")
    return Levels(_fitting(best, labelled), source=f"preset {best.name}")


def _coverage(preset: Preset, labelled: Mapping[str, int]) -> int:
    return max(_carriers(variant, labelled) for variant in preset.variants)


def _carriers(variant: tuple[Level, ...], labelled: Mapping[str, int]) -> int:
    return max(labelled.get(level.label, 0) for level in variant)


def _fitting(preset: Preset, labelled: Mapping[str, int]) -> tuple[Level, ...]:
    """Return the variant that most nodes carry, without levels that none does; all of it while there are no nodes."""
    variant = max(preset.variants, key=lambda each: _carriers(each, labelled))
    return tuple(level for level in variant if labelled.get(level.label)) or variant
