"""A snapshot without names is searched for marks that were put into every text of every kind of object."""

from __future__ import annotations

import ast
import copy
import json
import random
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.admission.events import Arrive, Decide, Event, Filter, Rebuild, Tick
from extender.control.watched import WATCHED, Known, Watched
from extender.journal import commonwords
from extender.journal.anonymising import anonymise
from extender.journal.entries import EntryWriter, Noted, Readings
from extender.journal.pseudonyms import Pseudonyms
from extender.journal.renaming import Anonymiser
from extender.objects.meta import DecodeError
from extender.objects.podspec import decode_pod
from extender.objects.seenpod import decode_seen_pod
from extender.settings import DeviceClassMapping, Settings, TopologyLevel
from muster_lab.replay.verdict import judge
from tests.builders import GPU, Json, coscheduling_json, node_json, pod_json, written
from tests.examples import share
from tests.journal.conftest import Story
from tests.journal.test_anonymising import everything
from tests.objects.dra import class_json, device_json, request_json, slice_json
from tests.objects.test_codec import DOCUMENTS

MARK = "zqxj7"
#: A name, one below a domain that everyone knows, one that begins as what machines make, one that ends as a GPU.
FORMS = (MARK, f"x.google.com/{MARK}", f"nvidia.com/{MARK}", f"GPU-{MARK}", f"{MARK}.example/gpu", f"5{MARK}")
#: What the API server makes, and what a device plugin or a driver says of a product.
STAYS = re.compile(r"metadata\.uid|.*\.attributes\.productName\.string")

_Place: TypeAlias = tuple[tuple[str | int, ...], str | int, bool]
"""Where a text is: the way to its container, its key, and whether the key itself is meant."""


def document_of(row: Watched[Any]) -> Json:
    """Return an object of a kind with the fields that are read, and no others."""
    decoder: Any = decode_pod if row.decode is decode_seen_pod else row.decode
    read: Json = json.loads(msgspec.json.encode(decoder(written(DOCUMENTS[decoder]))))
    read = _without_nulls(read)
    read.setdefault("metadata", {}).setdefault("uid", "3f6c0a52-0000-4000-8000-000000000001")
    return read


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[_Place]:
    """Yield every key and every text."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        if isinstance(key, str):
            yield way, key, True
        if isinstance(each, str):
            yield way, key, False
        else:
            yield from places(each, (*way, key))


def marked(document: Json, place: _Place, text: str) -> Json:
    """Return a document with a text in a place."""
    way, key, is_key = place
    whole = holder = copy.deepcopy(document)
    for step in way:
        holder = holder[step]  # type: ignore[index]  # a list or an object
    if is_key:
        holder[text] = holder.pop(key)  # type: ignore[arg-type]  # it is an object
    else:
        holder[key] = text  # type: ignore[index]  # a list or an object
    return whole


def as_made(document: Json) -> Json:
    """Return an object with a UID as the API server makes them: those of the builders are made of its name."""
    meta = document["metadata"]
    return document | {"metadata": meta | {"uid": str(uuid.uuid5(uuid.NAMESPACE_OID, meta["uid"]))}}


def news(row: Watched[Any], document: Json) -> list[Event[Any]]:
    """Return what a document amounts to, nothing where it cannot be read."""
    try:
        return [each for each in row.seen(row.decode(written(document)), Known()) if isinstance(each, Event)]
    except DecodeError:
        return []


def _where(place: _Place) -> str:
    return ".".join(map(str, (*place[0], place[1])))


def said(told: list[Event[Any]]) -> bytes:
    """Return how events are recorded under pseudonyms."""
    names = Pseudonyms()
    renamer = Anonymiser(names)
    for each in told:
        renamer.event(each)
    names.settle()
    return EntryWriter().rewrite([Noted(renamer.event(each), Readings(), b"") for each in told])


@pytest.mark.parametrize("row", WATCHED, ids=lambda row: row.name)
def test_no_text_of_any_kind_of_object_remains(row: Watched[Any]) -> None:
    """Whichever value or key of an object is a name, whatever it looks like, it is gone."""
    document = document_of(row)
    for number, place in enumerate(places(document)):
        where = _where(place)
        for form in {MARK, FORMS[number % len(FORMS)]}:
            told = news(row, marked(document, place, form))
            assert STAYS.fullmatch(where) or MARK.encode() not in said(told), (where, form)


def keys_in_the_code() -> set[str]:
    """Return what reads like a key of a label or an annotation in the code of Muster."""
    key = re.compile(r"[a-z0-9][a-z0-9.-]*\.[a-z]+/[A-Za-z0-9._-]*[A-Za-z0-9]")
    return {
        node.value
        for path in Path("extender").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and key.fullmatch(node.value)
    }


KEYS = sorted(keys_in_the_code())


#: Objects of tenants, and nodes: what they say by labels and annotations is tried key by key.
_LABELLED = [row for row in WATCHED if row.kind in {"Pod", "Node", "Namespace", "Device"} or "x-k8s" in row.name]


@pytest.mark.parametrize("row", _LABELLED, ids=lambda row: row.name)
def test_no_value_of_a_key_that_is_read_remains(row: Watched[Any]) -> None:
    """Labels and annotations that Muster reads say whatever a tenant likes."""
    document = document_of(row) | {"spec": {}, "status": {}}
    meta = document["metadata"]
    for number, key in enumerate(each for each in KEYS if each not in commonwords.TELLING):
        meta["labels"] = meta["annotations"] = {key: FORMS[number % len(FORMS)]}
        assert MARK.encode() not in said(news(row, document)), key


def test_what_says_what_a_node_is_stays() -> None:
    """Bandwidth and links follow from products, architectures and types of instances, so these are kept."""
    nodes = next(row for row in WATCHED if row.kind == "Node")
    labels = {key: f"H{number}-product" for number, key in enumerate(sorted(commonwords.TELLING))}
    told = said(news(nodes, node_json("node", labels=labels)))
    assert [value for value in labels.values() if value.encode() not in told] == []


#: Keys in the code that are no label's, taint's, gate's or condition's: versions of APIs, resources, annotations that
#: only Muster writes, or of which nothing is recorded.
_NO_KEYS = re.compile(
    r".*/v[0-9]\w*|(?:nvidia|cambricon|enflame|huawei|hygon|kunlunxin|metax-tech|mthreads)\.com/[\w.-]+"
    r"|hami\.io/.*|muster\.dev/(?:muster|EvictionPlanned|attempt|asked-for|asks-for-nodes|place)"
    r"|muster\.dev/(?:gpu-links|eviction-acknowledged|eviction-planned|last-checkpoint|(?:observed|predicted)-.*)"
    r"|k8s\.io/initial-events-end|resource\.kubernetes\.io/.*|scheduling\.koordinator\.sh/.*"
    r"|karpenter\.sh/do-not-disrupt|cluster-autoscaler\.kubernetes\.io/safe-to-evict|fabric\.topograph\.run/tier-"
    r"|topology\.k8s\.aws/network-node-layer-|kueue\.x-k8s\.io/pod-group-.*|kai\.scheduler/numa-placement-observed"
    r"|(?:alpha\.jobset|leaderworkerset)\.sigs\.k8s\.io/.*|disaggregatedset\.x-k8s\.io/.*|muster\.dev/(?:group|user)"
    r"|(?:apps|batch)\.kubernetes\.io/.*|grove\.io/podclique-pod-index|ray\.io/(?:replica-host|worker-group-replica)-.*"
    r"|training\.kubeflow\.org/.*|volcano\.sh/.*|jobset\.sigs\.k8s\.io/.*"
)


def test_keys_that_decide_stay() -> None:
    """Every other key in the code is one that a snapshot without names keeps: decisions depend on what it means."""
    renamer = Anonymiser(Pseudonyms())
    renamer.names.settle()
    unknown = []
    for key in KEYS:
        try:
            assert renamer.key(key) == key
        except KeyError:  # it would get a pseudonym
            unknown.append(key)
    assert [each for each in unknown if not _NO_KEYS.fullmatch(each)] == []


def _stays(place: _Place) -> bool:
    """Tell whether the text at a place stays, by its way or, of objects in others, by its key."""
    return any(map(STAYS.fullmatch, (_where(place), f"metadata.{place[1]}")))


@share(0.5)
@given(seed=st.integers(0, 2**32))
@example(seed=510509)  # a product of a device
def test_many_marks_at_once_leave_nothing_in_the_file(seed: int) -> None:
    """All that was recorded, said, and standing at the end: no part of the file has a mark, and it plays."""
    drawn = random.Random(seed)
    story = Story(Settings(topology_levels=(TopologyLevel(name=MARK, nodeLabel=f"x.google.com/{MARK}"),)))
    story.open()
    for row in drawn.sample(WATCHED, 12):
        document = document_of(row)
        chosen = [each for each in places(document) if not (each[2] or _stays(each))]
        for place in drawn.sample(chosen, min(len(chosen), 4)):
            document = marked(document, place, f"{drawn.choice(FORMS)}-{drawn.randrange(9)}")
        for each in news(row, document):
            story.recorder.apply(each)
    story.start()
    story.recorder.apply(Decide())
    done = anonymise(story.snapshot())
    assert MARK.encode() not in everything(done.snapshot)
    assert judge(done.snapshot).same


def _secret_world(story: Story) -> list[str]:
    """Tell of a cluster of which every name is a mark; return the nodes that a gang of two was promised."""
    selector = f'device.attributes["{MARK}.example.com"].{MARK}grade == "{MARK}-gold" && device.driver != "{MARK}"'
    grades = {f"{MARK}grade": {"string": f"{MARK}-gold"}}
    rows = {row.kind: row for row in WATCHED}
    label = {f"x.google.com/{MARK}": f"{MARK}-rack"}
    objects: list[tuple[str, Json]] = []
    for number in range(3):
        name = f"{MARK}-node-{number}"
        node = node_json(name, labels=label if number else {})
        node["status"]["allocatable"] |= {f"{MARK}.example/fpga": "4"}
        devices = [device_json(f"{MARK}-{each}", attributes=grades) for each in range(2)]
        objects += [
            ("Node", node),
            ("ResourceSlice", slice_json(f"{MARK}-{number}", *devices, driver=f"{MARK}.example.com", node=name)),
        ]
    objects.append(("DeviceClass", class_json(f"{MARK}-class", selector)))
    claim = {"devices": {"requests": [request_json(f"{MARK}-request", f"{MARK}-class")]}}
    meta = {"namespace": "default", "name": f"{MARK}-template", "uid": "3f6c0a52-0000-4000-8000-00000000000a"}
    objects += [
        ("ResourceClaimTemplate", {"metadata": meta, "spec": {"spec": claim}}),
        ("PodGroup", coscheduling_json(f"{MARK}-gang", minMember=2)),
    ]
    for row, document in ((rows[kind], document) for kind, document in objects if kind != "PodGroup"):
        for event in news(row, as_made(document)):
            story.recorder.apply(event)
    groups = next(row for row in WATCHED if row.name == "podgroups.scheduling.x-k8s.io")
    for event in news(groups, as_made(objects[-1][1])):
        story.recorder.apply(event)
    requests = {"cpu": "1", GPU: "1", f"{MARK}.example/fpga": "3"}
    for number in range(2):
        pod = pod_json(f"{MARK}-pod-{number}", gang=f"{MARK}-gang")
        pod["spec"] |= {
            "nodeSelector": label,
            "containers": [{"name": MARK, "resources": {"requests": requests, "claims": [{"name": MARK}]}}],
            "resourceClaims": [{"name": MARK, "resourceClaimTemplateName": f"{MARK}-template"}],
        }
        for event in news(rows["Pod"], as_made(pod)):
            story.recorder.apply(event)
    story.recorder.apply(Rebuild())
    story.recorder.apply(Tick())
    wishes = story.recorder.apply(Decide()).nominations
    for uid, wish in wishes.items():
        story.recorder.apply(Filter(wish.pod, [wish.node]))
        story.recorder.apply(Arrive(uid, wish.node))
    return [wish.node for wish in wishes.values()]


def test_what_it_decides_by_names_of_all_sorts_is_decided_again() -> None:
    """Own resources, keys, drivers, attributes and selectors: a gang goes to the same nodes under pseudonyms."""
    story = Story(
        Settings(
            scheduler_names=("muster", MARK),
            ignored_resources=(f"{MARK}.example/part",),
            device_class_mappings=(
                DeviceClassMapping(name=f"{MARK}.example/dev", deviceClassNames=(f"{MARK}-class",)),
            ),
            history_store=f"postgresql://{MARK}@{MARK}/history",
            history_user_label=f"{MARK}.example/user",
            provisioning_class=f"{MARK}.example.com",
            provisioning_parameters=(f"{MARK}=1",),
        )
    )
    nodes = _secret_world(story)
    assert sorted(nodes) == [f"{MARK}-node-1", f"{MARK}-node-2"]
    snapshot = story.snapshot()
    assert everything(snapshot).count(MARK.encode()) > 50
    done = anonymise(snapshot)
    assert (done.departs, MARK.encode() in everything(done.snapshot)) == (0, False)
    assert judge(done.snapshot).same


def test_a_selector_keeps_what_it_compares_products_with() -> None:
    """Parts of what devices say that stays, versions and amounts are no names; comments and raw texts may have some."""
    attributes = {"productName": {"string": "NVIDIA H100"}, "type": {"string": "gpu"}}
    slices = next(row for row in WATCHED if row.kind == "ResourceSlice")
    classes = next(row for row in WATCHED if row.kind == "DeviceClass")
    told = news(slices, slice_json("s", device_json("gpu-0", attributes=attributes)))
    kept = (
        'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H") && '
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    )
    spoken = f"{kept} // {MARK}\n|| r'{MARK}' == '''{MARK}''' || {MARK}.all(x, x == 5{MARK}) || \u00e9"
    told += news(classes, class_json("gpu.nvidia.com", spoken))
    names = Pseudonyms()
    renamer = Anonymiser(names)
    for each in told:
        renamer.event(each)
    names.settle()
    (expression,) = renamer.event(told[-1]).device_class.selectors  # type: ignore[attr-defined]  # of a class
    assert expression == (f'{kept}  \n|| r"device_000001" == "device_000001" || device_000001.all(x, x == 0) || ')
