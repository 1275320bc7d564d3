"""How full a cluster is before a workload comes: whole nodes, spread at random, taken by running pods of others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum

import orjson

from bench.controlplane.client import Request
from bench.controlplane.workload import GPUS_PER_NODE, MERGE_PATCH
from localcluster.client import NAMESPACES, PODS
from localcluster.workloads import PodTemplate

#: Where the pods are that take nodes: what is created in a measurement is deleted with its own namespace's pods.
_NAMESPACE = "occupied"
#: They ask for what eight pods of a workload ask for, and for another scheduler than any contender is.
_OCCUPANT = PodTemplate(gpus=GPUS_PER_NODE, cpu="32", memory="256Gi", scheduler="another-scheduler")
#: The same nodes are taken in every run.
_SEED = 20


class Fill(StrEnum):
    """How many nodes of a cluster are taken. The value is a part of a case's name."""

    EMPTY = "empty"
    """None."""

    NINE_TENTHS = "nine-tenths"
    """Nine in ten."""

    FULL = "full"
    """All but those that the workload needs at least: it fits, and then nothing else does."""

    def occupied(self, nodes: int, needed: int) -> int:
        """Return how many of `nodes` are taken, if the workload needs so many at least."""
        return {Fill.EMPTY: 0, Fill.NINE_TENTHS: nodes * 9 // 10, Fill.FULL: nodes - needed}[self]

    @property
    def label(self) -> str:
        """Return what people call it."""
        return {Fill.EMPTY: "empty", Fill.NINE_TENTHS: "nine in ten full", Fill.FULL: "full but for these"}[self]


def taken(nodes: Sequence[str], count: int) -> list[str]:
    """Return the nodes that are taken, so many, drawn at random from a fixed seed."""
    return random.Random(_SEED).sample(nodes, count)


def namespace() -> Request:
    """Return what creates the namespace of the pods that take nodes."""
    body = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": _NAMESPACE}}
    return Request("POST", NAMESPACES.path(), orjson.dumps(body))


def creations(nodes: Sequence[str]) -> list[Request]:
    """Return what creates a pod on each node that takes all of its GPUs; no scheduler is asked."""
    return [
        Request("POST", PODS.path(_NAMESPACE), orjson.dumps({**pod, "spec": {**pod["spec"], "nodeName": node}}))
        for node in nodes
        for pod in (_OCCUPANT.pod(node, _NAMESPACE),)
    ]


def starts(nodes: Sequence[str]) -> list[Request]:
    """Return what says that these pods run, as the kubelets would."""
    body = orjson.dumps({"status": {"phase": "Running"}})
    return [Request("PATCH", PODS.path(_NAMESPACE, node, "status"), body, MERGE_PATCH) for node in nodes]
