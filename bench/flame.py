"""Draw where Muster spends its time on one gang: `python -m bench.flame --into docs/images/flame-gang-1000.svg`.

py-spy samples Muster's stacks while the real control plane creates, places and binds one gang, and draws them itself:
callers above, what they call below, as wide as they were seen often. It is attached before the first pod is created,
so that start and warm-up are not in the picture. It pauses Muster for each sample: the stacks are whole, and the
seconds of a sampled run are not to be compared with others.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import cast

import uvloop

from bench.controlplane.cases import Comparison
from bench.controlplane.catalogue import FULL, SHORT
from bench.controlplane.contenders import Contender
from bench.controlplane.runs import place
from bench.controlplane.stage import Arena
from localcluster.errors import LocalClusterError
from localcluster.waiting import wait_until

#: Samples a second.
RATE = 500
#: py-spy says so once it has attached.
_SAMPLING = "Sampling process"
#: Seconds for attaching, which reads the interpreter's symbols, and for writing what was sampled.
_ATTACH_SECONDS, _WRITE_SECONDS = 30.0, 60.0
#: What py-spy and the kernel say when one process may not read another's memory.
_REFUSALS = ("permission denied", "operation not permitted", "eperm")
_WHAT_TO_DO = (
    "py-spy may not read Muster's memory. Allow it for a while with: sudo sysctl kernel.yama.ptrace_scope=0\n"
    "(in a container, start that with --cap-add SYS_PTRACE; on macOS, run as root)\n"
)
#: py-spy's title is its own command line, with the paths of the machine.
_TITLE = re.compile(r'(?<=<text id="title")([^>]*>)[^<]*')


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample Muster while it places one gang, write the picture, and return 0, or 1 if something could not be run."""
    parser = argparse.ArgumentParser(prog="python -m bench.flame", description="Draw a flame graph of one gang.")
    parser.add_argument("--into", type=Path, required=True, metavar="FILE", help="where the SVG goes")
    parser.add_argument("--short", action="store_true", help="a small gang: whether it works, not where time goes")
    chosen = parser.parse_args(arguments)
    case = cast("Comparison", (SHORT if chosen.short else FULL)["gang-1000-5000-empty"])
    title = f"Muster while one gang of {case.workload.pods:,} pods starts on {case.nodes:,} nodes"
    chosen.into.parent.mkdir(parents=True, exist_ok=True)
    try:
        seconds = uvloop.run(_record(case, chosen.into))
    except LocalClusterError as error:
        sys.stderr.write(f"flame: {error}\n")
        return 1
    drawing = chosen.into.read_text(encoding="utf-8")
    chosen.into.write_text(titled(drawing, title), encoding="utf-8")
    print(f"{chosen.into}: {title}: all bound after {seconds:.2f} s, sampled {RATE} times a second")
    return 0


async def _record(case: Comparison, file: Path) -> float:
    """Have Muster place the workload of a case once; return the seconds until all its pods are bound."""
    with Arena(case.nodes) as arena:
        async with arena.stage(Contender.MUSTER) as stage:
            # Attaching holds up this event loop, on which nothing happens yet.
            with sampling(stage.pids["muster"], file):
                return (await place(stage, case.workload)).seconds


@contextmanager
def sampling(pid: int, file: Path) -> Iterator[None]:
    """Sample the stacks of a process for as long as the context lasts, then write the flame graph to `file`.

    Threads that wait and native frames are left out. Raises LocalClusterError with what py-spy said.
    """
    program = Path(sys.executable).with_name("py-spy")
    command = [str(program), "record", "--pid", str(pid), "--rate", str(RATE), "--function", "--output", str(file)]
    file.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile() as log:
        spy = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - put together here

        def said() -> str:
            return Path(log.name).read_text(encoding="utf-8", errors="replace")

        try:
            wait_until(
                lambda: _SAMPLING in said() or spy.poll() is not None,
                timeout_seconds=_ATTACH_SECONDS,
                description="py-spy attached to Muster",
            )
            if _SAMPLING not in said():
                raise LocalClusterError(explain(said()))
            yield
            spy.send_signal(signal.SIGINT)  # it writes what it has; it may have ended with the process
            with contextlib.suppress(subprocess.TimeoutExpired):
                spy.wait(_WRITE_SECONDS)
            if not file.exists():
                raise LocalClusterError(explain(said()))
        finally:
            spy.kill()
            spy.wait()


def titled(drawing: str, title: str) -> str:
    """Return py-spy's drawing under a title of our own."""
    return _TITLE.sub(lambda match: match[1] + escape(title), drawing, count=1)


def explain(said: str) -> str:
    """Return what py-spy said, with what to do if it was not allowed to attach."""
    refused = any(refusal in said.lower() for refusal in _REFUSALS)
    return f"{_WHAT_TO_DO if refused else ''}py-spy sampled nothing; it said: {said.strip() or 'nothing'}"


if __name__ == "__main__":
    sys.exit(main())
