"""Server-sent events, read from the bytes of an answer.

The format is that of the HTML standard, section 9.2 (https://html.spec.whatwg.org/multipage/server-sent-events.html),
less what nobody sends here: lone carriage returns as ends of lines, and byte order marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name and its data. A comment, which only shows that the server lives, is an event named ""."""

    name: str
    data: str = ""


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines in bytes that are cut anywhere, without their ends; what has no end is no line."""
    rest: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for other in others:
            yield b"".join(rest).removesuffix(b"\r").decode(errors="replace")
            rest = [other]


def events_of(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Yield the events that lines make up, comments among them; an event that is cut off is none."""
    name, data = "message", list[str]()
    for line in lines:
        if line.startswith(":"):
            yield ServerEvent("")
        elif line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
        else:
            if data:
                yield ServerEvent(name, "\n".join(data))
            name, data = "message", []
