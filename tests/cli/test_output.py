"""`-o`: formats, kubectl's templates, and columns of one's own."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from extender.cli.asking import ServerError
from extender.cli.output import DOCUMENT, Output, column_cells, print_csv

DOCUMENT_OF_TWO: dict[str, Any] = {
    "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "gpus": 8, "on": True, "none": None},
        {"metadata": {"name": "b"}, "gpus": 2.5},
    ]
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        (".items[*].metadata.name", "a b"),
        ("{$.items[0].gpus} of {@.items[1].gpus}", "8 of 2.5"),
        (r'{range .items[*]}{.metadata.name}{"\t"}{.gpus}{"\n"}{end}', "a\t8\nb\t2.5\n"),
        ("{range .items[*]}{range .metadata}{.name}{end};{end}", "a;b;"),
        ("{.items[?(@.gpus>4)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name=='b')].gpus}", "2.5"),
        (r"{.items[*].metadata.labels.app\.kubernetes\.io/name}", "x"),
        ("{.items[0].metadata['name']}", "a"),
        ("{.items[-1:].metadata.name}", "b"),
        ("{..name}", "a b"),
        ("{.items[0].metadata.labels}", '{"app.kubernetes.io/name":"x"}'),
        ("{.items[0].on}{.items[0].none}{.items[0].nothing}{'|'}", "true|"),
    ],
)
def test_templates_are_those_of_kubectl(template: str, text: str) -> None:
    """Texts, paths, ranges, filters; what is missing is nothing."""
    found = Output.read(f"jsonpath={template}").template
    assert found is not None
    assert found(DOCUMENT_OF_TWO) == text


def test_columns_are_named_by_whoever_asks() -> None:
    """Nothing is `<none>`, several values are joined; a comma in brackets is part of a path."""
    output = Output.read("custom-columns=NAME:.metadata.name,ON:.on,BOTH:.metadata['name','labels']")
    assert [heading for heading, _ in output.columns] == ["NAME", "ON", "BOTH"]
    first, second = (list(column_cells(output.columns, item)) for item in DOCUMENT_OF_TWO["items"])
    assert first[:2] == ["a", "true"]
    assert second == ["b", "<none>", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jsno", "-o jsno: there is no such format; did you mean json?"),
        ("xyz", "-o xyz: there is no such format; there are csv, custom-columns"),
        ("jsonpath", "write -o jsonpath='{.items[*].metadata.name}'"),
        ("json=1", "-o json=1: write -o json"),
        ("jsonpath={.a", "jsonpath: '{' at 0 has no partner"),
        ("jsonpath={.a[}", "'.a[' is no path such as .metadata.name"),
        ("jsonpath={end}", "{end} without {range}"),
        ("jsonpath={range .a}", "{range} without {end}"),
        ("custom-columns=NAME", "'NAME' is not HEADING:PATH, such as NAME:.metadata.name"),
    ],
)
def test_what_is_no_format_is_refused(text: str, message: str) -> None:
    """With what was probably meant."""
    with pytest.raises(ServerError) as refused:
        Output.read(text)
    assert message in str(refused.value)


def test_what_is_no_list_has_fewer_formats() -> None:
    """No names, no CSV."""
    with pytest.raises(ServerError, match="-o csv: there is no such format"):
        Output.read("csv", DOCUMENT)


def test_an_equals_sign_after_the_short_option_is_no_part_of_the_format() -> None:
    """Many write `-o=json`."""
    assert Output.read("=wide").wide


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_cell_of_csv_is_no_formula(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a spreadsheet would calculate is a text there; numbers, and all other texts, stay as they are."""
    print_csv([{"said": text, "number": -1.5, "name": "a-b", "several": ["=1"]}])
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))
    assert row == {"said": f"'{text}", "number": "-1.5", "name": "a-b", "several": '["=1"]'}
