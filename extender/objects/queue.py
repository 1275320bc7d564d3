"""A Queue: who may use how much, and what happens when that is not enough.

The words are Kueue's where it has them: kubernetes-sigs/kueue apis/kueue/v1beta2 ClusterQueue and Cohort.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec import field as struct_field

from extender.objects.keys import GROUP, USER
from extender.objects.meta import Decoder, Int32, LabelSelector, LabelSelectorObject, ObjectMeta, read_label_selector
from extender.objects.reason import Problem, quoted
from extender.objects.requests import QuantityError, amount, parse_quantity
from extender.objects.text import parse_go_duration

Quantity: TypeAlias = str | int | float
"""A quantity as written by the API server (a string) or by people (a bare number)."""


class ResourceQuotaObject(Struct, gc=False, frozen=True, rename="camel"):
    """What a queue has of one resource in one flavor."""

    name: str | None = None
    nominal_quota: Quantity | None = None
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotasObject(Struct, gc=False, frozen=True, rename="camel"):
    """What a queue has in one flavor, and which nodes the flavor is."""

    name: str | None = None
    node_selector: dict[str, str] | None = None
    resources: list[ResourceQuotaObject] | None = None


class BorrowWithinCohortObject(Struct, gc=False, frozen=True, rename="camel"):
    """Whether a queue may preempt others while it borrows."""

    policy: str | None = None
    max_priority_threshold: Int32 | None = None


class FairSharingObject(Struct, gc=False, frozen=True, rename="camel"):
    """Whether a queue may preempt others so that weighted shares even out."""

    strategy: str | None = None
    delay: str | None = None


class ConsolidationObject(Struct, gc=False, frozen=True, rename="camel"):
    """Whether gangs of a queue move so that others fit, and how much that may cost."""

    policy: str | None = None
    delay: str | None = None
    cool_down: str | None = None
    max_evictions_per_hour: Int32 | None = None
    max_lost_gpu_hours_per_hour: Quantity | None = struct_field(default=None, name="maxLostGPUHoursPerHour")


class QueuePreemption(Struct, gc=False, frozen=True, rename="camel"):
    """Which gangs a queue's gangs may evict, and how its own are protected; durations as Go writes them."""

    within_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohortObject | None = None
    fair_sharing: FairSharingObject | None = None
    consolidation: ConsolidationObject | None = None
    non_preemptible: str | None = None
    min_runtime: str | None = None
    grace: str | None = None
    max_notice: str | None = None


class SparesObject(Struct, gc=False, frozen=True, rename="camel"):
    """The nodes that a Queue keeps for repairs."""

    nodes: Int32 | None = None
    level: str | None = None
    lend_below: Int32 | None = None


class RunningLimitObject(Struct, gc=False, frozen=True, rename="camel"):
    """What one user, or one group, may run at a time."""

    max_running_gangs: Int32 | None = None
    max_running_gpus: Int32 | None = struct_field(default=None, name="maxRunningGPUs")


class QueueSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a Queue."""

    parent: str | None = None
    flavors: list[FlavorQuotasObject] | None = None
    weight: Quantity | None = None
    priority: Int32 | None = None
    namespace_selector: LabelSelectorObject | None = None
    default: bool | None = None
    queueing_strategy: str | None = None
    preemption: QueuePreemption | None = None
    max_running_gangs: Int32 | None = None
    per_user: RunningLimitObject | None = None
    per_group: RunningLimitObject | None = None
    max_runtime: str | None = None
    stop_policy: str | None = None
    spares: SparesObject | None = None


class PastUsage(Struct, gc=False, frozen=True):
    """The decayed mean usage of one resource, as a quantity."""

    resource: str | None = None
    usage: Quantity | None = None


class QueueStatusObject(Struct, gc=False, frozen=True, rename="camel"):
    """The part of a Queue's status that is read again: what only Muster itself remembered."""

    history: list[PastUsage] | None = None
    history_at: str | None = None


class QueueObject(Struct, gc=False, frozen=True):
    """A `muster.dev/v1alpha1` Queue."""

    metadata: ObjectMeta | None = None
    spec: QueueSpec | None = None
    status: QueueStatusObject | None = None


decode_queue = Decoder(QueueObject)


class QueueingStrategy(StrEnum):
    """Whether a gang that cannot start yet holds up those behind it in its queue."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(StrEnum):
    """What a queue starts: `HOLD` nothing new, `HOLD_AND_DRAIN` nothing, and what runs is evicted."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class WithinQueue(StrEnum):
    """Which running gangs of its own queue a gang may preempt."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"


class NonPreemptible(StrEnum):
    """How much quota pods of a queue may use that cannot be evicted."""

    WITHIN_NOMINAL_QUOTA = "WithinNominalQuota"
    ANYWHERE = "Anywhere"


class Reclaim(StrEnum):
    """Which gangs that borrow give way to a gang within its nominal quota."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


class BorrowWithin(StrEnum):
    """Which gangs that borrow give way to a gang that borrows itself."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class FairSharingStrategy(StrEnum):
    """Which gangs that borrow leave so that weighted shares even out: by the shares before or after they have left."""

    NEVER = "Never"
    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


class ConsolidationTrigger(StrEnum):
    """When gangs of a queue move to another place."""

    NEVER = "Never"
    GANGS_WAIT = "WhenGangsWait"


#: How the level of nodes is called. Source: extender/settings.py.
_ONE_NODE: Final = frozenset({"node", "host", "hostname", "kubernetes.io/hostname"})

#: How long a gang waits by default before others leave for it so that shares even out (seconds).
_FAIR_SHARING_DELAY: Final = 300.0

#: How long before their eviction gangs are told at most by default, whatever they ask for (seconds): a checkpoint of a
#: large model takes minutes, and meanwhile a more important gang waits.
_MAX_NOTICE: Final = 600.0


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue has of one resource in one flavor (milli-CPU, bytes, counts); no limit where it is None.

    `borrowing_limit` is how much it may use beyond its own and its children's, `lending_limit` how much of theirs
    others may use.
    """

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Flavor:
    """What a queue has on some of the nodes.

    `node_selector` is sorted; None says the same as the nearest ancestor with a flavor of that name, or every node.
    """

    name: str
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    node_selector: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class ConsolidationPolicy:
    """How much gangs of a queue move so that others fit that wait.

    Only for a gang that has waited for `delay`, and only what has run for `cool_down` (seconds); `evictions` pods an
    hour at most, and `lost_gpu_hours` of GPU-hours an hour that they have run since they last saved their work.
    """

    delay: float = 600.0
    cool_down: float = 3600.0
    evictions: int = 16
    lost_gpu_hours: float = 16.0


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """Which gangs a queue's gangs may have evicted, and how its own are protected.

    Preemption while borrowing goes up to the priority `max_priority_threshold`. `fair_sharing` is for gangs that have
    waited for `fair_sharing_delay`. `min_runtime` is how long a gang of this queue runs before it may be preempted,
    `grace` how long before its eviction it is told, `max_notice` how long at most if it asks for that (all in seconds).
    Without `consolidation` none of its gangs moves.
    """

    within_queue: WithinQueue = WithinQueue.LOWER_PRIORITY
    reclaim_within_cohort: Reclaim = Reclaim.ANY
    borrow_within_cohort: BorrowWithin = BorrowWithin.NEVER
    max_priority_threshold: int | None = None
    fair_sharing: FairSharingStrategy = FairSharingStrategy.NEVER
    fair_sharing_delay: float = _FAIR_SHARING_DELAY
    consolidation: ConsolidationPolicy | None = None
    non_preemptible: NonPreemptible = NonPreemptible.WITHIN_NOMINAL_QUOTA
    min_runtime: float = 0.0
    grace: float = 0.0
    max_notice: float = _MAX_NOTICE

    def most_reclaimed(self, own: int) -> float:
        """Return the highest priority of gangs that give back what they borrow to one of priority `own`."""
        match self.reclaim_within_cohort:
            case Reclaim.ANY:
                return math.inf
            case Reclaim.LOWER_PRIORITY:
                return own - 1
        return -math.inf


@dataclass(frozen=True, slots=True)
class SparePolicy:
    """How many `nodes` a queue keeps for repairs in each domain of a `level`, "" for the cluster as a whole.

    Meanwhile they are lent to its gangs of a priority below `lend_below`.
    """

    nodes: int
    level: str = ""
    lend_below: int = 0


@dataclass(frozen=True, slots=True)
class RunningLimit:
    """How many gangs and GPUs one user, or one group, may run in a queue and those below it at a time; None for any.

    Whose pods are is told by the `label`; those that do not have it are one user's, or one group's, together.
    """

    label: str
    gangs: int | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A Queue as written.

    A gang of it, or of those below, runs for `max_runtime` at most (seconds).
    `namespaces` is None where every namespace may use it. `history` is the decayed mean usage by resource (milli-CPU,
    bytes, counts) as the status gave it at `history_at` (RFC 3339). With `problems` the queue cannot be used.
    """

    name: str
    uid: str = ""
    generation: int = 0
    created: str = ""
    parent: str = ""
    flavors: tuple[Flavor, ...] = ()
    weight: float = 1.0
    priority: int = 0
    namespaces: LabelSelector | None = None
    default: bool = False
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    preemption: PreemptionPolicy = PreemptionPolicy()
    max_running_gangs: int | None = None
    limits: tuple[RunningLimit, ...] = ()
    max_runtime: float | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    spares: SparePolicy | None = None
    history: Mapping[str, float] = field(default_factory=dict)
    history_at: str = ""
    problems: tuple[Problem, ...] = ()


def read_queue(queue: QueueObject) -> Queue:
    """Read a `muster.dev/v1alpha1` Queue; what makes no sense becomes problems, and its default stands in its place."""
    meta = queue.metadata or ObjectMeta()
    spec = queue.spec or QueueSpec()
    status = queue.status or QueueStatusObject()
    reading = _QueueReader()
    name, parent = meta.name or "", spec.parent or ""
    if parent and parent == name:
        reading.refuse("spec.parent", "is the Queue itself; name another Queue, or leave it out")
    if spec.max_running_gangs is not None and spec.max_running_gangs < 1:
        reading.refuse("spec.maxRunningGangs", f"{spec.max_running_gangs} is not at least 1; stopPolicy holds a Queue")
    namespaces = None
    if spec.namespace_selector is not None:
        namespaces = reading.selector(spec.namespace_selector, "spec.namespaceSelector")
    return Queue(
        name=name,
        uid=meta.uid or "",
        generation=meta.generation or 0,
        created=meta.creation_timestamp or "",
        parent=parent,
        flavors=reading.flavors(spec.flavors or (), borrows=bool(parent)),
        weight=reading.positive(spec.weight, 1.0, "spec.weight"),
        priority=spec.priority or 0,
        namespaces=namespaces,
        default=spec.default or False,
        strategy=reading.choice(spec.queueing_strategy, QueueingStrategy.BEST_EFFORT_FIFO, "spec.queueingStrategy"),
        preemption=reading.preemption(spec.preemption or QueuePreemption()),
        max_running_gangs=spec.max_running_gangs,
        limits=(
            *reading.limit(spec.per_user, USER, "spec.perUser"),
            *reading.limit(spec.per_group, GROUP, "spec.perGroup"),
        ),
        max_runtime=reading.max_runtime(spec.max_runtime),
        stop_policy=reading.choice(spec.stop_policy, StopPolicy.NONE, "spec.stopPolicy"),
        spares=None if spec.spares is None else reading.spares(spec.spares),
        history=_read_history(status.history or ()),
        history_at=status.history_at or "",
        problems=tuple(reading.problems),
    )


def format_usage(resource: str, value: float) -> str:
    """Write a mean usage (milli-CPU, bytes, counts) as a quantity for the status; `read_queue` reads it."""
    text = f"{value / 1000 if resource == 'cpu' else value:.6f}"
    return text.rstrip("0").rstrip(".")


_Choice = TypeVar("_Choice", bound=StrEnum)


class _QueueReader:
    """Read fields one by one, collecting what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def refuse(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))

    def flavors(self, flavors: Sequence[FlavorQuotasObject], *, borrows: bool) -> tuple[Flavor, ...]:
        read: dict[str, Flavor] = {}
        for index, flavor in enumerate(flavors):
            where, name = f"spec.flavors[{index}]", flavor.name or ""
            quotas = self._quotas(flavor.resources or (), f"{where}.resources", borrows=borrows)
            if self._is_new(name, read, f"{where}.name"):
                selector = None if flavor.node_selector is None else tuple(sorted(flavor.node_selector.items()))
                read[name] = Flavor(name, quotas, selector)
        return tuple(read.values())

    def _quotas(self, resources: Sequence[ResourceQuotaObject], where: str, *, borrows: bool) -> dict[str, Quota]:
        read: dict[str, Quota] = {}
        for index, each in enumerate(resources):
            here, name = f"{where}[{index}]", each.name or ""
            nominal = self._amount(name, each.nominal_quota, f"{here}.nominalQuota")
            if each.nominal_quota is None:
                self.refuse(f"{here}.nominalQuota", "is missing; 0 for a resource that is only borrowed")
            borrowing = self._amount(name, each.borrowing_limit, f"{here}.borrowingLimit")
            if borrowing is not None and not borrows:
                self.refuse(f"{here}.borrowingLimit", "needs spec.parent: without one there is no quota to borrow")
            lending = self._amount(name, each.lending_limit, f"{here}.lendingLimit")
            if self._is_new(name, read, f"{here}.name"):
                read[name] = Quota(nominal or 0, borrowing, lending)
        return read

    def _is_new(self, name: str, known: Mapping[str, object], where: str) -> bool:
        if name and name not in known:
            return True
        self.refuse(where, f"{quoted(name)} is there twice; merge the two" if name else "is missing")
        return False

    def _amount(self, resource: str, quantity: Quantity | None, where: str) -> int | None:
        if quantity is None:
            return None
        try:
            return amount(resource, quantity)
        except QuantityError as error:
            self.refuse(where, str(error))
            return None

    def positive(self, quantity: Quantity | None, default: float, where: str) -> float:
        if quantity is None:
            return default
        try:
            number = float(parse_quantity(str(quantity)))
        except QuantityError as error:
            self.refuse(where, str(error))
            return default
        if not 0 < number < math.inf:
            self.refuse(where, f"'{quantity}' is not a number above 0")
            return default
        return number

    def choice(self, text: str | None, default: _Choice, where: str) -> _Choice:
        known = type(default)
        if text is None or text in set(known):
            return default if text is None else known(text)
        self.refuse(where, f"{quoted(text)} is none of {', '.join(known)}")
        return default

    def duration(self, text: str | None, where: str, default: float = 0.0) -> float:
        seconds = default if text is None else parse_go_duration(text)
        if seconds is None or not 0 <= seconds < math.inf:
            self.refuse(where, f"{quoted(text or '')} is not a duration of at least 0, such as 90s, 30m or 1h30m")
            return default
        return seconds

    def max_runtime(self, text: str | None) -> float | None:
        if text is None:
            return None
        seconds = self.duration(text, "spec.maxRuntime", math.inf)
        if seconds == 0.0:
            self.refuse("spec.maxRuntime", f"{quoted(text)} is not above 0; stopPolicy HoldAndDrain ends all")
        return seconds if 0.0 < seconds < math.inf else None

    def limit(self, spec: RunningLimitObject | None, label: str, where: str) -> tuple[RunningLimit, ...]:
        if spec is None:
            return ()
        stated = {"maxRunningGangs": spec.max_running_gangs, "maxRunningGPUs": spec.max_running_gpus}
        for name, most in stated.items():
            if most is not None and most < 1:
                self.refuse(f"{where}.{name}", f"{most} is not at least 1; leave it out for no limit")
        if all(most is None for most in stated.values()):
            self.refuse(where, "says nothing; state maxRunningGangs or maxRunningGPUs, or leave it out")
        return (RunningLimit(label, *stated.values()),)

    def spares(self, spec: SparesObject) -> SparePolicy:
        nodes = 0 if spec.nodes is None else spec.nodes
        if nodes < 1:
            self.refuse("spec.spares.nodes", f"{nodes} is not at least 1; a Queue without spares says nothing of them")
        if spec.level in _ONE_NODE:
            self.refuse("spec.spares.level", f"{quoted(spec.level or '')} is one node; name a level of several")
        return SparePolicy(max(nodes, 1), spec.level or "", spec.lend_below or 0)

    def consolidation(self, spec: ConsolidationObject, where: str) -> ConsolidationPolicy | None:
        usual, evictions = ConsolidationPolicy(), spec.max_evictions_per_hour
        if evictions is not None and evictions < 1:
            self.refuse(f"{where}.maxEvictionsPerHour", f"{evictions} is not at least 1; policy Never moves no pods")
        lost = self.positive(spec.max_lost_gpu_hours_per_hour, usual.lost_gpu_hours, f"{where}.maxLostGPUHoursPerHour")
        policy = ConsolidationPolicy(
            self.duration(spec.delay, f"{where}.delay", usual.delay),
            self.duration(spec.cool_down, f"{where}.coolDown", usual.cool_down),
            usual.evictions if evictions is None else evictions,
            lost,
        )
        trigger = self.choice(spec.policy, ConsolidationTrigger.NEVER, f"{where}.policy")
        return policy if trigger is ConsolidationTrigger.GANGS_WAIT else None

    def selector(self, selector: LabelSelectorObject, where: str) -> LabelSelector | None:
        read = read_label_selector(selector, where)
        if isinstance(read, LabelSelector):
            return read
        self.problems.append(read)
        return None

    def preemption(self, spec: QueuePreemption) -> PreemptionPolicy:
        where = "spec.preemption"
        borrowing = spec.borrow_within_cohort or BorrowWithinCohortObject()
        reclaim = self.choice(spec.reclaim_within_cohort, Reclaim.ANY, f"{where}.reclaimWithinCohort")
        borrow = self.choice(borrowing.policy, BorrowWithin.NEVER, f"{where}.borrowWithinCohort.policy")
        if reclaim is Reclaim.NEVER and borrow is not BorrowWithin.NEVER:
            self.refuse(f"{where}.borrowWithinCohort.policy", "must be Never where reclaimWithinCohort is Never")
        evening = spec.fair_sharing or FairSharingObject()
        strategy = self.choice(evening.strategy, FairSharingStrategy.NEVER, f"{where}.fairSharing.strategy")
        if reclaim is Reclaim.NEVER and strategy is not FairSharingStrategy.NEVER:
            self.refuse(f"{where}.fairSharing.strategy", "must be Never where reclaimWithinCohort is Never")
        return PreemptionPolicy(
            within_queue=self.choice(spec.within_queue, WithinQueue.LOWER_PRIORITY, f"{where}.withinQueue"),
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=borrow,
            max_priority_threshold=borrowing.max_priority_threshold,
            fair_sharing=strategy,
            fair_sharing_delay=self.duration(evening.delay, f"{where}.fairSharing.delay", _FAIR_SHARING_DELAY),
            consolidation=self.consolidation(spec.consolidation or ConsolidationObject(), f"{where}.consolidation"),
            non_preemptible=self.choice(
                spec.non_preemptible, NonPreemptible.WITHIN_NOMINAL_QUOTA, f"{where}.nonPreemptible"
            ),
            min_runtime=self.duration(spec.min_runtime, f"{where}.minRuntime"),
            grace=self.duration(spec.grace, f"{where}.grace"),
            max_notice=self.duration(spec.max_notice, f"{where}.maxNotice", _MAX_NOTICE),
        )


def _read_history(entries: Sequence[PastUsage]) -> dict[str, float]:
    """Read what Muster wrote; anything else counts as nothing remembered."""
    read: dict[str, float] = {}
    for entry in entries:
        try:
            usage = float(parse_quantity(str(entry.usage)))
        except QuantityError:
            continue
        if entry.resource and 0 <= usage < math.inf:
            read[entry.resource] = usage * 1000 if entry.resource == "cpu" else usage
    return read
