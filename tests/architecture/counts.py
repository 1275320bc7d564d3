"""Figures of the code's shape, read from its sources: `python -m tests.architecture.counts` prints them."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.limits import COUNTS, SMALL_CONCEPTS

REPOSITORY = Path(__file__).parents[2]
#: The import packages that are shipped; the first is the service.
PACKAGES = ("extender", "muster_lab")
#: A module with fewer lines is no room of its own, unless it is a concept that `SMALL_CONCEPTS` argues for.
SMALL = 60
#: Words and phrases that technical English has plainer ones for; put together so that this file holds none of them.
PHRASES = (
    *("who" + "ever", "whom" + "ever", "no" + "body", "some" + "body", "sh" + "all", "hear" + "say", "for" + " ever"),
    *("turned" + " away", "turns" + " away", "is" + " judged", "are" + " judged", "judged" + " anew", "a" + "new"),
)
DIALECT = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)

#: From a harness to a part of a part of its state: through its `admission` to the `model` and the `gangs` of that.
REACHING = re.compile(r"\.(?:admission|decider|engine)\.[a-z_]+\.[a-z_]+")


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: its dotted name, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Return how many lines it has."""
        return len(self.text.splitlines())

    @property
    def is_entry(self) -> bool:
        """Tell whether Python prescribes the file: a package's face, or what `python -m` runs."""
        return self.path.name in {"__init__.py", "__main__.py"}

    def classes(self) -> Iterator[str]:
        """Yield the name of every class, nested ones included."""
        return (node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    def imports(self, known: set[str]) -> set[str]:
        """Return which of the `known` modules it imports, wherever in the file it does."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        return (found & known) - {self.name}


@cache
def modules(root: Path = REPOSITORY) -> list[Module]:
    """Read every module of the shipped packages."""
    found = []
    for path in (path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        found.append(Module(name, path.relative_to(root), text, ast.parse(text)))
    return found


def repeated_classes(read: Collection[Module]) -> dict[str, list[str]]:
    """Return the modules of each class name that several have."""
    homes: dict[str, list[str]] = {}
    for module in read:
        for name in set(module.classes()):
            homes.setdefault(name, []).append(module.name)
    return {name: found for name, found in sorted(homes.items()) if len(found) > 1}


def small_modules(read: Collection[Module]) -> list[str]:
    """Return the modules that are too small to be a room, and no concept of their own."""
    return [
        module.name
        for module in read
        if module.lines < SMALL and not module.is_entry and module.name not in SMALL_CONCEPTS
    ]


def reaching_through(root: Path = REPOSITORY) -> Counter[str]:
    """Count the places in tests that go through the state of a harness to a part of one of its parts, by file.

    A test that asks the harness (`world.tell`, `job.reserved`) stays as it is when a class moves.
    """
    found = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in (root / "tests").rglob("*.py")}
    return Counter({path: number for path, text in found.items() if (number := len(REACHING.findall(text)))})


def dialect(root: Path = REPOSITORY) -> Counter[str]:
    """Count the phrases of a dialect in the shipped code and in what people read, by file."""
    files = [root / "README.md", *(root / "docs").glob("*.md")]
    files += [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    found = {path.relative_to(root).as_posix(): len(DIALECT.findall(path.read_text("utf-8"))) for path in files}
    return Counter({path: number for path, number in found.items() if number})


def figures(root: Path = REPOSITORY) -> Mapping[str, float]:
    """Return each figure by its name in `limits`."""
    read = modules(root)
    known = {module.name for module in read}
    return {
        "lines in extender": sum(module.lines for module in read if module.path.parts[0] == PACKAGES[0]),
        "own imports of a module, on average": round(statistics.mean(len(one.imports(known)) for one in read), 2),
        "modules under 60 lines": len(small_modules(read)),
        "class names in several modules": len(repeated_classes(read)),
        "words of dialect": dialect(root).total(),
        "places in tests that reach through": reaching_through(root).total(),
    }


if __name__ == "__main__":
    for figure, value in figures().items():
        sys.stdout.write(f"{figure}: {value:g} (limit {COUNTS[figure].now:g}, goal {COUNTS[figure].goal:g})\n")
    if "--list" in sys.argv:
        everything = modules()
        sys.stdout.write(f"small: {small_modules(everything)}\nrepeated: {repeated_classes(everything)}\n")
        sys.stdout.write(f"dialect: {dialect().most_common(30)}\n")
        sys.stdout.write(f"reaching through: {reaching_through().most_common(30)}\n")
