"""Devices said with other names: classes, drivers, attributes, selectors, and tables of links."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from extender.devices.reading import reworded
from extender.journal import commonwords as common
from extender.journal.pseudonyms import Pseudonyms, Space
from extender.objects.meta import key_places
from extender.objects.resourceslice import AttributeSet, AttributeValue, DeviceVersion

_VERSION: Final = re.compile(r"[0-9.]*")
_LINK_WORDS: Final = re.compile(r"[^\s\"{}\[\]:,;]+")


class DeviceNames:
    """Say words about devices otherwise; those of a kind are one space, since expressions compare them all."""

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self._products: set[str] = set()  # what attributes say that stays

    def word(self, word: str) -> str:
        """Return a word about devices, each part of one with slashes by itself."""
        if "/" in word:
            return "/".join(map(self.word, word.split("/")))
        return word if common.is_common_device_word(word) else self.names.name(Space.DEVICE, word)

    def device_class(self, name: str) -> str:
        """Return the name of a DeviceClass."""
        return name if name in common.DRIVERS else self.names.name(Space.OBJECT, name)

    def parts(self, parts: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
        """Return amounts of what devices have."""
        return tuple((self.word(name), amount) for name, amount in parts)

    def attributes(self, attributes: AttributeSet) -> AttributeSet:
        """Return the attributes of a device."""
        said = {self.word(name): self._attribute(name, value) for name, value in attributes.items()}
        return AttributeSet(key_places(tuple(said)), tuple(said.values()))

    def _attribute(self, name: str, value: AttributeValue) -> AttributeValue:
        if isinstance(value, tuple):
            return tuple(cast("Any", self._attribute(name, each)) for each in value)
        if isinstance(value, DeviceVersion):
            found = _VERSION.match(value.text)
            return DeviceVersion(found[0] if found else "")
        if not isinstance(value, str):
            return value
        if name.rpartition("/")[2] in common.PRODUCTS:
            self._products.add(value.casefold())
            return value
        return self.word(value)

    def expression(self, expression: str) -> str:
        """Return a selector in CEL; texts in it are words about devices, or parts of what these say that stays."""

        def name(name: str) -> str:
            return name if common.is_common_in_expressions(name) else self.names.name(Space.DEVICE, name)

        def text(text: str) -> str:
            said = any(text.casefold() in each for each in self._products)
            return text if said else self.word(text)

        return reworded(expression, name, text)

    def link_table(self, text: str) -> str:
        """Return a table of links between GPUs, or of what there is of these."""
        return _LINK_WORDS.sub(
            lambda found: found[0] if common.is_link_word(found[0]) else self.names.name(Space.TEXT, found[0]), text
        )
