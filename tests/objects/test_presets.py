"""The labels of clouds and tools."""

from __future__ import annotations

from typing import get_args

import pytest

from extender.objects.levels import LEVEL_NAMES, PRESETS, RESERVED_NAMES, Preset
from extender.settings import Settings


def test_every_preset_can_be_named_in_the_settings() -> None:
    """The setting knows each preset, besides auto and none."""
    names = get_args(Settings.model_fields["topology_preset"].annotation)
    assert set(names) == {preset.name for preset in PRESETS} | {"auto", "none"}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_levels_of_a_preset_can_be_told_apart(preset: Preset) -> None:
    """Within one list names and labels differ, and none is the name of the node or the cluster."""
    for variant in preset.variants:
        assert variant
        assert len({level.name for level in variant}) == len({level.label for level in variant}) == len(variant)
        assert not RESERVED_NAMES & {level.name for level in variant}


def test_topograph_numbers_its_tiers_from_the_nearest() -> None:
    """Tier 0 is the innermost level."""
    (preset,) = (each for each in PRESETS if each.name == "topograph")
    (variant,) = preset.variants
    assert variant[-1].label == "fabric.topograph.run/tier-0"
    assert LEVEL_NAMES["fabric.topograph.run/tier-3"] == "tier-3"
