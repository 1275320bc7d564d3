"""The product table: what a node's labels say of its GPUs."""

from __future__ import annotations

import math
import tomllib
from itertools import pairwise
from typing import Any

import pytest

from extender.hardware.calibration import Calibration, Measurement
from extender.hardware.products import Interconnect, Product, Products
from tests.hardware.published import PRODUCTS

DOCUMENT: dict[str, Any] = tomllib.loads(PRODUCTS.read_text(encoding="utf-8"))
ENTRIES: list[dict[str, Any]] = DOCUMENT["product"]
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def found(gpus: int = 8, /, **labels: str) -> Product:
    """Return what a node with these labels has, whose names have _ for / and so on."""
    keys = {
        "product": "nvidia.com/gpu.product",
        "replicas": "nvidia.com/gpu.replicas",
        "amd": "amd.com/gpu.product-name",
        "gke": "cloud.google.com/gke-accelerator",
        "instance": "node.kubernetes.io/instance-type",
    }
    product = Products().find({keys[name]: value for name, value in labels.items()}, gpus)
    assert product is not None
    return product


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_every_figure_has_a_source(entry: dict[str, Any]) -> None:
    """Each kind of figure names a publication, a thread, or that it is an assumption."""
    kinds = {"inner", "network"} | ({"bridged", "clique"} & entry.keys())
    assert set(entry["sources"]) == kinds
    for source in entry["sources"].values():
        assert any(mark in source for mark in ("#", "(", "assumption"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_every_entry_makes_a_product(entry: dict[str, Any]) -> None:
    """Each label and accelerator finds its entry, with as many zones and GPUs as it says."""
    for key, values in (("nvidia.com/gpu.product", entry["labels"]), ("x", entry.get("accelerators", []))):
        for value in values:
            labels = {"cloud.google.com/gke-accelerator" if key == "x" else key: value}
            product = Products().find(labels, entry["gpus"])
            assert product is not None
            assert product.name == entry["name"]
            assert sum(product.zones) == product.gpus == entry["gpus"]
            assert product.inner(entry["gpus"]) == list(entry["inner"].values())[-1]
            assert product.source


def test_no_two_entries_share_a_label() -> None:
    """A label means one product."""
    said = [
        {one.casefold() for one in (entry["name"], *entry["labels"], *entry.get("accelerators", []))}
        for entry in ENTRIES
    ]
    assert len(set().union(*said)) == sum(map(len, said))


def test_networks_of_instance_types_are_sourced() -> None:
    """Each cloud's list names where it is from, and no type is listed twice."""
    clouds = DOCUMENT["instances"].values()
    types = [one["type"] for cloud in clouds for one in cloud["types"]]
    assert all(cloud["source"] for cloud in clouds)
    assert len(types) == len(set(types))
    assert DOCUMENT["mig"]["source"]


def test_a_full_node_reads_as_published() -> None:
    """HGX H100: ring up to four GPUs, NVLink SHARP from five on, a 400 Gb/s NIC to each GPU."""
    h100 = found(product="NVIDIA-H100-80GB-HBM3")
    assert (h100.interconnect, h100.nvls, h100.zones, h100.links) == (Interconnect.NVSWITCH, True, (4, 4), None)
    assert [h100.inner(gpus) for gpus in range(9)] == [math.inf, math.inf, 365, 365, 365, 414, 436, 460, 475]
    assert [h100.outer(gpus) for gpus in (0, 1, 4, 8)] == [0, 47, 188, 376]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_the_network_grows_with_the_gpus(entry: dict[str, Any]) -> None:
    """More GPUs never reach fewer NICs, and all of them reach all NICs."""
    product = found(entry["gpus"], product=entry["labels"][0])
    rates = [product.outer(gpus) for gpus in range(product.gpus + 1)]
    assert all(fewer <= more for fewer, more in pairwise(rates))
    assert rates[-1] == pytest.approx(product.nics * product.nic * 0.94)


def test_gpus_that_share_a_nic_have_all_of_it() -> None:
    """A P4d has one NIC of 12.5 GB/s for two GPUs: one of them may use it all."""
    p4d = found(product="NVIDIA-A100-SXM4-40GB", instance="p4d.24xlarge")
    assert [p4d.outer(gpus) for gpus in (1, 2, 3, 8)] == pytest.approx([11.75, 11.75, 23.5, 47])


@pytest.mark.parametrize(
    ("labels", "nics", "nic"),
    [
        ({"instance": "p5.48xlarge"}, 8, 50),
        ({"instance": "a3-highgpu-8g"}, 4, 25),
        ({"instance": "a3-megagpu-8g"}, 8, 25),
        ({"instance": "Standard_ND96isr_H100_v5"}, 8, 50),
        ({"instance": "something-else"}, 8, 50),
    ],
    ids=lambda value: value["instance"] if isinstance(value, dict) else "",
)
def test_an_instance_types_network_goes_over_the_products(labels: dict[str, str], nics: int, nic: float) -> None:
    """The cloud decides how fast the NICs are; an unknown type changes nothing."""
    product = found(product="NVIDIA-H100-80GB-HBM3", **labels)
    assert (product.nics, product.nic) == (nics, nic)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"product": "NVIDIA-H100-80GB-HBM3-SHARED"}, "H100 SXM5 80GB"),
        ({"product": "nvidia-h100-80gb-hbm3"}, "H100 SXM5 80GB"),
        ({"gke": "nvidia-h100-mega-80gb"}, "H100 SXM5 80GB"),
        ({"product": "NVIDIA-H200", "gke": "nvidia-l4"}, "H200 SXM"),
        ({"amd": "AMD_Instinct_MI300X_OAM"}, "MI300X"),
        ({"product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}, "A100 SXM4 80GB MIG"),
        ({"product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"}, "A100 SXM4 80GB MIG"),
    ],
)
def test_labels_name_a_product_in_many_ways(labels: dict[str, str], name: str) -> None:
    """Sharing and slicing suffixes, GKE's and AMD's labels; GPU feature discovery is believed first."""
    assert found(**labels).name == name


@pytest.mark.parametrize(
    "labels",
    [{}, {"nvidia.com/gpu.product": ""}, {"nvidia.com/gpu.product": "NVIDIA-Unheard-Of"}],
    ids=["no label", "empty", "unknown"],
)
def test_an_unknown_product_is_none(labels: dict[str, str]) -> None:
    """Nothing is guessed."""
    assert Products().find(labels, 8) is None
    assert Products().named(labels.get("nvidia.com/gpu.product", "")) is None


@pytest.mark.parametrize(
    ("gpus", "nics", "zones"),
    [(4, 4, (2, 2)), (7, 7, ()), (1, 1, (1,)), (0, 1, ())],
    ids=["half", "one lost", "one", "none"],
)
def test_a_part_of_a_node_has_a_part_of_its_nics(gpus: int, nics: int, zones: tuple[int, ...]) -> None:
    """Half an HGX board has half the NICs; where GPUs do not divide over the zones, the zones are unknown."""
    product = found(gpus, product="NVIDIA-H100-80GB-HBM3")
    assert (product.gpus, product.nics, product.zones) == (max(gpus, 1), nics, zones)


def test_shared_gpus_keep_the_nodes_nics() -> None:
    """Eight GPUs that are handed out forty times have eight NICs, five times as many GPUs to each."""
    product = found(40, product="NVIDIA-H100-80GB-HBM3-SHARED", replicas="5")
    assert (product.gpus, product.nics) == (40, 8)
    assert product.outer(5) == 47
    assert product.inner(40) == 475


def test_slices_of_gpus_have_no_nvlink() -> None:
    """MIG slices reach each other through the CPU's memory, whatever their GPU can do."""
    sliced = found(56, product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb")
    assert (sliced.interconnect, sliced.nvls, sliced.peer_to_peer) == (Interconnect.PCIE, False, False)
    assert sliced.inner(2) == sliced.inner(56) == 15


def test_a_whole_dgx_1_has_its_link_matrix() -> None:
    """Eight V100 are wired as in a DGX-1; of four nobody knows which."""
    assert found(8, product="Tesla-V100-SXM2-32GB").links == "DGX-1V"
    assert found(4, product="Tesla-V100-SXM2-32GB").links is None


def test_equal_nodes_share_one_value() -> None:
    """The same labels give the same object, and a product can be a dictionary's key."""
    products = Products()
    first = products.find(H100, 8)
    assert first is not None
    assert products.find(dict(H100), 8) is first
    assert products.find(H100, 4) != first
    assert len({first, Products().find(H100, 8)}) == 1


def test_a_calibration_makes_other_products() -> None:
    """Products compare by their calibration, so that a change is noticed."""
    measured = Products(Calibration((Measurement("NVIDIA-H100-80GB-HBM3", 8, 1, "node", 440),)))
    assert Products() == Products()
    assert measured != Products()
    product = measured.find(H100, 8)
    assert product is not None
    assert product.inner(8) == 440
    assert product.inner(7) == 460


@pytest.mark.parametrize(
    ("measurement", "field"),
    [
        (Measurement("NVIDIA-Unheard-Of", 8, 4, "rack", 300, field="entry"), "entry.product"),
        (Measurement("NVIDIA-H200", 72, 1, "node", 300, field="entry"), "entry.gpusPerNode"),
        (Measurement("NVIDIA-H200", 72, 4, "rack", 300, field="entry"), "entry.gpusPerNode"),
        (Measurement("NVIDIA-H200", 8, 4, "clique", 300, field="entry"), "entry.level"),
    ],
    ids=["unknown product", "too many GPUs", "too many GPUs on each node", "no multi-node NVLink"],
)
def test_a_measurement_of_something_impossible_is_a_problem(measurement: Measurement, field: str) -> None:
    """It names the field, and changes nothing."""
    products = Products(Calibration((measurement,)))
    assert [problem.field for problem in products.problems] == [field]
    assert products.find({"nvidia.com/gpu.product": "NVIDIA-H200"}, 8) == Products().find(
        {"nvidia.com/gpu.product": "NVIDIA-H200"}, 8
    )


def test_a_measurement_of_a_known_product_is_none() -> None:
    """What can be used is no problem."""
    assert Products(Calibration((Measurement("GB200", 4, 18, "clique", 840),))).problems == ()


def test_the_fastest_place_there_could_be() -> None:
    """Inside a node, over a bridge if there is one; beyond it an NVLink domain, else the network of whole nodes."""
    h100, gb200 = found(product="NVIDIA-H100-80GB-HBM3"), found(4, product="NVIDIA-GB200")
    bridge = found(product="NVIDIA-H100-PCIe")
    assert [h100.fastest(gpus) for gpus in (2, 8, 16)] == pytest.approx([365, 475, 376])
    assert gb200.fastest(72) == gb200.clique
    assert gb200.fastest(73) == pytest.approx(gb200.outer(4))
    assert bridge.fastest(2) == bridge.bridged
