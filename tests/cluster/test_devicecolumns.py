"""How many devices each node has of what is asked for, and who takes from which column."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from extender.cluster.devicecolumns import (
    DEVICES_PER_STEP,
    MOST_DEMANDS,
    MOST_OF_A_NAMESPACE,
    DeviceColumns,
    DeviceDemand,
    demands_of,
)
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
    """Pods that ask for something else each are counted by the class alone from some number on; others are not."""
    provided.columns.put_slice(slice_of("a"))
    for number in range(2 * MOST_DEMANDS):
        provided.columns.want(of_product(f"product-{number}"), "one")
        provided.columns.use([of_product(f"product-{number}")])
    assert provided.columns.takes(of_product("product-3")) == (of_product("product-3").column,)
    assert provided.columns.takes(of_product(f"product-{MOST_OF_A_NAMESPACE}")) == (PLAIN.column,)
    provided.columns.want(of_product("H100"), "two")
    assert set(provided.columns.takes(of_product("H100"))) == {PLAIN.column, of_product("H100").column}
    for number in range(2 * MOST_DEMANDS):
        provided.columns.want(of_product(f"more-{number}"), f"namespace-{number}")
        provided.columns.use([of_product(f"more-{number}")])
    assert provided.columns.takes(of_product(f"more-{MOST_DEMANDS}")) == (PLAIN.column,)


def test_what_no_pod_asks_for_any_more_makes_room(provided: Provided) -> None:
    """A namespace whose pods come and go asks in new words each time, and its devices are counted each time."""
    provided.columns.put_slice(slice_of("a", ["H100", "A100"]))
    lasting = of_product("A100")
    provided.columns.want(lasting, "one")
    provided.columns.use([lasting])
    for number in range(4 * MOST_OF_A_NAMESPACE):
        demand = DeviceDemand(CLASS, (product_is("H100"), f"'{number}' == '{DRIVER}'"))
        provided.columns.want(demand, "one")
        provided.columns.use([demand])
        assert demand.column in provided.columns.takes(demand), number
        assert provided.amounts["a"][demand.column] == 1
        assert provided.amounts["a"][lasting.column] == 1
        provided.columns.use([], before=[demand])
    assert len(provided.amounts["a"]) <= MOST_OF_A_NAMESPACE + 1


def test_what_is_not_asked_for_any_more_makes_nothing_hard_to_count(provided: Provided) -> None:
    """Devices that are had in parts do not count for what is asked for in place of words that were about them."""
    item = slice_of("a", ["H100", "A100"])
    divided = replace(item, devices=(item.devices[0], replace(item.devices[1], shared=True)))
    provided.columns.put_slice(divided)
    provided.columns.want(of_product("A100"), "one")
    assert not provided.columns.is_plain(of_product("A100"))
    unused = [DeviceDemand(CLASS, (product_is("A100"), f"'{number}' == '{DRIVER}'")) for number in range(MOST_DEMANDS)]
    for demand in unused:
        provided.columns.want(demand, "one")
        provided.columns.use([], before=[demand])
    provided.columns.put_slice(replace(divided, generation=2))
    for number in range(MOST_OF_A_NAMESPACE):
        demand = DeviceDemand(CLASS, (product_is("H100"), f"'{number}' == '{DRIVER}'"))
        provided.columns.want(demand, "one")
        assert demand.column in provided.columns.takes(demand)
        assert provided.columns.is_plain(demand), number


def test_devices_of_a_large_cluster_are_looked_at_in_steps(provided: Provided) -> None:
    """No step looks at more than so many; slices and nodes that change meanwhile count as they are."""
    nodes = 4 * DEVICES_PER_STEP // 8
    for number in range(nodes):
        provided.columns.put_slice(slice_of(f"n{number}", ["H100"] * 4 + ["A100"] * 4))
    demand = of_product("H100")
    assert not provided.columns.want(demand).moved
    assert (provided.columns.is_read(demand), provided.columns.takes(demand)) == (False, ())
    provided.columns.put_slice(slice_of("n0", ["H100"], name="again", generation=2))
    provided.columns.put_slice(slice_of(f"n{nodes - 1}", ["H100"] * 2, name="other", generation=2))
    provided.columns.put_slice(slice_of("new", ["A100", "H100"]))
    steps = 1
    while provided.columns.is_reading:
        provided.columns.read_on()
        steps += 1
    assert 4 <= steps <= 5
    assert provided.columns.takes(demand) == (demand.column,)
    there = Counter(amounts[demand.column] for amounts in provided.amounts.values() if demand.column in amounts)
    assert there == {4: nodes - 2, 1: 2, 2: 1}


def test_classes_that_change_end_the_steps(provided: Provided) -> None:
    """All devices are looked at then, for all that is asked for."""
    for number in range(2 * DEVICES_PER_STEP // 8):
        provided.columns.put_slice(slice_of(f"n{number}"))
    provided.columns.want(of_product("H100"))
    provided.columns.put_class(class_of("other"))
    assert not provided.columns.is_reading
    assert provided.amounts["n0"] == {of_product("H100").column: 8}


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
