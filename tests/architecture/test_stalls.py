"""What can hold the event loop is listed with its bound and its test: `docs/stalls.md`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.counts import PACKAGES, REPOSITORY, Module, modules

#: What there is one of for each pod, gang, Queue, reservation or object of the cluster, by the end of its expression.
WHOLE = re.compile(
    r"(^|[._])(model\.(gangs|pods)|sharing\.queues|gangs\.changed|found\.changed|table\.(touched|claimed)|table\.nodes\(\))$"
    r"|\.(slots|ledger|_by_gang|_by_pod|_unmet)$|^self\.queues$"
)
VIEWS = frozenset({"values", "items", "keys", "copy"})
PASSED_THROUGH = frozenset(
    {"list", "tuple", "set", "frozenset", "sorted", "enumerate", "dict", "map", "filter", "iter"}
)
#: The command line is a process of its own.
ELSEWHERE = "cli"

ROW = re.compile(r"^\| (`[^|]+`) \|.*\| `([a-z_/]+\.py)(?:::(\w+))?` \|$", re.MULTILINE)


def walked(iterable: ast.expr) -> str:
    """Return what is walked over, without what makes a list or a view of it."""
    while isinstance(iterable, ast.Call):
        function = iterable.func
        if isinstance(function, ast.Attribute) and function.attr in VIEWS:
            iterable = function.value
        elif isinstance(function, ast.Name) and function.id in PASSED_THROUGH and iterable.args:
            iterable = iterable.args[-1]
        else:
            break
    return ast.unparse(iterable)


def walkers(module: Module) -> Iterator[str]:
    """Yield the functions that walk over all there is of something, after their class or their file."""
    for scope in ast.walk(module.tree):
        if not isinstance(scope, ast.Module | ast.ClassDef):
            continue
        owner = module.path.stem if isinstance(scope, ast.Module) else scope.name
        for function in scope.body:
            name = getattr(function, "name", "") if not isinstance(function, ast.ClassDef) else ""
            if name and any(WHOLE.search(walked(each)) for each in _iterables(function)):
                yield f"{owner}.{name}"


def _iterables(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PASSED_THROUGH:
            yield from node.args[-1:]


def rows() -> list[tuple[list[str], str, str]]:
    """Return the rows of the page: what is listed, the file of the test, and its name, which may be left out."""
    page = (REPOSITORY / "docs" / "stalls.md").read_text(encoding="utf-8")
    return [(re.findall(r"`([^`]+)`", names), file, test) for names, file, test in ROW.findall(page)]


def test_every_walk_over_the_cluster_is_listed() -> None:
    """Each loop over all pods, gangs, Queues or reservations stands on the page, which says what bounds it."""
    own = [each for each in modules() if each.path.parts[0] == PACKAGES[0] and ELSEWHERE not in each.path.parts]
    found = {name for module in own for name in walkers(module)}
    assert sorted(found - {name for names, _, _ in rows() for name in names}) == []


def test_what_is_listed_exists_once() -> None:
    """The page names nothing that is not there, and nothing twice."""
    listed = [name for names, _, _ in rows() for name in names]
    assert len(listed) == len(set(listed))
    known = set()
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef):
                owner = module.path.stem if isinstance(node, ast.Module) else node.name
                known |= {owner, *(f"{owner}.{each.name}" for each in node.body if hasattr(each, "name"))}
    assert sorted(name for name in listed if name not in known) == []


@pytest.mark.parametrize(("names", "file", "test"), rows(), ids=[names[0] for names, _, _ in rows()])
def test_every_row_has_its_test(names: list[str], file: str, test: str) -> None:
    """The test that a row names is there."""
    assert names
    text = (REPOSITORY / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"\bdef {test}\(" if test else r"\bdef test_", text)


def test_a_walk_is_found() -> None:
    """Whatever is made of the collection first."""
    source = """
class Teller:
    def tell(self):
        return [pod.uid for pod in sorted(self._model.pods.values())]
    def ask(self):
        return self._model.pods.get("x")
def slots(reservation):
    for uid, slot in list(reservation.slots.items()): ...
"""
    module = Module("extender.sample", REPOSITORY / "sample.py", source, ast.parse(source))
    assert sorted(walkers(module)) == ["Teller.tell", "sample.slots"]
