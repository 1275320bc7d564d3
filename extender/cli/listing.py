"""Lists as kubectl has them: names as arguments, an order, a format, and changes as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import typer
from rich.text import Text

from extender.cli.asking import Asker, AskError, ServerError
from extender.cli.connecting import EXIT_NO_SUCH, Connection, reached, refusals
from extender.cli.options import did_you_mean
from extender.cli.output import (
    Format,
    ListFormat,
    Output,
    column_cells,
    field_of,
    json_line,
    print_csv,
    print_document,
    values_of,
)
from extender.cli.printing import Cell, Column, console, lines, note, one_line, say

D = TypeVar("D", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)
Row = dict[str, Any]

#: How long a watch waits until it asks again (seconds).
WATCH_SECONDS = 2.0
_FORMATS_OF_OBJECTS = frozenset({Format.JSON, Format.YAML, Format.JSONPATH})


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What every list takes: each field is an option."""

    output: ListFormat = "table"
    sort_by: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Order by a field of the JSON, such as .gpus; -gpus has the largest first."),
    ] = None
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on with what changes, until Ctrl-C: asks every two seconds.")
    ] = False
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the headings.")] = False


@dataclass(frozen=True, slots=True)
class Listing(Generic[D, R]):
    """A list: what to ask, where its rows are in the answer, and how they are shown.

    `cells` yields the row that each line is of. `framed` adds what a table has besides its lines, such as a legend; it
    gets the answer, the lines with their rows, and whether headings are wanted. `names` are what was asked for; `keep`
    tells which rows are wanted at all, of which the last `limit`. `identity` tells rows apart where names do not. Rows
    that leave a list of what is `past` are not told: they are older than others.
    """

    command: str
    path: str
    kind: type[D]
    key: str
    row: type[R]
    called: Callable[[R], str]
    columns: Callable[[bool], Sequence[Column]]
    cells: Callable[[D, Sequence[R], bool], Iterable[tuple[R, Sequence[Cell]]]]
    nothing: str
    names: Sequence[str] = ()
    keep: Callable[[R], bool] = lambda _: True
    backwards: bool = False
    limit: int | None = None
    past: bool = False
    identity: Callable[[R], str] | None = None
    framed: Callable[[D, Iterator[tuple[R | None, Text]], bool], Iterator[Text]] | None = None

    def identify(self, row: R) -> str:
        """Return what a row is followed by."""
        return (self.identity or self.called)(row)

    def read(self, muster: Asker) -> ListAnswer[D, R]:
        """Ask, and return what is wanted of the answer; raise AskError, ServerError."""
        import orjson

        body = muster.get(self.path)
        document = muster.read(body, self.kind)
        raw: Row = orjson.loads(body)
        pairs = list(zip(getattr(document, self.key), raw[self.key], strict=True))
        every = [self.called(row) for row, _ in pairs]
        wanted = frozenset(self.names)
        chosen = [pair for pair in pairs if self.keep(pair[0]) and (not wanted or self.called(pair[0]) in wanted)]
        chosen = chosen if self.limit is None else chosen[-self.limit :]
        missing = tuple(name for name in dict.fromkeys(self.names) if name not in every)
        return ListAnswer(document, raw, chosen, tuple(every), missing, whole=len(chosen) == len(pairs))


@dataclass(frozen=True, slots=True)
class ListAnswer(Generic[D, R]):
    """An answer: as it is read and as it was sent, its rows in both forms, all names, and those that are `missing`."""

    document: D
    raw: Row
    pairs: Sequence[tuple[R, Row]]
    every: Sequence[str]
    missing: Sequence[str]
    whole: bool


def run(listing: Listing[D, R], options: ListOptions, connection: Connection) -> ListAnswer[D, R]:
    """Print a list, or follow it until Ctrl-C; end the command if it cannot be had or a name is of nothing."""
    with refusals(listing.command):
        shown = Shown(listing, Output.read(options.output), _order(listing.row, options.sort_by), options)
        if options.watch:
            _follow(shown, connection)
            raise typer.Exit
        with reached(connection) as muster:
            found = listing.read(muster)
    shown.all(found)
    _tell_missing(listing.command, found)
    if found.missing:
        raise typer.Exit(EXIT_NO_SUCH)
    return found


def _tell_missing(command: str, found: ListAnswer[D, R]) -> None:
    for name in found.missing:
        note(f"muster {command}: there is no {name}{did_you_mean(name, found.every)}")


@dataclass(slots=True)
class Shown(Generic[D, R]):
    """A list on standard output: all of it once, then rows that changed."""

    listing: Listing[D, R]
    output: Output
    order: Callable[[Sequence[tuple[R, Row]]], Sequence[tuple[R, Row]]] | None
    options: ListOptions

    def all(self, found: ListAnswer[D, R]) -> None:
        """Print what was found."""
        pairs = self._ordered(found)
        if self.output.format not in _FORMATS_OF_OBJECTS:
            if not pairs and not found.missing:
                note(self.listing.nothing)
            self._lines(found, pairs, headers=not self.options.no_headers)
            return
        document = found.raw if found.whole and self.order is None else {**found.raw, self.listing.key: _raw(pairs)}
        if self.output.template is not None:
            items = [self._item(row, raw) for row, raw in pairs]
            one = items[0] if len(self.listing.names) == len(items) == 1 else {}  # kubectl has no list around one NAME
            document = {**document, "items": items, **one}
        print_document(document, self.output)

    def some(self, found: ListAnswer[D, R], names: frozenset[str]) -> None:
        """Print the rows with these identities, each by itself where a program reads."""
        pairs = [pair for pair in self._ordered(found) if self.listing.identify(pair[0]) in names]
        if self.output.format not in _FORMATS_OF_OBJECTS:
            self._lines(found, pairs, headers=False)
            return
        for row, raw in pairs:
            if self.output.format is Format.JSON:
                say(json_line(raw))
                continue
            if self.output.format is Format.YAML:
                say("---")
            print_document(self._item(row, raw) if self.output.template else raw, self.output)

    def _ordered(self, found: ListAnswer[D, R]) -> Sequence[tuple[R, Row]]:
        pairs = found.pairs[::-1] if self.listing.backwards else found.pairs
        return pairs if self.order is None else self.order(pairs)

    def _lines(self, found: ListAnswer[D, R], pairs: Sequence[tuple[R, Row]], *, headers: bool) -> None:
        kind, called = self.output.format, self.listing.called
        if kind is Format.NAME:
            for row, _ in pairs:
                say(one_line(called(row)))
        elif kind is Format.CSV:
            print_csv(_raw(pairs), headers=headers)
        elif kind is Format.CUSTOM_COLUMNS:
            columns = [Column(heading) for heading, _ in self.output.columns]
            cells = [list(column_cells(self.output.columns, self._item(row, raw))) for row, raw in pairs]
            self._print(iter(lines(columns, cells, headers=headers)))
        elif pairs:
            self._table(found, {id(row) for row, _ in pairs}, headers=headers)

    def _table(self, found: ListAnswer[D, R], wanted: set[int], *, headers: bool) -> None:
        """Print the lines of the wanted rows, as wide as the table of all."""
        listing, every = self.listing, [row for row, _ in self._ordered(found)]
        rows = list(listing.cells(found.document, every, self.output.wide))
        drawn = lines(listing.columns(self.output.wide), [cells for _, cells in rows])
        owners = [None, *(row for row, _ in rows)]
        told = (
            (row, line)
            for row, line in zip(owners, drawn, strict=True)
            if (headers if row is None else id(row) in wanted)
        )
        framed = listing.framed
        whole = headers or len(wanted) == len(every)
        self._print(framed(found.document, told, headers) if framed and whole else (line for _, line in told))

    @staticmethod
    def _print(drawn: Iterator[Text]) -> None:
        shown = console()
        for line in drawn:
            shown.print(line)

    def _item(self, row: R, raw: Row) -> Row:
        """Return a row as kubectl's templates expect it: with its name in `metadata`."""
        namespace, _, name = self.listing.called(row).rpartition("/")
        return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {}), **raw}


def wait(seconds: float) -> None:
    """Wait, until Ctrl-C at most."""
    threading.Event().wait(seconds)


def _follow(shown: Shown[D, R], connection: Connection) -> None:
    """Print a list, then each row that changes, until Ctrl-C; raise AskError if it cannot be had to begin with."""
    listing = shown.listing
    known: dict[str, Row] | None = None
    while True:
        try:
            with reached(connection) as muster:
                while True:
                    found = listing.read(muster)
                    rows = {listing.identify(row): raw for row, raw in found.pairs}
                    if known is None:
                        _begin(shown, found)
                    else:
                        changed = frozenset(name for name, raw in rows.items() if known.get(name) != raw)
                        shown.some(found, changed)
                        for name in () if listing.past else sorted(known.keys() - rows.keys()):
                            note(f"{name} is gone")
                    known = rows
                    wait(WATCH_SECONDS)
        except KeyboardInterrupt:
            return
        except AskError as error:
            if known is None:
                raise
            note(f"muster {listing.command}: {error}; trying again in {WATCH_SECONDS:g} s")
        wait(WATCH_SECONDS)


def _begin(shown: Shown[D, R], found: ListAnswer[D, R]) -> None:
    """Print what a watch begins with; end the command if nothing of what is named exists, as kubectl does."""
    _tell_missing(shown.listing.command, found)
    if found.missing and not found.pairs:
        raise typer.Exit(EXIT_NO_SUCH)
    if shown.output.format in _FORMATS_OF_OBJECTS:
        shown.some(found, frozenset(shown.listing.identify(row) for row, _ in found.pairs))
    else:
        shown.all(found)


def _raw(pairs: Sequence[tuple[R, Row]]) -> list[Row]:
    return [raw for _, raw in pairs]


def _order(kind: type[R], path: str | None) -> Callable[[Sequence[tuple[R, Row]]], list[tuple[R, Row]]] | None:
    """Return what puts rows in the order of a field, None for that of the answer; raise ServerError for no field."""
    from extender.objects.text import natural_key

    if path is None:
        return None
    down = path.startswith("-")
    bare = path.removeprefix("-")
    field = field_of(bare)
    known = {each.encode_name.lower(): each.encode_name for each in msgspec.structs.fields(kind)}
    known["metadata"] = "metadata"
    if field.lower() not in known:
        raise ServerError(f"--sort-by {path}: rows have no such field{did_you_mean(field, known.values())}")
    exact = bare.replace(field, known[field.lower()], 1).replace("metadata.", "", 1)
    values = values_of(exact)

    def key(pair: tuple[R, Row]) -> tuple[int, Any]:
        value = next(iter(values(pair[1])), None)
        if isinstance(value, int | float):
            return (0, value)
        return (1, natural_key(value if isinstance(value, str) else msgspec.json.encode(value).decode()))

    def ordered(pairs: Sequence[tuple[R, Row]]) -> list[tuple[R, Row]]:
        having = [any(value is not None for value in values(raw)) for _, raw in pairs]
        said = [pair for pair, has in zip(pairs, having, strict=True) if has]
        return sorted(said, key=key, reverse=down) + [pair for pair, has in zip(pairs, having, strict=True) if not has]

    return ordered
