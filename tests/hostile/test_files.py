"""Snapshots in which every name is hostile: what `muster snapshot` and `muster replay` say of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from extender.admission.events import Decide, GroupSeen, NodeSeen, PodSeen
from extender.objects.node import Node
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.builders import GPU
from tests.hostile.test_commands import Terminal, leads_to_nothing, run
from tests.hostile.texts import ATTACKS
from tests.journal.conftest import Story, member


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a story about gangs that wait, of which each name is an attack."""
    story = Story()
    story.open()
    for number, text in enumerate(ATTACKS):
        ref = GroupRef(COSCHEDULING, text, text)
        story.recorder.apply(NodeSeen(Node(text, allocatable={GPU: 8, "cpu": 1000, "pods": 9}, labels={text: text})))
        story.recorder.apply(GroupSeen(PodGroup(ref, f"g{number}", min_member=9, created="2026-01-01T00:00:00Z")))
        pod = replace(member(number), group=ref, namespace=text, name=text, labels={text: text}, refusal=text)
        story.recorder.apply(PodSeen(pod))
        story.recorder.apply(Decide())
    path = tmp_path_factory.mktemp("hostile") / "bug.tar.gz"
    path.write_bytes(story.snapshot().pack())
    return path


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("command", [["snapshot", "show"], ["replay"]])
def test_no_name_in_a_recording_steers_a_terminal(recording: Path, command: list[str], output: str) -> None:
    """Whoever sends a file as a bug report may have written it."""
    shown = run([*command, str(recording), "-o", output], Terminal())
    assert leads_to_nothing(shown)
    assert "same" in shown or "waits" in shown or '"' in shown


def test_what_differs_is_one_line_each(recording: Path, tmp_path: Path) -> None:
    """The inputs around a difference, which have names."""
    run(["snapshot", "anonymise", str(recording), "-o", str(tmp_path / "without.tar.gz")])
    assert leads_to_nothing(run(["replay", str(tmp_path / "without.tar.gz")], Terminal()))
