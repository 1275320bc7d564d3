"""Where a gang stands among those that want nodes: how many are judged before it, and who."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.admission.contender import Contender
from extender.admission.explaining.scene import Scene
from extender.admission.line import line_up
from extender.domain.membership import GroupRef

#: Of those that are ahead so many are named.
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a gang stands.

    `position` is 1 for who is judged first, None for a gang that does not wait for nodes or quota; `of` counts those
    that do. `ahead` are the last of those that are judged before it, in order.
    """

    queue: str
    position: int | None
    of: int
    ahead: tuple[GroupRef, ...] = ()


def stand(scene: Scene) -> Standing:
    """Return where the gang of a scene stands; one that is not in line stands where it would if it came now."""
    material, gang = scene.material, scene.gang
    line = line_up(material.line, material.waits)
    refs = [each.gang.ref for each in line]
    if material.place is None:
        place = next((index for index, each in enumerate(line) if each.gang.uid == gang.uid), None)
    elif material.demand is not None and material.unusable is None and gang.uid not in material.waits:
        place = _place_of(material.place, line, material.turns)
        refs.insert(place, gang.ref)
    else:
        place = None
    if place is None:
        return Standing(material.queue, None, len(refs))
    return Standing(material.queue, place + 1, len(refs), tuple(refs[max(place - MOST_NAMED, 0) : place]))


def _place_of(newcomer: Contender, line: Sequence[Contender], turns: Mapping[str, tuple[object, ...]]) -> int:
    """Return where a newcomer comes in: behind what is urgent, then by the turns of the queues, then by position."""
    own = (turns[newcomer.queue], newcomer.position)
    behind = (i for i, each in enumerate(line) if not each.is_urgent and (turns[each.queue], each.position) > own)
    return next(behind, len(line))
