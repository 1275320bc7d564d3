"""Kill what a dead parent left behind.

A test run that is killed with SIGKILL cannot stop its API server. So every run starts this small program first and
tells it, over its standard input, which process groups and folders it owns. When that pipe closes, for whatever reason
the other end went away, everything still listed is killed and removed. Used instead of PR_SET_PDEATHSIG, which follows
the thread that started a child rather than its process, and needs code between fork and exec.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster.errors import LocalClusterError


def reap(lines: Iterable[str]) -> None:
    """Follow `watch`/`forget` lines until they end, then kill the process groups and remove the folders still watched.

    A line is `watch group PGID`, `forget group PGID`, `watch folder PATH` or `forget folder PATH`.
    """
    watched: dict[tuple[str, str], None] = {}
    for line in lines:
        verb, kind, name = line.rstrip("\n").split(" ", 2)
        if verb == "watch":
            watched[kind, name] = None
        else:
            watched.pop((kind, name), None)
    for kind, name in watched:
        if kind == "group":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(name), signal.SIGKILL)
    for kind, name in watched:
        if kind == "folder":
            shutil.rmtree(Path(name), ignore_errors=True)


class Reaper:
    """The parent's end: a child that outlives this process just long enough to clean up after it."""

    def __init__(self) -> None:
        """Start the child in a session of its own, where Ctrl-C at the terminal does not reach it."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "localcluster.reaper"],
            stdin=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return the child's process id."""
        return self._child.pid

    def watch_group(self, group: int) -> None:
        """Have process group `group` killed if this process dies."""
        self._tell(f"watch group {group}")

    def forget_group(self, group: int) -> None:
        """Take back `watch_group`: the group has ended and its number may be reused."""
        self._tell(f"forget group {group}")

    def watch_folder(self, folder: Path) -> None:
        """Have `folder` removed if this process dies."""
        self._tell(f"watch folder {folder}")

    def forget_folder(self, folder: Path) -> None:
        """Take back `watch_folder`."""
        self._tell(f"forget folder {folder}")

    def close(self) -> None:
        """Let the child clean up what is still watched, and wait for it."""
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.stdin.close()
        self._child.wait()

    def __enter__(self) -> Self:
        """Return the reaper itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _tell(self, line: str) -> None:
        if self._child.stdin is None or self._child.poll() is not None:
            raise LocalClusterError(f"the reaper process ended early with code {self._child.returncode}")
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()


if __name__ == "__main__":
    reap(sys.stdin)
