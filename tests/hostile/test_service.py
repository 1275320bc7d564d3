"""A running Muster that is told of pods, gangs, nodes and Queues whose every text is hostile: what it answers."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ET
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.admission.events import Event
from extender.control.watched import WATCHED, Known
from extender.objects.keys import KNOWN_ANNOTATIONS, KNOWN_LABELS
from tests.builders import GPU, Json, coscheduling_json, node_json, pod_json, written
from tests.control.conftest import Muster
from tests.hostile.texts import ATTACKS
from tests.patience import HANGS
from tests.service.conftest import http, muster, settings, term
from tests.service.serving import until

__all__ = ["http", "muster", "settings", "term"]

_ROWS = {row.name: row for row in WATCHED}
_GROUPS = "podgroups.scheduling.x-k8s.io"


def tell(muster: Muster, name: str, document: Json) -> None:
    """Let a watch tell of an object."""
    row = _ROWS[name]
    for each in row.seen(row.decode(written(document)), Known()):
        if isinstance(each, Event):
            muster.controller.tell(each)


def hostile_pod(name: str, text: str, gang: str = "") -> Json:
    """Return a pod that says one text wherever it may say any."""
    labels = {text: text} | ({} if gang else dict.fromkeys(KNOWN_LABELS, text))
    pod = pod_json(
        name,
        gpus=9,
        gang=gang,
        labels=labels,
        annotations=dict.fromkeys(KNOWN_ANNOTATIONS, text) | {text: text},
        spec={"nodeSelector": {text: text}, "priorityClassName": text},
    )
    container = {"name": text, "resources": {"requests": {f"{text}/x": "1", GPU: "9"}}}
    pod["spec"] |= {"containers": [container], "tolerations": [{"key": text, "value": text, "effect": text}]}
    said = {"type": "PodScheduled", "status": "False", "reason": text, "message": text}
    pod["status"] |= {"conditions": [said], "message": text, "reason": text}
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": text, "kind": text, "name": text, "uid": text, "controller": True}
    ]
    return pod


def tell_of_everything(muster: Muster, text: str, number: int) -> None:
    """Tell of a node, a Queue, a gang and single pods, all of them hostile."""
    node = node_json(f"{text}-{number}", labels={text: text, "topology.kubernetes.io/zone": text})
    node["spec"]["taints"] = [{"key": text, "value": text, "effect": "NoSchedule"}]
    tell(muster, "nodes", node)
    queue = {"metadata": {"name": text, "uid": f"q{number}"}, "spec": {"parent": text, "weight": 1}}
    tell(muster, "queues.muster.dev", queue)
    tell(muster, _GROUPS, coscheduling_json(text, minMember=2))
    for member in range(2):
        tell(muster, "pods", hostile_pod(f"{text}-{number}-{member}", text, text))
    tell(muster, "pods", hostile_pod(f"{text}-{number}-alone", text))


async def decided(http: httpx.AsyncClient) -> None:
    """Wait until it is said of each gang why it waits."""
    async with asyncio.timeout(HANGS):
        rows: list[Json] = []
        while not rows or not all(row["reason"] for row in rows):
            await asyncio.sleep(0.05)
            rows = (await http.get("/api/v1/gangs")).json().get("gangs", [])


async def test_every_answer_is_of_its_form(muster: Muster, http: httpx.AsyncClient) -> None:
    """JSON that can be read; a picture that is SVG and runs nothing; and no answer that is an error of Muster's."""
    muster.nodes(2)
    for number, text in enumerate(ATTACKS):
        tell_of_everything(muster, text, number)
    muster.sync()
    await decided(http)
    paths = (await http.get("/openapi.json")).json()["paths"]
    asked = [path for path, methods in paths.items() if "get" in methods and not path.endswith("/stream")]
    assert len(asked) > 10
    for path in asked:
        for text in ATTACKS if "{" in path else ATTACKS[:1]:
            where = path.replace("{namespace}", "default").replace("{name}", quote(text[:200], safe=""))
            answer = await http.get(where)
            assert answer.status_code < 500 or answer.status_code == 503, where
            if answer.headers["content-type"].startswith("application/json"):
                json.loads(answer.content)
            if answer.headers["content-type"].startswith("image/svg"):
                names = {each.tag.rpartition("}")[2].lower() for each in ET.fromstring(answer.content).iter()}  # noqa: S314 - our own
                assert names.isdisjoint({"script", "foreignobject", "a", "image", "iframe"})


async def test_metrics_are_read_as_they_are_meant(muster: Muster, http: httpx.AsyncClient) -> None:
    """Quotes and line ends in the name of a Queue are escaped; and no text of a tenant's is a label's value."""
    queue = ATTACKS.index('"} 1\nmuster_up{x="')
    for number, text in enumerate(ATTACKS):
        if number != queue:
            tell(muster, "pods", hostile_pod(f"pod-{number}", text))
            tell(muster, _GROUPS, coscheduling_json(f"gang-{number}", minMember=1))
            tell(muster, "pods", hostile_pod(f"pod-{number}-0", text, f"gang-{number}"))
    flavor = {"name": "f", "resources": [{"name": GPU, "nominalQuota": "8"}]}
    tell(muster, "queues.muster.dev", {"metadata": {"name": ATTACKS[queue], "uid": "q"}, "spec": {"flavors": [flavor]}})
    muster.sync()
    await decided(http)
    text = (await http.get("/metrics")).text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    values = {value for each in samples for value in each.labels.values()}
    assert ATTACKS[queue] in values
    assert not any(each.name == "muster_up" for each in samples)
    said = [one for one in ATTACKS if one != ATTACKS[queue] and len(one) > 2]
    assert [value for value in values if any(one in value for one in said)] == []


async def test_what_no_node_lists_is_one_series(muster: Muster, http: httpx.AsyncClient) -> None:
    """A tenant may ask for resources of any number of names; each would be a time series for good."""
    muster.nodes(1)
    for number in range(50):
        pod: Any = pod_json(f"pod-{number}", gpus=1)
        pod["spec"]["containers"][0]["resources"]["requests"] = {f"tenant.example/{number}": "3", GPU: "9"}
        tell(muster, "pods", pod)
    muster.sync()
    async with asyncio.timeout(HANGS):
        await until(lambda: muster.sample("muster_unmet_demand", resource="other") == 150)
    assert muster.sample("muster_unmet_demand", resource=GPU) == 450
    text = (await http.get("/metrics")).text
    assert text.count("muster_unmet_demand{") < 10


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
async def test_what_is_written_about_a_hostile_gang_can_be_sent(
    muster: Muster, http: httpx.AsyncClient, text: str
) -> None:
    """Events and status say why it waits, in text that JSON takes."""
    muster.nodes(1)
    tell_of_everything(muster, text, 0)
    muster.sync()
    await decided(http)
    async with asyncio.timeout(HANGS):
        await until(lambda: bool(muster.api.events))
    for event in muster.api.events:
        json.dumps([event.reason, event.message, event.about.name]).encode()
        assert event.reason.isalnum()
