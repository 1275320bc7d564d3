"""docs/reference against the program that it is made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

import pytest
import typer
from pydantic import BaseModel, Field

from docsite import api, cli, events, labels, metrics, reasons, settings
from docsite.markdown import anchor, cell, code, table
from docsite.reference import FOLDER, PAGES
from extender.control.metrics import Metrics
from extender.ledger.effects import EvictionReason
from extender.objects.keys import KNOWN_ANNOTATIONS, KNOWN_LABELS, read_options
from extender.objects.reason import Reason
from extender.settings import Settings
from tests.docs.conftest import ROOT, Page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_makes_it(name: str) -> None:
    """The pages that are committed are those that the program of today makes."""
    committed = (FOLDER / name).read_text(encoding="utf-8") if (FOLDER / name).exists() else ""
    assert committed == PAGES[name](), f"docs/reference/{name} is not what the code says: run make reference"


def test_nothing_else_is_in_the_folder() -> None:
    """A page of something that is gone does not stay behind."""
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_reason_is_on_both_pages(page: Callable[[str], Page]) -> None:
    """Each reason has its section in the page about what to do, and its row, linked with it, in the reference."""
    made, written = page("docs/reference/reasons.md"), page("docs/reasons.md")
    for reason in Reason:
        assert f"[`{reason}`](../reasons.md#{anchor(reason)})" in made.text
        assert reason in written.sections


def test_a_reason_is_shown_with_names_for_its_numbers() -> None:
    """What is filled into a message stands in braces."""
    assert reasons.sentence(Reason.MEMBERS_MISSING) == "{exist} of {minMember} members exist"
    assert reasons.sentence(Reason.WRITES_BACKLOGGED) == "nominations do not get through to the API server"


def test_every_metric_is_on_the_page() -> None:
    """Each registered metric has a row under the name by which it is queried, with type and labels."""
    told = {each.name: each for each in metrics.instruments()}
    registered = {metric.name for metric in Metrics().registry.collect()}
    assert {name.removesuffix("_total") for name in told} == registered
    assert told["muster_evictions_total"].labels == ("reason",)
    assert told["muster_evictions_total"].kind == "counter"
    assert told["muster_pass_seconds"].buckets[0] == "0.0005"


def test_every_setting_has_a_section_with_its_text(page: Callable[[str], Page]) -> None:
    """The page says of each setting what its docstring in the code says, and its default."""
    sections = page("docs/reference/settings.md").sections
    assert list(sections) == list(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        assert " ".join((field.description or "").split()) in sections[name]
        assert "default" in sections[name]


def test_bounds_are_told_in_words() -> None:
    """Limits of a number, a pattern and a length stand as they are checked."""

    class Example(BaseModel):
        some_seconds: float = Field(default=1.0, gt=0, le=2.5)
        some_bytes: int = Field(default=1024, ge=1024)
        some_name: str = Field(default="a", pattern="^a|b$", max_length=7)

    told = {name: list(settings.bounds(field)) for name, field in Example.model_fields.items()}
    assert told["some_seconds"] == ["above 0", "at most 2.5"]
    assert told["some_bytes"] == ["at least 1,024"]
    assert sorted(told["some_name"]) == ["at most 7 characters", "matches `^a\\|b$`"]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("veto_seconds", "seconds"),
        ("report_rate_per_second", "per second"),
        ("bind_limit", "count"),
        ("body_limit_bytes", "bytes"),
        ("backfill", ""),
    ],
)
def test_a_unit_comes_from_the_name(name: str, unit: str) -> None:
    """The end of a setting's name is its unit."""
    assert settings.unit(name) == unit


def test_every_command_has_a_section_with_all_its_options(page: Callable[[str], Page]) -> None:
    """No command and no option is left out, nor an argument; each command says with which exit codes it ends."""
    sections = page("docs/reference/cli.md").sections
    for words, command in cli.commands():
        section = sections[f"muster {words}"]
        shared = sections.get("Connection options", "")
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert all(f"`{name}`" in section + shared for name in parameter.opts), words


def test_exit_codes_are_read_from_the_help() -> None:
    """The last sentence of a command's help becomes a table."""
    program = typer.Typer()

    @program.command()
    def measure(name: Annotated[str, typer.Argument(help="Whose.")], *, loud: bool = False) -> None:
        """Measure something.

        It takes a while.
        Exit codes: 0 measured, 1 nothing to measure (a, b), 2 refused.
        """

    section = cli.section("measure", typer.main.get_command(program))
    assert "```text\nmuster measure [OPTIONS] NAME\n```" in section
    assert "| 0 | measured |\n| 1 | nothing to measure (a, b) |\n| 2 | refused |" in section
    assert "| `NAME` | | Whose. |" in section
    assert "| `--loud`, `--no-loud` | `--no-loud` by default | |" in section


def test_every_path_is_on_the_page(page: Callable[[str], Page]) -> None:
    """Each path that is served has a section for each of its methods."""
    document = api.openapi_document()
    served = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert set(page("docs/reference/api.md").sections) == served


def test_every_answer_is_outlined(page: Callable[[str], Page]) -> None:
    """No answer in JSON is called an object and no more: whoever writes a program finds its fields."""
    sections = page("docs/reference/api.md").sections
    shown = {
        title: body.rpartition("```text")[2] for title, body in sections.items() if "| 200 | `application/json`" in body
    }
    vague = [
        title for title, body in shown.items() if re.search(r"\b(?:object|any)\b", body) and "/v1/" not in title[:9]
    ]
    assert shown
    assert vague == []


@pytest.mark.parametrize(
    ("schema", "outline"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({"type": ["integer", "null"]}, "integer or null"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number or null"),
        ({"enum": ["a", "b"]}, '"a" or "b"'),
        ({"type": "string", "enum": list("abcdefghi")}, "text"),
        ({"const": 1}, "1"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Node"}}, '[{\n  "name": text\n}, ...]'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{text: integer, ...}"),
        ({}, "any"),
    ],
)
def test_a_schema_becomes_an_outline(schema: dict[str, object], outline: str) -> None:
    """The answer of a path is shown as the outline of a value."""
    schemas = {"Node": {"type": "object", "properties": {"name": {"type": "string"}}}}
    assert api.shape(schema, schemas) == outline


def test_a_schema_that_contains_itself_ends() -> None:
    """What is inside itself is the same again."""
    schemas = {"Tree": {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Tree"}}}}
    assert api.shape({"$ref": "#/components/schemas/Tree"}, schemas) == '{\n  "child": {the same}\n}'


def test_every_event_is_explained() -> None:
    """Each word that the source gives an Event as its reason is explained, or is a reason why a gang waits."""
    unexplained = {*events.written(), *EvictionReason} - set(Reason) - set(events.SAID)
    assert unexplained == set(), "add them to docsite/events.py"


def test_no_event_is_explained_that_nobody_writes() -> None:
    """Each explained word stands in the source."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "extender").rglob("*.py"))
    assert [reason for reason in events.SAID if f'"{reason}"' not in source] == []


def test_every_key_is_explained() -> None:
    """Each label, annotation and gate under muster.dev/ has its row, and no other has."""
    assert labels.known_keys() == set(labels.MEANINGS), "change docsite/labels.py"


def test_examples_of_keys_can_be_used() -> None:
    """Each example of what people ask for is accepted where the row says that it stands."""
    for key, said in labels.MEANINGS.items():
        if "annotation" in said.form and key in KNOWN_ANNOTATIONS:
            assert read_options({}, {key: said.value}).problems == ()
        if "label" in said.form.split():
            assert key in KNOWN_LABELS
            assert read_options({key: said.value}, {}).problems == ()


def test_cells_hold_bars_and_line_ends() -> None:
    """What would end a cell or a row is escaped."""
    assert cell("a |\n  b") == "a \\| b"
    assert (code("a|b"), code("")) == ("`a\\|b`", "")
    assert table(("a", ""), [("1", "")]) == "| a | |\n| --- | --- |\n| 1 | |"
