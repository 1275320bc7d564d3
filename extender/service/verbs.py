"""The extender's four verbs over HTTP.

A request that could be read is always answered with HTTP 200: kube-scheduler throws the body of anything else away, and
with it the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from extender.admission.answers import Filtered, Outcome
from extender.clock import Clock
from extender.control.binding import Bound
from extender.control.controller import Controller
from extender.control.health import DegradedError
from extender.control.metrics import Metrics
from extender.control.ports import PodKey
from extender.domain.pod import Pod, read_pod
from extender.service.bodies import Body, BodyBudget, BodyLostError, BodyTooLargeError
from extender.service.slots import CallSlots, TooManyCallsError
from extender.settings import Settings
from extender.wire import codec
from extender.wire import extender as wire
from extender.wire.kubernetes import Pod as WirePod

log = structlog.get_logger("muster.verbs")

_NO_NAMES = "neither NodeNames nor Nodes in the request; set nodeCacheCapable: true on this extender"
_NO_POD = "no Pod in the request"
#: Largest body of a bind call, in bytes: four names, of 253 characters at most, and a UID. Held binds are many.
_BIND_BODY_BYTES = 16 * 1024


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


@dataclass(frozen=True, slots=True)
class _Verb:
    """One verb: how it is answered, what it answers when that fails, and its limits."""

    name: str
    answer: Callable[[bytes], Awaitable[Answer]]
    failure: Callable[[str], bytes]
    slots: CallSlots
    body_bytes: int
    body_limit_name: str


class VerbRoutes:
    """Answer filter, prioritize, bind and preempt from a controller."""

    def __init__(self, controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> None:
        """Ask `controller`."""
        self._controller = controller
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._budget = BodyBudget(settings.bodies_limit_bytes)
        self._late: set[asyncio.Task[Bound]] = set()

    def routes(self) -> list[Route]:
        """Return the routes under /v1.

        They are Starlette's own: what FastAPI does for each request (dependencies, validation, serialization) is not
        needed for bytes in and bytes out, and costs twice as much as all the rest of a route.
        """
        settings = self._settings
        bind_bytes = min(_BIND_BODY_BYTES, settings.body_limit_bytes)
        limit = (settings.body_limit_bytes, "setting body_limit_bytes")
        calls, binds = (settings.call_limit, "setting call_limit"), (settings.bind_limit, "setting bind_limit")
        verbs = (
            _Verb("filter", self.filter, _filter_error, CallSlots(*calls), *limit),
            _Verb("prioritize", self.prioritize, _no_scores, CallSlots(*calls), *limit),
            _Verb("bind", self.bind, _bind_error, CallSlots(*binds), bind_bytes, "fixed for bind"),
            _Verb("preempt", self.preempt, _no_victims, CallSlots(*calls), *limit),
        )
        return [Route(f"/v1/{verb.name}", self._endpoint(verb), methods=["POST"]) for verb in verbs]

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
        bound = await self._in_time(asyncio.create_task(self._controller.bind(pod, args.node)))
        return Answer(_bind_error(bound.error), bound.outcome, str(pod), bound.decision, bound.error)

    async def preempt(self, body: bytes) -> Answer:
        """Answer ExtenderPreemptionArgs with an ExtenderPreemptionResult that holds only offered victims."""
        args = codec.decode_preemption_args(body)
        pod = _require_pod(args.pod)
        offered = _read_victims(args)
        uids = {node: [p.uid for p in victims.pods or () if p and p.uid] for node, victims in offered.items()}
        allowed = await self._controller.preempt(pod, uids)
        result = wire.PreemptionResult({node: offered[node] for node in allowed})
        outcome = Outcome.ALLOWED if allowed else Outcome.VETOED
        return Answer(codec.encode_struct(result), outcome, pod.key)

    async def _in_time(self, binding: asyncio.Task[Bound]) -> Bound:
        """Return how a bind call ended, or that it has not while kube-scheduler was still waiting to hear.

        The Binding itself is not stopped: it may be made at any moment, and only who waits for the API server's answer
        knows. kube-scheduler will ask again.
        """
        settings = self._settings
        await asyncio.wait({binding}, timeout=settings.http_timeout_seconds - settings.answer_margin_seconds)
        if binding.done():
            return binding.result()
        self._late.add(binding)
        binding.add_done_callback(self._ended_late)
        return Bound(Outcome.ERROR, "the API server has not answered in time; the binding may yet be made")

    def _ended_late(self, binding: asyncio.Task[Bound]) -> None:
        self._late.discard(binding)
        if not binding.cancelled() and (error := binding.exception()) is not None:
            log.error("verb failed after its answer", verb="bind", exc_info=error)

    def _endpoint(self, verb: _Verb) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a verb: limits before, metric and log after, and an answer in the protocol's terms for every failure."""

        async def endpoint(request: Request) -> Response:
            began = self._clock.monotonic()
            status, headers = 200, None
            try:
                body = Body(request, verb.body_bytes, verb.body_limit_name, self._budget)
                with verb.slots, body:
                    result = await verb.answer(await body.read())
            except codec.DecodeError as error:
                status, result = 400, _failed(verb, str(error))
            except BodyTooLargeError as error:
                # Whoever is still sending is not waited for.
                status, headers, result = 413, {"Connection": "close"}, _failed(verb, str(error))
            except BodyLostError as error:
                status, result = 400, _failed(verb, str(error))
            except (RequestError, TooManyCallsError) as error:
                result = _failed(verb, str(error))
            except DegradedError as error:
                result = _failed(verb, str(error))
            except Exception as error:  # an error of ours is an answer, never a wrong placement (P9)
                log.exception("verb failed", verb=verb.name)
                result = _failed(verb, f"internal error: {type(error).__name__}")
            seconds = self._clock.monotonic() - began
            self._metrics.verb_seconds.labels(verb.name, result.outcome).observe(seconds)
            write = log.warning if result.outcome is Outcome.ERROR else log.debug
            write(
                verb.name,
                pod=result.about,
                outcome=result.outcome,
                decision=result.decision,
                message=result.error,
                milliseconds=round(seconds * 1000, 3),
            )
            return Response(result.body, status, headers, media_type="application/json")

        return endpoint


def _failed(verb: _Verb, message: str) -> Answer:
    return Answer(verb.failure(message), Outcome.ERROR, error=message)


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
    items = args.nodes.items or []
    for index, item in enumerate(items):
        try:
            str(memoryview(item), "utf-8")
        except UnicodeDecodeError as error:
            # The decoder skips over fields that nobody reads without looking at their text; these are sent back.
            raise codec.DecodeError(f"cannot read ExtenderArgs: {error} - at `$.Nodes.items[{index}]`") from error
    metas = [codec.decode_metadata(item).metadata for item in items]
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
