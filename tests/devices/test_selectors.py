"""Selectors are compiled once, and evaluated once for devices that they cannot tell apart."""

from __future__ import annotations

import random

from extender.devices.selectors import SelectorError, Selectors
from extender.objects.resourceslice import PoolDevice
from tests.builders import Json
from tests.devices.model import slice_of
from tests.devices.selectors import SELECTORS
from tests.objects.dra import NVIDIA, device_json, slice_json


def devices(count: int, **attributes: Json) -> tuple[PoolDevice, ...]:
    """Return devices that differ in their UUIDs."""
    own = [attributes | {"uuid": {"string": f"GPU-{number}"}} for number in range(count)]
    return slice_of(slice_json("s", *(device_json(f"gpu-{n}", attributes=each) for n, each in enumerate(own)))).devices


def test_devices_that_differ_in_what_is_not_asked_are_evaluated_once() -> None:
    """A hundred GPUs have a hundred UUIDs and one product."""
    selectors, gpus = Selectors(), devices(100, model={"string": "h100"})
    expression = f"device.attributes['{NVIDIA}'].model == 'h100'"
    assert all(selectors.matches(expression, NVIDIA, each) is True for each in gpus)
    assert selectors.evaluations == 1


def test_a_selector_that_may_ask_for_anything_is_evaluated_for_each_device() -> None:
    """Whatever it walks over may matter."""
    selectors, gpus = Selectors(), devices(10)
    expression = f"device.attributes['{NVIDIA}'].exists(name, name == 'uuid')"
    assert all(selectors.matches(expression, NVIDIA, each) is True for each in gpus)
    assert selectors.evaluations == 10


def test_a_flag_and_a_number_are_told_apart() -> None:
    """Python takes True for 1; a selector does not."""
    selectors = Selectors()
    (flag,), (number,) = devices(1, x={"bool": True}), devices(1, x={"int": 1})
    expression = f"device.attributes['{NVIDIA}'].x == 1"
    assert [selectors.matches(expression, NVIDIA, each) for each in (flag, number)] == [False, True]


def test_the_first_expression_that_does_not_match_decides() -> None:
    """Those after it are not evaluated, be they wrong or not."""
    selectors, (gpu,) = Selectors(), devices(1)
    failing = f"device.attributes['{NVIDIA}'].absent == 1"
    assert selectors.all_match(("true", "false", failing), NVIDIA, gpu) is False
    assert isinstance(selectors.all_match(("true", failing, "false"), NVIDIA, gpu), SelectorError)
    assert selectors.all_match((), NVIDIA, gpu) is True


def test_an_expression_that_fails_says_why() -> None:
    """For which device that was is known to whoever asked."""
    selectors, (gpu,) = Selectors(), devices(1)
    found = selectors.matches("device.attributes['a'].b == 1", NVIDIA, gpu)
    assert "Key not found" in str(found)
    assert str(selectors.problem("1 +")).startswith("selector '1 +': ")
    assert str(selectors.problem("1")) == "selector '1': gives INT, not a boolean"
    assert selectors.problem("true") is None


def test_an_expression_that_is_too_long_is_not_compiled() -> None:
    """The API server takes none that is longer."""
    problem = Selectors().problem(" " * 11_000 + "true")
    assert problem is not None
    assert problem.message == "is longer than 10240 characters"


def test_an_attribute_as_it_is_must_be_a_flag() -> None:
    """What type it has is known when it is evaluated, no sooner."""
    selectors, (gpu,) = Selectors(), devices(1, ok={"bool": True}, n={"int": 1})
    assert selectors.matches(f"device.attributes['{NVIDIA}'].ok", NVIDIA, gpu) is True
    found = selectors.matches(f"device.attributes['{NVIDIA}'].n", NVIDIA, gpu)
    assert isinstance(found, SelectorError)
    assert found.message == "gives INT, not a boolean"


def test_lists_are_lists() -> None:
    """They are alpha in Kubernetes 1.37, and so read all the same."""
    selectors = Selectors()
    (gpu,) = devices(1, numbers={"ints": [1, 2]}, versions={"versions": ["1.0.0"]})
    assert selectors.matches(f"2 in device.attributes['{NVIDIA}'].numbers", NVIDIA, gpu) is True
    assert selectors.matches(f"device.attributes['{NVIDIA}'].versions[0].major() == 1", NVIDIA, gpu) is True


def test_devices_that_share_an_answer_have_the_same_one() -> None:
    """Each selector of the table says of random devices what it says of each alone, whatever was asked before."""
    draw, selectors = random.Random(1), Selectors()
    choices: list[tuple[str, list[Json]]] = [
        ("type", [{"string": "gpu"}, {"string": "mig"}, {"int": 1}]),
        ("index", [{"int": 0}, {"int": 1}, {"bool": True}, {"string": "0"}]),
        ("healthy", [{"bool": True}, {"bool": False}, {"int": 1}]),
        ("driverVersion", [{"version": "570.86.15"}, {"version": "580.0.0-beta.2"}, {"string": "570.86.15"}]),
        ("productName", [{"string": "NVIDIA H100"}, {"string": "NVIDIA A100"}]),
        ("example.com/speed", [{"int": 400}]),
        ("resource.kubernetes.io/pcieRoot", [{"string": "pci0000:17"}, {"string": "pci0000:3a"}]),
    ]
    documents = []
    for number in range(40):
        attributes = {name: draw.choice(values) for name, values in choices if draw.random() < 0.7}
        capacity = {
            name: {"value": draw.choice(["40Gi", "80Gi"])} for name in ("memory", "x.com/y") if draw.random() < 0.6
        }
        documents.append(device_json(f"gpu-{number}", attributes=attributes, capacity=capacity))
    gpus = slice_of(slice_json("s", *documents)).devices
    for expression in SELECTORS:
        alone = Selectors()
        for gpu in gpus:
            alone.forget_answers()
            assert selectors.matches(expression, NVIDIA, gpu) == alone.matches(expression, NVIDIA, gpu), expression
    assert selectors.evaluations < len(SELECTORS) * len(gpus) / 2
