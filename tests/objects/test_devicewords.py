"""Devices in the words of people: comparisons without CEL, and all else as it was written."""

from __future__ import annotations

import pytest

from extender.objects.devicewords import none_in_words, resource_in_words, selector_in_words, short_in_words
from extender.objects.requests import SLICE_GPUS

CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0", "memory >= 80Gi"),
        ("device.capacity['a'].memory.isGreaterThan(quantity(\"40Gi\"))", "memory > 40Gi"),
        ("device.attributes[\"a\"].driverVersion.isLessThan(semver('570.0.0'))", "driverVersion < 570.0.0"),
        ("device.attributes['a'].productName == 'NVIDIA H100'", "productName = NVIDIA H100"),
        ("device.attributes['a'].index < 4 && device.attributes['a'].healthy == true", "index < 4 and healthy = true"),
        ("has(device.attributes['a'].profile) && device.attributes['a'].profile == '1g.10gb'", "profile = 1g.10gb"),
        ("device.driver == 'gpu.nvidia.com'", "driver = gpu.nvidia.com"),
        ("!(device.attributes['a'].index == 3)", "!(index = 3)"),
        ("device.attributes['a'].index in [0, 1]", "device.attributes['a'].index in [0, 1]"),
        ("!device.attributes['a'].healthy == true", "!device.attributes['a'].healthy == true"),
        (
            "has(device.attributes['a'].x) && device.attributes['a'].index == 3",
            "has(device.attributes['a'].x) and index = 3",
        ),
    ],
)
def test_selectors_in_words(expression: str, words: str) -> None:
    """What compares an attribute or a capacity with a value is said so; nothing is left out that matters."""
    assert selector_in_words(expression) == words


def test_devices_in_words() -> None:
    """Devices are called by their class and what is asked of them, other resources by their names."""
    matching = f"{CLASS} matching device.attributes['a'].index < 4 tolerating any taint"
    assert resource_in_words(matching) == "devices of class gpu.nvidia.com with index < 4, tainted ones too"
    assert none_in_words(matching) == "no device of class gpu.nvidia.com matches index < 4"
    assert none_in_words(CLASS) == "no device of class gpu.nvidia.com"
    assert [none_in_words(each) for each in ("nvidia.com/gpu", SLICE_GPUS)] == ["no nvidia.com/gpu", "no GPUs"]
    assert short_in_words("memory", 2**31, 2**30, "free") == "memory: 2Gi asked, at most 1Gi free"
