"""A snapshot without names: nothing of them remains, and it decides as before."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import BindingFailed, Event, EvictionRefused, PodSeen
from extender.journal.anonymising import anonymise, anonymised
from extender.journal.archive import Snapshot, unpack
from extender.journal.entries import values_of
from extender.journal.pseudonyms import Pseudonyms
from extender.journal.renaming import Anonymiser
from extender.objects.hypernodes import HyperNode
from extender.objects.meta import ObjectRef, Requirement, Selector, SelectorTerm
from extender.objects.node import Ailment, Node
from extender.objects.nodetopology import NodeTopology
from extender.objects.podspec import Taint, Toleration
from extender.objects.reason import Problem
from extender.settings import Settings, TopologyLevel
from muster_lab.replay.verdict import judge
from tests.journal.conftest import NAMES, Story, member
from tests.journal.test_entries import EVENTS_OF_ALL_KINDS


def everything(snapshot: Snapshot) -> bytes:
    """Return all bytes of a snapshot's file, unpacked twice."""
    file = gzip.decompress(snapshot.pack())
    return file + b"".join(zlib.decompress(chunk.data) for chunk in snapshot.chunks)


def test_nothing_of_the_names_remains(story: Story) -> None:
    """Not in the inputs, the answers, the settings, the state; not in texts that somebody wrote."""
    refused = replace(member(7), refusal="0/4 nodes: zebra-1 is full", problem=Problem("spec.enigma", "babbage"))
    story.recorder.apply(PodSeen(refused))
    story.recorder.apply(EvictionRefused("5e0f-1", "budget hopper/lovelace"))
    story.recorder.apply(BindingFailed("5e0f-7", "no such node zebra-9", final=True))
    snapshot = story.snapshot()
    before, after = everything(snapshot), everything(anonymised(snapshot))
    assert all(name.encode() in before for name in NAMES)
    assert [name for name in NAMES if name.encode() in after] == []


def test_it_is_the_same_story(story: Story) -> None:
    """Input for input the same comes out, but for the names; and what comes out plays."""
    done = anonymise(story.snapshot())
    assert done.departs == 0
    again = unpack(done.snapshot.pack())
    assert (again.header.anonymised, judge(again).same) == (True, True)
    assert again.header.inputs == story.recorder.journal.standing().inputs


def test_what_says_nothing_of_whose_it_is_stays(story: Story) -> None:
    """Resources, amounts, reasons, priorities, UIDs, and words of Muster's own."""
    text = everything(anonymised(story.snapshot()))
    for kept in (b"nvidia.com/gpu", b"5e0f-1", b"pinned", b"AwaitingMembers", b"muster"):
        assert kept in text


def test_where_the_story_departs_is_said(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudonyms that are not in the order of the names decide otherwise from some input on, and there it ends."""
    given = Pseudonyms.name

    def reversed_order(self: Pseudonyms, space: object, name: str) -> str:
        found = given(self, space, name)  # type: ignore[arg-type]  # whatever space it is
        return f"place-{999_999 - int(found[-6:])}" if found.startswith("place-") else found

    monkeypatch.setattr(Pseudonyms, "name", reversed_order)
    done = anonymise(story.snapshot())
    assert done.departs == done.snapshot.header.inputs + 1
    assert judge(done.snapshot).same


@pytest.mark.parametrize("event", EVENTS_OF_ALL_KINDS, ids=lambda event: type(event).__name__)
def test_every_event_can_be_said_without_names(event: Event[Any]) -> None:
    """Said twice over, first to hear the names, then with pseudonyms: no field of any value is forgotten."""
    names = Pseudonyms()
    renamer = Anonymiser(names)
    heard = renamer.event(event)
    names.settle()
    said = renamer.event(event)
    assert type(heard) is type(said) is type(event)
    assert [type(each) for each in values_of(said)] == [type(each) for each in values_of(event)]


def renamed(*values: object) -> list[object]:
    """Return values said with pseudonyms."""
    names = Pseudonyms()
    renamer = Anonymiser(names)
    for value in values:
        renamer.value(value)
    names.settle()
    return [renamer.value(value) for value in values]


def test_who_picks_whom_stays() -> None:
    """Selectors, tolerations and taints say the same words as the labels that they are about."""
    node = Node("n-1", labels={"own": "fast", "size": "12", "kubernetes.io/hostname": "n-1"})
    node = replace(node, taints=(Taint("own", "fast", "NoSchedule"),), ailments=(Ailment("own"), Ailment("Ready")))
    wanted = (Requirement("own", "In", ("fast",)), Requirement("size", "Gt", ("9",)))
    selector = Selector(
        (("kubernetes.io/hostname", "n-1"),), (SelectorTerm(wanted, (Requirement("metadata.name", "In", ("n-1",)),)),)
    )
    pod = member(0)
    toleration = Toleration("own", "Equal", "fast", "NoSchedule")
    pod = replace(pod, shape=replace(pod.shape, selector=selector, tolerations=(toleration,)))
    _, node_said, pod_said = renamed(pod, node, pod)
    assert isinstance(node_said, Node)
    shape = pod_said.shape  # type: ignore[attr-defined]  # a pod
    assert node_said.labels["kubernetes.io/hostname"] == node_said.name != "n-1"
    assert shape.selector.matches(node_said.name, node_said.labels)
    assert shape.tolerations[0].tolerates(node_said.taints[0])
    assert "own" not in node_said.labels
    assert [each.type for each in node_said.ailments] == [node_said.taints[0].key, "Ready"]


def test_patterns_become_the_nodes_that_they_match() -> None:
    """Pseudonyms match no pattern about names."""
    about = ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", "s0", "u")
    hyper = HyperNode(about, 1, "hut", patterns=("n-[0-9]", "("), children=("s1",))
    node_said, hyper_said = renamed(Node("n-1"), hyper)
    assert isinstance(hyper_said, HyperNode)
    assert hyper_said.nodes == {node_said.name}  # type: ignore[attr-defined]  # a node
    assert (hyper_said.patterns, hyper_said.tier) == ((), 1)


def test_zones_stay_and_their_fingerprint_goes() -> None:
    """It is a hash over the names of pods."""
    (said,) = renamed(NodeTopology("n-1", fingerprint="pfp0v001deadbeef"))
    assert isinstance(said, NodeTopology)
    assert (said.node, said.fingerprint) == ("place-000000", "")


def test_settings_lose_their_names() -> None:
    """Levels and their labels are said with the pseudonyms that nodes and gangs use; the rest stays."""
    names = Pseudonyms()
    renamer = Anonymiser(names)
    levels = (TopologyLevel(name="hut", nodeLabel="own.example/hut"), TopologyLevel(name="rack", nodeLabel="own/rack"))
    settings = Settings(topology_levels=levels, veto_seconds=3.0, scheduler_lease="own/lease")
    renamer.settings(settings)
    names.settle()
    said = renamer.settings(settings)
    assert [level.name for level in said.topology_levels] == ["level-000000", "rack"]
    assert [level.node_label for level in said.topology_levels] == ["key-000000", "key-000001"]
    assert (said.veto_seconds, said.scheduler_lease) == (3.0, None)


def test_measurements_keep_their_figures() -> None:
    """Where they come from goes, and what cannot be read becomes nothing."""
    renamer = Anonymiser(Pseudonyms())
    text = "measurements:\n- {product: H100, level: hut, busBandwidthGBps: 400, source: lovelace}\n"
    said = renamer.measurements({"calibration.yaml": text, "measurements.yaml": text})
    assert not any("lovelace" in value for value in said.values())
    assert renamer.measurements({"x": "lovelace"}) == renamer.measurements({})
