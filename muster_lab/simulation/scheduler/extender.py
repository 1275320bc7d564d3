"""The HTTP extender client of kube-scheduler: the same bodies, the same checks of what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import orjson

from extender.objects.meta import DecodeError, Decoder, encode
from extender.objects.pod import Pod
from extender.service.verbs import BindingResult, FilterResult, HostPriority, PreemptionResult
from muster_lab.simulation.objects import Stored

Transport: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Posts a body to a path and returns the answer's body; raises TransportError for anything but HTTP 200."""

#: Where Muster's verbs are.
PREFIX = "/v1"

#: As in scheduler-config/muster.yaml: how long a call may take (seconds), and what the extender's scores count.
TIMEOUT_SECONDS = 30.0
WEIGHT = 5

_T = TypeVar("_T")

_decode_filter = Decoder(FilterResult)
_decode_priorities = Decoder(list[HostPriority])
_decode_binding = Decoder(BindingResult)
_decode_preemption = Decoder(PreemptionResult)


class TransportError(Exception):
    """The request was not answered with HTTP 200; the message says what happened instead."""


class ExtenderError(Exception):
    """A call to the extender failed: no usable answer, or an answer with `Error`."""


@dataclass(frozen=True, slots=True)
class ExtenderAnswer:
    """What filter answered: the nodes that remain, and why others do not; `unresolvable` ones evicting cannot help."""

    accepted: list[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class ExtenderClient:
    """Ask an extender as kube-scheduler does, with `nodeCacheCapable: true`.

    Attributes:
        weight: what one point of the extender's score counts.
    """

    def __init__(self, transport: Transport, *, timeout: float = TIMEOUT_SECONDS, weight: int = WEIGHT) -> None:
        """Send through `transport`; give up on a call after `timeout` seconds."""
        self._transport = transport
        self._timeout = timeout
        self.weight = weight

    async def filter(self, pod: Stored, names: Sequence[str]) -> ExtenderAnswer:
        """Ask which nodes remain; raise ExtenderError if that is not answered, or with nodes that were not offered."""
        body = await self._send("filter", _arguments(pod, names))
        result = _read(_decode_filter, body)
        if result.error:
            raise ExtenderError(result.error)
        accepted = result.node_names or []
        offered = set(names)
        for name in accepted:
            if name not in offered:
                message = (
                    f'extender "{PREFIX}" claims a filtered node "{name}" which is not found in the input node list'
                )
                raise ExtenderError(message)
        return ExtenderAnswer(accepted, result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {})

    async def prioritize(self, pod: Stored, names: Sequence[str]) -> dict[str, int]:
        """Ask for scores; without an answer every node has none, as kube-scheduler sees it."""
        try:
            body = await self._send("prioritize", _arguments(pod, names))
            scores = _read(_decode_priorities, body)
        except ExtenderError:
            return {}
        return {score.host: score.score for score in scores}

    async def bind(self, pod: Pod, node: str) -> None:
        """Have a pod bound; raise ExtenderError if it was not."""
        arguments = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        result = _read(_decode_binding, await self._send("bind", encode(arguments)))
        if result.error:
            raise ExtenderError(result.error)

    async def preempt(self, pod: Stored, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Ask on which nodes to evict whom, all by UID; raise ExtenderError if that is not answered."""
        meta = {node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in victims.items()}
        arguments = {"Pod": orjson.Fragment(pod.body), "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
        result = _read(_decode_preemption, await self._send("preempt", encode(arguments)))
        return {
            node: [meta_pod.uid for meta_pod in chosen.pods or () if meta_pod is not None and meta_pod.uid]
            for node, chosen in result.node_name_to_meta_victims.items()
        }

    async def _send(self, verb: str, body: bytes) -> bytes:
        path = f"{PREFIX}/{verb}"
        try:
            async with asyncio.timeout(self._timeout):
                return await self._transport(path, body)
        except TimeoutError as error:
            message = f'Post "{path}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
            raise ExtenderError(message) from error
        except TransportError as error:
            message = f"failed {verb} with extender at URL {path}, {error}"
            raise ExtenderError(message) from error


def _arguments(pod: Stored, names: Sequence[str]) -> bytes:
    return encode({"Pod": orjson.Fragment(pod.body), "Nodes": None, "NodeNames": list(names)})


def _read(decode: Decoder[_T], body: bytes) -> _T:
    try:
        return decode(body)
    except DecodeError as error:
        raise ExtenderError(str(error)) from error
