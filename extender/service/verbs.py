"""The extender's four verbs over HTTP.

A request that could be read is always answered with HTTP 200: kube-scheduler throws the body of anything else away, and
with it the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from fastapi import APIRouter, Request, Response

from extender.admission.answers import Filtered, Outcome
from extender.clock import Clock
from extender.control.controller import Controller, NotSyncedError
from extender.control.metrics import Metrics
from extender.control.ports import PodKey
from extender.domain.pod import Pod, read_pod
from extender.domain.reason import Reason
from extender.service.bodies import BodyTooLargeError, read_body
from extender.settings import Settings
from extender.wire import codec
from extender.wire import extender as wire
from extender.wire.kubernetes import Pod as WirePod

log = structlog.get_logger("muster.verbs")

_NO_NAMES = "neither NodeNames nor Nodes in the request; set nodeCacheCapable: true on this extender"
_NO_POD = "no Pod in the request"


class RequestError(ValueError):
    """A request that could be read but asks for nothing that can be answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes to send and how the call ended; `about` and `decision` are for the log."""

    body: bytes
    outcome: Outcome
    about: str = ""
    decision: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Offer:
    """A pod and the nodes it was offered; `raw` are the whole nodes where kube-scheduler sends those."""

    pod: Pod
    names: list[str]
    raw: wire.NodeList | None


class VerbRoutes:
    """Answer filter, prioritize, bind and preempt from a controller."""

    def __init__(self, controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> None:
        """Ask `controller`."""
        self._controller = controller
        self._settings = settings
        self._metrics = metrics
        self._clock = clock

    def router(self) -> APIRouter:
        """Return the routes under /v1."""
        router = APIRouter(prefix="/v1")
        verbs: dict[str, tuple[Callable[[bytes], Awaitable[Answer]], Callable[[str], bytes], str]] = {
            "filter": (self.filter, _filter_error, "Say which of the offered nodes a pod may go to."),
            "prioritize": (self.prioritize, _no_scores, "Score the offered nodes from 0 to 10."),
            "bind": (self.bind, _bind_error, "Bind a pod, once the rest of its gang has arrived."),
            "preempt": (self.preempt, _no_victims, "Say on which of the candidate nodes pods may be evicted."),
        }
        for name, (answer, failure, summary) in verbs.items():
            router.add_api_route(f"/{name}", self._route(name, answer, failure), methods=["POST"], summary=summary)
        return router

    async def filter(self, body: bytes) -> Answer:
        """Answer ExtenderArgs with an ExtenderFilterResult."""
        offer = _read_offer(body)
        filtered = await self._controller.filter(offer.pod, offer.names)
        encoded = _encode_filtered(filtered, offer)
        text = filtered.text or next(iter(filtered.per_node.values()), "")
        return Answer(encoded, filtered.outcome, offer.pod.key, filtered.decision, text)

    async def prioritize(self, body: bytes) -> Answer:
        """Answer ExtenderArgs with a HostPriorityList."""
        offer = _read_offer(body)
        scores = self._controller.prioritize(offer.pod, offer.names)
        hosts = [{"Host": name, "Score": score} for name, score in zip(offer.names, scores, strict=True)]
        return Answer(codec.encode(hosts), Outcome.RANKED, offer.pod.key)

    async def bind(self, body: bytes) -> Answer:
        """Answer ExtenderBindingArgs with an ExtenderBindingResult."""
        args = codec.decode_binding_args(body)
        if not (args.pod_name and args.pod_namespace and args.pod_uid and args.node):
            msg = "PodName, PodNamespace, PodUID and Node are all needed to bind"
            raise RequestError(msg)
        pod = PodKey(args.pod_namespace, args.pod_name, args.pod_uid)
        bound = await self._controller.bind(pod, args.node)
        return Answer(_bind_error(bound.error), bound.outcome, str(pod), bound.decision, bound.error)

    async def preempt(self, body: bytes) -> Answer:
        """Answer ExtenderPreemptionArgs with an ExtenderPreemptionResult that holds only offered victims."""
        args = codec.decode_preemption_args(body)
        pod = _require_pod(args.pod)
        offered = _read_victims(args)
        uids = {node: [p.uid for p in victims.pods or () if p and p.uid] for node, victims in offered.items()}
        allowed = self._controller.preempt(pod, uids)
        result = wire.PreemptionResult({node: offered[node] for node in allowed})
        outcome = Outcome.ALLOWED if allowed else Outcome.VETOED
        return Answer(codec.encode_struct(result), outcome, pod.key)

    def _route(
        self, verb: str, answer: Callable[[bytes], Awaitable[Answer]], failure: Callable[[str], bytes]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a verb: limits before, metric and log after, and an answer in the protocol's terms for every failure."""

        async def endpoint(request: Request) -> Response:
            began = self._clock.monotonic()
            status = 200
            try:
                result = await answer(await read_body(request, self._settings.body_limit_bytes))
            except codec.DecodeError as error:
                status, result = 400, _failed(failure, str(error))
            except BodyTooLargeError as error:
                status, result = 413, _failed(failure, str(error))
            except RequestError as error:
                result = _failed(failure, str(error))
            except NotSyncedError as error:
                result = _failed(failure, f"{Reason.CACHE_NOT_SYNCED}: {error}")
            except Exception as error:  # an error of ours is an answer, never a wrong placement (P9)
                log.exception("verb failed", verb=verb)
                result = _failed(failure, f"internal error: {type(error).__name__}")
            seconds = self._clock.monotonic() - began
            self._metrics.verb_seconds.labels(verb, result.outcome).observe(seconds)
            write = log.warning if result.outcome is Outcome.ERROR else log.debug
            write(
                verb,
                pod=result.about,
                outcome=result.outcome,
                decision=result.decision,
                message=result.error,
                milliseconds=round(seconds * 1000, 3),
            )
            return Response(result.body, status_code=status, media_type="application/json")

        return endpoint


def _failed(failure: Callable[[str], bytes], message: str) -> Answer:
    return Answer(failure(message), Outcome.ERROR, error=message)


def _require_pod(pod: WirePod | None) -> Pod:
    if pod is None or pod.metadata is None or not pod.metadata.uid:
        raise RequestError(_NO_POD)
    return read_pod(pod)


def _read_offer(body: bytes) -> _Offer:
    args = codec.decode_extender_args(body)
    pod = _require_pod(args.pod)
    if args.node_names is not None:
        return _Offer(pod, args.node_names, None)
    if args.nodes is None:
        raise RequestError(_NO_NAMES)
    metas = [codec.decode_metadata(item).metadata for item in args.nodes.items or ()]
    names = [meta.name if meta is not None and meta.name else "" for meta in metas]
    return _Offer(pod, names, args.nodes)


def _encode_filtered(filtered: Filtered, offer: _Offer) -> bytes:
    accepted = set(filtered.accepted)
    if filtered.per_node:
        refused = filtered.per_node
    elif filtered.text:
        refused = dict.fromkeys((name for name in offer.names if name not in accepted), filtered.text)
    else:
        refused = {}
    nodes = None
    if offer.raw is not None:
        kept = [raw for name, raw in zip(offer.names, offer.raw.items or (), strict=True) if name in accepted]
        nodes = wire.NodeList(kept)
    result = wire.FilterResult(
        node_names=None if offer.raw is not None else filtered.accepted,
        nodes=nodes,
        failed_nodes=refused if filtered.resolvable else {},
        failed_and_unresolvable_nodes={} if filtered.resolvable else refused,
    )
    return codec.encode_struct(result)


def _read_victims(args: wire.PreemptionArgs) -> dict[str, wire.MetaVictims]:
    """Return the candidates' victims by UID, whichever form they came in."""
    if args.node_name_to_meta_victims:
        return {node: victims or wire.MetaVictims() for node, victims in args.node_name_to_meta_victims.items()}
    return {
        node: wire.MetaVictims(
            pods=[
                wire.MetaPod(pod.metadata.uid)
                for pod in (victims.pods if victims else None) or ()
                if pod is not None and pod.metadata is not None
            ],
            num_pdb_violations=victims.num_pdb_violations if victims else 0,
        )
        for node, victims in (args.node_name_to_victims or {}).items()
    }


def _filter_error(message: str) -> bytes:
    return codec.encode_struct(wire.FilterResult(error=message))


def _bind_error(message: str) -> bytes:
    return codec.encode_struct(wire.BindingResult(error=message))


def _no_scores(_message: str) -> bytes:
    return b"[]"  # a HostPriorityList has no room for an error; no scores leave the choice to kube-scheduler


def _no_victims(_message: str) -> bytes:
    return codec.encode_struct(wire.PreemptionResult({}))
