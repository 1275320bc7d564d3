"""Who refuses pods that Muster would place: kube-scheduler a node or a pod as such, or the kubelet of a node."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from cachetools import LRUCache

from extender.cluster.model import ClusterModel
from extender.cluster.table import NodeTable
from extender.ledger.effects import CollectedEffects, Fact, Note, Observation
from extender.objects.holdings import DeviceHolding
from extender.objects.meta import Selector
from extender.objects.pod import Pod, Rejection, Shape
from extender.objects.refusal import RefusalKind, refusal_kind
from extender.placement.candidates import NodeCode, NodeFilter


@dataclass(frozen=True, slots=True)
class _Veto:
    """How often members of the gang had passed before the veto was learned, and when it ends (seconds, monotonic)."""

    learned: int
    until: float


class Vetoes:
    """Remember for a while which nodes a gang's pods of some shape should not be sent to.

    A shape leaves out what Muster does not model (pod affinity, spread, volumes), and just that is what kube-scheduler
    refused a node for: so a veto counts for the gang that met with it, and not for others of the same shape.

    What is refused may depend on where the gang's other members are, as topology spread does. A veto that was learned
    before another member passed kube-scheduler's filters is outdated: it holds until the gang finds no place with it.

    Advisory: a forgotten veto costs one more refusal, so of too many the oldest are dropped. A veto that has run out
    holds until `ended` reports it: a pass must know whose vetoes end, to evaluate them again.

    Attributes:
        of_gangs: gang UID -> shape and node -> veto.
        ends: the vetoes that `ended` has not reported yet, the first to end first; those replaced since included.
    """

    #: Vetoes remembered: 5,000 nodes refused to 20 gangs.
    CAPACITY = 100_000
    #: Gangs whose progress is remembered. One that falls out keeps outdated vetoes until they end.
    GANGS = 10_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Remember each veto for `seconds` by `timer` (seconds, monotonic)."""
        self.of_gangs: dict[str, dict[tuple[Shape, str], _Veto]] = {}
        self._passed: LRUCache[str, int] = LRUCache(self.GANGS)  # gang UID -> how often members have passed
        self.ends: deque[tuple[str, tuple[Shape, str], _Veto]] = deque()
        self._dropped: list[str] = []  # gang UIDs of vetoes that ended before their time and were not reported yet
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the vetoes in force."""
        return sum(map(len, self.of_gangs.values()))

    def add(self, gang_uid: str, shape: Shape, node: str) -> None:
        """Keep the gang's pods of `shape` away from `node` from now on."""
        veto = _Veto(self._passed.get(gang_uid, 0), self._timer() + self._seconds)
        self.of_gangs.setdefault(gang_uid, {})[shape, node] = veto
        self.ends.append((gang_uid, (shape, node), veto))
        if len(self.ends) > self.CAPACITY:
            self._dropped.append(self._end_oldest())

    def passed(self, gang_uid: str) -> bool:
        """Take in that a member of the gang is passing kube-scheduler's filters: what was refused before may do now.

        Return whether that outdates anything.
        """
        if self.of_gangs:
            self._passed[gang_uid] = self._passed.get(gang_uid, 0) + 1
        return gang_uid in self.of_gangs

    def lift_outdated(self, gang_uid: str) -> bool:
        """Forget the gang's vetoes that were learned before a member passed; return whether there were any."""
        own = self.of_gangs.get(gang_uid)
        if own is None:
            return False
        passed = self._passed.get(gang_uid, 0)
        outdated = [key for key, veto in own.items() if veto.learned < passed]
        for key in outdated:
            self._forget(gang_uid, key)
        return bool(outdated)

    def lift(self, gang_uid: str) -> bool:
        """Forget the gang's vetoes; return whether there were any."""
        return self.of_gangs.pop(gang_uid, None) is not None

    def next_end(self) -> float | None:
        """Return when the next veto ends that `ended` has not reported yet, or None."""
        return self.ends[0][2].until if self.ends else None

    def ended(self, now: float) -> list[str]:
        """Let vetoes end whose time is over; return the UIDs of the gangs that had them."""
        ended, self._dropped = self._dropped, []
        while self.ends and self.ends[0][2].until <= now:
            ended.append(self._end_oldest())
        return ended

    def of_gang(self, gang_uid: str, table: NodeTable) -> Mapping[Shape, list[int]]:
        """Return the gang's vetoes as rows of `table`."""
        rows: dict[Shape, list[int]] = {}
        for shape, node in self.of_gangs.get(gang_uid, ()):
            row = table.row(node)
            if row is not None:
                rows.setdefault(shape, []).append(row)
        return rows

    def _end_oldest(self) -> str:
        gang_uid, key, veto = self.ends.popleft()
        if self.of_gangs.get(gang_uid, {}).get(key) is veto:  # not lifted or learned again meanwhile
            self._forget(gang_uid, key)
        return gang_uid

    def _forget(self, gang_uid: str, key: tuple[Shape, str]) -> None:
        own = self.of_gangs[gang_uid]
        del own[key]
        if not own:
            del self.of_gangs[gang_uid]


def leave_out(admitted: NodeFilter, vetoed: Mapping[Shape, list[int]]) -> NodeFilter:
    """Return `admitted` without one gang's vetoed rows, or `admitted` itself if there are none."""
    if not vetoed:
        return admitted
    return admitted.without(NodeCode.REFUSED, lambda shape: vetoed.get(shape, ()))


#: Longest time for which a node is left out at a stretch (seconds): a pod that nothing else can take is tried there
#: again every five minutes at most.
LONGEST_SECONDS = 300.0
#: How long repetitions are remembered after a node was last left out (seconds).
MEMORY_SECONDS = 600.0
#: Enough to reach the longest time from any first one that makes sense.
_MOST_DOUBLINGS = 32

#: How the kubelet begins the message of a pod that it rejects. Source: k8s.io/kubernetes pkg/kubelet, rejectPod.
_KUBELET_WORDS = "Pod was rejected: "


@dataclass(slots=True)
class _Rejection:
    """How often in a row pods were rejected, when last, and until when none is sent (seconds, monotonic).

    `over` says that the time has passed and was reported: what is left is the memory of how often.
    """

    times: int
    last: float
    until: float
    over: bool = False


class Rejections:
    """Remember for a while on which nodes a kubelet refused to run pods that ask for the same.

    A pod that its kubelet rejects has failed, and its controller makes a new one. To send that to the same node again
    would make a loop that runs as fast as the controller does. Unlike what kube-scheduler refuses, this does
    not depend on whose pod it is, nor on where its gang is: a rejection counts for all pods that ask for the same.

    - After the first rejection the node is left out for `seconds`, and twice as long after each further one, up to
      LONGEST_SECONDS. Pods that were on their way when the first was rejected count as one with it.
    - When something on the node ends or changes, the kubelet may think otherwise: the node is tried again, but not
      before `seconds` have passed since it last refused, so that pods which come and go there make no loop either.
    - How often it was is forgotten MEMORY_SECONDS after the node was last left out, and with the node.

    Advisory: a forgotten rejection costs one failed pod more, so of too many the oldest are dropped. One that has run
    out holds until `ended` reports it: a pass must know what it has to evaluate again.

    Attributes:
        ends: a heap of when they end, outdated entries included; empty if no node is left out.
    """

    #: Rejections remembered.
    CAPACITY = 10_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Leave a node out for `seconds` at first, by `timer` (seconds, monotonic)."""
        self._rejections: dict[str, dict[Shape, _Rejection]] = {}  # node -> what is asked for -> rejection
        self._order: dict[tuple[str, Shape], None] = {}  # in the order in which they began to be left out
        self.ends: list[tuple[float, int, str, Shape]] = []
        self._serial = 0
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the pairs of a node and what is asked for that are in force."""
        return sum(not rejection.over for own in self._rejections.values() for rejection in own.values())

    def add(self, shape: Shape, node: str) -> float | None:
        """Take in that the kubelet of `node` rejected a pod of `shape`.

        Return for how many seconds the node is left out now, None if it was left out already.
        """
        asked, now = _asked(shape), self._timer()
        self._forget_old(now)
        rejection = self._rejections.get(node, {}).get(asked)
        if rejection is not None and not rejection.over:
            rejection.last = now
            self._end_at(max(rejection.until, now + self._seconds), node, asked)
            return None
        times = 0
        if rejection is not None:
            times = rejection.times if now < rejection.until + MEMORY_SECONDS else 0
            self._drop(node, asked)
        while len(self._order) >= self.CAPACITY:
            self._drop(*next(iter(self._order)))
        self._order[node, asked] = None
        rejection = self._rejections.setdefault(node, {})[asked] = _Rejection(times + 1, now, -math.inf)
        doublings = min(rejection.times - 1, _MOST_DOUBLINGS)
        pause = min(math.ldexp(self._seconds, doublings), LONGEST_SECONDS)
        self._end_at(now + pause, node, asked)
        return pause

    def eased(self, node: str) -> None:
        """Take in that something on `node` has ended or changed: it is tried again soon."""
        for asked, rejection in self._rejections.get(node, {}).items():
            sooner = max(rejection.last + self._seconds, self._timer())
            if not rejection.over:
                self._end_at(min(sooner, rejection.until), node, asked)

    def forget_node(self, node: str) -> None:
        """Take in that `node` is gone; one of its name is another."""
        for asked in self._rejections.pop(node, {}):
            del self._order[node, asked]

    def next_end(self) -> float | None:
        """Return when the next rejection ends that `ended` has not reported yet, or None."""
        while self.ends and self._current(self.ends[0]) is None:
            heapq.heappop(self.ends)
        return self.ends[0][0] if self.ends else None

    def ended(self, now: float) -> list[str]:
        """Let rejections end whose time is over; return their nodes."""
        nodes = []
        while (end := self.next_end()) is not None and end <= now:
            entry = heapq.heappop(self.ends)
            rejection = self._current(entry)
            if rejection is not None:
                rejection.over = True
                nodes.append(entry[2])
        return nodes

    def nodes(self, shape: Shape) -> list[str]:
        """Return the nodes to which no pod of `shape` is to be sent now."""
        if not self._rejections:
            return []
        asked = _asked(shape)
        return [node for node, own in self._rejections.items() if asked in own and not own[asked].over]

    def rows(self, shape: Shape, table: NodeTable) -> list[int]:
        """Return the rows of `nodes`, as far as these are there."""
        return [row for node in self.nodes(shape) if (row := table.row(node)) is not None]

    def rejected(self, table: NodeTable) -> Callable[[Shape], list[int]] | None:
        """Return what says on which rows no pod of a shape is to be sent now; None if there are no rejections."""
        return partial(self.rows, table=table) if len(self) else None

    def _end_at(self, until: float, node: str, asked: Shape) -> None:
        rejection = self._rejections[node][asked]
        if until != rejection.until:
            rejection.until = until
            self._serial += 1
            heapq.heappush(self.ends, (until, self._serial, node, asked))

    def _current(self, entry: tuple[float, int, str, Shape]) -> _Rejection | None:
        """Return the rejection that an entry of the heap is about, None if it has another end by now."""
        until, _, node, asked = entry
        rejection = self._rejections.get(node, {}).get(asked)
        return rejection if rejection is not None and not rejection.over and rejection.until == until else None

    def _forget_old(self, now: float) -> None:
        """Forget the oldest, as far as no pod has been rejected there for long."""
        while self._order:
            node, asked = next(iter(self._order))
            rejection = self._rejections[node][asked]
            if not rejection.over or now < rejection.until + MEMORY_SECONDS:
                return
            self._drop(node, asked)

    def _drop(self, node: str, asked: Shape) -> None:
        del self._order[node, asked]
        own = self._rejections[node]
        del own[asked]
        if not own:
            del self._rejections[node]


def _asked(shape: Shape) -> Shape:
    """Return what of a shape is the kubelet's affair: selectors and tolerations are not."""
    return replace(shape, selector=Selector(), tolerations=())


class KubeletRejections:
    """Follow what becomes of pods on their nodes."""

    def __init__(self, model: ClusterModel, rejections: Rejections) -> None:
        """Look at the pods of `model`, and remember in `rejections` what kubelets refuse."""
        self._model = model
        self._rejections = rejections

    def follow(self, pod: Pod, before: Pod | None, effects: CollectedEffects | None) -> bool:
        """Take in what has become of a pod that was `before` (None: unknown); return whether others may fit elsewhere.

        What is worth reporting goes to `effects`, if given. Pods that were found as they are, as in a list, have been
        reported before.
        """
        if before is not None and before.bound and not pod.bound and pod.rejection is None:
            self._rejections.eased(before.node_name)
        told = effects if before is not None and self._model.manages(pod) else None
        if told is not None and before is not None:
            told.observations += self._observations(pod, before)
        if pod.rejection is None or not pod.node_name or (before is not None and before.rejection is not None):
            return before is not None and pod.observed != before.observed and not _as_predicted(pod)
        seconds = self._rejections.add(pod.shape, pod.node_name)
        self._model.table.reassess(pod.node_name)
        if told is not None:
            told.rejections.append(pod.rejection.reason)
            if seconds is not None:
                told.notes.append(self._warning(pod, pod.rejection, seconds))
        return True

    def _warning(self, pod: Pod, rejection: Rejection, seconds: float) -> Note:
        """Return the warning for the pod's owner; pods that are rejected together with it get none."""
        words = rejection.message.removeprefix(_KUBELET_WORDS) or "no message"
        topology = self._model.table.occupancy.topology(pod.node_name)
        policy = "" if topology is None else f" (Topology Manager policy {topology.policy})"
        message = (
            f"the kubelet of node {pod.node_name}{policy} rejected a pod, {rejection.reason}: {words}; "
            f"for {seconds:.0f} s no pod that asks for the same is sent there"
        )
        return Note(pod.group, warning=True, reason="PodRejected", message=message)

    def _observations(self, pod: Pod, before: Pod) -> list[Observation]:
        """Compare what a pod holds with what was predicted, as soon as it is known, each fact once."""
        if pod.observed is None or pod.predicted is None or pod.observed == before.observed:
            return []
        known = before.observed or DeviceHolding()
        translated = self._model.table.occupancy.indices(pod.node_name, pod.observed.uuids)
        facts = (
            (Fact.GPUS, known.gpus or known.uuids, pod.observed.gpus or translated, pod.predicted.gpus),
            (Fact.ZONES, known.zones, pod.observed.zones, pod.predicted.zones),
        )
        return [
            Observation(fact, observed == predicted)
            for fact, known_before, observed, predicted in facts
            if observed and predicted and not known_before
        ]


def _as_predicted(pod: Pod) -> bool:
    """Tell whether what was observed of a pod is no news."""
    if pod.observed is None or pod.predicted is None:
        return False
    return (pod.observed.gpus, pod.observed.zones) == (pod.predicted.gpus, pod.predicted.zones)


#: Refusals of which kube-scheduler's next question about the pod is the end.
_OWN: Final = (RefusalKind.ALONE, RefusalKind.MIXED, RefusalKind.ROOM)

#: How often a pod is sent to its planned node that does not reach bind: once by itself, and once more as nominated.
_MOST_SENT: Final = 2


class Refusals:
    """Follow what kube-scheduler says of members that it refuses by itself, before it asks Muster.

    It tries a refused pod again when something changes that may end the refusal, and a nomination is no such thing. So
    a member that it refuses for other reasons than room does not come to filter, however long a node is reserved for
    it, and its gang would keep that room from others until the reservation expires. Nothing is reserved for such a
    gang: it waits until kube-scheduler asks about the member, or says something else of it. A member that lacks a
    volume claim is asked about milliseconds after there is one.

    Where some nodes lack room and others refuse for other reasons, room that has just come free may end the refusal.
    Such a refusal counts once it has stood while the member was nominated and kube-scheduler was idle (`Nudges`). Where
    all nodes lack room, it counts once kube-scheduler has taken the nomination off a while after the node was promised:
    it has tried the member since, and knows of something in the place that Muster does not, such as a pod whose volumes
    it is still binding. Room that has just come free it may not have seen yet.

    Members of one gang of which kube-scheduler says the same are refused for the same reason: when it asks about one of
    them, the others may be placed too.

    Where another extender follows on Muster in kube-scheduler's configuration, it may refuse the planned node after
    Muster let it pass: the member comes back with that node on offer, and never reaches bind. What is said of a pod
    right after it was let pass, or has reached bind, is thus no word of kube-scheduler before it asks Muster: it comes
    from behind Muster, or late from an attempt before that one.
    """

    def __init__(self, model: ClusterModel) -> None:
        """Follow the pods of `model`."""
        self._model = model
        self._passed: dict[str, str] = {}  # pod UID -> a refusal after which kube-scheduler has asked about the pod
        self._stuck: dict[str, str] = {}  # pod UID -> a refusal that counts though some nodes lack room
        self._sent: dict[str, tuple[str, int]] = {}  # pod UID -> its planned node, and how often it was sent there
        self._let_pass: set[str] = set()  # UIDs of unbound pods of which nothing was said since Muster let them pass

    def follow(self, pod: Pod, before: Pod | None) -> bool:
        """Take in a pod that was `before` (None: unknown); return whether another refusal of it counts now."""
        if before is not None and _refusable(before) == _refusable(pod):
            return False
        for texts in (self._passed, self._stuck):
            if pod.uid in texts and (texts[pod.uid] != pod.refusal or not pod.placeable):
                del texts[pod.uid]
        kind = refusal_kind(pod.refusal)
        if kind not in {RefusalKind.NONE, RefusalKind.ASKED} and pod.uid in self._let_pass:
            self._let_pass.remove(pod.uid)
            self._passed[pod.uid] = pod.refusal
        return self._count(pod)

    def asked(self, pod: Pod) -> bool:
        """Take in that kube-scheduler asks about a pod; return whether a refusal that counted is over for that."""
        gang = self._model.gangs.get(pod.group)
        if gang is None or refusal_kind(pod.refusal) not in _OWN:
            return False
        alike = [uid for uid, text in gang.refused.items() if text == pod.refusal]
        for uid in (pod.uid, *alike):
            self._passed[uid] = pod.refusal
            self._stuck.pop(uid, None)
            self._count(self._model.pods[uid])
        return bool(alike)

    def may_be_stuck(self, pod: Pod) -> bool:
        """Tell whether a pod's refusal counts if it goes on to stand."""
        return refusal_kind(pod.refusal) is RefusalKind.MIXED and pod.uid not in self._passed

    def lacks_room(self, pod: Pod) -> bool:
        """Tell whether kube-scheduler says of a pod that every node lacks room."""
        return refusal_kind(pod.refusal) is RefusalKind.ROOM and pod.uid not in self._passed

    def stuck(self, pod: Pod) -> bool:
        """Take in that kube-scheduler refuses a nominated member on every node; return whether that is news."""
        self._stuck[pod.uid] = pod.refusal
        return self._count(pod)

    def turned_back(self, pod: Pod, node: str) -> bool:
        """Take in that a pod is to be sent to its planned node; return whether it comes back from there too often.

        It may once: kube-scheduler tries the nominated node alone, and what it says of a pod may be old.
        """
        before, times = self._sent.get(pod.uid, ("", 0))
        if before != node:
            times = 0
        elif times >= _MOST_SENT and pod.refusal and refusal_kind(pod.refusal) in _OWN:
            del self._sent[pod.uid]
            return True
        self._sent[pod.uid] = node, times + 1
        return False

    def let_pass(self, uid: str) -> None:
        """Take in that Muster lets a pod pass to its node."""
        self._let_pass.add(uid)

    def arrived(self, uid: str) -> None:
        """Take in that a pod has reached bind."""
        self._sent.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or gone."""
        self._let_pass.discard(uid)
        self._sent.pop(uid, None)
        self._passed.pop(uid, None)
        self._stuck.pop(uid, None)

    def _count(self, pod: Pod) -> bool:
        """Let the gang of a pod know whether it is refused; return whether that is news."""
        stands = pod.refusal and pod.placeable and pod.uid not in self._passed and self._model.manages(pod)
        counts = stands and (pod.uid in self._stuck or refusal_kind(pod.refusal) is RefusalKind.ALONE)
        return self._model.gangs.refuse(pod, pod.refusal if counts else "")


def _refusable(pod: Pod) -> tuple[object, ...]:
    return (pod.refusal, pod.placeable, pod.group, pod.scheduler_name)
