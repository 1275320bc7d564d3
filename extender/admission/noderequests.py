"""Gangs that lack nodes ask an autoscaler for them whole: one request for each gang, until it starts.

What is asked for stands in the cluster as a ProvisioningRequest. A worked example, with a first pause of 60 s:

    the gang cannot be placed, more nodes would mend that      no request yet        attempt 1 is asked for
    the autoscaler answers Failed at 12:00:00                  attempt 1 failed      nothing before 12:01:00
    12:01:00, the gang still cannot be placed                  attempt 1 failed      attempt 2 is asked for
    both are there                                             attempts 1, 2         1 is withdrawn
    nodes come, and the gang is placed                         attempt 2 stands      it keeps the nodes booked
    the gang has started, has ended, or waits for quota        attempt 2 stands      2 is withdrawn
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.judge import Case
from extender.ledger.effects import CollectedEffects, NodeAsk, PodAnnotations, PodSetAsk
from extender.ledger.reservations import Reservations
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import MOST_POD_SETS, NodeRequest, NodeRequestPhase, consuming
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from extender.settings import Settings

#: Why gangs wait that would not if there were more nodes of the right kind.
MENDED_BY_NODES: Final = frozenset(
    {
        Reason.MIN_RESOURCES_UNMET,
        Reason.NO_NODE_MATCHES,
        Reason.EXCEEDS_CLUSTER,
        Reason.EXCEEDS_DOMAIN,
        Reason.INSUFFICIENT_CAPACITY,
        Reason.DOMAIN_FULL,
        Reason.ZONES_FULL,
    }
)

#: Why gangs wait for which a request stands as it is: what it provides is still of use.
_STANDING: Final = frozenset(
    {
        *(Reason.AWAITING_NODES, Reason.AWAITING_MEMBERS, Reason.BACKING_OFF, Reason.BEHIND_HEAD),
        *(Reason.SEARCH_GAVE_UP, Reason.REFUSED_BY_SCHEDULER, Reason.REJECTED_BY_KUBELET, Reason.WRITES_BACKLOGGED),
        Reason.BINDING_REFUSED,
    }
)

#: The longest pause between two attempts, in first ones.
_LONGEST_PAUSE: Final = 30
#: How long a request that was asked for may not be there before it is asked for once more (seconds).
_ASKED_SECONDS: Final = 60.0
#: How much of a gang's name is in that of its request.
_LONGEST_STEM: Final = 40


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What is to be done about the requests for one gang.

    `current` is the one that stands. With an `ask` that attempt is to be asked for now; with `again_at` (epoch
    seconds) the next one then. Those that are of no use are to be withdrawn.
    """

    current: NodeRequest | None = None
    ask: int = 0
    again_at: float | None = None
    withdraw: tuple[NodeRequest, ...] = ()


def decide(
    counts: tuple[int, ...], provisioning_class: str, requests: Iterable[NodeRequest], now: float, pause: float
) -> NodeVerdict:
    """Say what becomes of the `requests` for a gang that lacks nodes for so many pods of each kind.

    `now` is in epoch seconds, `pause` is that after the first attempt that failed (seconds); it doubles with each.
    """
    live = [each for each in requests if not each.deleting]
    alike = [each for each in live if each.counts == counts and each.provisioning_class == provisioning_class]
    current = min(alike, key=lambda each: (-each.attempt, each.name), default=None)
    others = tuple(each for each in live if each is not current)
    if current is None:
        return NodeVerdict(ask=1, withdraw=others)
    if current.phase is not NodeRequestPhase.FAILED:
        return NodeVerdict(current, withdraw=others)
    again_at = current.since + pause * min(2 ** min(current.attempt - 1, 16), _LONGEST_PAUSE)
    if now < again_at:
        return NodeVerdict(current, again_at=again_at, withdraw=others)
    return NodeVerdict(current, ask=current.attempt + 1, withdraw=others)


def name_of(gang: Gang, counts: Sequence[int], provisioning_class: str, attempt: int) -> str:
    """Return what a request for a gang is called: asked for once more, also after a restart, it is the same one."""
    uid = gang.ref.uid if gang.group is None else gang.group.uid
    said = json.dumps([gang.ref.api, gang.ref.name, uid, list(counts), provisioning_class, attempt])
    return f"{gang.ref.name[:_LONGEST_STEM].rstrip('.-')}-{blake2b(said.encode(), digest_size=5).hexdigest()}"


class KnownNodeRequests:
    """The requests that there are, as the watch tells of them."""

    def __init__(self) -> None:
        self._by_ref: dict[GroupRef, dict[str, NodeRequest]] = {}
        self._ref_of: dict[str, GroupRef] = {}

    def __len__(self) -> int:
        """Count the gangs with requests."""
        return len(self._by_ref)

    def put(self, request: NodeRequest) -> None:
        """Take in a request that was added or changed."""
        self._by_ref.setdefault(request.ref, {})[request.uid] = request
        self._ref_of[request.uid] = request.ref

    def drop(self, uid: str) -> NodeRequest | None:
        """Forget a request that is gone; return it."""
        ref = self._ref_of.pop(uid, None)
        if ref is None:
            return None
        of_gang = self._by_ref[ref]
        dropped = of_gang.pop(uid)
        if not of_gang:
            del self._by_ref[ref]
        return dropped

    def of(self, ref: GroupRef) -> tuple[NodeRequest, ...]:
        """Return the requests for a gang."""
        return tuple(self._by_ref.get(ref, {}).values())

    def refs(self) -> tuple[GroupRef, ...]:
        """Return the gangs with requests."""
        return tuple(self._by_ref)


@dataclass(slots=True)
class _OpenAsk:
    """What was asked for last for a gang, and until when it need not be there (monotonic); members that name it."""

    name: str
    until: float
    marked: set[str]


class NodeRequests:
    """Ask for the nodes that gangs lack, and withdraw what is of no use any more.

    Attributes:
        is_on: whether nodes are asked for at all.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - who lacks nodes, and what is asked for
        self,
        model: ClusterModel,
        known: KnownNodeRequests,
        reservations: Reservations,
        settings: Settings,
        clock: Clock,
        effects: CollectedEffects,
    ) -> None:
        """Start with nothing asked for but what is `known`."""
        self._model = model
        self._known = known
        self._reservations = reservations
        self._class = settings.provisioning_class
        self.is_on = bool(self._class)
        self._parameters = dict(each.split("=", 1) for each in settings.provisioning_parameters)
        self._pause = settings.provisioning_retry_seconds
        self._clock = clock
        self._effects = effects
        self._asked: dict[GroupRef, _OpenAsk] = {}
        self._due: dict[str, float] = {}  # when to look again at a gang, by its UID (monotonic)

    def next_turn(self) -> float | None:
        """Return when the first gang is to be looked at again (seconds, monotonic), or None."""
        return min(self._due.values(), default=None)

    def pass_time(self) -> bool:
        """Have gangs evaluated again whose pause is over; return whether there are any."""
        now = self._clock.monotonic()
        ended = [uid for uid, until in self._due.items() if until <= now]
        for uid in ended:
            del self._due[uid]
            self._model.gangs.touch(uid)
        return bool(ended)

    def forget(self, gang: Gang) -> None:
        """Forget a gang that is gone."""
        self._asked.pop(gang.ref, None)
        self._due.pop(gang.uid, None)

    def ask(self, case: Case, wait: Wait) -> Wait:
        """Ask for the nodes that a gang lacks, if nodes are what it lacks; return why it waits.

        A pod that names no group is left to what the autoscaler does for any pod.
        """
        gang, now = case.gang, self._clock.monotonic()
        self._due.pop(gang.uid, None)
        if wait.reason not in MENDED_BY_NODES or gang.ref.is_pod:
            return wait
        kinds = _kinds(gang.members[pod.uid] for pod in case.pod_set.pods)
        if len(kinds) > MOST_POD_SETS:
            return wait
        counts = tuple(sorted(map(len, kinds.values())))
        verdict = decide(counts, self._class, self._known.of(gang.ref), self._clock.now().timestamp(), self._pause)
        self._withdraw(verdict.withdraw)
        state, name = "it is being made", "" if verdict.current is None else verdict.current.name
        if verdict.ask:
            name = name_of(gang, counts, self._class, verdict.ask)
            asked = self._asked.get(gang.ref)
            if asked is None or asked.name != name or asked.until <= now:
                marked = asked.marked if asked is not None and asked.name == name else set()
                asked = self._asked[gang.ref] = _OpenAsk(name, now + _ASKED_SECONDS, marked)
                self._effects.node_requests[f"{gang.ref.namespace}/{name}"] = self._made(case, name, kinds, verdict.ask)
            self._due[gang.uid] = asked.until
        elif verdict.current is not None:
            state = verdict.current.detail or "the autoscaler has not answered yet"
        if verdict.again_at is not None:
            left = max(verdict.again_at - self._clock.now().timestamp(), 0.0)
            self._due[gang.uid] = now + left
            state += "; it is to be asked again"
        self._mark(gang, name)
        names = {"detail": wait.message, "request": f"{gang.ref.namespace}/{name}", "state": state}
        level = {"level": wait.names["level"]} if "level" in wait.names else {}
        return Wait(Reason.AWAITING_NODES, {**wait.numbers, "pods": sum(counts)}, {**names, **level})

    def settle(self) -> None:
        """Withdraw requests for gangs that lack no nodes any more; let new members of the others name theirs."""
        for ref in self._known.refs():
            gang, requests = self._model.gangs.get(ref), self._known.of(ref)
            if gang is None or self._is_over(gang):
                self._withdraw(each for each in requests if not each.deleting)
                self._asked.pop(ref, None)
            else:
                asked, newest = self._asked.get(ref), max(requests, key=lambda each: each.attempt)
                self._mark(gang, newest.name if asked is None else asked.name)

    def _is_over(self, gang: Gang) -> bool:
        """Tell whether what a request provides is of no use any more: the gang has started, or lacks something else."""
        wait = self._reservations.waits.get(gang.uid)
        over = gang.has_minimum or gang.has_ended or not gang.members
        return over or (wait is not None and wait.reason not in _STANDING)

    def _made(self, case: Case, name: str, kinds: Mapping[Shape, Sequence[Pod]], attempt: int) -> NodeAsk:
        """Return what is to be asked for: in the flavor that the gang may be placed in as far as quota goes."""
        offers = (each.option for each in case.offers if each.shortage is None and not each.saved_for)
        selector = next((option.selector for option in offers), ())
        pod_sets = tuple(PodSetAsk(self._source(pods[0]), len(pods)) for pods in kinds.values())
        return NodeAsk(case.gang.ref, name, self._class, self._parameters, attempt, pod_sets, dict(selector))

    def _source(self, pod: Pod) -> ObjectRef:
        """Return the object in which the spec of a pod stands: of one that is not there yet, its Job."""
        managed = self._model.workloads.of(pod) if pod.is_expected else None
        return ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid) if managed is None else managed.workload.about

    def _withdraw(self, requests: Iterable[NodeRequest]) -> None:
        self._effects.node_requests |= {each.key: each for each in requests}

    def _mark(self, gang: Gang, name: str) -> None:
        """Let members without a node name the request, so that the autoscaler makes no other nodes for them."""
        asked = self._asked.get(gang.ref)
        if asked is None or asked.name != name:
            asked = self._asked[gang.ref] = _OpenAsk(name, 0.0, set())
        for pod in gang.unbound():
            if pod.uid not in asked.marked and not (pod.is_expected or pod.deleting):
                asked.marked.add(pod.uid)
                self._effects.annotations[pod.uid] = PodAnnotations(pod, consuming(name, self._class))


def _kinds(pods: Iterable[Pod]) -> dict[Shape, list[Pod]]:
    """Return pods by what they ask for; of one kind they do not differ in what a node has to have."""
    kinds: dict[Shape, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(pod.shape, []).append(pod)
    return kinds
