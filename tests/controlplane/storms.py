"""Add up the storms that were recorded: `python -m tests.controlplane.storms FILE...`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: What is counted by the kind of server.
_BY_SERVER = ("kills", "pauses", "cuts", "ended")


def recorded(path: Path | None) -> list[dict[str, Any]]:
    """Return what a file has of storms that were played before, nothing if there is none."""
    return [] if path is None or not path.exists() else [json.loads(line) for line in path.read_text().splitlines()]


def summary(storms: Sequence[dict[str, Any]]) -> str:
    """Return what storms add up to, a few lines for each flavour and for all of them."""
    flavours = sorted({storm["flavour"] for storm in storms})
    parts = [(flavour, [storm for storm in storms if storm["flavour"] == flavour]) for flavour in flavours]
    return "\n".join(_part(name, part) for name, part in [*parts, ("all", list(storms))] if part)


def _part(name: str, storms: list[dict[str, Any]]) -> str:
    raging, whole = (sum(storm["seconds"][key] for storm in storms) for key in ("storm", "all"))
    counts = {key: sum((Counter(storm[key]) for storm in storms), Counter()) for key in _BY_SERVER}
    totals = {key: sum(storm[key] for storm in storms) for key in ("gangs", "bindings", "terms", "deposed", "changes")}
    faults = sum(sum(storm["faults"].values()) for storm in storms)
    wrong = [str(storm["seed"]) for storm in storms if storm["wrong"]]
    kills = counts["kills"].total()
    lines = [
        f"{name}: {len(storms)} storms of {totals['gangs']} gangs in {whole / 60:.1f} min, {raging / 60:.1f} of storm",
        *(f"  {key}: {counts[key].total()} {dict(counts[key])}" for key in _BY_SERVER),
        f"  kills a minute: {60 * kills / whole:.1f}, of storm {60 * kills / raging:.1f}",
        f"  faults of connections: {faults}, terms of replicas: {totals['terms']}, woken deposed: {totals['deposed']}",
        f"  pods bound: {totals['bindings']}, changes judged: {totals['changes']}",
        f"  storms with violations: {len(wrong)} {' '.join(wrong)}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(summary([storm for path in sys.argv[1:] for storm in recorded(Path(path))]) + "\n")
