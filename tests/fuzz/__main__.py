"""A long run: `python -m tests.fuzz --requests 1000000 [--seed N]`; `make fuzz REQUESTS=1000000` calls it.

With `--record FILE` runs add up: each takes the next seed that the file has no line of, begins with the requests that
earlier ones kept, and adds a line. `--again FILE` repeats findings.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.guidance import BranchGuide

#: Of which parts of Muster it is said how much was reached.
PARTS = ("service", "explain", "admission", "objects", "history")


def main() -> int:
    """Fuzz, print what came of it, and return 1 if any answer was outside the protocol, or held everything up."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Send spoiled requests to Muster.")
    parser.add_argument("--requests", type=int, default=100_000, help="how many in one run (default: 100000)")
    parser.add_argument("--runs", type=int, default=1, help="how many runs (default: 1)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first run (default: by record, or time)")
    parser.add_argument("--record", type=Path, default=None, help="file with a line for each run, to go on from")
    parser.add_argument("--again", type=Path, default=None, help="file of requests to send again, instead")
    options = parser.parse_args()
    if options.record is not None:
        options.record.parent.mkdir(parents=True, exist_ok=True)
    with BranchGuide(None if options.record is None else options.record.with_suffix(".coverage")) as guide:
        from tests.fuzz import session  # noqa: PLC0415 - so that what runs when Muster is imported counts as reached

        session.prepare()
        wrong = session.play(options, guide) if options.again is None else session.play_again(options.again)
    shares = (f"{part} {guide.share(f'*/extender/{part}/*'):.0f} %" for part in PARTS)
    sys.stdout.write(f"coverage    {', '.join(shares)} of lines and branches\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
