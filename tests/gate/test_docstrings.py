"""Tests and packages say what they are for."""

import ast
from collections.abc import Iterator
from pathlib import Path


def parsed(files: tuple[Path, ...], root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield each file's path relative to the root, and its syntax tree."""
    for file in files:
        yield str(file.relative_to(root)), ast.parse(file.read_text())


def test_every_test_states_its_behaviour(repository: Path, python_files: tuple[Path, ...]) -> None:
    """Every test function has a docstring."""
    silent = [
        f"{name}: {node.name}"
        for name, tree in parsed(python_files, repository)
        if name.startswith("tests/")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_package_says_what_lives_in_it(repository: Path, python_files: tuple[Path, ...]) -> None:
    """Every `__init__.py` has a docstring."""
    packages = tuple(file for file in python_files if file.name == "__init__.py")
    silent = [name for name, tree in parsed(packages, repository) if not ast.get_docstring(tree)]
    assert packages
    assert silent == []


def test_every_folder_with_code_is_a_package(repository: Path, python_files: tuple[Path, ...]) -> None:
    """A folder that holds Python modules has an `__init__.py`, so every module has one importable name."""
    folders = {file.parent for file in python_files if file.parent != repository}
    assert [str(folder.relative_to(repository)) for folder in folders if not (folder / "__init__.py").exists()] == []
