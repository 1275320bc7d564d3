"""The page about explanations: what it shows is what the program prints."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from extender.admission.events import ClaimSeen, ClaimTemplateSeen, DeviceClassSeen, SliceSeen
from extender.cli.explain import show_explanation
from extender.explain.documents import WhatIfExplanation
from extender.explain.explanation import Inspection, explanation
from extender.explain.suggestions import MOST_SUGGESTIONS, MOST_TRIALS
from extender.explain.waterfall import NodeCause
from extender.explain.whatif import whatif_document
from extender.objects.dradevices import Amount
from extender.objects.podgroup import MOST_PODS
from extender.objects.podspec import Taint
from extender.objects.requests import billionths
from extender.objects.resourceslice import CapacitySet, DeviceCapacity
from tests.devicevalues import DRIVER, claim_of, class_of, device, slice_of, spec_of, template_of, uses
from tests.docs.conftest import ROOT
from tests.explain.hypothetical import asked, objects
from tests.worlds import World

DEVICES = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
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


def test_the_page_about_devices_shows_what_the_program_says() -> None:
    """Of a pod that asks for two GPUs of 80 GB, which nodes do not have, have tainted, in use, or not published."""
    world = World()
    world.tell(DeviceClassSeen(class_of()))
    enough = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0"
    world.tell(ClaimTemplateSeen(template_of("two", spec_of(2, enough))))
    taint = Taint("gpu.nvidia.com/xid", "79", "NoSchedule")
    for prefix, nodes, memory, taints, slices in (
        ("a100", 6, "40Gi", (), 1),
        ("broken", 2, "80Gi", (taint,), 1),
        ("new", 1, "80Gi", (), 2),
        ("h100", 3, "80Gi", (), 1),
    ):
        capacity = CapacitySet(((f"{DRIVER}/memory", DeviceCapacity(Amount(billionths(memory)))),))
        devices = tuple(replace(device(f"gpu-{at}"), capacity=capacity, taints=taints) for at in range(8))
        for node in world.nodes(nodes, gpus=0, prefix=prefix):
            world.tell(SliceSeen(replace(slice_of(node, (), slices=slices), devices=devices)))
            if prefix == "h100":
                world.tell(ClaimSeen(claim_of(f"on-{node}", spec_of(7), node=node, devices=range(7))))
    job = world.gang("train", 1, gpus=0, claims=uses(template="two"))
    found = explanation(Inspection(world.admission, world.clock).explain(job.gang.ref))
    screen = io.StringIO()
    show_explanation(Console(file=screen, width=150), found)
    text = "\n".join(line.rstrip() for line in screen.getvalue().splitlines())
    assert text.partition("\n\n  POD")[0] in DEVICES


def test_the_page_explains_every_cause() -> None:
    """Each in a row of its table."""
    assert [cause for cause in NodeCause if f"| `{cause.value}` |" not in PAGE] == []


def test_the_page_states_the_limits() -> None:
    """As they are in the program."""
    assert f"at most {MOST_SUGGESTIONS} of them" in PAGE
    assert f"after {MOST_TRIALS} trials" in PAGE
    assert f"{MOST_PODS:,} pods" in PAGE
