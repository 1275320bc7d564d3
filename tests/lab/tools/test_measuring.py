"""From a run of nccl-tests to an entry of the calibration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.hardware.calibration import Calibration, Measurement, read_calibration
from extender.objects.topology import Objective
from muster_lab.tools.measuring import Stated, calibration_data, combined, effect, measurement_of, merged
from muster_lab.tools.nccl_tests import NotUsableError, parse
from tests.lab.tools.outputs import GIB, output, row

RACK = Stated(level="rack")


def test_a_run_says_most_by_itself() -> None:
    """Product, nodes and GPUs are in the output; one node needs no level."""
    assert measurement_of(parse(output(4, 8)), RACK) == Measurement("NVIDIA-H100-80GB-HBM3", 8, 4, "rack", 471.5)
    assert measurement_of(parse(output(1, 8)), Stated()).level == "node"


def test_amd_names_its_products_with_underscores() -> None:
    """The label of the AMD GPU operator is found from what the driver says."""
    assert measurement_of(parse(output(device="AMD Instinct MI300X")), Stated()).product == "AMD_Instinct_MI300X"


def test_what_the_output_leaves_open_can_be_said() -> None:
    """Without ranks and name everything is stated by hand."""
    run = parse(output(listed=[], test="", rows=[row(8 * GIB, 45.0, ratio=0.9)]))
    stated = Stated("H200 SXM", 2, 8, "cluster", Objective.ALLTOALL, "by hand")
    assert measurement_of(run, stated) == Measurement("H200 SXM", 8, 2, "cluster", 45.0, Objective.ALLTOALL, "by hand")


@pytest.mark.parametrize("stated", [Stated(nodes=2, level="rack"), Stated(gpus_per_node=8, level="rack")])
def test_workers_that_share_a_node_can_be_told(stated: Stated) -> None:
    """Sixteen pods with a GPU each are two nodes if somebody says so."""
    found = measurement_of(parse(output(16, 1)), stated)
    assert (found.nodes, found.gpus_per_node) == (2, 8)


@pytest.mark.parametrize(
    ("text", "stated", "message"),
    [
        (output(2, 8), Stated(), "2 nodes took part: say with --level"),
        (output(2, 8), Stated(level="node"), "--level cannot be node"),
        (output(2, 8), Stated(level="rack", nodes=3), "lists 16 ranks, not 3 nodes with 5 GPUs each"),
        (output(2, 8), Stated(level="rack", nodes=2, gpus_per_node=4), "lists 16 ranks, not 2 nodes with 4 GPUs each"),
        (output(2, 8), Stated(level="rack", nodes=32), "lists 16 ranks, not 32 nodes with 0 GPUs each"),
        (output(listed=[]), RACK, "does not list its ranks; say --nodes and --gpus-per-node"),
        (output(listed=[]), replace(RACK, nodes=2), "does not list its ranks; say --nodes and --gpus-per-node"),
        (output(2, 8), replace(RACK, collective=Objective.ALLTOALL), "this is of allreduce, not alltoall"),
        (output(test="", rows=[row(GIB, 9.0, ratio=0.9)]), Stated(), "say --collective"),
        (output(device="NVIDIA Graphics Device"), Stated(), "'NVIDIA Graphics Device', which the table does not know"),
        (output(), Stated(product="H-100"), "'H-100', which the table does not know"),
        (output(listed=[]), Stated(nodes=1, gpus_per_node=8), "the product is 'nothing'"),
        (output(test="alltoall_perf"), Stated(), "measure it over nodes"),
    ],
)
def test_a_contradiction_is_refused(text: str, stated: Stated, message: str) -> None:
    """The message names the option."""
    with pytest.raises(NotUsableError, match=message):
        measurement_of(parse(text), stated)


def test_measurements_of_one_size_are_averaged() -> None:
    """The mean counts, the range is told; another size stays apart, and two names of a product are one."""
    first = Measurement("NVIDIA-H100-80GB-HBM3", 8, 4, "rack", 360.0)
    second = Measurement("H100 SXM5 80GB", 8, 4, "rack", 380.0)
    other = replace(first, nodes=2, gbps=460.0)
    assert combined([first, other, second]) == [(replace(first, gbps=370.0), 20 / 370), (other, 0.0)]


def test_new_measurements_go_over_old_ones_of_the_same_size() -> None:
    """The order of the old ones is kept, what is new comes last."""
    old = [Measurement("H200 SXM", 8, nodes, "rack", 350.0) for nodes in (4, 8)]
    again, new = replace(old[0], gbps=333.0), replace(old[0], nodes=16)
    assert merged(old, [new, again]) == (again, old[1], new)


def test_the_effect_of_an_entry() -> None:
    """300 GB/s over four nodes take the prediction from 376 to 300 and the factor to 0.8."""
    one = Measurement("NVIDIA-H100-80GB-HBM3", 8, 4, "rack", 300.0)
    changed = effect(one, Calibration((one,)))
    assert (changed.before, changed.after, changed.factor) == pytest.approx((376, 300, 300 / 376))
    assert effect(one, Calibration((one,)), "a3-megagpu-8g").before == pytest.approx(188)


def test_the_effect_of_an_unknown_product_is_refused() -> None:
    """An entry of a merged ConfigMap that the table lost says so."""
    one = Measurement("NVIDIA-Unheard-Of", 8, 4, "rack", 300.0)
    with pytest.raises(NotUsableError, match="does not know 'NVIDIA-Unheard-Of'"):
        effect(one, Calibration((one,)))


def test_what_is_written_is_read_back() -> None:
    """The ConfigMap that is written holds the measurements that went in."""
    one = Measurement("NVIDIA-H100-80GB-HBM3", 8, 4, "rack", 366.2)
    there = (one, replace(one, nodes=1, level="node"), replace(one, collective=Objective.ALLTOALL, source="by hand"))
    assert read_calibration(calibration_data(there)) == Calibration(there)
