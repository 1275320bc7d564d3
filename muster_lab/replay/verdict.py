"""Whether a recording, played again, gives what was recorded; and if not, what was different first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec
import orjson

from extender.journal.archive import Snapshot, SnapshotError
from extender.journal.entries import EntryError, Noted, plain, read_outcome, values_of
from extender.journal.playing import ClockError, JournalPlayer, ReplayDifference
from extender.journal.standing import StateSummary
from extender.objects.node import Node
from extender.objects.pod import Pod

#: How many inputs before a difference are told.
_CONTEXT: Final = 5
#: How often progress is told, in inputs.
_STRIDE: Final = 1_000
_MOST_TEXT: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """How many inputs were played, and what was different first; None and "" where nothing was.

    `before` are the last inputs before that, `passes` how many passes ran. `state` says where the state at the end
    differs from the one that was saved, though every answer was the same. `whole` tells whether all was played.
    """

    played: int
    passes: int
    whole: bool
    difference: ReplayDifference | None = None
    before: Sequence[Noted] = ()
    state: str = ""

    @property
    def same(self) -> bool:
        """Tell whether nothing was different."""
        return self.difference is None and not self.state


def judge(snapshot: Snapshot, until: int | None = None, tell: Callable[[int], None] | None = None) -> ReplayVerdict:
    """Play a snapshot, up to the input `until`, and stop at the first difference; raise SnapshotError if it cannot be.

    `tell` hears now and then how many inputs have been played.
    """
    try:
        player = JournalPlayer(snapshot.header.settings, snapshot.header.first)
    except ClockError as error:
        raise SnapshotError(f"it cannot be played by this version of Muster: {error}") from error
    before: deque[Noted] = deque(maxlen=_CONTEXT + 1)

    def remembered() -> Any:  # noqa: ANN401 - an iterator of Noted
        for noted in islice(snapshot.noted(), until):
            before.append(noted)
            yield noted

    for found in player.play(remembered()):
        if found is not None:
            return ReplayVerdict(player.seq, _passes(player), whole=False, difference=found, before=tuple(before)[:-1])
        if tell is not None and player.seq % _STRIDE == 0:
            tell(player.seq)
    whole = until is None or player.seq >= snapshot.header.inputs
    if whole and player.seq != snapshot.header.inputs:
        raise SnapshotError(f"it says that it has {snapshot.header.inputs} inputs, and has {player.seq}")
    state = ""
    if whole:
        got = orjson.loads(orjson.dumps(StateSummary.of(player.admission).document()))
        state = _first_difference(snapshot.state, got, "")
    return ReplayVerdict(player.seq, _passes(player), whole=whole, state=state)


def describe(noted: Noted) -> str:
    """Return an event in a line: what it is, and about what."""
    return f"{noted.name}({', '.join(_word(value) for value in values_of(noted.event))})"


def details(noted: Noted) -> object:
    """Return the fields of an event as plain values."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(values_of(noted.event), enc_hook=plain), strict=False)


def outcome(came: bytes) -> str:
    """Return what came of an input, as text of bounded length."""
    try:
        value = read_outcome(came)
    except EntryError as error:
        return str(error)
    text = "nothing" if value is None else orjson.dumps(_textual(value), option=orjson.OPT_NON_STR_KEYS).decode()
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}... ({len(text)} characters)"


def _word(value: object) -> str:
    if isinstance(value, Pod):
        return f"pod {value.key}" + (f" on {value.node_name}" if value.node_name else "")
    if isinstance(value, Node):
        return f"node {value.name}"
    if isinstance(value, list) and len(value) > 1:
        return f"{len(value)} nodes: {value[0]} to {value[-1]}"
    name = getattr(value, "key", None) or getattr(value, "ref", None) or getattr(value, "name", None)
    return str(value if name is None else name)[:120]


def _textual(value: object) -> object:
    """Return bytes within a value as lists of numbers."""
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, list):
        return [_textual(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _textual(each) for key, each in value.items()}
    return value


def _passes(player: JournalPlayer) -> int:
    return player.admission.passes


def _first_difference(expected: object, got: object, path: str) -> str:
    """Return where two documents differ first, with both values, "" where they do not."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping) and expected.keys() == got.keys():
        pairs = [(f"{path}.{key}", expected[key], got[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = [(f"{path}[{index}]", *pair) for index, pair in enumerate(zip(expected, got, strict=True))]
    elif expected == got:
        return ""
    else:
        return f"{path.removeprefix('.')}: expected {str(expected)[:200]}, got {str(got)[:200]}"
    return next((found for where, one, other in pairs if (found := _first_difference(one, other, where))), "")
