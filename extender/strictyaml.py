"""YAML that people write: read strictly, and refused in one line with its place."""

from __future__ import annotations

import yaml

#: What PyYAML raises for text that it cannot read: a ValueError for a date such as 2026-13-45, the last two for values
#: that do not fit the tag before them.
UNREADABLE = (yaml.YAMLError, ValueError, RecursionError, KeyError, AttributeError)
#: How many values a document may have more than are written in it. Each alias repeats what it names, and a few lines of
#: aliases to aliases give billions. The longest scenarios that people write by hand repeat some thousands.
_MOST_REPEATED = 100_000
#: The tag of `<<` where it is not quoted. Source: https://yaml.org/type/merge.html.
_MERGE = "tag:yaml.org,2002:merge"


class DocumentError(ValueError):
    """Text that is not YAML, or that gives a key twice; the message names line and column."""


class _StrictLoader(yaml.SafeLoader):
    """Load plain values; refuse a key given twice, of which YAML would keep the last, and aliases that grow too far."""

    def construct_document(self, node: yaml.Node) -> object:
        _count(node, {})
        return super().construct_document(node)


def load_documents(text: str) -> list[object]:
    """Return the documents of a YAML stream, empty ones as None; raise DocumentError."""
    try:
        return list(yaml.load_all(text, _StrictLoader))
    except UNREADABLE as error:
        raise DocumentError(describe(error)) from error


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse a key given twice, before the loader adds those of merge keys (`<<`): a mapping's own go before them."""
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if (key.tag, key.value) in seen:
                problem = f"key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value))


def _count(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Check the keys of a node and count its values, repeated ones each time; `known` holds what was counted before."""
    if node in known:
        if not known[node]:
            raise yaml.constructor.ConstructorError(None, None, "contains itself", node.start_mark)
        return known[node]
    known[node] = 0
    parts = node.value if isinstance(node, yaml.CollectionNode) else ()
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
    count = 1
    for part in parts:
        count += sum(_count(one, known) for one in (part if isinstance(part, tuple) else (part,)))
    if count - len(known) > _MOST_REPEATED:
        problem = f"aliases repeat more than {_MOST_REPEATED:,} values"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    known[node] = count
    return count


def describe(error: Exception) -> str:
    """Say in one line what PyYAML found wrong, with line and column where it knows them."""
    if isinstance(error, KeyError | AttributeError):
        return "not YAML: a value does not fit its tag"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"not YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark or error.context_mark
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"{place}{error.problem or error.context or 'not YAML'}"
