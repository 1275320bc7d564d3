"""Measurements of one's own cluster: how they are written, and what they override."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.hardware.calibration import (
    DATA_KEY,
    Measurement,
    calibrated,
    predicted,
    read_calibration,
)
from extender.hardware.products import Product, Products
from extender.objects.topology import Objective
from tests.examples import share

ENTRY = """\
- product: NVIDIA-H100-80GB-HBM3
  gpusPerNode: 8
  nodes: 4
  level: rack
  busBandwidthGBps: 366.2
"""


def product(name: str = "H100 SXM5 80GB") -> Product:
    """Return a whole node of a product."""
    found = Products().named(name)
    assert found is not None
    return found


def data(entries: str) -> dict[str, str]:
    """Return a ConfigMap's data with a list of entries."""
    return {DATA_KEY: "measurements:\n" + entries}


def measured(gbps: float, nodes: int = 4, level: str = "rack", *, gpus: int = 8, **rest: object) -> Measurement:
    """Return a measurement on H100 nodes."""
    collective = rest.get("collective", Objective.ALLREDUCE)
    assert isinstance(collective, Objective)
    return Measurement("NVIDIA-H100-80GB-HBM3", gpus, nodes, level, gbps, collective)


def test_an_entry_is_read() -> None:
    """All-reduce is meant when nothing is said, and a note is kept."""
    both = ENTRY + ENTRY + "  collective: alltoall\n  source: in March\n"
    plain, noted = read_calibration(data(both)).measurements
    assert plain == measured(366.2)
    assert (noted.collective, noted.source, noted.gpus) == (Objective.ALLTOALL, "in March", 32)


def test_the_documented_config_map_is_read() -> None:
    """The example in docs/bandwidth.md holds one entry and no problem."""
    page = (Path(__file__).parents[2] / "docs" / "bandwidth.md").read_text(encoding="utf-8")
    (example,) = (block.split("```", 1)[0] for block in page.split("```yaml\n")[1:])
    calibration = read_calibration(yaml.safe_load(example)["data"])
    assert calibration.problems == ()
    assert calibration.measurements == (replace(measured(366.2), source="second week of March"),)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (("product: NVIDIA-H100-80GB-HBM3", "product: ''"), "product", "is not a text"),
        (("product: NVIDIA-H100-80GB-HBM3", "product: 100"), "product", "put it in quotes"),
        (("level: rack", "note: x"), "note", "unknown field; known here: busBandwidthGBps, collective"),
        (("  level: rack\n", ""), "level", "missing"),
        (("gpusPerNode: 8", "gpusPerNode: eight"), "gpusPerNode", "'eight' is not a whole number"),
        (("gpusPerNode: 8", "gpusPerNode: true"), "gpusPerNode", "True is not a whole number"),
        (("nodes: 4", "nodes: 0"), "nodes", "0 is not a whole number from 1 to 1000000"),
        (("nodes: 4", "nodes: 1"), "level", "'rack', but one node is the level 'node'"),
        (("level: rack", "level: node"), "level", "'node', but there are 4 nodes"),
        (("366.2", "-1"), "busBandwidthGBps", "-1 is not a number of GB/s above 0"),
        (("366.2", ".inf"), "busBandwidthGBps", "inf is not a number"),
        (("366.2", "fast"), "busBandwidthGBps", "'fast' is not a number"),
        (("366.2", "366.2\n  collective: reduce"), "collective", "'reduce' is not allreduce or alltoall"),
        (("level: rack", "level: clique\n  collective: alltoall"), "collective", "measure over nodes"),
    ],
)
def test_a_bad_entry_is_named_and_the_others_count(change: tuple[str, str], field: str, message: str) -> None:
    """The problem names entry and field; the good entry beside it is used."""
    calibration = read_calibration(data(ENTRY.replace(*change) + ENTRY))
    (problem,) = calibration.problems
    assert problem.field == f"data[calibration.yaml].measurements[0].{field}"
    assert message in problem.message
    assert calibration.measurements == (measured(366.2),)


def test_the_first_of_two_entries_of_one_size_counts() -> None:
    """The second one is a problem that names the first."""
    calibration = read_calibration(data(ENTRY + ENTRY.replace("366.2", "300")))
    assert calibration.measurements == (measured(366.2),)
    (problem,) = calibration.problems
    assert problem.field == "data[calibration.yaml].measurements[1]"
    assert "same size as data[calibration.yaml].measurements[0]" in problem.message


def test_one_gpu_alone_measures_nothing() -> None:
    """One GPU has nobody to communicate with."""
    entry = ENTRY.replace("gpusPerNode: 8", "gpusPerNode: 1").replace("nodes: 4", "nodes: 1")
    assert read_calibration(data(entry)).problems[0].field.endswith("gpusPerNode")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "missing; `muster calibrate` writes it"),
        ({DATA_KEY: "measurements: ["}, "line 1"),
        ({DATA_KEY: "- 1"}, "a list under `measurements`"),
        ({DATA_KEY: "measurements: 4"}, "a list under `measurements`"),
        ({DATA_KEY: "measurements: []\n---\nmeasurements: []"}, "a list under `measurements`"),
        ({DATA_KEY: "measurements: [4]"}, "is not a mapping"),
    ],
    ids=["no key", "not YAML", "no mapping", "no list", "two documents", "no entry"],
)
def test_data_that_hold_no_list_are_a_problem(content: dict[str, str], message: str) -> None:
    """Nothing is measured, and the problem names the key."""
    calibration = read_calibration(content)
    assert calibration.measurements == ()
    (problem,) = calibration.problems
    assert problem.field.startswith("data[calibration.yaml]")
    assert message in problem.message


def test_a_node_overrides_the_table_for_its_size_only() -> None:
    """440 GB/s among 8 GPUs of a node say nothing of 7."""
    changed = calibrated(product(), [measured(440.0, 1, "node")])
    assert [changed.inner(gpus) for gpus in (4, 7, 8)] == [365, 460, 440]
    assert changed.level_factors == {}


def test_a_node_with_more_gpus_says_nothing_of_one_with_fewer() -> None:
    """Sixteen GPUs in one node do not exist where nodes have eight."""
    assert calibrated(product(), [measured(220.0, 1, "node", gpus=16)]) == product()


def test_a_slow_level_gets_its_factor() -> None:
    """Four nodes that reach 300 of 376 GB/s leave 0.8 of the network; other levels and products stay."""
    changed = calibrated(product(), [measured(300.0)])
    assert changed.level_factors == {"rack": pytest.approx(300 / 376)}
    assert changed.inner(8) == 475


def test_what_the_nodes_bind_says_nothing_of_the_network() -> None:
    """Two nodes at 440 GB/s are as fast as NVLink allows within the model's error: no factor, which would be wrong."""
    assert calibrated(product(), [measured(440.0, 2)]).level_factors == {}
    assert calibrated(product(), [measured(300.0, 2)]).level_factors == {"rack": pytest.approx(300 / (376 * 1.875))}


def test_the_measurement_on_most_nodes_decides_a_level() -> None:
    """Sixteen nodes say more of the network than four; the order does not matter."""
    both = [measured(310.0, 16), measured(360.0, 4)]
    assert calibrated(product(), both).level_factors == {"rack": pytest.approx(310 / 376)}
    assert calibrated(product(), both[::-1]) == calibrated(product(), both)


def test_an_all_to_all_has_a_factor_of_its_own() -> None:
    """It is a share of one NIC, and leaves all-reduce alone."""
    changed = calibrated(product(), [measured(30.0, collective=Objective.ALLTOALL)])
    assert changed.alltoall_factors == {"rack": pytest.approx(0.6)}
    assert changed.level_factors == {}


def test_a_clique_overrides_that_of_the_table() -> None:
    """A rack of GB300 that reaches 930 GB/s, whatever two trays reach; a product without cliques ignores it."""
    rack, trays = (Measurement("NVIDIA-GB300", 4, nodes, "clique", gbps) for nodes, gbps in ((16, 930.0), (2, 842.0)))
    assert calibrated(product("GB300"), [rack, trays]).clique == 930
    assert calibrated(product(), [measured(930.0, 16, "clique")]) == product()


def test_cliques_over_a_level_get_a_factor_only_where_the_network_binds() -> None:
    """Two racks at 740 GB/s are bound by the share that two cliques keep; two trays of two racks by their NICs."""
    racks = Measurement("NVIDIA-GB300", 4, 32, "cluster", 740.0)
    trays = Measurement("NVIDIA-GB300", 4, 2, "cluster", 188.0)
    assert calibrated(product("GB300"), [racks]).level_factors == {}
    assert calibrated(product("GB300"), [trays]).level_factors == {"cluster": pytest.approx(0.5)}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["node", "rack"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
fields = st.sampled_from(["product", "gpusPerNode", "nodes", "level", "busBandwidthGBps", "collective", "source", "x"])


@share(0.4)
@given(changes=st.lists(st.dictionaries(fields, values, max_size=3), min_size=1, max_size=3))
def test_whatever_stands_in_an_entry_is_used_or_reported(changes: list[dict[str, object]]) -> None:
    """Each entry counts or has a problem, and what counts gives a product."""
    good = yaml.safe_load(ENTRY)[0]
    entries = [{**good, "nodes": 2 + index, **change} for index, change in enumerate(changes)]
    calibration = read_calibration({DATA_KEY: yaml.safe_dump({"measurements": entries})})
    assert len(calibration.measurements) + len(calibration.problems) == len(entries)
    changed = Products(calibration).named("H100 SXM5 80GB")
    assert changed is not None
    assert all(factor > 0 for factor in changed.level_factors.values())


@given(text=st.text(alphabet="measurnt:[]{}-' \n", max_size=40))
def test_no_text_is_too_odd_to_be_reported(text: str) -> None:
    """What is not a list of entries is one problem."""
    calibration = read_calibration({DATA_KEY: text})
    assert calibration.problems or "[]" in text


@given(
    name=st.sampled_from(["H100 SXM5 80GB", "A100 SXM4 80GB", "L40S", "V100 SXM2", "GB200"]),
    nodes=st.integers(1, 64),
    share=st.floats(min_value=0.05, max_value=1.0),
    collective=st.sampled_from([Objective.ALLREDUCE, Objective.ALLTOALL]),
)
def test_the_prediction_becomes_the_measurement(name: str, nodes: int, share: float, collective: Objective) -> None:
    """For the size that was measured the model says what was measured, within 10 % where the nodes are the bound."""
    hardware = product(name)
    level = "node" if nodes == 1 else "rack"
    if nodes == 1:
        collective = Objective.ALLREDUCE
    highest = predicted(hardware, Measurement(name, hardware.gpus, nodes, level, 1.0, collective), float("inf"))
    one = Measurement(name, hardware.gpus, nodes, level, share * highest, collective)
    changed = calibrated(hardware, [one])
    factors = changed.alltoall_factors if collective is Objective.ALLTOALL else changed.level_factors
    after = predicted(changed, one, factors.get(level, 1.0))
    assert after == pytest.approx(one.gbps, rel=0.12 if level not in factors and nodes > 1 else 1e-6)
