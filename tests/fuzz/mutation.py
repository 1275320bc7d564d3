"""Requests for fuzzing: kube-scheduler's own, about pods that exist, then spoiled in bytes or in structure."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from extender.objects.pod import Pod
from tests.fuzz.subject import GPU, NODES, Request
from tests.objects.documents import load

VERBS = ("filter", "prioritize", "bind", "preempt")

#: What real kube-schedulers sent, by verb.
_RECORDED: dict[str, list[Any]] = {verb: [] for verb in VERBS}
for _name, _document in load("objects/data/protocol.json").items():
    if _name.startswith("filter") and "Pod" in _document:
        _RECORDED["filter"].append(_document)
        _RECORDED["prioritize"].append(_document)
    elif _name.startswith("preempt") and "Pod" in _document:
        _RECORDED["preempt"].append(_document)
    elif _name == "bind":
        _RECORDED["bind"].append(_document)

#: Values that a field of any type may wrongly hold.
_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, -0.0, "", "\0", "ä", "\U0001f4a5",
    "9" * 5000, "1e999", "-1", "8Ei", "0.0000001", "1n", "Infinity", "node-0", "ghost", "muster", "default-scheduler",
    "Running", "Succeeded", "Exists", "Gt", [], {}, [None], [[]], {"": None}, {"a": {"b": {"c": []}}}, ["node-0"] * 3,
)  # fmt: skip
_PIECES = (
    b"null",
    b"[",
    b"{",
    b"]",
    b"}",
    b'"',
    b",",
    b":",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\0",
    b"1e999",
    b"[" * 600,
)
_PATHS = (
    "/dash/board",
    "/v1",
    "/v1/",
    "/v1/filter/",
    "/v1/../metrics",
    "/healthz",
    "/readyz",
    "/metrics",
    "/V1/filter",
    "/v1/evict",
)
_METHODS = ("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "post", "")


class Mutator:
    """Draw requests from a seed; the same seed gives the same requests."""

    def __init__(self, seed: int) -> None:
        """Begin."""
        self._random = Random(seed)

    def request(self, pods: Sequence[Pod]) -> Request:
        """Return the next request; many are about one of `pods`."""
        random = self._random
        verb = random.choice(VERBS)
        document = self._document(verb, pods)
        kind = random.random()
        if kind < 0.5:
            for _ in range(random.randint(1, 4)):
                self._spoil(document)
        body = _written(document)
        if 0.5 <= kind < 0.75:
            body = self._garble(body)
        elif 0.75 <= kind < 0.8:
            body = _written(self._anything(4))
        elif 0.8 <= kind < 0.82:
            return Request(random.choice(_METHODS), f"/v1/{verb}", body)
        elif 0.82 <= kind < 0.84:
            return Request("POST", random.choice(_PATHS), body)
        elif 0.84 <= kind < 0.86:
            length = str(random.choice((0, -1, len(body) - 1, 10**9, 10**400, "x"))).encode()
            return Request("POST", f"/v1/{verb}", body, ((b"content-length", length),))
        elif 0.86 <= kind < 0.861:
            body += b" " * 70_000
        return Request("POST", f"/v1/{verb}", body)

    def _document(self, verb: str, pods: Sequence[Pod]) -> Any:
        random = self._random
        if random.random() < 0.2:
            return copy.deepcopy(random.choice(_RECORDED[verb]))
        pod, names = random.choice(pods), random.sample(NODES, random.randint(0, len(NODES)))
        if verb == "bind":
            node = random.choice(NODES)
            return {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        if verb == "preempt":
            victims = {name: {"Pods": [{"UID": random.choice(pods).uid}], "NumPDBViolations": 0} for name in names}
            return {"Pod": _wire(pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        if random.random() < 0.3:
            items = [{"metadata": {"name": name}, "status": {"allocatable": {GPU: "8"}}} for name in names]
            return {"Pod": _wire(pod), "Nodes": {"items": items}, "NodeNames": None}
        return {"Pod": _wire(pod), "Nodes": None, "NodeNames": names}

    def _spoil(self, document: Any) -> None:
        """Replace, remove, double or rename one value somewhere in the document."""
        random = self._random
        holder, key = random.choice(_places(document) or [({"": 0}, "")])
        match random.randrange(5):
            case 0 | 1:
                holder[key] = copy.deepcopy(random.choice(_ODD))
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 3:
                holder[f"{key}{key}"] = holder[key]
            case _:
                holder[key] = self._anything(2)

    def _anything(self, depth: int) -> Any:
        random = self._random
        kind = random.random()
        if depth and kind < 0.3:
            return [self._anything(depth - 1) for _ in range(random.randrange(4))]
        if depth and kind < 0.6:
            keys = ("Pod", "NodeNames", "Nodes", "metadata", "spec", "uid", "Error", "containers", "items", "")
            return {random.choice(keys): self._anything(depth - 1) for _ in range(random.randrange(4))}
        return copy.deepcopy(random.choice(_ODD))

    def _garble(self, body: bytes) -> bytes:
        """Flip, cut, insert or double some bytes."""
        random = self._random
        garbled = bytearray(body)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(garbled) + 1)
            match random.randrange(4):
                case 0 if at < len(garbled):
                    garbled[at] ^= 1 << random.randrange(8)
                case 1:
                    del garbled[at : at + random.randint(1, 20)]
                case 2:
                    garbled[at:at] = random.choice(_PIECES)
                case _:
                    garbled[at:at] = garbled[at : at + random.randint(1, 50)]
        return bytes(garbled)


def _wire(pod: Pod) -> dict[str, Any]:
    """Return a pod as kube-scheduler sends it."""
    labels = {"scheduling.x-k8s.io/pod-group": pod.group.name} if not pod.group.is_pod else None
    requests = {"cpu": "1", GPU: "8"}
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": labels},
        "spec": {"schedulerName": "muster", "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return every container in the document with every key or index of it."""
    found: list[tuple[Any, Any]] = []
    left = [document]
    while left:
        holder = left.pop()
        entries = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, value in entries:
            found.append((holder, key))
            left.append(value)
    return found


def _written(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
