"""What may not be in any file of the project."""

import re
from pathlib import Path

import pytest

# The patterns are put together here so that this file holds none of them.
REGISTRY_HOSTS = [
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("registry", "npmjs", "org"),
        ("static", "crates", "io"),
        ("repo", "maven", "apache", "org"),
        ("deb", "debian", "org"),
    )
]
MACHINE_PATHS = [
    "/".join(("", *parts))
    for parts in (("work", "main"), ("work", "shared"), ("work", ".library"), ("opt", "wheels"), ("root", ""))
]
NAMES_A_MACHINE = re.compile("|".join(map(re.escape, [*REGISTRY_HOSTS, *MACHINE_PATHS])))


def read(file: Path) -> str:
    """Return the file's text; bytes that are not UTF-8 become replacement characters."""
    return file.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_a_registry_host_or_a_machine_path(repository: Path, project_files: tuple[Path, ...]) -> None:
    """The project builds from any package index and in any folder, so no file names one."""
    found = [
        f"{file.relative_to(repository)}:{number}: {match[0]}"
        for file in project_files
        for number, line in enumerate(read(file).splitlines(), start=1)
        if (match := NAMES_A_MACHINE.search(line))
    ]
    assert found == []


@pytest.mark.parametrize("name", [*REGISTRY_HOSTS, *MACHINE_PATHS])
def test_the_pattern_finds_each_name_in_a_line(name: str) -> None:
    """A name is found in the middle of a line as it would stand in an option or an address."""
    assert NAMES_A_MACHINE.search(f"--option=https://{name}/simple  # why")


def test_shell_scripts_and_only_they_are_executable(repository: Path, project_files: tuple[Path, ...]) -> None:
    """A file is executable exactly if it starts with an interpreter line."""
    wrong = [
        str(file.relative_to(repository))
        for file in project_files
        if bool(file.stat().st_mode & 0o111) != file.read_bytes().startswith(b"#!")
    ]
    assert wrong == []
