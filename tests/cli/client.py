"""A program that runs commands where nothing is installed but what the client needs, and says what they asked for.

Run as `python client.py SERVER KUBECONFIG`: with every command that asks or acts, once at an address and once by a
kubeconfig. It prints, for each, its exit code and the packages of the server's that it tried to import.
"""

import contextlib
import io
import re
import signal
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import requires
from types import FrameType
from typing import Any

from typer.main import get_command

#: How long a command may take.
SECONDS = 5

#: Packages that only the extra `server` brings, by the names of their modules.
SERVER = frozenset(
    re.split(r"[<>=\[;]", line)[0].strip().replace("-", "_") for line in requires("muster") or () if "extra ==" in line
) | {"starlette"}


class Absent(MetaPathFinder):
    """Find none of the server's packages, and note which were looked for."""

    def __init__(self) -> None:
        self.wanted: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for what is not there."""
        del path, target
        if (package := fullname.partition(".")[0]) in SERVER:
            self.wanted.add(package)
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def main(server: str, kubeconfig: str) -> None:
    """Run all commands of the client."""
    absent = Absent()
    signal.signal(signal.SIGALRM, leave)
    sys.meta_path.insert(0, absent)
    app = import_module("extender.cli.commands").app
    for name, command in commands(get_command(app)):
        for way in (["--server", server], ["--kubeconfig", kubeconfig]):
            if any(way[0] in each.opts for each in command.params):
                said = io.StringIO()
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                    code = run(app, [*name, *arguments(command), *way])
                print(*name, way[0], code, *sorted(absent.wanted))  # noqa: T201 - what it is for


def commands(group: Any, name: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return the commands below a group that ask a Muster or the API server, each with its name."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for called, command in getattr(group, "commands", {}).items():
        below = commands(command, (*name, called))
        options = {option for each in command.params for option in each.opts}
        found += below or ([((*name, called), command)] if "--kubeconfig" in options and called != "serve" else [])
    return found


def arguments(command: Any) -> list[str]:
    """Return something for all that a command must be given."""
    required = [each for each in command.params if each.required]
    named = [word for each in required if each.param_type_name == "option" for word in (each.opts[0], "1")]
    return [*named, *("team-a" for each in required if each.param_type_name == "argument")]


def run(app: Any, words: list[str]) -> object:
    """Return the exit code of a command line; what does not end by itself is ended."""
    signal.alarm(SECONDS)
    try:
        app(words)
    except SystemExit as end:
        return end.code
    finally:
        signal.alarm(0)
    return 0


def leave(number: int, frame: FrameType | None) -> None:
    """End a command."""
    del number, frame
    raise SystemExit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
