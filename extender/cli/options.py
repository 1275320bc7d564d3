"""Options that several commands share: each set of them is a dataclass whose fields are options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

#: The heading in a command's help under which it says how things are found and reached.
CONNECTION_PANEL = "Connection"

KubeconfigFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Kubeconfig file. Default: a pod's ServiceAccount, then KUBECONFIG, then ~/.kube/config.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
ContextName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Context of the kubeconfig. Default: its current one.", rich_help_panel=CONNECTION_PANEL
    ),
]
NamespaceName = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace of what is named without one. Default: that of the kubeconfig's context.",
    ),
]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of its parameters that are dataclasses in place of these parameters."""
    sets: dict[str, tuple[type[Any], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            parameters.append(parameter)
            continue
        hints = get_type_hints(kind, include_extras=True)
        fields = [each for each in dataclasses.fields(kind) if each.init]
        sets[parameter.name] = kind, [each.name for each in fields]
        for each in fields:
            shared = inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default)
            parameters.append(shared.replace(annotation=hints[each.name]))

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:  # noqa: ANN401 - whatever the command takes
        made = {name: kind(**{each: options.pop(each) for each in fields}) for name, (kind, fields) in sets.items()}
        command(*arguments, **options, **made)

    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def did_you_mean(given: str, known: Iterable[str], most: int = 12) -> str:
    """Return the end of a message about an unknown word: `; did you mean x?`, else what is known, up to `most`."""
    from difflib import get_close_matches

    words = {word.lower(): word for word in known}
    close = get_close_matches(given.lower(), words, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {words[close[0]]}?"
    named = sorted(words.values())
    rest = f" and {len(named) - most} more" if len(named) > most else ""
    return f"; there are {', '.join(named[:most])}{rest}" if named else ""
