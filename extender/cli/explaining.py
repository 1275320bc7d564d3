"""What Muster says of a gang, for people: how it stands, which nodes are left, who holds them, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from extender.cli.tables import Cell

#: Members that are listed at most; the JSON has all.
_MOST_MEMBERS = 40
#: Shapes of pods whose nodes are counted off at most.
_MOST_SHAPES = 3
_BAR_CELLS = 24


def show_explanation(console: Console, answer: Mapping[str, Any], *, wide: bool = False) -> None:
    """Print what the service says of a gang; `wide` lists everything, however long."""
    from extender.cli.tables import cleaned

    heading = f"{answer['namespace']}/{answer['name']}: {_state(answer)}"
    console.print(cleaned(heading), style="bold")
    for line in (*answer.get("assumptions", ()), *answer["remarks"]):
        console.print(_indented(line), highlight=False)
    falls = answer.get("waterfall") or ()
    for fall in falls if wide else falls[:_MOST_SHAPES]:
        _show_waterfall(console, fall)
    if not wide and len(falls) > _MOST_SHAPES:
        console.print(f"and {len(falls) - _MOST_SHAPES} kinds of pods more (-o wide has all)", highlight=False)
    _show_holders(console, answer.get("holders") or ())
    _show_lines(console, "why there", (answer.get("choice") or {}).get("lines", ()))
    _show_lines(console, "it would start now with one of these changes", _suggestions(answer))
    _show_members(console, answer["pods"], wide=wide)


def show_verdict(console: Console, gangs: Sequence[Mapping[str, Any]]) -> None:
    """Print in one line what would become of several gangs that were asked about."""
    starting = sum(1 for gang in gangs if gang["wouldStart"])
    if len(gangs) > 1:
        console.print(f"{starting} of {len(gangs)} gangs would start now, each judged by itself", highlight=False)


def _state(answer: Mapping[str, Any]) -> str:
    """Return what matters most: of a gang that is only asked about, whether it would start."""
    if not answer.get("hypothetical"):
        return str(answer["headline"])
    if not answer.get("wouldStart"):
        return "would wait"
    placement = answer.get("placement") or {}
    nodes = {pod["node"] for pod in answer["pods"] if pod["node"]}
    count = f"on {len(nodes)} node{'s' if len(nodes) != 1 else ''}"
    said = str(answer["headline"]).partition(", ")[2] if placement else ""
    return f"would start now {count}{f', {said}' if said else ''}"


def _show_waterfall(console: Console, fall: Mapping[str, Any]) -> None:
    """Print how many nodes are left to pods of one kind after each constraint, with bars."""
    from rich.text import Text

    from extender.cli.tables import Column, bar, lines

    request = ", ".join(f"{amount} {resource}" for resource, amount in fall["request"].items()) or "nothing"
    whole, left = fall["nodes"], fall["nodes"]
    console.print()
    console.print(_indented(f"{fall['pods']} pod{'s' if fall['pods'] != 1 else ''} asking for {request}:", 0))
    rows: list[list[Cell]] = [["all nodes", "", str(whole), bar([(whole, "\u2588", "green")], whole, _BAR_CELLS), ""]]
    for step in fall["steps"]:
        if not step["nodes"]:
            continue
        drawn = bar([(step["left"], "\u2588", "green"), (left - step["left"], "\u2591", "red")], whole, _BAR_CELLS)
        rows.append([step["cause"], f"-{step['nodes']}", str(step["left"]), drawn, step["detail"]])
        left = step["left"]
    columns = [Column(""), Column("", right=True), Column("", right=True), Column(""), Column("")]
    for line in lines(columns, rows, headers=False):
        console.print(Text("  ") + line, highlight=False)
    usable = f"{fall['usable']} node{'s' if fall['usable'] != 1 else ''} left, with room for {fall['fits']}"
    console.print(_indented(f"{usable} of {fall['pods']}"), highlight=False)


def _show_holders(console: Console, holders: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    from extender.cli.tables import Column, lines

    if not holders:
        return
    columns = [Column("HELD BY"), Column("GPUS", right=True), Column("NODES", right=True)]
    columns += [Column("PRIORITY", right=True), Column("QUEUE"), Column("UNTIL")]
    rows: list[list[Cell]] = [
        [
            *(each["gang"], str(each["gpus"]), str(each["nodes"]), str(each["priority"]), each["queue"] or "-"),
            f"{each['endsAt'] or 'not known'}{' (overdue)' if each['overdue'] else ''}",
        ]
        for each in holders
    ]
    console.print()
    for line in lines(columns, rows):
        console.print(Text("  ") + line, highlight=False)


def _suggestions(answer: Mapping[str, Any]) -> list[str]:
    return [each["message"] for each in answer.get("suggestions") or ()]


def _show_lines(console: Console, heading: str, lines: Sequence[str]) -> None:
    if lines:
        console.print()
        console.print(f"{heading}:", highlight=False)
    for line in lines:
        console.print(_indented(line), highlight=False)


def _show_members(console: Console, pods: Sequence[Mapping[str, Any]], *, wide: bool) -> None:
    from rich.table import Table

    members = Table(header_style="bold")
    for column in ("pod", "role", "state", "node", "GPUs", "NUMA zones"):
        members.add_column(column, overflow="fold")
    shown = pods if wide else pods[:_MOST_MEMBERS]
    for cells in map(_member, shown):
        members.add_row(*cells)
    if pods:
        console.print(members)
    if len(pods) > len(shown):
        rest = len(pods) - len(shown)
        console.print(f"and {rest} members more (-o json has all)", highlight=False)


def _member(pod: Mapping[str, Any]) -> Iterator[Text]:
    from extender.cli.tables import cleaned

    known = "" if pod["observed"] or not (pod["gpus"] or pod["zones"]) else " (predicted)"
    gpus = _numbers(pod["gpus"]) + known if pod["gpus"] else ""
    zones = _numbers(pod["zones"]) + known if pod["zones"] else ""
    for text in (pod["name"], pod["role"] or "", pod["state"], pod["node"] or "", gpus, zones):
        yield cleaned(text)


def _indented(line: str, by: int = 2) -> Text:
    from extender.cli.tables import cleaned

    return cleaned(f"{' ' * by}{line}")


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
