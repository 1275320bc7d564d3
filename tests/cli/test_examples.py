"""`muster explain -f` reads every file of examples/: gangs, objects that make no pods, and scenarios."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from extender.explain.whatif import whatif_document
from extender.objects.priority import Priorities
from extender.objects.submission import read_submission
from tests.builders import CREATED
from tests.cli.conftest import Script
from tests.cli.test_explain import explain
from tests.docs.conftest import ROOT

EXAMPLES = ROOT / "examples"
FILES = [pytest.param(path, id=str(path.relative_to(EXAMPLES))) for path in sorted(EXAMPLES.rglob("*.yaml"))]


@pytest.mark.parametrize("path", FILES)
def test_every_example_has_an_answer(server: Script, path: Path) -> None:
    """Scenarios belong to `muster simulate`; of Queues it is said that no pods come; all else makes gangs."""
    server.answers["/api/v1/explain"] = (200, msgspec.json.encode(whatif_document((), ("Queue default/a",))))
    result = explain("-f", str(path), "--server", server.url)
    if path.parent.name == "scenarios":
        said = f"muster explain: {path} is a scenario, not Kubernetes objects: play it with muster simulate {path}\n"
        assert (result.exit_code, result.stderr) == (2, said)
        return
    assert (result.exit_code, result.stdout) == (0, "passed over, no pods come of: Queue default/a\n")
    objects = json.loads(server.bodies[-1])["objects"]
    gangs, passed_over = read_submission(objects, Priorities(), CREATED)
    kinds = {each["kind"] for each in objects}
    if path.parent.name == "queues":
        assert gangs == ()
        assert len(passed_over) == len(objects)
        return
    assert all(gang.pods for gang in gangs)
    assert gangs
    assert {each.partition(" ")[0] for each in passed_over} == kinds & {"Queue", "Service"}
