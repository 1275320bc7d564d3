"""PriorityClasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from extender.objects.meta import Decoder, Int32, ObjectMeta


class PriorityClass(Struct, gc=False, frozen=True, rename="camel"):
    """A PriorityClass."""

    metadata: ObjectMeta | None = None
    value: Int32 | None = None
    global_default: bool | None = None


decode_priority_class = Decoder(PriorityClass)


@dataclass(frozen=True, slots=True)
class Priorities:
    """What is known of PriorityClasses: values by name, and that of pods that name none."""

    classes: Mapping[str, int] = field(default_factory=dict)
    default: int = 0


class PriorityClasses:
    """Keep the PriorityClasses that the watch tells of.

    Attributes:
        values: the value of each class by its name.
        default: the priority of pods that name no class: the highest global default, 0 without one.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.default = 0
        self._defaults: set[str] = set()

    def put(self, name: str, value: int, *, global_default: bool) -> None:
        """Take in a class that was added or changed."""
        self.values[name] = value
        (self._defaults.add if global_default else self._defaults.discard)(name)
        self._find_default()

    def drop(self, name: str) -> None:
        """Forget a class that was deleted."""
        self.values.pop(name, None)
        self._defaults.discard(name)
        self._find_default()

    @property
    def known(self) -> Priorities:
        """Return what is known now; a later change does not change it."""
        return Priorities(dict(self.values), self.default)

    def _find_default(self) -> None:
        self.default = max((self.values[name] for name in self._defaults), default=0)
