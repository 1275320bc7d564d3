"""Ask kube-scheduler's own allocator and CEL, built from the Kubernetes release that the control plane runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from localcluster.build import ensure_binaries
from localcluster.programs import Binary
from tests.builders import Json


def ask_oracle(questions: Sequence[Json]) -> list[Json]:
    """Return the answer to each question; `localcluster/modules/dra-oracle/main.go` says what both contain."""
    executable = ensure_binaries([Binary.DRA_ORACLE])[Binary.DRA_ORACLE]
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    answers = subprocess.run([executable], input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in answers.splitlines()]


def allocation_question(
    *, node: Json, slices: Sequence[Json], classes: Sequence[Json], allocated: Sequence[Json], claims: Sequence[Json]
) -> Json:
    """Return the question what claims get on a node."""
    return {
        "node": node,
        "slices": list(slices),
        "classes": list(classes),
        "allocated": list(allocated),
        "claims": list(claims),
    }


def match_question(expression: str, driver: str, devices: Sequence[dict[str, Any]]) -> Json:
    """Return the question which devices match an expression."""
    return {"expression": expression, "driver": driver, "devices": list(devices)}
