"""What people call devices that claims ask for: the class, and what their selectors say, without CEL where it can be.

    device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0    memory >= 80Gi
    device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100'             productName = NVIDIA H100

What is not one of the usual comparisons stands as it was written.
"""

from __future__ import annotations

import re
from typing import Final

from extender.objects.requests import CLASS_RESOURCE_PREFIX, SLICE_GPUS, TRIAL_PREFIX, format_amount

_MATCHING: Final = " matching "
_TOLERATING: Final = " tolerating "

_NAME: Final = r"""device\.(?:attributes|capacity)\[(?:'[^']*'|"[^"]*")\]\.(?P<name>\w+)"""
_VALUE: Final = r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<bare>-?\d+(?:\.\d+)?|true|false))"""
_OF_KIND: Final = rf"(?:quantity|semver)\({_VALUE}\)"
_OP: Final = r"(?P<op>==|!=|<=|>=|<|>)"
_AS_SAID: Final = {"==": "=", "isGreaterThan": ">", "isLessThan": "<"}

#: What a comparison looks like, in the order in which they are looked for.
_COMPARISONS: Final = tuple(
    map(
        re.compile,
        (
            rf"(?<!!){_NAME}\.compareTo\({_OF_KIND}\)\s*{_OP}\s*0\b",
            rf"(?<!!){_NAME}\.(?P<op>isGreaterThan|isLessThan)\({_OF_KIND}\)",
            rf"(?<!!){_NAME}\s*{_OP}\s*{_VALUE}",
            rf"(?P<name>(?<=device\.)driver)\s*{_OP}\s*{_VALUE}",
        ),
    )
)
_GUARD: Final = re.compile(rf"(?<!!)has\({_NAME}\)\s*&&\s*")


def selector_in_words(expression: str) -> str:
    """Return what a selector asks for; what is asked only so that something can be compared is left out."""
    compared = {found["name"] for each in _COMPARISONS for found in each.finditer(expression)}
    said = _GUARD.sub(lambda found: "" if found["name"] in compared else found[0], expression)
    for each in _COMPARISONS:
        said = each.sub(_comparison, said)
    return said.replace("device.driver", "driver").replace(" && ", " and ")


def _comparison(found: re.Match[str]) -> str:
    value = next(each for each in (found["single"], found["double"], found["bare"]) if each is not None)
    return f"{found['name']} {_AS_SAID.get(found['op'], found['op'])} {value}"


def resource_in_words(resource: str, amount: int = 2) -> str:
    """Return what people call so much of a resource: devices by their class, all else by its own name."""
    if resource.startswith(TRIAL_PREFIX):
        return "devices for its claims together"
    if resource == SLICE_GPUS:
        return "GPUs"
    name, selectors = _parts(resource)
    if name is None:
        return resource
    also = ", tainted ones too" if _TOLERATING in resource else ""
    return f"device{'s' if amount != 1 else ''} of class {name}{f' with {selectors}' if selectors else ''}{also}"


def none_in_words(resource: str) -> str:
    """Return how to say that a node has nothing of a resource."""
    name, selectors = _parts(resource)
    if name is None:
        return f"no {resource_in_words(resource)}"
    return f"no device of class {name}{f' matches {selectors}' if selectors else ''}"


def short_in_words(resource: str, asked: int, most: int, where: str) -> str:
    """Return how to say that nodes have too little of a resource, `most` at most."""
    wanted, has = format_amount(resource, asked), format_amount(resource, most)
    return f"{resource_in_words(resource)}: {wanted} asked, at most {has} {where}"


def _parts(resource: str) -> tuple[str | None, str]:
    """Return the class, and what its selectors say; None for what is no class. What is tolerated is left out."""
    if not resource.startswith(CLASS_RESOURCE_PREFIX):
        return None, ""
    wanted, _, _ = resource.replace(CLASS_RESOURCE_PREFIX, "").partition(_TOLERATING)
    name, _, selectors = wanted.partition(_MATCHING)
    return name, selector_in_words(selectors)


def nodes_in_words(count: int) -> str:
    """Return a number of nodes in words: `1 node`, `12 nodes`."""
    return f"{count:,} node{'s' if count != 1 else ''}"
