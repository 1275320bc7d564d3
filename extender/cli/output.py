"""How results are printed: tables for people; JSON, YAML, names, CSV, and kubectl's templates, for programs.

Paths are JSONPath (RFC 9535, by python-jsonpath); `{range}`, `{end}`, texts and dots before a backslash are kubectl's.
Source: https://kubernetes.io/docs/reference/kubectl/jsonpath.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self, TypeAlias

import msgspec
import typer

from extender.cli.asking import ServerError
from extender.cli.options import did_you_mean
from extender.cli.printing import give, say, steady

Json: TypeAlias = Any


class Format(StrEnum):
    """A format by the word in front of what may follow it, as in `jsonpath=...`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    JSONPATH = "jsonpath"
    NAME = "name"
    CUSTOM_COLUMNS = "custom-columns"
    CSV = "csv"


LIST: Final = tuple(Format)
#: Formats of what is no list of things.
DOCUMENT: Final = (Format.TABLE, Format.WIDE, Format.JSON, Format.YAML, Format.JSONPATH)

_TEMPLATES: Final = {
    Format.JSONPATH: "jsonpath='{.items[*].metadata.name}'",
    Format.CUSTOM_COLUMNS: "custom-columns=NAME:.metadata.name,...",
}


def _completed(incomplete: str) -> list[str]:
    """Return the formats that begin so, for shells."""
    words = [f"{each}=" if each in _TEMPLATES else each.value for each in LIST]
    return [word for word in words if word.startswith(incomplete)]


ListFormat = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="table, wide, json, yaml, name, csv, jsonpath=TEMPLATE or custom-columns=HEADING:PATH,...",
        autocompletion=_completed,
    ),
]
DocumentFormat = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="table, wide, json, yaml or jsonpath=TEMPLATE.",
        autocompletion=_completed,
    ),
]


@dataclass(frozen=True, slots=True)
class Output:
    """A format, with what a template prints of a document, or the columns that are asked for."""

    format: Format
    template: Callable[[Json], str] | None = None
    columns: Sequence[tuple[str, str]] = ()

    @classmethod
    def read(cls, text: str, formats: Sequence[Format] = LIST) -> Self:
        """Read what follows `-o`; raise ServerError for what is no such format."""
        word, _, rest = text.removeprefix("=").partition("=")  # -o=json is how many write it
        if word not in formats:
            raise ServerError(f"-o {word}: there is no such format{did_you_mean(word, formats)}")
        kind = Format(word)
        if bool(rest) != (kind in _TEMPLATES):
            example = _TEMPLATES.get(kind, kind)
            raise ServerError(f"-o {text}: write -o {example}")
        if kind is Format.JSONPATH:
            return cls(kind, template_of(rest))
        return cls(kind, columns=_columns(rest) if kind is Format.CUSTOM_COLUMNS else ())

    @property
    def wide(self) -> bool:
        """Tell whether a table is to have all columns."""
        return self.format is Format.WIDE


def print_answer(body: bytes, output: Output) -> bool:
    """Print an answer as Muster sent it, or what a template makes of it, if that is asked for; return whether it was.

    The formats of lists are not printed here: they need rows.
    """
    if output.format not in {Format.JSON, Format.YAML, Format.JSONPATH}:
        return False
    import orjson

    print_document(orjson.loads(body), output)
    return True


def print_document(document: Json, output: Output) -> None:
    """Print a document as JSON, as YAML or by a template."""
    if output.template is not None:
        give(output.template(document), nl=False)
    elif output.format is Format.YAML:
        import yaml

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        say(text if steady(text) == text else yaml.safe_dump(document, sort_keys=False), nl=False)
    else:
        say(json_text(document))


def json_text(document: Json) -> str:
    """Return a document as indented JSON; equal documents give equal texts. What would steer a terminal is escaped."""
    import orjson

    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    return text if steady(text) == text else json.dumps(orjson.loads(text), indent=2)


def json_line(document: Json) -> str:
    """Return a document as JSON in one line, escaped as `json_text` does it."""
    text = msgspec.json.encode(document).decode()
    return text if text.isprintable() else json.dumps(json.loads(text), separators=(",", ":"))


#: How what a spreadsheet calculates begins, also in full width, and behind blanks.
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def print_csv(rows: Sequence[Mapping[str, Any]], *, headers: bool = True) -> None:
    """Print rows as CSV (RFC 4180), the keys of the first as headings; a list or an object in a cell is JSON.

    A text that a spreadsheet would take for a formula gets an apostrophe before it: it may be from any user.
    Source: OWASP, CSV Injection.
    """
    import csv
    import io

    if not rows:
        return
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), restval="", extrasaction="ignore", lineterminator="\n")
    if headers:
        writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    give(table.getvalue(), nl=False)


def _cell(value: Json) -> Json:
    if isinstance(value, dict | list):
        return _compact(value)
    return f"'{value}" if isinstance(value, str) and value.lstrip().startswith(_FORMULA) else value


def values_of(path: str) -> Callable[[Json], list[Json]]:
    """Return what finds the values that a path names, with or without `{}` and `$`; raise ServerError for no path."""
    import jsonpath

    bare = path.strip().removeprefix("{").removesuffix("}").strip()
    text = _rewritten(bare)
    try:
        compiled = jsonpath.compile(text)
    except jsonpath.JSONPathError as error:
        said = str(error).partition("\n")[0]
        raise ServerError(f"{path!r} is no path such as .metadata.name: {said}") from error
    return compiled.findall


def field_of(path: str) -> str:
    """Return the first field that a path goes through, "" for one that begins otherwise."""
    found = re.match(r"[{$.@\s]*([A-Za-z_][\w-]*)", path)
    return found[1] if found else ""


#: What is in braces, with the quoted texts in it, and what is not.
_PARTS = re.compile(r"""\{((?:[^{}"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\}|([^{}]+)|([{}])""")
#: A quoted text by itself.
_QUOTED = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)')\s*""")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
#: A name after a dot, in which kubectl takes a backslash in front of what is part of it; or anything in brackets.
_STEP = re.compile(r"""(\[(?:[^\[\]"']|"[^"]*"|'[^']*'|\[[^\]]*\])*\])|(\.\.?)((?:\\.|[^.\[\]\\\s])*)|(.)""", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*|\*|")


def template_of(text: str) -> Callable[[Json], str]:
    """Return what prints a document by a template of kubectl's; raise ServerError for one that is none."""
    stack: list[tuple[list[_Piece], Callable[[Json], list[Json]] | None]] = [([], None)]
    for found in _PARTS.finditer(text if "{" in text else f"{{{text}}}"):
        inside, outside, stray = found.groups()
        pieces = stack[-1][0]
        if stray:
            raise ServerError(f"jsonpath: {stray!r} at {found.start()} has no partner")
        if outside is not None:
            pieces.append(_said(outside))
            continue
        word = inside.strip()
        if quoted := _QUOTED.fullmatch(word):
            pieces.append(_said(_unescaped(quoted[1] if quoted[1] is not None else quoted[2])))
        elif word == "end":
            if len(stack) == 1:
                raise ServerError("jsonpath: {end} without {range}")
            inner, every = stack.pop()
            stack[-1][0].append(_repeated(inner, every))
        elif word == "range" or word.startswith("range "):
            stack.append(([], values_of(word.removeprefix("range"))))
        else:
            pieces.append(_found(values_of(word)))
    if len(stack) > 1:
        raise ServerError("jsonpath: {range} without {end}")
    whole = stack[0][0]
    return lambda document: "".join(piece(document) for piece in whole)


_Piece: TypeAlias = Callable[[Json], str]


def _said(text: str) -> _Piece:
    return lambda _: text


def _found(values: Callable[[Json], list[Json]]) -> _Piece:
    return lambda document: " ".join(map(_written, values(document)))


def _repeated(pieces: Sequence[_Piece], every: Callable[[Json], list[Json]] | None) -> _Piece:
    def repeat(document: Json) -> str:
        return "".join(piece(each) for each in (every(document) if every else ()) for piece in pieces)

    return repeat


def _rewritten(path: str) -> str:
    """Return a path of kubectl's as RFC 9535 has it: what begins it, and names that are not plain, in quotes."""
    path = path.removeprefix("$").removeprefix("@")
    if path[:1] not in {".", "["}:
        path = f".{path}" if path else path
    return "$" + "".join(_step(found) for found in _STEP.finditer(path)).removesuffix(".")


def _step(found: re.Match[str]) -> str:
    brackets, dots, name, other = found.groups()
    if brackets is not None or other is not None:
        return brackets or other
    plain = re.sub(r"\\(.)", r"\1", name)
    return dots + name if _PLAIN_NAME.fullmatch(name) else f"{dots.removesuffix('.')}[{json.dumps(plain)}]"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


def _written(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _compact(value)


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _columns(text: str) -> list[tuple[str, str]]:
    """Read HEADING:PATH,... as kubectl does; raise ServerError."""
    found = []
    for part in re.split(r",(?![^\[]*\])", text):
        heading, colon, path = part.partition(":")
        if not (heading and colon and path):
            raise ServerError(f"custom-columns: {part!r} is not HEADING:PATH, such as NAME:.metadata.name")
        values_of(path)
        found.append((heading, path))
    return found


def column_cells(columns: Sequence[tuple[str, str]], row: Json) -> Iterator[str]:
    """Yield what the columns that were asked for have of a row, `<none>` for nothing, as kubectl."""
    for _, path in columns:
        values = [value for value in values_of(path)(row) if value is not None]
        yield ",".join(map(_written, values)) if values else "<none>"
