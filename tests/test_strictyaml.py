"""YAML that people write: what is refused, and what only looks like it."""

from __future__ import annotations

import pytest

from extender.strictyaml import DocumentError, load_documents


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("a: &a {k: 1}\nb: {<<: *a, k: 2}", {"a": {"k": 1}, "b": {"k": 2}}),
        ("a: &a {k: 1}\nb: &b {<<: *a, k: 2}\nc: {<<: *b}", {"a": {"k": 1}, "b": {"k": 2}, "c": {"k": 2}}),
        ("a: &a {k: 1}\nb: {<<: *a, k: 2, <<: {j: 3}}", {"a": {"k": 1}, "b": {"j": 3, "k": 2}}),
        ("a: &a {k: 1}\np: &p {<<: *a, k: 2}\n<<: *p", {"a": {"k": 1}, "p": {"k": 2}, "k": 2}),
        ("a: &a {k: 1}\nb: {<<: [*a, {k: 3}]}", {"a": {"k": 1}, "b": {"k": 1}}),
        ("1: number\n'1': text", {1: "number", "1": "text"}),
        ("'<<': quoted", {"<<": "quoted"}),
    ],
)
def test_merge_keys_are_no_keys_given_twice(text: str, document: object) -> None:
    """A mapping's own keys go before those that it merges, however often it is merged itself; types count."""
    assert load_documents(text) == [document]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\na: 2", "line 2, column 1"),
        ("a: &a {k: 1}\nb: {<<: *a, k: 2, k: 3}", "line 2, column 19"),
        ("b: {<<: {k: 1, k: 2}}", "line 1, column 16"),
        ("'<<': 1\n'<<': 2", "line 2, column 1"),
        ("? {k: 1, k: 2}\n: a", "line 1, column 10"),
    ],
)
def test_a_key_given_twice_is_refused_where_it_stands(text: str, place: str) -> None:
    """Beside a merge key, in what is merged, and in a key too."""
    with pytest.raises(DocumentError, match=rf"^{place}: key '.+' is given twice$"):
        load_documents(text)
