"""A snapshot as a file: it opens again, people can look into it, and whatever is wrong with it is said."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from extender import __version__
from extender.journal.archive import Snapshot, SnapshotError, unpack
from extender.settings import Settings, TopologyLevel
from muster_lab.replay.verdict import judge
from tests.journal.conftest import Story


def parts(file: bytes) -> dict[str, bytes]:
    """Return the members of a file by name."""
    with tarfile.open(fileobj=io.BytesIO(file), mode="r:gz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]  # files


def packed(members: dict[str, bytes]) -> bytes:
    """Return a file with these members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def with_header(snapshot: Snapshot, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the file of a snapshot with another header."""
    members = parts(snapshot.pack())
    header = json.loads(members["snapshot.json"])
    change(header)
    return packed({**members, "snapshot.json": json.dumps(header).encode()})


def refusal(file: bytes) -> str:
    """Return why a file is refused."""
    with pytest.raises(SnapshotError) as caught:
        judge(unpack(file))
    return str(caught.value)


def test_it_opens_again(snapshot: Snapshot) -> None:
    """Header, inputs and state are what they were, and it plays."""
    again = unpack(snapshot.pack())
    assert again.header == snapshot.header
    assert (again.chunks, again.state) == (snapshot.chunks, snapshot.state)
    assert judge(again).same


def test_settings_come_with_it() -> None:
    """Those that were in force, levels of the network included."""
    levels = (TopologyLevel(name="hut", nodeLabel="bletchley.example/hut"),)
    story = Story(Settings(topology_levels=levels, veto_seconds=7.5))
    story.open()
    assert unpack(story.snapshot().pack()).header.settings == story.recorder.snapshot().header.settings
    assert unpack(story.snapshot().pack()).header.settings.veto_seconds == 7.5


def test_people_can_look_into_it(snapshot: Snapshot) -> None:
    """With tar and a pager: what it is, how everything stood, and what it does not hold."""
    members = parts(snapshot.pack())
    assert list(members) == ["README.txt", "snapshot.json", "state.json", "journal.bin"]
    assert b"no Secrets" in members["README.txt"]
    header, state = json.loads(members["snapshot.json"]), json.loads(members["state.json"])
    assert (header["format"], header["version"], header["muster"]) == ("muster-snapshot", 1, __version__)
    assert (header["began"], header["anonymised"]) == ("2026-01-01T00:00:00+00:00", False)
    assert state["counts"] == {"nodes": 4, "pods": 3, "gangs": 2}
    gang, single = state["gangs"]
    assert (single["api"], single["minMember"]) == ("pod", 1)
    assert (gang["name"], gang["minMember"], gang["members"]["running"]) == ("babbage-train", 2, 2)
    free = [node["resources"]["nvidia.com/gpu"]["free"] for node in state["nodes"]]
    assert sorted(free) == [0, 0, 8, 8]


def test_what_is_cut_off_is_refused(snapshot: Snapshot) -> None:
    """Wherever it ends."""
    file = snapshot.pack()
    for length in range(0, len(file), 97):
        assert refusal(file[:length])


def test_what_was_changed_is_refused(snapshot: Snapshot) -> None:
    """A bit anywhere: the file's own checksums find it. A few bits mean nothing, as the time that gzip notes."""
    file, drawn = snapshot.pack(), random.Random(4)
    harmless = 0
    for _ in range(200):
        damaged = bytearray(file)
        damaged[drawn.randrange(len(file))] ^= 1 << drawn.randrange(8)
        try:
            assert unpack(bytes(damaged)) == unpack(file)
            harmless += 1
        except SnapshotError:
            continue
    assert harmless < 10


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (b"", "ends too early"),
        (b"hello", "not a snapshot"),
        (gzip.compress(b"hello"), "not a snapshot"),
        (gzip.compress(b"\0" * 20_000), "snapshot.json is missing"),
        (packed({"snapshot.json": b"{"}), "snapshot.json cannot be read"),
        (packed({"snapshot.json": b"[" * 100_000}), "snapshot.json cannot be read"),
        (packed({"snapshot.json": b"[]"}), "is not an object"),
        (packed({"snapshot.json": b'{"format": "tar"}'}), "does not say that it is a muster-snapshot"),
        (packed({"snapshot.json": b'{"format": "muster-snapshot", "version": 1}'}), "state.json is missing"),
    ],
    # Not the bytes: gzip writes the time into them, and each process would know the tests by other names.
    ids=("nothing", "text", "packed-text", "zeros", "open", "deep", "list", "other-format", "alone"),
)
def test_what_is_something_else_is_refused(file: bytes, says: str) -> None:
    """With a word about what is missing."""
    assert says in refusal(file)


def test_another_version_of_the_format_is_refused(snapshot: Snapshot) -> None:
    """It names the Muster that can read it."""

    def later(header: dict[str, Any]) -> None:
        header.update(version=2, muster="9.1.0")

    assert "version 2" in refusal(with_header(snapshot, later))
    assert "use Muster 9.1.0, which wrote it" in refusal(with_header(snapshot, later))


def test_settings_that_nobody_knows_are_refused(snapshot: Snapshot) -> None:
    """As of a later Muster: it says which."""
    file = with_header(snapshot, lambda header: header["settings"].update(warp_factor=9))
    assert "does not know: warp_factor" in refusal(file)


@pytest.mark.parametrize("key", ["first", "inputs", "saved" + "Microseconds", "muster", "sha256"])
def test_a_header_that_lacks_something_is_refused(snapshot: Snapshot, key: str) -> None:
    """Whatever it is."""
    assert refusal(with_header(snapshot, lambda header: header.pop(key)))


def test_a_journal_that_does_not_match_is_refused(snapshot: Snapshot) -> None:
    """Its checksum stands in the header."""
    members = parts(snapshot.pack())
    journal = members["journal.bin"]
    assert "checksum differs" in refusal(packed({**members, "journal.bin": journal[:-1] + b"\0"}))


@pytest.mark.parametrize("journal", [b"\0\0", b"\0\0\0\1\0\0\0\x09abc", b"\0\0\0\1\0\0\0\3abc"])
def test_a_crafted_journal_is_refused(snapshot: Snapshot, journal: bytes) -> None:
    """Though its checksum is right: lengths that lie, chunks that are none."""
    members = parts(snapshot.pack())
    header = json.loads(members["snapshot.json"])
    header["sha256"]["journal.bin"] = sha256(journal).hexdigest()
    file = packed({**members, "snapshot.json": json.dumps(header).encode(), "journal.bin": journal})
    assert refusal(file)


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE])
def test_odd_members_of_a_stranger_s_file_are_left_out(kind: bytes) -> None:
    """A link that leads to itself, and a sparse file, are no part of a snapshot: the file is refused with a reason."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        member = tarfile.TarInfo("snapshot.json")
        member.type, member.linkname = kind, "snapshot.json"
        archive.addfile(member)
    with pytest.raises(SnapshotError):
        unpack(file.getvalue())


def _odd_header(name: str, kind: bytes, content: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, len(content)
    return member.tobuf(tarfile.GNU_FORMAT) + content.ljust(-(-len(content) // 512) * 512, b"\0")


@pytest.mark.parametrize(
    "before",
    [
        _odd_header("././@LongLink", tarfile.GNUTYPE_LONGNAME, b"a\0") * 5_000,
        _odd_header("p", tarfile.XHDTYPE, b"") * 5_000,
        _odd_header("p", tarfile.XHDTYPE, b"99999999999999999999 a=b\n"),
    ],
    ids=["long names", "extended headers", "length"],
)
def test_what_tar_cannot_follow_is_refused(before: bytes) -> None:
    """Thousands of names before one member, and a length beyond any machine's."""
    assert "damaged" in refusal(gzip.compress(before + _odd_header("x", tarfile.REGTYPE, b"")))


def test_text_that_no_terminal_can_show_is_refused(snapshot: Snapshot) -> None:
    """Half a character, as JSON can escape it."""
    assert "snapshot.json cannot be read" in refusal(
        with_header(snapshot, lambda header: header.update(muster="\ud800"))
    )


def test_a_small_file_may_not_fill_the_memory(snapshot: Snapshot) -> None:
    """A megabyte of zeros takes a thousand bytes; who trusts the file may allow more."""
    file = packed({**parts(snapshot.pack()), "zeros": bytes(2 << 20)})
    with pytest.raises(SnapshotError, match=r"it unpacks to more than 1 MiB \(--unpack-megabytes allows more\)"):
        unpack(file, 1)
    assert unpack(file, 16).header == snapshot.header
