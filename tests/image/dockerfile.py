"""The Dockerfile as data: its stages and their instructions."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its keyword, and the rest of its line, continued lines joined."""

    keyword: str
    text: str

    @property
    def words(self) -> list[str]:
        """Split the text as a shell would."""
        return shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Stage:
    """A FROM with what follows it."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, keyword: str) -> list[Instruction]:
        """Return the instructions of one keyword, in order."""
        return [one for one in self.instructions if one.keyword == keyword]

    @property
    def environment(self) -> dict[str, str]:
        """Return what ENV sets."""
        pairs = (word.split("=", 1) for one in self.all("ENV") for word in one.words)
        return dict(pairs)

    def commands(self) -> list[str]:
        """Return what RUN runs: each part of an `a && b` by itself."""
        return [part.strip() for one in self.all("RUN") for part in one.text.split("&&")]


def arguments(path: Path = ROOT / "Dockerfile") -> dict[str, str]:
    """Return the defaults of the build arguments that stand before the first FROM."""
    head = path.read_text(encoding="utf-8").partition("\nFROM ")[0]
    pairs = (line.removeprefix("ARG ").partition("=") for line in head.splitlines() if line.startswith("ARG "))
    return {name: default for name, _, default in pairs}


def read(path: Path = ROOT / "Dockerfile") -> list[Stage]:
    """Return the stages of a Dockerfile; what stands before the first FROM belongs to none."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        keyword, _, rest = line.strip().partition(" ")
        text = " ".join(rest.split())
        if keyword == "FROM":
            base, _, name = text.partition(" AS ")
            stages.append(Stage(base, name))
        elif stages:
            stages[-1].instructions.append(Instruction(keyword, text))
    return stages
