"""Which description of the network is believed."""

from __future__ import annotations

from extender.objects.levelobjects import AUTO, NONE, LevelList, choose_levels
from extender.objects.levels import PRESETS, Level, Levels
from extender.objects.meta import ObjectRef

RACK = Level("rack", "x/rack")
HYPER = Levels((Level("tier-1", "tier-1"),), "HyperNodes", {"tier-1": {}})
GKE = ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock")
ZONE = "topology.kubernetes.io/zone"


def listed(name: str, *labels: str, group: str = "kueue.x-k8s.io") -> LevelList:
    """Return what a Topology says."""
    about = ObjectRef(f"{group}/v1", "Topology", "", name, name)
    return LevelList(about, tuple(Level(label, label) for label in labels))


def labels(levels: Levels) -> list[str]:
    """Return the label of each level."""
    return [level.label for level in levels.levels]


def test_the_settings_have_the_last_word() -> None:
    """A list in the settings is taken whatever the cluster says of itself."""
    assert choose_levels([RACK], AUTO, HYPER, [listed("t", "y/z")], {ZONE: 9}) == Levels((RACK,), "settings")


def test_none_means_none() -> None:
    """Whoever wants no tiers gets none, and the source says so."""
    chosen = choose_levels([], NONE, HYPER, [listed("t", "y/z")], {ZONE: 9})
    assert (chosen.levels, chosen.source) == ((), "settings: topology_preset none")


def test_hyper_nodes_come_before_lists_and_lists_before_labels() -> None:
    """What somebody wrote for this cluster is believed before what a cloud writes for everybody."""
    lists = [listed("empty"), listed("first", "y/a"), listed("second", "y/b")]
    assert choose_levels([], AUTO, HYPER, lists, {ZONE: 9}) is HYPER
    chosen = choose_levels([], AUTO, Levels(source="HyperNodes"), lists, {ZONE: 9})
    assert (labels(chosen), chosen.source) == (["y/a"], "Topology kueue.x-k8s.io/first")
    assert labels(choose_levels([], AUTO, None, [], {ZONE: 9})) == [ZONE]


def test_the_preset_that_most_nodes_carry_wins() -> None:
    """Of two clouds' labels those on more nodes count."""
    chosen = choose_levels([], AUTO, None, [], {GKE[0]: 3, GKE[1]: 3, "alibabacloud.com/asw-id": 2})
    assert (labels(chosen), chosen.source) == (list(GKE), "preset gke")


def test_zones_count_only_where_nothing_better_is_known() -> None:
    """Every node of a cloud has a zone, GPU nodes alone have the network's labels: few of these beat many of those."""
    assert choose_levels([], AUTO, None, [], {GKE[0]: 1, ZONE: 100}).source == "preset gke"
    assert choose_levels([], AUTO, None, [], {ZONE: 100}).source == "preset generic"


def test_levels_that_no_node_carries_are_left_out() -> None:
    """A preset is as deep as the labels go, so that the innermost level is one that nodes have."""
    carried = {f"fabric.topograph.run/tier-{tier}": 5 for tier in range(3)}
    assert labels(choose_levels([], AUTO, None, [], carried)) == [f"fabric.topograph.run/tier-{t}" for t in (2, 1, 0)]


def test_the_variant_that_most_nodes_carry_counts() -> None:
    """CoreWeave's RoCE nodes have other labels than its InfiniBand nodes."""
    roce = {"backend.coreweave.cloud/fabric": 4, "backend.coreweave.cloud/leafgroup": 4}
    assert labels(choose_levels([], "coreweave", None, [], roce)) == list(roce)


def test_a_named_preset_needs_no_nodes() -> None:
    """A preset that is asked for is there before its nodes are, and whatever else is there."""
    for preset in PRESETS:
        chosen = choose_levels([], preset.name, HYPER, [listed("t", "y/z")], {})
        assert (chosen.levels, chosen.source) == (preset.variants[0], f"preset {preset.name}")


def test_a_cluster_that_says_nothing_has_no_levels() -> None:
    """Without any description the source says what is missing."""
    assert choose_levels([], AUTO, None, [], {}) == Levels(source="no node has labels of a known preset")
