"""The page about explanations: what it shows is what the program prints."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from extender.cli.explain import show_explanation
from extender.explain.documents import WhatIfExplanation
from extender.explain.suggestions import MOST_SUGGESTIONS, MOST_TRIALS
from extender.explain.waterfall import NodeCause
from extender.explain.whatif import whatif_document
from extender.objects.podgroup import MOST_PODS
from tests.docs.conftest import ROOT
from tests.explain.hypothetical import asked, objects
from tests.worlds import World

PAGE = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")


def shown(gangs: Sequence[WhatIfExplanation]) -> str:
    """Return what is printed of gangs."""
    screen = io.StringIO()
    for gang in gangs:
        show_explanation(Console(file=screen, width=120), gang)
    return "\n".join(line.rstrip() for line in screen.getvalue().splitlines())


def test_the_page_shows_what_the_program_says() -> None:
    """Of a gang of four that has to be in one of two racks, of which both are partly taken."""
    world = World(topology_levels=[{"name": "rack", "nodeLabel": "rack"}])
    for rack in range(2):
        labels = {"rack": f"r{rack}", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        world.nodes(4, prefix=f"r{rack}", labels=labels)
    world.nodes(2, gpus=0, prefix="cpu")
    world.gang("eval", 1, priority=5).run()
    world.gang("serve", 4, priority=10).run()
    world.judge()
    what = objects(4, annotations={"muster.dev/topology-required": "rack"}, priority=5)
    document = whatif_document([asked(world, what)])
    assert shown(document.gangs) in PAGE


def test_the_page_explains_every_cause() -> None:
    """Each in a row of its table."""
    assert [cause for cause in NodeCause if f"| `{cause.value}` |" not in PAGE] == []


def test_the_page_states_the_limits() -> None:
    """As they are in the program."""
    assert f"at most {MOST_SUGGESTIONS} of them" in PAGE
    assert f"after {MOST_TRIALS} trials" in PAGE
    assert f"{MOST_PODS:,} pods" in PAGE
