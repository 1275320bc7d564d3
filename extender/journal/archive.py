"""A snapshot as one file: a gzipped tar that people can open, with checksums over everything that is played.

Nothing in it is ever run: values are read by their types, and all that does not fit them is refused.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import platform
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
from pydantic import ValidationError

from extender import __version__
from extender.admission.admission import Admission
from extender.journal.entries import EntryError, EntryReader, Noted, Readings, microseconds, moment_of
from extender.journal.journal import Excerpt, Journal
from extender.journal.standing import StateSummary
from extender.journal.tape import Chunk
from extender.settings import Settings

FORMAT: Final = "muster-snapshot"
VERSION: Final = 1

_HEADER, _STATE, _JOURNAL, _README = "snapshot.json", "state.json", "journal.bin", "README.txt"
_LEVEL = 1
#: What a file may unpack to unless its reader says otherwise (megabytes, 2**20 bytes): sixteen times what a recording
#: takes by default. A file of 2 MB may unpack to 2 GB.
USUAL_MEGABYTES = 512
#: What it may at most: a recording of the largest size that the settings allow.
MOST_MEGABYTES = 5 << 10
#: What one chunk of inputs may unpack to, in bytes: each is a few hundred inputs.
_MOST_CHUNK_BYTES = 1 << 28
_LENGTHS = struct.Struct(">II")  # inputs of a chunk, bytes that follow
_MOST_SETTINGS_SHOWN = 3

_EXPLANATION = """\
A snapshot of Muster, for `muster snapshot show` and `muster replay`.

snapshot.json  what this is: format, versions, settings, from when to when
state.json     how everything stood when it was saved: nodes, gangs, pods, reservations
journal.bin    every input since Muster started, with the clock's readings and what came out

It holds names, labels, requests and states of nodes, pods, gangs and Queues, and Muster's settings; no Secrets,
no environment variables, no images and no commands of pods: Muster does not read them.
"""


class SnapshotError(ValueError):
    """A file that is no snapshot, or none that can be used; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a snapshot says of itself.

    `began` and `saved` are microseconds since 1970, `first` is what the clock said while all was put together.
    """

    muster: str
    began: int
    saved: int
    inputs: int
    settings: Settings
    first: Readings
    anonymised: bool
    python: str
    numpy: str

    def document(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """Return it as plain values, with the checksums of the other parts."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "muster": self.muster,
            "began": moment_of(self.began).isoformat(),
            "saved": moment_of(self.saved).isoformat(),
            "beganMicroseconds": self.began,
            "savedMicroseconds": self.saved,
            "inputs": self.inputs,
            "anonymised": self.anonymised,
            "python": self.python,
            "numpy": self.numpy,
            "settings": self.settings.model_dump(mode="json", by_alias=True),
            "first": {
                "monotonic": list(self.first.monotonic),
                "calendar": [microseconds(each) for each in self.first.calendar],
            },
            "sha256": dict(digests),
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A recording with how everything stood at its end; `chunks` are inputs, compressed."""

    header: Header
    chunks: Sequence[Chunk]
    state: Mapping[str, Any]

    @classmethod
    def of(cls, excerpt: Excerpt, standing: StateSummary, settings: Settings, saved: int) -> Snapshot:
        """Put a snapshot together; it waits for what is still being written, and belongs into a thread."""
        header = Header(
            muster=__version__,
            began=microseconds(excerpt.began),
            saved=saved,
            inputs=excerpt.inputs,
            settings=settings,
            first=excerpt.first,
            anonymised=False,
            python=platform.python_version(),
            numpy=np.__version__,
        )
        return cls(header, excerpt.collect(), standing.document())

    def noted(self) -> Iterator[Noted]:
        """Iterate over the inputs; raise SnapshotError where they cannot be read."""
        reader = EntryReader()
        for chunk in self.chunks:
            try:
                yield from reader.read(_inflate(chunk.data, _MOST_CHUNK_BYTES, zlib.MAX_WBITS))
            except EntryError as error:
                raise SnapshotError(f"{_JOURNAL}: {error}") from error

    def pack(self) -> bytes:
        """Return the file."""
        state = orjson.dumps(self.state, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        journal = b"".join(_LENGTHS.pack(chunk.inputs, len(chunk.data)) + chunk.data for chunk in self.chunks)
        digests = {_STATE: _digest(state), _JOURNAL: _digest(journal)}
        header = orjson.dumps(self.header.document(digests), option=orjson.OPT_INDENT_2)
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_LEVEL) as archive:
            for name, content in (
                (_README, _EXPLANATION.encode()),
                (_HEADER, header),
                (_STATE, state),
                (_JOURNAL, journal),
            ):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(content), self.header.saved // 1_000_000
                archive.addfile(member, io.BytesIO(content))
        return file.getvalue()


def collect_snapshot(
    journal: Journal, admission: Admission, settings: Settings, now: dt.datetime
) -> Callable[[], Snapshot] | None:
    """Collect all that a snapshot holds; return what puts it together, in a thread, None if nothing is recorded.

    What is collected is of this moment, whatever happens afterwards.
    """
    excerpt = journal.excerpt()
    if excerpt is None:
        return None
    state = StateSummary.of(admission)
    return lambda: Snapshot.of(excerpt, state, settings, microseconds(now))


def unpack(file: bytes, most_megabytes: int = USUAL_MEGABYTES) -> Snapshot:
    """Read a file; raise SnapshotError for one that unpacks to more, is damaged, or is no snapshot of this format."""
    parts = _parts(_inflate(file, most_megabytes << 20, zlib.MAX_WBITS | 16))
    header = _read_json(parts, _HEADER)
    if header.get("format") != FORMAT:
        raise SnapshotError(f"{_HEADER} does not say that it is a {FORMAT}")
    if header.get("version") != VERSION:
        raise SnapshotError(
            f"its format has version {header.get('version')!r}, and this Muster ({__version__}) reads {VERSION}; use "
            f"Muster {header.get('muster')}, which wrote it"
        )
    digests = header.get("sha256")
    for name in (_STATE, _JOURNAL):
        if name not in parts:
            raise SnapshotError(f"{name} is missing")
        if not isinstance(digests, dict) or digests.get(name) != _digest(parts[name]):
            raise SnapshotError(f"{name} is not what it was when it was saved: its checksum differs")
    return Snapshot(_read_header(header), _read_chunks(parts[_JOURNAL]), _read_json(parts, _STATE))


def _inflate(data: bytes | memoryview, most: int, wbits: int) -> bytes:
    """Decompress; raise SnapshotError for what is damaged, cut off, or becomes too large."""
    stream = zlib.decompressobj(wbits)
    try:
        found = stream.decompress(data, most)
    except zlib.error as error:
        raise SnapshotError(f"it is not a snapshot, or it is damaged: {error}") from error
    if stream.unconsumed_tail:
        raise SnapshotError(f"it unpacks to more than {most >> 20} MiB (--unpack-megabytes allows more)")
    if not stream.eof:
        raise SnapshotError("it ends too early: only a part of it is there")
    return found


def _parts(tar: bytes) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            return {
                member.name: content.read()
                for member in archive.getmembers()
                # A link may lead to itself, and a sparse file be larger than all that was unpacked.
                if member.isreg() and not member.issparse() and (content := archive.extractfile(member)) is not None
            }
    # The last two: of thousands of long names before a member, and of a length that no machine has.
    except (tarfile.TarError, OSError, ValueError, KeyError, RecursionError, OverflowError) as error:
        raise SnapshotError(f"it is not a snapshot, or it is damaged: {error}") from error


def _read_json(parts: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if name not in parts:
        raise SnapshotError(f"it is not a snapshot: {name} is missing")
    try:
        document = orjson.loads(parts[name])
    except ValueError as error:
        raise SnapshotError(f"{name} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise SnapshotError(f"{name} is not an object")
    return document


def _read_header(header: Mapping[str, Any]) -> Header:
    try:
        first = header["first"]
        return Header(
            muster=str(header["muster"]),
            began=int(header["beganMicroseconds"]),
            saved=int(header["savedMicroseconds"]),
            inputs=int(header["inputs"]),
            settings=Settings.model_validate(header["settings"]),
            first=Readings(
                [float(each) for each in first["monotonic"]], [moment_of(int(each)) for each in first["calendar"]]
            ),
            anonymised=header["anonymised"] is True,
            python=str(header["python"]),
            numpy=str(header["numpy"]),
        )
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) for each in error.errors()[:_MOST_SETTINGS_SHOWN])
        raise SnapshotError(f"{_HEADER}: settings that this Muster ({__version__}) does not know: {fields}") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SnapshotError(f"{_HEADER}: {type(error).__name__}: {error}") from error


def _read_chunks(journal: bytes) -> list[Chunk]:
    chunks, at = [], 0
    while at < len(journal):
        if at + _LENGTHS.size > len(journal):
            raise SnapshotError(f"{_JOURNAL} ends too early")
        inputs, length = _LENGTHS.unpack_from(journal, at)
        at += _LENGTHS.size
        if at + length > len(journal):
            raise SnapshotError(f"{_JOURNAL} ends too early")
        chunks.append(Chunk(inputs, journal[at : at + length]))
        at += length
    return chunks


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
