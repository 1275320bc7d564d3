"""How many devices each node has of what is asked for, and who takes from which column."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from extender.cluster.devicecolumns import MOST_DEMANDS, DeviceColumns, DeviceDemand, demands_of
from extender.devices.inventory import Inventory
from extender.objects.resourceclaim import ClaimRequest, ClaimSpec, DeviceRequest
from extender.objects.resourceslice import PoolDevice
from tests.devicevalues import CLASS, DRIVER, class_of, product_is, slice_of, spec_of

PLAIN = DeviceDemand(CLASS)
GPU = "nvidia.com/gpu"


def matches(driver: str, device: PoolDevice, expressions: tuple[str, ...]) -> bool:
    """Tell whether a device matches expressions of the forms that these tests write."""
    product = device.attributes[f"{DRIVER}/productName"]
    said = (expression.split("==")[1] for expression in expressions)
    return all(f"'{driver}'" in each or f"'{product}'" in each for each in said)


class Provided:
    """What is told of each node."""

    def __init__(self) -> None:
        """Know of no device."""
        self.amounts: dict[str, dict[str, int]] = {}
        self.columns = DeviceColumns(self.provide, Inventory(), matches)

    def provide(self, node: str, amounts: dict[str, int]) -> bool:
        """Keep what a node has."""
        self.amounts[node] = amounts
        return True


@pytest.fixture
def provided() -> Provided:
    """Return columns with the class of all devices, and what they tell."""
    provided = Provided()
    provided.columns.put_class(class_of())
    return provided


def of_product(name: str) -> DeviceDemand:
    """Return the demand for a product."""
    return DeviceDemand(CLASS, (product_is(name),))


def test_a_node_has_as_many_as_match(provided: Provided) -> None:
    """Each demand is a column; of a product only devices of that product count."""
    provided.columns.put_slice(slice_of("a", ["H100", "H100", "A100"]))
    for demand in (PLAIN, of_product("H100"), of_product("B200")):
        provided.columns.want(demand)
    assert provided.amounts["a"] == {PLAIN.column: 3, of_product("H100").column: 2}


def test_who_takes_a_special_one_takes_one_of_all(provided: Provided) -> None:
    """A device of one product is one of the class: it is taken from both columns, not the other way round."""
    provided.columns.put_slice(slice_of("a", ["H100", "A100"]))
    for demand in (PLAIN, of_product("H100")):
        provided.columns.want(demand)
    assert set(provided.columns.takes(of_product("H100"))) == {PLAIN.column, of_product("H100").column}
    assert provided.columns.takes(PLAIN) == (PLAIN.column,)


def test_two_classes_of_the_same_devices_take_from_each_other(provided: Provided) -> None:
    """Classes that mean the same devices do not count them twice."""
    provided.columns.put_class(class_of("other"))
    provided.columns.put_slice(slice_of("a"))
    for demand in (PLAIN, DeviceDemand("other")):
        provided.columns.want(demand)
    both = {PLAIN.column, DeviceDemand("other").column}
    assert set(provided.columns.takes(PLAIN)) == set(provided.columns.takes(DeviceDemand("other"))) == both


def test_an_extended_resource_counts_where_the_node_lists_none(provided: Provided) -> None:
    """Devices stand for the extended resource of their class, but not beside a device plugin's."""
    provided.columns.put_slice(slice_of("a"))
    provided.columns.put_slice(slice_of("b"))
    provided.columns.put_node("b", {GPU: 4}, {})
    assert provided.columns.put_class(class_of(resource=GPU)).nodes == {"a"}
    assert (dict(provided.columns.extended("a")), dict(provided.columns.extended("b"))) == ({GPU: 8}, {})
    assert provided.columns.takes(PLAIN) == (PLAIN.column, GPU)


def test_the_youngest_class_stands_for_a_resource() -> None:
    """Of two classes with one extended resource the younger counts, then the first by name."""
    columns = Provided().columns
    for name, created in (("b", "2026-01-01"), ("a", "2026-01-01"), ("c", "2025-01-01")):
        columns.put_class(class_of(name, resource=GPU, created=created))
    assert columns.resources == {GPU: "a"}


def test_a_wider_class_shares_a_twin_with_an_extended_resource(provided: Provided) -> None:
    """Who asks for any device and who asks for a resource of some of them take from a column that both have."""
    provided.columns.put_class(class_of("h100", product_is("H100"), resource=GPU))
    provided.columns.put_slice(slice_of("a", ["H100", "A100"]))
    provided.columns.put_node("plugin", {GPU: 4}, {})
    provided.columns.want(PLAIN)
    (twin,) = provided.columns.twins_of[GPU]
    assert twin in provided.columns.takes(PLAIN)
    assert provided.amounts["a"] == {PLAIN.column: 2, DeviceDemand("h100").column: 1, GPU: 1, twin: 2}
    assert provided.amounts["plugin"] == {twin: 4}


def test_a_pool_that_is_replaced_has_what_it_had(provided: Provided) -> None:
    """The newest generation counts, once all its slices are there; until then nobody loses a place."""
    provided.columns.want(PLAIN)
    provided.columns.put_slice(slice_of("a", name="one"))
    assert provided.amounts["a"] == {PLAIN.column: 8}
    provided.columns.put_slice(slice_of("a", ["H100"], name="two", generation=2, slices=2))
    assert provided.amounts["a"] == {PLAIN.column: 8}
    provided.columns.put_slice(slice_of("a", ["A100"], name="three", generation=2, slices=2, first=1))
    assert provided.amounts["a"] == {PLAIN.column: 2}
    for name in ("two", "three"):
        provided.columns.drop_slice(name)
    assert provided.amounts["a"] == {PLAIN.column: 8}


def test_devices_count_as_what_they_are(provided: Provided) -> None:
    """A device that was allocated is taken from every column that it is of, whatever was asked for."""
    slice_ = slice_of("a", ["H100", "A100"])
    provided.columns.put_slice(slice_)
    for demand in (PLAIN, of_product("H100")):
        provided.columns.want(demand)
    keys = [key for key, _ in provided.columns.on_node("a")]
    assert provided.columns.node_of(keys) == "a"
    assert provided.columns.taken_by("a", keys) == {PLAIN.column: 2, of_product("H100").column: 1}


def test_a_claim_asks_for_the_least_that_it_may_get() -> None:
    """Counts add up; `All` is one at least; alternatives and access for administration are none."""
    spec = ClaimSpec(
        (
            ClaimRequest("two", (DeviceRequest("two", CLASS, count=2),)),
            ClaimRequest("all", (DeviceRequest("all", CLASS, count=None),)),
            ClaimRequest("admin", (DeviceRequest("admin", CLASS, admin=True),)),
            ClaimRequest("any", (DeviceRequest("any/a", CLASS), DeviceRequest("any/b", "other"))),
        )
    )
    assert demands_of(spec) == {PLAIN: 3}
    assert demands_of(spec_of(2, "true")) == {DeviceDemand(CLASS, ("true",)): 2}


def test_columns_are_bounded(provided: Provided) -> None:
    """Whoever asks for something else in each pod is counted by the class alone from some number on."""
    provided.columns.put_slice(slice_of("a"))
    for number in range(3 * MOST_DEMANDS):
        provided.columns.want(of_product(f"product-{number}"))
    assert len(provided.amounts["a"]) == 1
    assert provided.columns.takes(of_product(f"product-{3 * MOST_DEMANDS}")) == (PLAIN.column,)


@pytest.mark.parametrize("seed", range(60))
def test_columns_have_room_if_each_can_have_devices_of_its_own(provided: Provided, seed: int) -> None:
    """Requests fit into the columns of a node if and only if there is a matching of requests and devices."""
    random = Random(seed)
    products = ["A", "B", "C", "D"]
    wide = [random.sample(products, random.randint(1, 3)) for _ in range(random.randint(1, 4))]
    demands = []
    for index, those in enumerate(wide):
        name = f"class-{index}"
        provided.columns.put_class(class_of(name, f"product == {' or '.join(repr(each) for each in those)}"))
        demands.append(DeviceDemand(name))
    for node in range(3):
        provided.columns.put_slice(slice_of(f"node-{node}", random.choices(products, k=random.randint(1, 6))))
    for demand in demands:
        provided.columns.want(demand)
    for node in range(3):
        there = provided.amounts[f"node-{node}"]
        devices = [device for _, device in provided.columns.on_node(f"node-{node}")]
        for counts in product(range(4), repeat=len(demands)):
            taken: Counter[str] = Counter()
            for demand, count in zip(demands, counts, strict=True):
                for column in provided.columns.takes(demand):
                    taken[column] += count
            fits = all(taken[column] <= there.get(column, 0) for column in taken)
            asked = [those for those, count in zip(wide, counts, strict=True) for _ in range(count)]
            have = [str(each.attributes[f"{DRIVER}/productName"]) for each in devices]
            assert fits == _can_match(asked, have), (wide, counts, have)


def _can_match(asked: list[list[str]], have: list[str]) -> bool:
    """Tell whether each request can have a device of its own (augmenting paths)."""
    holder: dict[int, int] = {}

    def serve(request: int, seen: set[int]) -> bool:
        for index, name in enumerate(have):
            if name in asked[request] and index not in seen:
                seen.add(index)
                if index not in holder or serve(holder[index], seen):
                    holder[index] = request
                    return True
        return False

    return all(serve(request, set()) for request in range(len(asked)))
