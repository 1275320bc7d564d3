"""A pod that a watch tells of again is what it is when it is read whole, however much of it is known by then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects import seenpod
from extender.objects.holdings import OBSERVED_GPUS, PREDICTED_GPUS, PREDICTED_ZONES
from extender.objects.keys import PLACEMENT, QUEUE
from extender.objects.meta import DecodeError
from extender.objects.pod import Pod, read_pod
from extender.objects.podspec import decode_pod
from extender.objects.seenpod import SeenPodDecoder
from tests.builders import GPU, Json, container_json, pod_json, written
from tests.objects.documents import load, spoiled

INDEX = "batch.kubernetes.io/job-completion-index"

#: Pods that Kubernetes wrote with every field set, that use each source of requests, and that say a lot.
PODS: list[Json] = [
    load("objects/data/objects.json")["Pod"],
    *(case["pod"] for case in load("objects/data/requests.json")),
    pod_json(
        "worker-3",
        gpus=8,
        gang="train",
        node="node-1",
        labels={INDEX: "3", QUEUE: "research"},
        annotations={PREDICTED_GPUS: "0,1", PREDICTED_ZONES: "0", OBSERVED_GPUS: "x"},
        spec={"priority": 7, "schedulingGates": [{"name": "a"}], "nodeSelector": {"zone": "a"}},
    ),
    pod_json(
        "devices",
        spec={
            "resourceClaims": [
                {"name": "gpus", "resourceClaimTemplateName": "t"},
                {"name": "c", "resourceClaimName": "c"},
            ],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "gpus"}]}}],
        },
    )
    | {
        "status": {
            "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "devices-gpus-x"}],
            "extendedResourceClaimStatus": {
                "resourceClaimName": "e",
                "requestMappings": [{"containerName": "main", "resourceName": GPU, "requestName": "r"}],
            },
        }
    },
    pod_json("alone", labels={"app": "web"}, annotations={PLACEMENT: "nvidia.com/gpu=binpack,cpu=spread"}),
]


def whole(body: bytes) -> Pod | str:
    """Return the pod as it is read whole, or what is wrong with it."""
    try:
        return read_pod(decode_pod(body), 5)
    except DecodeError as error:
        return str(error)


def seen(decoder: SeenPodDecoder, body: bytes) -> Pod | str:
    """Return the pod as a decoder reads it, or what is wrong with it."""
    try:
        return decoder(body).pod(5)
    except DecodeError as error:
        return str(error)


@pytest.fixture(scope="module")
def knowing() -> SeenPodDecoder:
    """Return a decoder that has seen all of `PODS`, and what other examples made of them."""
    decoder = SeenPodDecoder()
    for pod in PODS:
        decoder(written(pod))
    return decoder


@given(pod=st.sampled_from(PODS).flatmap(spoiled))
def test_a_pod_is_read_as_one_that_is_read_whole(knowing: SeenPodDecoder, pod: Any) -> None:
    """Whatever is known already, the pod is the same, and so is what is wrong with one that cannot be read."""
    body = json.dumps(pod).encode()
    expected = whole(body)
    assert seen(SeenPodDecoder(), body) == expected
    assert seen(knowing, body) == expected
    assert seen(knowing, body) == expected


@given(pod=st.sampled_from(PODS), data=st.data())
def test_bytes_that_are_damaged_are_refused_as_ever(knowing: SeenPodDecoder, pod: Json, data: st.DataObject) -> None:
    """A byte that is another one, or the end of the text, is found in the parts that are known by their text, too."""
    body = bytearray(written(pod))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place : place + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=2))
    assert seen(knowing, bytes(body)) == whole(bytes(body))


@given(pod=st.sampled_from(PODS).flatmap(spoiled), kind=st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]))
def test_a_line_of_a_watch_is_read_in_one_go(knowing: SeenPodDecoder, pod: Any, kind: str) -> None:
    """The line of a pod that was added or changed gives that pod; every other line, and a bad one, gives nothing."""
    body = json.dumps(pod).encode()
    changed = knowing.changed(b'{"type":"%s","object":%s}' % (kind.encode(), body))
    expected = whole(body)
    readable = isinstance(expected, Pod) and kind in {"ADDED", "MODIFIED"} and pod is not None
    assert (changed and changed.pod(5)) == (expected if readable else None)


def test_what_is_not_read_may_differ(knowing: SeenPodDecoder) -> None:
    """Pods of one template share what was read of it, though their volumes have names of their own."""
    pods = []
    for name in "ab":
        container = container_json(requests={GPU: "4"}) | {"volumeMounts": [{"name": f"kube-api-access-{name}"}]}
        pods.append(knowing(written(pod_json(name, spec={"containers": [container]}))).pod())
    assert pods[0].shape is pods[1].shape


def test_long_texts_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels beyond a bound are read each time: a tenant chooses how long they are."""
    monkeypatch.setattr(seenpod, "_LONGEST", 1000)
    decoder = SeenPodDecoder()
    short, long = (written(pod_json("p", labels={"a": "b" * length})) for length in (10, 1000))
    assert decoder(short).words is decoder(short).words
    assert decoder(long).words is not decoder(long).words
    assert decoder(long).pod() == read_pod(decode_pod(long))
