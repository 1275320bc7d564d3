"""How answers are printed: as the document that Muster sent, or as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """How a list is printed. `json` and `yaml` are what Muster answers, unchanged."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Report(StrEnum):
    """How what is no list of named things is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def print_document(document: Mapping[str, Any], output: Format | Report) -> bool:
    """Print a document as JSON or YAML if that is asked for; return whether it was."""
    if output in {Format.JSON, Report.JSON}:
        import orjson

        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return True
    if output in {Format.YAML, Report.YAML}:
        import yaml

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
        return True
    return False


def console(*, stderr: bool = False) -> Console:
    """Return where people read: with colours only on a terminal, and not with NO_COLOR; lines are never broken."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def note(message: str) -> None:
    """Say something to people that is not part of the result, as that there is none."""
    typer.echo(message, err=True)
