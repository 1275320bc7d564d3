"""Folded stacks: how often each stack was seen, what each function had of it, and paths that mean the same everywhere.

A line of the format, which flamegraph.pl, speedscope and py-spy share, is `outermost;...;innermost COUNT`; a frame here
is `function (path:line)`. Source: https://github.com/brendangregg/FlameGraph, stackcollapse.pl.
"""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from localcluster.components import REPOSITORY

#: The frames of a stack, the outermost first, and how often it was seen.
Stacks: TypeAlias = Mapping[tuple[str, ...], int]

_LINE = re.compile(r"(?P<stack>.+) (?P<count>\d+)")
_FRAME = re.compile(r"(?P<function>.*) \((?P<path>.*?)(?P<line>:\d+)?\)")
#: Parts of a path that is in none of the known folders which are kept.
_KEPT_PARTS = 2


class FoldedError(Exception):
    """Report folded stacks that cannot be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a function had of all samples, in percent: with what it called, and alone."""

    function: str
    inclusive: float
    own: float


def parse(text: str, folders: Sequence[Path]) -> dict[tuple[str, ...], int]:
    """Return the stacks of a folded text, with the paths shortened.

    Raises FoldedError that names a wrong line, or says that there is none.
    """
    stacks: Counter[tuple[str, ...]] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if not (match := _LINE.fullmatch(line)):
            raise FoldedError(f"line {number} is no folded stack, which ends in a blank and a count: {line[:200]!r}")
        stacks[tuple(shorten(frame, folders) for frame in match["stack"].split(";"))] += int(match["count"])
    if not stacks:
        raise FoldedError("no stack was sampled: the process did nothing meanwhile, or ended at once")
    return dict(stacks)


def fold(stacks: Stacks) -> str:
    """Return the stacks as folded text, in alphabetical order."""
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))


def shorten(frame: str, folders: Sequence[Path]) -> str:
    """Return the frame with its path as seen from the first of `folders` that holds it; other paths keep their end."""
    match = _FRAME.fullmatch(frame)
    if match is None or not (path := Path(match["path"])).is_absolute():
        return frame
    for folder in folders:
        if path.is_relative_to(folder):
            short = path.relative_to(folder)
            break
    else:
        short = Path(*path.parts[1:][-_KEPT_PARTS:])
    return f"{match['function']} ({short.as_posix()}{match['line'] or ''})"


def module_folders() -> tuple[Path, ...]:
    """Return the folders that modules are imported from: installed packages, the standard library, this repository.

    Each before those that hold it, since a virtual environment may lie in the repository.
    """
    paths = sysconfig.get_paths()
    folders = {Path(paths[name]).absolute() for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    folders |= {folder.resolve() for folder in folders} | {REPOSITORY, REPOSITORY.resolve()}
    return tuple(sorted(folders, key=lambda folder: (-len(folder.parts), folder)))


def shares(stacks: Stacks) -> list[Share]:
    """Return what each function had, the most first; one that is in a stack twice counts once for it."""
    inclusive: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for stack, count in stacks.items():
        inclusive.update(dict.fromkeys(stack, count))
        own[stack[-1]] += count
    whole = sum(stacks.values())
    found = (Share(name, 100 * count / whole, 100 * own[name] / whole) for name, count in inclusive.items())
    return sorted(found, key=lambda share: (-share.inclusive, -share.own, share.function))


def telling(stacks: Stacks, limit: float) -> list[Share]:
    """Return the shares of at most `limit` percent: what starts Muster is in nearly every stack and tells nothing."""
    return [share for share in shares(stacks) if share.inclusive <= limit]


def without_common_callers(stacks: Stacks) -> Stacks:
    """Return the stacks without the outermost frames that all of them share, but for the last of these."""
    # What the first and the last in alphabetical order share, those between them share too.
    pairs = zip(min(stacks), max(stacks), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return {stack[max(common - 1, 0) :]: count for stack, count in stacks.items()}
