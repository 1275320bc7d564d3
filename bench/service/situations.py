"""The situations in which Muster is asked, each with the calls to make and what a right answer looks like."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from bench.service.calls import Call, Connection, prepare
from bench.service.documents import NAMESPACE
from bench.service.objects import PodRecord, caller_pod, node_name, node_names
from bench.service.population import PINNED, WAITING, Size, bound_pod, foreign, member, own, single
from bench.service.stand import Stand
from localcluster.errors import LocalClusterError

#: What kube-scheduler offers for preemption: a tenth of the nodes, at least a hundred.
#: Source: DefaultPreemptionArgs, minCandidateNodesPercentage and minCandidateNodesAbsolute.
_CANDIDATE_SHARE, _FEWEST_CANDIDATES = 10, 100

_Judge: TypeAlias = Callable[[Any], bool]
_Asked: TypeAlias = Iterable[tuple[object, _Judge]]


def prepare_calls(stand: Stand, connection: Connection, situation: str) -> list[Call]:
    """Make every call of a situation once and return them all.

    Raises LocalClusterError, with the end of Muster's log, if it does not answer as it must in that situation.
    """
    try:
        return list(_prepared(stand, connection, situation))
    except LocalClusterError as error:
        raise LocalClusterError(f"{situation}: {error}\n{stand.muster.log_tail()}") from error


def _prepared(stand: Stand, connection: Connection, situation: str) -> Iterator[Call]:
    verb, ask = SITUATIONS[situation]
    for body, judge in ask(stand):
        encoded = json.dumps(body, separators=(",", ":")).encode()
        yield prepare(connection, verb, encoded, lambda answer, right=judge: right(json.loads(answer)))  # type: ignore[misc]  # mypy infers no type for a lambda's default


def pinned(stand: Stand) -> _Asked:
    """Offer each member of the gang that fits its own node, as kube-scheduler does once it is nominated."""
    for number, node in stand.pinned().items():
        pod = member(PINNED, number)
        pod.nominated = node
        yield _offer(pod, [node]), _accepts([node])


def waiting(stand: Stand) -> _Asked:
    """Offer every node to the members of the gang that waits for one more."""
    pods = (member(WAITING, number) for number in range(stand.size.waiting))
    return ((_offer(pod, names), _refuses) for pod, names in zip(pods, _offered(stand.size.nodes), strict=False))


def filter_single(stand: Stand) -> _Asked:
    """Offer every node to pods without gang, each of which is planned on one of them."""
    pods = (single(number) for number in range(stand.size.singles))
    return ((_offer(pod, names), _accepts_one) for pod, names in zip(pods, _offered(stand.size.nodes), strict=False))


def prioritize_single(stand: Stand) -> _Asked:
    """Have every node scored for pods without gang, each of which is planned on one of them."""
    right = _ranks(stand.size.nodes)
    pods = (single(number) for number in range(stand.size.singles))
    return ((_offer(pod, names), right) for pod, names in zip(pods, _offered(stand.size.nodes), strict=False))


def bind_again(stand: Stand) -> _Asked:
    """Bind pods that are bound already, which costs no request to the API server."""
    running = (own(number, node_name(number % stand.size.nodes)) for number in range(stand.size.singles))
    return ((_binding(pod), _binds) for pod in running)


def preempt_foreign(stand: Stand) -> _Asked:
    """Offer victims, one on each candidate node, to pods of another scheduler: for its own, Muster picks victims."""
    count = candidates(stand.size)
    victims = {
        node_name(number): {"Pods": [{"UID": bound_pod(number, "").uid}], "NumPDBViolations": 0}
        for number in range(count)
    }
    for number in range(min(2, stand.size.singles)):
        pod = json.loads(caller_pod(foreign(number)))
        yield {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}, _allows(count)


#: Situation -> the verb, and what is asked of one Muster.
SITUATIONS: Mapping[str, tuple[str, Callable[[Stand], _Asked]]] = MappingProxyType(
    {
        "pinned_filter": ("filter", pinned),
        "waiting_filter": ("filter", waiting),
        "filter": ("filter", filter_single),
        "prioritize": ("prioritize", prioritize_single),
        "bind": ("bind", bind_again),
        "preempt": ("preempt", preempt_foreign),
    }
)


def candidates(size: Size) -> int:
    """Return how many nodes kube-scheduler offers for preemption; each needs a victim."""
    return min(size.nodes, size.bound, max(_FEWEST_CANDIDATES, size.nodes // _CANDIDATE_SHARE))


def _offered(nodes: int) -> Iterator[list[str]]:
    """Yield the names of all nodes again and again, each time in another order, as kube-scheduler offers them."""
    order, names = random.Random(nodes), node_names(nodes)
    while True:
        order.shuffle(names)
        yield list(names)


def _offer(pod: PodRecord, names: Sequence[str]) -> object:
    return {"Pod": json.loads(caller_pod(pod)), "Nodes": None, "NodeNames": names}


def _binding(pod: PodRecord) -> object:
    return {"PodName": pod.name, "PodNamespace": NAMESPACE, "PodUID": pod.uid, "Node": pod.node}


def _accepts(names: Sequence[str]) -> _Judge:
    return lambda answer: answer["NodeNames"] == names and not answer.get("Error")


def _accepts_one(answer: Any) -> bool:  # noqa: ANN401 - decoded JSON
    return len(answer["NodeNames"]) == 1 and not answer.get("Error")


def _refuses(answer: Any) -> bool:  # noqa: ANN401 - decoded JSON
    return not answer.get("NodeNames") and not answer.get("Error")


def _ranks(count: int) -> _Judge:
    return lambda answer: 0 < len(answer) <= count and answer[0].keys() == {"Host", "Score"}


def _binds(answer: Any) -> bool:  # noqa: ANN401 - decoded JSON
    return not answer.get("Error")


def _allows(count: int) -> _Judge:
    return lambda answer: len(answer["NodeNameToMetaVictims"]) == count
