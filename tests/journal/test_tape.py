"""The memory of a recording."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from extender.journal.tape import Chunk, Tape

_MIB = 1 << 20


def test_chunks_come_back_in_order_and_as_they_were() -> None:
    """What was added is read back, byte for byte, with how many inputs it holds."""
    tape = Tape(10)

    assert tape.add(Chunk(3, b"abc"))
    assert tape.add(Chunk(4, b""))
    assert tape.add(Chunk(5, b"defg"))

    assert [(chunk.inputs, bytes(chunk.data)) for chunk in tape.chunks] == [(3, b"abc"), (4, b""), (5, b"defg")]
    assert tape.size == 7


def test_a_chunk_that_does_not_fit_is_not_taken() -> None:
    """A chunk has to fit whole; what was there before stays, and a smaller one still has room."""
    tape = Tape(4)
    assert tape.add(Chunk(1, b"abc"))

    assert not tape.add(Chunk(1, b"de"))

    assert [bytes(chunk.data) for chunk in tape.chunks] == [b"abc"]
    assert tape.add(Chunk(1, b"d"))


def test_chunks_that_somebody_reads_outlive_the_tape() -> None:
    """An excerpt that is being saved keeps its bytes when the recording ends meanwhile."""
    tape = Tape(_MIB)
    tape.add(Chunk(1, b"kept"))
    held = tuple(tape.chunks)

    tape.clear()

    assert (tape.size, list(tape.chunks), bytes(held[0].data)) == (0, [], b"kept")


def test_the_memory_is_taken_as_it_fills_and_goes_back_at_the_end() -> None:
    """Resident memory follows what was added, not the limit, and falls when the tape is cleared."""
    tape = Tape(256 * _MIB)
    tape.add(Chunk(1, bytes([1])))
    before = _resident()
    data = bytes([7]) * _MIB
    for _ in range(64):
        tape.add(Chunk(1, data))
    full = _resident()

    tape.clear()
    gc.collect()

    assert 60 * _MIB < full - before < 80 * _MIB
    assert _resident() < full - 60 * _MIB


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
