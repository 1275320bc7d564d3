"""The memory of a recording: chunks one after another, in pages that go back to the system together."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import NamedTuple


class Chunk(NamedTuple):
    """So many inputs, written and compressed."""

    inputs: int
    data: bytes | memoryview


class Tape:
    """Keep chunks in their order in at most `limit` bytes.

    They are in a mapping of their own, whose pages are taken when they are first written. Among other objects they
    would cost twice their size: each is allocated beside what it was made of, which leaves holes that nothing fills.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pages: mmap.mmap | None = None
        self._chunks: list[Chunk] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Return the bytes of all chunks."""
        return self._size

    @property
    def chunks(self) -> Sequence[Chunk]:
        """Return the chunks in order; they stay readable after `clear`."""
        return self._chunks

    def add(self, chunk: Chunk) -> bool:
        """Copy a chunk behind the others; return whether it fits."""
        end = self._size + len(chunk.data)
        if end > self._limit:
            return False
        if self._pages is None:
            self._pages = mmap.mmap(-1, self._limit, mmap.MAP_PRIVATE)
        data = memoryview(self._pages)[self._size : end]
        data[:] = chunk.data
        self._chunks.append(Chunk(chunk.inputs, data.toreadonly()))
        self._size = end
        return True

    def clear(self) -> None:
        """Drop all chunks; the memory goes back when no reader holds them any more."""
        self._chunks, self._pages, self._size = [], None, 0
