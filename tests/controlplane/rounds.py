"""Rounds of a bad tenant beside a good one on the real control plane, and what the good one notices."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Self

from localcluster.client import (
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    QUEUES,
    ApiClient,
    JsonObject,
    Resource,
)
from localcluster.errors import ApiError, NotInTimeError
from localcluster.history import SCHEDULING, Recorder
from localcluster.nodes import GPU
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.harms import (
    PRIORITIES,
    QUEUE_LABEL,
    ROOT,
    SECONDS,
    TENANT,
    TRAPS,
    Harm,
    Step,
    write_round,
)
from tests.controlplane.judging import history_of
from tests.controlplane.volumes import CLAIMS, storage_class
from tests.judge import Tolerance, Violation, judge

#: The good tenant's namespace and Queue.
GOOD = "good"
#: Scheduling gate that Muster opens once a gang could start.
ADMISSION_GATE = "muster.dev/admission"
#: Eight GPUs each: 16 are the good tenant's nominal quota, 16 the bad one's, and 16 are left, so that room never lacks.
NODES = 6
NOMINAL = {GOOD: 16, TENANT: 16}
#: How long a good gang may take on a quiet machine (seconds); on a busy one so many times as long as alone besides, and
#: one pause of a pod that kube-scheduler tried too early (its podMaxBackoffSeconds).
PROMPT_SECONDS, ALLOWANCE, BACKOFF_SECONDS = 5.0, 5.0, 10.0
#: GPUs of each of the two pods of a good gang.
SIZES = (1, 2, 4)
#: Seconds between the start of a good gang and the next, how long the good tenant goes on after the last harm, and how
#: long a gang may take before it counts as one that never starts.
PAUSE, AFTERWARDS, GIVEN_UP = 0.3, 1.0, 60.0
#: Good gangs of each round before the tenant begins.
ALONE = 3
#: What is written to see how long a write takes, and seconds between two such writes.
_CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps", namespaced=True)
_MARK, _PAUSE_OF_WRITES = "yardstick", 0.05


class Yardstick:
    """Write one object over and over, and remember how long that took: what the machine itself does to times.

    kube-scheduler asks about one pod after the other, and writes why it refused a pod before it takes the next.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._took: list[tuple[float, float]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Start."""
        self._api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _MARK, "namespace": GOOD}})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._stopping.set()
        self._thread.join()

    def mean(self, since: float, until: float) -> float:
        """Return how long a write took on average between two times (all in seconds)."""
        return fmean([took for at, took in self._took if since <= at <= until] or [0.0])

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(_PAUSE_OF_WRITES):
            before = time.monotonic()
            number += 1
            self._api.patch(_CONFIG_MAPS, _MARK, {"data": {"number": str(number)}}, namespace=GOOD)
            self._took.append((before, time.monotonic() - before))


@dataclass(slots=True)
class Round:
    """What was done in a round and what came of it.

    Attributes:
        alone: seconds in which good gangs started before the tenant began.
        beside: the same, beside it.
        write: how long a write to the API server took on average beside the tenant (seconds).
        answers: how the API server took the tenant's requests, by HTTP status; 200 stands for all that it took.
        violations: what the judge says.
    """

    seed: int
    harms: tuple[Harm, ...]
    gated: bool
    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    write: float = 0.0
    answers: Counter[int] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def __str__(self) -> str:
        """Write what the tenant did, and how to play it again."""
        options = f"--tenant-seed {self.seed} --tenant-rounds 1{' --tenant-gates' if self.gated else ''}"
        again = f"pytest -m controlplane tests/controlplane/test_random_tenants.py {options}"
        did = "\n".join(f"  {harm}" for harm in self.harms)
        starts = " ".join(f"{seconds:.2f}" for seconds in self.beside)
        head = (
            f"round {self.seed}: good gangs took {starts} s beside {self.pods} pods; a write {1000 * self.write:.0f} ms"
        )
        return f"{head}; answers {dict(self.answers)}\n{did}\n  again: {again}"

    @property
    def pods(self) -> int:
        """Return how many pods the tenant created."""
        return sum(step.verb == "create" and step.item["kind"] == "Pod" for harm in self.harms for step in harm.steps)

    def bound(self, alone: float) -> float:
        """Return how long a good gang may take (seconds), given how long one takes `alone`.

        The aim is PROMPT_SECONDS; the report says how many took how long. A busy machine gets ALLOWANCE times `alone`
        besides, a pause of kube-scheduler's, and the backlog.
        """
        return PROMPT_SECONDS + BACKOFF_SECONDS + ALLOWANCE * alone + self.backlog

    @property
    def backlog(self) -> float:
        """Return how long kube-scheduler takes over the tenant's pods (seconds): for each it tries and writes twice."""
        return 2 * self.pods * self.write


@dataclass(slots=True)
class Stage:
    """The cluster of both tenants, and the client of the bad one.

    With `gated`, the pods of both have Muster's scheduling gate, as an admission policy would give it to them.
    """

    cluster: Sandbox
    tenant: ApiClient
    yardstick: Yardstick
    gated: bool
    _serial: Iterator[int] = field(default_factory=itertools.count)

    def play(self, seed: int) -> Round:
        """Play one round: good gangs alone, beside the tenant, and after all that it did was deleted."""
        played = Round(seed, write_round(seed), self.gated)
        random = Random(seed)
        with Recorder(self.cluster.api, (*SCHEDULING, QUEUES)) as recorder:
            played.alone = self._good(random, lambda made: made < ALONE)
            with ThreadPoolExecutor(len(played.harms)) as pool:
                began = time.monotonic()
                doing = [pool.submit(self._do, harm, began) for harm in played.harms]
                ends = began + SECONDS + AFTERWARDS
                played.beside = self._good(
                    random, lambda _made: time.monotonic() < ends or not all(each.done() for each in doing)
                )
            played.write = self.yardstick.mean(began, time.monotonic())
            played.answers = sum((each.result() for each in doing), Counter())
            self._clean_up()
            quiet = time.monotonic()
            self._good(random, lambda made: made < 1)
            recorder.catch_up(60.0)
            history = history_of(recorder, None, end=time.monotonic(), quiet=quiet)
        # As late as kube-scheduler may be, so late may be what it does after an eviction, and news of it.
        played.violations = judge(history, Tolerance(news=1.0 + played.backlog, eviction=1.0 + played.backlog))
        return played

    def _good(self, random: Random, going: Callable[[int], bool]) -> list[float]:
        """Start good gangs while `going(how many)`, one by one; return how long each took from its last pod on."""
        took: list[float] = []
        alive: list[Gang] = []
        while going(len(took)):
            gang = self.cluster.gang(
                f"good-{next(self._serial)}",
                namespace=GOOD,
                members=2,
                gpus=random.choice(SIZES),
                labels={QUEUE_LABEL: GOOD},
                gates=(ADMISSION_GATE,) if self.gated else (),
            )
            created = time.monotonic()
            alive.append(gang)
            with contextlib.suppress(NotInTimeError):
                gang.wait_bound(timeout=GIVEN_UP / 3)
            bound = gang.bound_at()
            whole = len(bound) == len(gang.members)
            took.append(max(0.0, max(bound.values()) - created) if whole else GIVEN_UP)
            time.sleep(PAUSE)
            for old in alive[:-1]:
                old.delete()
            alive = alive[-1:]
        for old in alive:
            old.delete()
        return took

    def _do(self, harm: Harm, began: float) -> Counter[int]:
        """Carry out one harm; return how the API server answered."""
        answers: Counter[int] = Counter()
        for number, step in enumerate(harm.steps):
            at = began + harm.at + harm.lasts * number / len(harm.steps)
            time.sleep(max(0.0, at - time.monotonic()))
            try:
                self._request(step)
                answers[200] += 1
            except ApiError as error:
                answers[error.status] += 1
        return answers

    def _request(self, step: Step) -> None:
        item = step.item
        metadata = item["metadata"]
        if step.verb == "create":
            if self.gated and item["kind"] == "Pod" and _may_be_gated(item["spec"]):
                gates = [*item["spec"].get("schedulingGates", []), {"name": ADMISSION_GATE}]
                item = {**item, "spec": {**item["spec"], "schedulingGates": gates}}
            self.tenant.create(item)
            return
        resource = step.resource or self.tenant.resource_of(item)
        if step.verb == "delete":
            self.tenant.delete(resource, metadata["name"], metadata.get("namespace"), grace_seconds=0)
        else:
            self.tenant.patch(resource, metadata["name"], item, namespace=metadata.get("namespace"))

    def _clean_up(self) -> None:
        """Delete what the tenant has left, and wait until it is gone."""
        for pod in self.tenant.list_items(PODS, TENANT):
            if pod["metadata"].get("finalizers"):
                self.tenant.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace=TENANT)
        for resource in (PODS, POD_GROUPS, CLAIMS, POD_DISRUPTION_BUDGETS):
            self.tenant.delete_all(resource, TENANT)
        for queue in self.tenant.list_items(QUEUES):
            if (name := queue["metadata"]["name"]) not in {ROOT, *NOMINAL}:
                self.tenant.delete(QUEUES, name)
        for claim in self.tenant.list_items(CLAIMS, TENANT):
            change: JsonObject = {"metadata": {"finalizers": None}}
            self.tenant.patch(CLAIMS, claim["metadata"]["name"], change, namespace=TENANT)
        self.cluster.wait_until(self._gone, "what the tenant left is gone", 60.0)

    def _gone(self) -> bool:
        return not any(self.tenant.list_items(PODS, TENANT))


@contextmanager
def staged(cluster: Sandbox, tenant: ApiClient, *, gated: bool = False) -> Iterator[Stage]:
    """Set the stage: nodes, Queues, PriorityClasses and namespaces of both tenants."""
    cluster.nodes(NODES, gpus=8)
    cluster.nodes(len(TRAPS), prefix="trap", gpus=8, taints=({"key": "example.com/trap", "effect": "NoSchedule"},))
    cluster.create(storage_class())
    for name, value in PRIORITIES.items():
        cluster.priority_class(name, value)
    cluster.create(_queue(ROOT))
    for name, gpus in NOMINAL.items():
        cluster.create(_queue(name, gpus))
    with cluster.namespace(GOOD), cluster.namespace(TENANT), Yardstick(tenant) as yardstick:
        for name in NOMINAL:
            tenant.patch(NAMESPACES, name, {"metadata": {"labels": {"tenant": name}}})
        yield Stage(cluster, tenant, yardstick, gated)


def _may_be_gated(spec: JsonObject) -> bool:
    """Tell whether a pod goes through Muster, and the API server takes a further gate."""
    there = [gate["name"] for gate in spec.get("schedulingGates", [])]
    return spec["schedulerName"] == "muster" and "nodeName" not in spec and ADMISSION_GATE not in there


def _queue(name: str, gpus: int | None = None) -> JsonObject:
    spec: JsonObject = {}
    if gpus is not None:
        resources = [{"name": GPU, "nominalQuota": gpus, "borrowingLimit": 0, "lendingLimit": 0}]
        spec = {
            "parent": ROOT,
            "flavors": [{"name": "all", "resources": resources}],
            "namespaceSelector": {"matchLabels": {"tenant": name}},
            "default": True,
        }
    return {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value that `share` of all do not exceed, 0 of none."""
    ordered: Sequence[float] = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
