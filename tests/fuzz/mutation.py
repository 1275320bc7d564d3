"""Requests for fuzzing: kube-scheduler's own, about pods that exist, questions of people, and those worth trying again.

All are spoiled in bytes or in structure.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from extender.objects.pod import Pod
from tests.fuzz.guidance import Pool
from tests.fuzz.messages import Request
from tests.fuzz.questions import Questions
from tests.fuzz.spoiling import Spoiler, written
from tests.fuzz.subject import GPU, NODES
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

_PATHS = (
    "/dash/board",
    "/v1",
    "/v1/",
    "/v1/filter/",
    "/v1/../metrics",
    "/V1/filter",
    "/v1/evict",
    "/api/v1",
    "/api/v1/gangs/default",
    "/api/v1/gangs/default/gang/explain/",
    "/api/v2/status",
)
_METHODS = ("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "post", "")
#: Shares of requests that are kept ones spoiled further, and of the others those that people ask.
_AGAIN, _ASKED = 0.3, 0.15


class Mutator:
    """Draw requests from a seed; the same seed and pool give the same requests."""

    def __init__(self, seed: int, document: Mapping[str, Any], pool: Pool) -> None:
        """Begin; `document` is the OpenAPI document of what is asked, `pool` has what is worth trying again."""
        self.random = Random(seed)
        self._pool = pool
        self._spoiler = Spoiler(self.random)
        self._questions = Questions(document, self.random, self._spoiler)

    def request(self, pods: Sequence[Pod]) -> Request:
        """Return the next request; many are about one of `pods`."""
        if len(self._pool) and self.random.random() < _AGAIN:
            return self._again(self._pool.draw(self.random), pods)
        if self.random.random() < _ASKED:
            asked = self._questions.request(pods)
            return asked if self.random.random() > 0.02 else replace(asked, method=self.random.choice(_METHODS))
        return self._of_a_verb(pods)

    def _again(self, kept: Request, pods: Sequence[Pod]) -> Request:
        """Return a request that was kept, spoiled further, as a rule about a pod that exists now."""
        random, body, query = self.random, kept.body, kept.query
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict | list) and random.random() < 0.8:
            if isinstance(document, dict) and random.random() < 0.8:
                _renew(document, random.choice(pods))
            for _ in range(random.randint(0, 3)):
                self._spoiler.spoil(document)
            body = written(document)
        elif body:
            body = self._spoiler.garble(body)
        if query and random.random() < 0.5:
            query = bytes(byte for byte in self._spoiler.garble(query) if 0x20 < byte < 0x7F)
        return replace(kept, body=body, query=query)

    def _of_a_verb(self, pods: Sequence[Pod]) -> Request:
        random = self.random
        verb = random.choice(VERBS)
        document = self._document(verb, pods)
        kind = random.random()
        if kind < 0.5:
            for _ in range(random.randint(1, 4)):
                self._spoiler.spoil(document)
        body = written(document)
        if 0.5 <= kind < 0.75:
            body = self._spoiler.garble(body)
        elif 0.75 <= kind < 0.8:
            body = written(self._spoiler.anything(4))
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
        random = self.random
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


def _renew(document: dict[Any, Any], pod: Pod) -> None:
    """Let a verb's document be about a pod that exists."""
    if "PodUID" in document:
        document |= {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid}
    held = document.get("Pod")
    if isinstance(held, dict) and isinstance(held.get("metadata"), dict):
        held["metadata"] |= {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}


def _wire(pod: Pod) -> dict[str, Any]:
    """Return a pod as kube-scheduler sends it."""
    labels = {"scheduling.x-k8s.io/pod-group": pod.group.name} if not pod.group.is_pod else None
    requests = {"cpu": "1", GPU: "8"}
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": labels},
        "spec": {"schedulerName": "muster", "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }
