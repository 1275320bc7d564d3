"""The extender's four verbs over HTTP.

A request that could be read is always answered with HTTP 200: kube-scheduler throws the body of anything else away, and
with it the reason.

The structs are those of the HTTP extender protocol (k8s.io/kube-scheduler/extender/v1).
The Go types have no JSON tags, so the wire names are Go field names. An absent pointer arrives as `null`; so can every
slice and map. Answers follow the same names; failures that Muster knows of are HTTP 200 with `Error`, because
kube-scheduler throws the body of any other status away.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace
from starlette.routing import Route

from extender.admission.events import Filtered, Outcome
from extender.clock import Clock
from extender.control.binding import Bound
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import PodKey
from extender.objects.meta import DecodeError, Decoder, Int64, decode_metadata, encode_plain, encode_struct
from extender.objects.pod import Pod, read_pod
from extender.objects.podspec import PodObject
from extender.service.endpoint import BodyBudget, BodyLimit, CallSlots, Endpoint, RequestError, Verb, VerbAnswer
from extender.settings import Settings


class NodeList(Struct, gc=False, frozen=True):
    """A NodeList whose items are echoed back byte for byte."""

    items: list[Raw] | None = None


class ExtenderArgs(Struct, gc=False, frozen=True, rename="pascal"):
    """What filter and prioritize are asked; `node_names` with nodeCacheCapable, else `nodes`."""

    pod: PodObject | None = None
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class PodInQuestionMeta(Struct, gc=False, frozen=True):
    """Which pod is asked about."""

    uid: str | None = None


class PodInQuestionStatus(Struct, gc=False, frozen=True, rename="camel"):
    """What kube-scheduler itself does to a pod that it asks about."""

    nominated_node_name: str | None = None


class PodInQuestion(Struct, gc=False, frozen=True):
    """What of a pod is news to one who watches pods: which it is, and its nomination as kube-scheduler sees it."""

    metadata: PodInQuestionMeta | None = None
    status: PodInQuestionStatus | None = None


class ExtenderQuestion(Struct, gc=False, frozen=True, rename="pascal"):
    """ExtenderArgs without what a watch has told of the pod before: what is to be read where the pod is known."""

    pod: PodInQuestion | None = None
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class FilterResult(Struct, gc=False, frozen=True, rename="pascal"):
    """What filter answers."""

    node_names: list[str] | None = None
    nodes: NodeList | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Struct, gc=False, frozen=True, rename="pascal"):
    """One node's score, 0 to MAX_EXTENDER_PRIORITY."""

    host: str
    score: Int64


class BindingArgs(
    Struct,
    gc=False,
    frozen=True,
    rename={"pod_name": "PodName", "pod_namespace": "PodNamespace", "pod_uid": "PodUID", "node": "Node"},
):
    """What bind is asked."""

    pod_name: str | None = None
    pod_namespace: str | None = None
    pod_uid: str | None = None
    node: str | None = None


class BindingResult(Struct, gc=False, frozen=True, rename="pascal"):
    """What bind answers; an empty error means bound."""

    error: str = ""


class MetaPod(Struct, gc=False, frozen=True, rename={"uid": "UID"}):
    """A victim, by UID alone."""

    uid: str | None = None


class MetaVictims(Struct, gc=False, frozen=True, rename={"pods": "Pods", "num_pdb_violations": "NumPDBViolations"}):
    """The victims of one candidate node, by UID."""

    pods: list[MetaPod | None] | None = None
    num_pdb_violations: Int64 | None = None


class Victims(Struct, gc=False, frozen=True, rename={"pods": "Pods", "num_pdb_violations": "NumPDBViolations"}):
    """The victims of one candidate node, as whole pods (nodeCacheCapable false)."""

    pods: list[PodObject | None] | None = None
    num_pdb_violations: Int64 | None = None


class PreemptionArgs(Struct, gc=False, frozen=True, rename="pascal"):
    """What preempt is asked."""

    pod: PodObject | None = None
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class PreemptionResult(Struct, gc=False, frozen=True, rename="pascal"):
    """What preempt answers; nodes left out are no candidates any more."""

    node_name_to_meta_victims: dict[str, MetaVictims]


decode_extender_args = Decoder(ExtenderArgs)
decode_extender_question = Decoder(ExtenderQuestion, "ExtenderArgs")
decode_binding_args = Decoder(BindingArgs)
decode_preemption_args = Decoder(PreemptionArgs)


log = structlog.get_logger("muster.verbs")

_NO_NAMES = "neither NodeNames nor Nodes in the request; set nodeCacheCapable: true on this extender"
_NO_POD = "no Pod in the request"
#: Largest body of a bind call, in bytes: four names, of 253 characters at most, and a UID. Held binds are many.
_BIND_BODY_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class _Offer:
    """A pod and the nodes it was offered; `whole` are the nodes themselves where kube-scheduler sends those."""

    pod: Pod
    names: list[str]
    whole: NodeList | None

    @property
    def about(self) -> str:
        """Return which pod this is about, for the log."""
        return f"{self.pod.namespace}/{self.pod.name}"

    @classmethod
    def of(cls, pod: Pod, args: ExtenderQuestion | ExtenderArgs) -> Self:
        """Read what `pod` is offered; raise RequestError or DecodeError where that cannot be told."""
        return cls(pod, _names_of(args), args.nodes if args.node_names is None else None)


class VerbRoutes:
    """Answer filter, prioritize, bind and preempt from a controller."""

    def __init__(self, controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> None:
        self._controller = controller
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._late: set[asyncio.Task[Bound]] = set()

    def routes(self) -> list[Route]:
        """Return the routes under /v1."""
        settings, metrics, clock = self._settings, self._metrics, self._clock
        limit = BodyLimit(settings.body_limit_bytes, "setting body_limit_bytes")
        bind_limit = BodyLimit(min(_BIND_BODY_BYTES, limit.size), "fixed for bind")
        calls, binds = (settings.call_limit, "setting call_limit"), (settings.bind_limit, "setting bind_limit")
        verbs = (
            Verb(
                "filter",
                self.filter,
                _filter_error,
                CallSlots(*calls),
                limit,
                summary="Say which of the offered nodes a pod may go to.",
                takes=ExtenderArgs,
                answers=FilterResult,
            ),
            Verb(
                "prioritize",
                self.prioritize,
                _no_scores,
                CallSlots(*calls),
                limit,
                summary="Score the offered nodes from 0 to 10.",
                takes=ExtenderArgs,
                answers=list[HostPriority],
            ),
            Verb(
                "bind",
                self.bind,
                _bind_error,
                CallSlots(*binds),
                bind_limit,
                summary="Bind a pod, once the rest of its gang has arrived.",
                takes=BindingArgs,
                answers=BindingResult,
            ),
            Verb(
                "preempt",
                self.preempt,
                _no_victims,
                CallSlots(*calls),
                limit,
                summary="Say on which of the candidate nodes pods may be evicted.",
                takes=PreemptionArgs,
                answers=PreemptionResult,
            ),
        )
        budget = BodyBudget(settings.bodies_limit_bytes)
        return [
            Route(f"/v1/{verb.name}", Endpoint(verb, budget, metrics, clock), methods=["POST"], name=verb.name)
            for verb in verbs
        ]

    async def filter(self, body: bytes) -> VerbAnswer:
        """Answer ExtenderArgs with an ExtenderFilterResult."""
        offer = self._read_offer(body)
        filtered = await self._controller.filter(offer.pod, offer.names)
        encoded = _encode_filtered(filtered, offer)
        refused = filtered.text if filtered.refusals else ""
        return VerbAnswer(encoded, filtered.outcome, offer.about, filtered.decision, refused)

    async def prioritize(self, body: bytes) -> VerbAnswer:
        """Answer ExtenderArgs with a HostPriorityList of the nodes with a score above 0.

        A node that is not listed gets 0 (`prioritizeNodes` of kube-scheduler).
        """
        offer = self._read_offer(body)
        scores = self._controller.prioritize(offer.pod, offer.names)
        hosts = [HostPriority(name, score) for name, score in zip(offer.names, scores, strict=True) if score]
        return VerbAnswer(encode_struct(hosts), Outcome.RANKED, offer.about)

    async def bind(self, body: bytes) -> VerbAnswer:
        """Answer ExtenderBindingArgs with an ExtenderBindingResult."""
        args = decode_binding_args(body)
        if not (args.pod_name and args.pod_namespace and args.pod_uid and args.node):
            msg = "PodName, PodNamespace, PodUID and Node are all needed to bind"
            raise RequestError(msg)
        pod = PodKey(args.pod_namespace, args.pod_name, args.pod_uid)
        bound = await self._in_time(asyncio.create_task(self._controller.bind(pod, args.node)))
        return VerbAnswer(_bind_error(bound.error), bound.outcome, str(pod), bound.decision, bound.error)

    async def preempt(self, body: bytes) -> VerbAnswer:
        """Answer ExtenderPreemptionArgs with an ExtenderPreemptionResult that holds only offered victims."""
        args = decode_preemption_args(body)
        pod = _require_pod(args.pod)
        offered = _read_victims(args)
        uids = {node: [p.uid for p in victims.pods or () if p and p.uid] for node, victims in offered.items()}
        allowed = await self._controller.preempt(pod, uids)
        result = PreemptionResult({node: offered[node] for node in allowed})
        outcome = Outcome.ALLOWED if allowed else Outcome.VETOED
        return VerbAnswer(encode_struct(result), outcome, pod.key)

    def _read_offer(self, body: bytes) -> _Offer:
        """Read what is offered to whom.

        Of a pod that the watch has delivered only the nomination can be news: the rest is not read again, which takes
        longer than to find the answer for a member with a reservation.
        """
        question = decode_extender_question(body)
        asked = question.pod
        known = self._controller.known((asked and asked.metadata and asked.metadata.uid) or "")
        if known is None:
            args = decode_extender_args(body)
            return _Offer.of(_require_pod(args.pod), args)
        node = (asked and asked.status and asked.status.nominated_node_name) or ""
        return _Offer.of(known if known.nominated_node == node else known.nominated_to(node), question)

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


def _require_pod(pod: PodObject | None) -> Pod:
    if pod is None or pod.metadata is None or not pod.metadata.uid:
        raise RequestError(_NO_POD)
    return read_pod(pod)


def _names_of(args: ExtenderQuestion | ExtenderArgs) -> list[str]:
    """Return the names of the offered nodes, in the order in which they are offered."""
    if args.node_names is not None:
        return args.node_names
    if args.nodes is None:
        raise RequestError(_NO_NAMES)
    items = args.nodes.items or []
    for index, item in enumerate(items):
        try:
            str(memoryview(item), "utf-8")
        except UnicodeDecodeError as error:
            # The decoder skips over fields that are not read without looking at their text; these are sent back.
            raise DecodeError(f"cannot read ExtenderArgs: {error} - at `$.Nodes.items[{index}]`") from error
    metas = [decode_metadata(item).metadata for item in items]
    return [meta.name if meta is not None and meta.name else "" for meta in metas]


def _encode_filtered(filtered: Filtered, offer: _Offer) -> bytes:
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for refusal in filtered.refusals:
        (failed if refusal.resolvable else unresolvable).update(dict.fromkeys(refusal.names, refusal.text))
    result = FilterResult(node_names=filtered.accepted, failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable)
    if offer.whole is None:
        return encode_plain(result)
    accepted = set(filtered.accepted)
    kept = [raw for name, raw in zip(offer.names, offer.whole.items or (), strict=True) if name in accepted]
    return encode_struct(replace(result, node_names=None, nodes=NodeList(kept)))


def _read_victims(args: PreemptionArgs) -> dict[str, MetaVictims]:
    """Return the candidates' victims by UID, whichever form they came in."""
    if args.node_name_to_meta_victims:
        return {node: victims or MetaVictims() for node, victims in args.node_name_to_meta_victims.items()}
    return {
        node: MetaVictims(
            pods=[
                MetaPod(pod.metadata.uid)
                for pod in (victims.pods if victims else None) or ()
                if pod is not None and pod.metadata is not None
            ],
            num_pdb_violations=victims.num_pdb_violations if victims else 0,
        )
        for node, victims in (args.node_name_to_victims or {}).items()
    }


def _filter_error(message: str) -> bytes:
    return encode_struct(FilterResult(error=message))


def _bind_error(message: str) -> bytes:
    return encode_struct(BindingResult(error=message))


def _no_scores(_message: str) -> bytes:
    return b"[]"  # a HostPriorityList has no room for an error; no scores leave the choice to kube-scheduler


def _no_victims(_message: str) -> bytes:
    return encode_struct(PreemptionResult({}))
