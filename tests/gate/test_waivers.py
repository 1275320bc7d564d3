"""A lint or type rule is waived with a reason or not at all.

The shapes are `# noqa: S311 - jitter, not a secret`, `# type: ignore[arg-type]  # the stub lacks the keyword` and
`# pragma: no cover - the kernel ends the process here`.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

NOQA = re.compile(r"# noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)* - \S.*")
TYPE_IGNORE = re.compile(r"# type: ignore\[[a-z-]+(?:, ?[a-z-]+)*\] +# \S.*")
NO_COVER = re.compile(r"# pragma: no (?:cover|branch) - \S.*")

WAIVERS = {
    re.compile(r"#\s*(?:ruff|flake8)?:?\s*noqa", re.IGNORECASE): NOQA,
    re.compile(r"#\s*type:\s*ignore"): TYPE_IGNORE,
    re.compile(r"#\s*pragma:"): NO_COVER,
}


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of every comment in a Python source that may waive something."""
    if not any(mark.search(source) for mark in WAIVERS):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def is_reasoned(comment: str) -> bool:
    """Tell whether a comment waives nothing, or waives by code and with a reason."""
    return all(shape.fullmatch(comment) for mark, shape in WAIVERS.items() if mark.match(comment))


def test_every_waiver_in_the_code_has_a_code_and_a_reason(repository: Path, python_files: tuple[Path, ...]) -> None:
    """A noqa, a type-ignore and a coverage pragma name what they waive and say why."""
    bare = [
        f"{file.relative_to(repository)}:{line}: {comment}"
        for file in python_files
        for line, comment in comments(file.read_text())
        if not is_reasoned(comment)
    ]
    assert bare == []


def test_every_ignored_rule_has_a_reason(repository: Path) -> None:
    """Each rule in an ignore list of ruff's configuration stands on its own line with a comment."""
    configuration = (repository / "pyproject.toml").read_text()
    lists = re.findall(r'^(?:ignore|"[^"]+") = \[\n(.*?)^\]', configuration, re.MULTILINE | re.DOTALL)
    entries = [line for body in lists for line in body.splitlines()]
    bare = [line for line in entries if not re.fullmatch(r'    "[A-Z]+\d*", +# \S.*', line)]
    assert entries
    assert bare == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: S311",
        "# NOQA: S311 jitter",
        "# ruff: noqa",
        "# type: ignore",
        "# type: ignore[arg-type]",
        "# pragma: no cover",
    ],
)
def test_a_waiver_without_code_or_reason_is_refused(comment: str) -> None:
    """A waiver that misses its code or its reason is not a reasoned one."""
    assert not is_reasoned(comment)


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: S311 - jitter, not a secret",
        "# noqa: S311, PLR2004 - jitter, not a secret",
        "# type: ignore[arg-type, misc]  # the stub lacks the keyword",
        "# pragma: no cover - the kernel ends the process here",
        "# a comment about types: ignore lists are below",
    ],
)
def test_a_waiver_with_code_and_reason_is_accepted(comment: str) -> None:
    """A waiver with its code and its reason passes, and so does a comment that waives nothing."""
    assert is_reasoned(comment)
