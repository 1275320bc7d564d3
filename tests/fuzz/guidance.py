"""Guidance: which requests reached something that none had reached before, and are worth being spoiled further."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Protocol, Self

import coverage

from tests.fuzz.messages import Request, line_of, request_of

#: Requests that are kept; one more takes the place of any other.
_MOST = 4000


class Guide(Protocol):
    """What watches a run."""

    @property
    def reached(self) -> int:
        """Count what has been reached so far; it never falls."""


class Unguided:
    """Watch nothing: no request is worth more than another, and a seed alone decides what is asked."""

    reached = 0


class BranchGuide:
    """Count the branches and lines of Muster's code that run, in all threads; a context manager around runs."""

    def __init__(self, data: Path | None = None) -> None:
        """Add what is reached to the coverage data of earlier runs at `data`, if any."""
        self._coverage = coverage.Coverage(
            data_file=None if data is None else str(data),
            branch=True,
            config_file=False,
            source_pkgs=["extender"],
            messages=False,
        )
        self._kept = data is not None and data.exists()

    def __enter__(self) -> Self:
        """Begin."""
        if self._kept:
            self._coverage.load()
        self._coverage.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and keep what was reached."""
        self._coverage.stop()
        if self._coverage.get_option("run:data_file"):
            self._coverage.save()

    @property
    def reached(self) -> int:
        """Count the arcs between lines that have run."""
        collector = self._coverage._collector  # noqa: SLF001 - reading the data otherwise takes milliseconds
        return 0 if collector is None else sum(map(len, list(collector.data.values())))

    def share(self, pattern: str) -> float:
        """Return how much of the modules at `pattern` was reached, lines and branches (percent); after the end."""
        return self._coverage.report(file=io.StringIO(), include=[pattern], ignore_errors=True)


class Pool:
    """Requests that reached something new."""

    def __init__(self, file: Path | None = None) -> None:
        """Begin with those of an earlier run at `file`, if any."""
        self._file = file
        self._requests = [] if file is None or not file.exists() else [*_read(file)]

    def __len__(self) -> int:
        """Count them."""
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """Return those that there are now."""
        return iter([*self._requests])

    def keep(self, request: Request, random: Random) -> None:
        """Keep a request."""
        if len(self._requests) < _MOST:
            self._requests.append(request)
        else:
            self._requests[random.randrange(_MOST)] = request

    def draw(self, random: Random) -> Request:
        """Return one of those that there are."""
        return random.choice(self._requests)

    def save(self) -> None:
        """Write them to the file, for the next run."""
        if self._file is not None:
            self._file.write_text("".join(f"{line_of(each)}\n" for each in self._requests), encoding="ascii")


def _read(file: Path) -> Iterator[Request]:
    return map(request_of, file.read_text(encoding="ascii").splitlines())
