"""A snapshot without names: every name gets a pseudonym, and the story is decided again under these."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import orjson

from extender.journal.archive import Snapshot, SnapshotError
from extender.journal.entries import EntryWriter, Noted, read_outcome
from extender.journal.playing import ClockError, JournalPlayer, ReplayDifference
from extender.journal.pseudonyms import Pseudonyms
from extender.journal.renaming import Anonymiser
from extender.journal.standing import StateSummary
from extender.journal.tape import Chunk

_CHUNK_INPUTS: Final = 256
_LEVEL: Final = 1
_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class Anonymised:
    """A snapshot without names, and the first input (from 1) of which something else would come; 0 if there is none.

    Pseudonyms keep the order of names, but not what is in them: a label that is compared as a number in one place and
    as text in another, for instance. There the snapshot ends: from then on it would be another story.
    """

    snapshot: Snapshot
    departs: int


def anonymise(snapshot: Snapshot) -> Anonymised:
    """Return a snapshot with pseudonyms in place of the names of nodes, pods, gangs, Queues and domains, and of labels.

    Texts that others wrote are replaced as a whole. UIDs, times, amounts, resources, priorities, names of
    products and keys of labels in general use stay. Raises SnapshotError where the snapshot cannot be read.
    """
    names = Pseudonyms()
    renamer = Anonymiser(names)
    renamer.settings(snapshot.header.settings)
    for noted in snapshot.noted():
        _renamed(renamer, noted)
    names.settle()
    settings = renamer.settings(snapshot.header.settings)
    header = replace(snapshot.header, settings=settings, anonymised=True)
    story = replace(snapshot, header=header)
    whole, departs = _played(story, names, renamer, snapshot.header.inputs)
    if departs:
        whole, _ = _played(story, names, renamer, departs - 1)
    return Anonymised(whole, departs)


def anonymised(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without names, as `anonymise` makes it."""
    return anonymise(snapshot).snapshot


def _played(story: Snapshot, names: Pseudonyms, renamer: Anonymiser, inputs: int) -> tuple[Snapshot, int]:
    """Play `inputs` inputs under pseudonyms; return the snapshot of that, and which input tells another story, else 0.

    Raises SnapshotError where it cannot be played.
    """
    try:
        player = JournalPlayer(story.header.settings, story.header.first)
    except ClockError as error:
        raise SnapshotError(f"it cannot be played by this version of Muster: {error}") from error
    writer, chunks = EntryWriter(), []
    for part in _parts(_renamed(renamer, noted) for noted in islice(story.noted(), inputs)):
        done: list[Noted] = []
        for noted, found in zip(part, player.play(part), strict=True):
            if found is not None and _differs(names, noted, found):
                return story, player.seq
            done.append(noted if found is None else noted._replace(came=found.got))
        chunks.append(Chunk(len(done), zlib.compress(writer.rewrite(done), _LEVEL)))
    state: dict[str, Any] = orjson.loads(orjson.dumps(StateSummary.of(player.admission).document()))
    return Snapshot(replace(story.header, inputs=player.seq), chunks, state), 0


def _renamed(anonymiser: Anonymiser, noted: Noted) -> Noted:
    return noted._replace(event=anonymiser.event(noted.event))


def _parts(noted: Iterator[Noted]) -> Iterator[list[Noted]]:
    part: list[Noted] = []
    for each in noted:
        part.append(each)
        if len(part) == _CHUNK_INPUTS:
            yield part
            part = []
    if part:
        yield part


def _differs(names: Pseudonyms, noted: Noted, found: ReplayDifference) -> bool:
    """Tell whether something else came of an input than was recorded, but for the names."""
    if found.clock:
        return True
    return bool(_unsummed(read_outcome(noted.came)) != _unsummed(names.restored(read_outcome(found.got))))


def _unsummed(value: Any) -> Any:  # noqa: ANN401 - a document
    """Leave out the checksums of long lists of names, which are about the names as they are."""
    if isinstance(value, list):
        if len(value) == _PAIR and all(type(each) is int for each in value):
            return value[:1]
        return [_unsummed(each) for each in value]
    return value
