"""Everything that keeps something is listed with what bounds it: `docs/memory.md`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.counts import PACKAGES, REPOSITORY, Module, modules

#: What keeps entries, by the name that it is made with.
CONTAINERS = frozenset(
    {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"}
    | {"LRUCache", "TTLCache", "SimpleQueue", "asyncio.Queue", "asyncio.PriorityQueue", "asyncio.LifoQueue"}
    | {"Shared", "SizedDict", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
)
#: Of these it counts wherever they are made, not only what an object keeps from its beginning on.
CACHES = CONTAINERS - {"Counter", "defaultdict", "dict", "list", "set"}
DECORATORS = frozenset({"cache", "lru_cache", "sized_cache", "cached"})

ROW = re.compile(r"^\| (`[^|]+`) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def called(node: ast.AST | None) -> str:
    """Return the name of what is called, or used as a decorator, without its module and type parameters."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return f"asyncio.{node.attr}" if called(node.value) == "asyncio" else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_empty_container(node: ast.AST | None) -> bool:
    """Tell whether an expression makes a container: an empty one, or one of those that fill later."""
    if isinstance(node, ast.Dict | ast.List | ast.Set):
        return not (node.keys if isinstance(node, ast.Dict) else node.elts)
    return isinstance(node, ast.Call) and called(node) in CONTAINERS


def keepers(module: Module) -> Iterator[str]:
    """Yield what keeps something: classes whose objects begin with containers, and what has caches.

    Class names stand alone, as they are unique; functions and variables follow their file's or their class's.
    """
    yield from _within(module.tree, module.path.stem)


def _within(scope: ast.AST, name: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(scope):
        match node:
            case ast.ClassDef():
                if any(is_empty_container(value) for value in _begun_with(node)):
                    yield node.name
                yield from _within(node, node.name)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                calls = {called(each) for line in node.body for each in ast.walk(line) if isinstance(each, ast.Call)}
                calls &= DECORATORS if node.name == "__init__" else DECORATORS | CACHES
                if calls or any(called(decorator) in DECORATORS for decorator in node.decorator_list):
                    yield f"{name}.{node.name}"
            case ast.Assign() | ast.AnnAssign() if called(node.value) in CACHES | DECORATORS:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                yield f"{name}.{called(target)}" if isinstance(scope, ast.Module) else name


def _begun_with(definition: ast.ClassDef) -> Iterator[ast.AST | None]:
    """Yield what `__init__` of a class assigns to its object."""
    for method in definition.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for node in ast.walk(method):
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    if isinstance(target, ast.Attribute) and called(target.value) == "self":
                        yield node.value


def listed() -> list[str]:
    """Return the names in the first column of the page's tables."""
    page = (REPOSITORY / "docs" / "memory.md").read_text(encoding="utf-8")
    return [name for row in ROW.findall(page) for name in re.findall(r"`([^`]+)`", row)]


def test_every_keeper_is_listed() -> None:
    """Each cache, table, queue and buffer stands on the page, which says what bounds it."""
    found = {name for module in modules() if module.path.parts[0] == PACKAGES[0] for name in keepers(module)}
    assert sorted(found - set(listed())) == []


def test_what_is_listed_exists_once() -> None:
    """The page names nothing that is not there, and nothing twice."""
    names = listed()
    assert len(names) == len(set(names))
    classes = {name for module in modules() for name in module.classes()}
    found = {name for module in modules() for name in keepers(module)}
    assert [name for name in names if name not in classes | found] == []


def test_a_keeper_is_found() -> None:
    """Each way of keeping something is noticed."""
    source = """
from functools import cache, lru_cache
_known = Shared[int]()
@lru_cache(maxsize=2)
def read(text): ...
class Table:
    def __init__(self):
        self._rows: dict[str, int] = {}
class Plain:
    def __init__(self):
        self.name = "x"
    def ask(self):
        found = []
        queue: asyncio.Queue[int] = asyncio.Queue(3)
"""
    module = Module("extender.sample", REPOSITORY / "sample.py", source, ast.parse(source))
    assert list(keepers(module)) == ["sample._known", "sample.read", "Table", "Plain.ask"]
