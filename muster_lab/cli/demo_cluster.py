"""The cluster of the demo's service, and the jobs that keep arriving on it: small, but with all that Muster decides by.

Eight H100 nodes in two blocks of two racks, Queues of three teams that lend each other quota, and jobs of every size:
some need one block, some are urgent, some borrow and are reclaimed, a few can never start.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from extender.objects import keys
from muster_lab.simulation.manifests import namespace_manifest, queue_manifest
from muster_lab.simulation.notation import write_duration
from muster_lab.simulation.objects import Json
from muster_lab.simulation.scenario import Scenario, ScenarioGang, ScenarioMember, ScenarioNode, ScenarioSharing

NODES = 8
GPUS = 8
#: What an hour of one GPU costs (dollars).
GPU_HOUR_PRICE = 3.67

#: A gang that always runs, and one that never can: they are there for as long as the service is.
RUNS, NEVER_FITS = "serving/serve-chat", "frontier/moe-1t"

_PRODUCT = "NVIDIA-H100-80GB-HBM3"
_NODES_PER_RACK, _NODES_PER_BLOCK = 2, 4
_BLOCK, _RACK = "oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"
_GPU = "nvidia.com/gpu"
_CLASSES = {"production": 1000, "batch": 0}
_RENDEZVOUS_SECONDS = 3.0
_CHECKPOINT_SECONDS = 5.0
#: Seconds that a pod takes to end, a gang runs at least before it is evicted, and is told before.
_END_SECONDS, _LEAST_SECONDS, _NOTICE_SECONDS = 1, 10, 2
#: Numbers in the names of jobs start at 0 again after that many, so that the names remembered stay few.
_MOST_NUMBERS = 100


@dataclass(frozen=True, slots=True)
class DemoJobKind:
    """A kind of jobs: `pods` with `gpus` each that train for `seconds`, in the namespace of its team.

    `seconds` is None for what never ends. `level` is the domain that it must have for itself, if any. Who sent a job
    that cannot start withdraws it after `patience` seconds, None for never.
    """

    name: str
    team: str
    pods: int
    gpus: int
    seconds: float | None
    level: str = ""
    urgent: bool = False
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class _Quota:
    """How many GPUs a team may always use, and how many of others' beyond; None for a team that does not share."""

    nominal: int
    borrowing: int | None = None


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A gang, and after how many seconds it is withdrawn if it has not started; None for never."""

    gang: ScenarioGang
    patience: float | None = None


@dataclass(slots=True)
class Jobs:
    """Name job after job, without end: a fixed cycle, so that what is promised of it can be tried."""

    _numbers: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[DemoJob]:
        """Iterate over the jobs in the order of their arrival."""
        for kind in itertools.cycle(_CYCLE):
            number = self._numbers[kind.name] % _MOST_NUMBERS + 1
            self._numbers[kind.name] = number
            yield DemoJob(_gang(kind, f"{kind.name}-{number}"), kind.patience)


#: The teams, each a namespace with a Queue. They have more quota than there are GPUs: gangs lack one or the other.
_QUOTAS = {"llm": _Quota(40, 16), "research": _Quota(16, 24), "serving": _Quota(16, 8), "frontier": _Quota(48)}

#: Who is there from the start, for good.
_RESIDENTS = (
    DemoJobKind("serve-chat", "serving", 2, 4, None, urgent=True),
    DemoJobKind("moe-1t", "frontier", 6, 8, 600.0, level="block"),
)

#: Who arrives, again and again. They ask for a little more than there is, so that some always wait.
_CYCLE = (
    DemoJobKind("llm-pretrain", "llm", 4, 8, 40.0, level="block"),
    DemoJobKind("sweep", "research", 4, 4, 30.0),
    DemoJobKind("eval", "research", 4, 1, 15.0),
    DemoJobKind("llm-finetune", "llm", 2, 8, 30.0, level="rack"),
    DemoJobKind("ablation", "research", 2, 8, 30.0),
    DemoJobKind("serve-canary", "serving", 2, 2, 40.0, urgent=True),
    DemoJobKind("moe-alltoall", "frontier", 2, 8, 30.0, level="superpod", patience=40.0),
    DemoJobKind("distill", "research", 2, 4, 40.0),
    DemoJobKind("llm-sft", "llm", 2, 8, 30.0),
    DemoJobKind("eval", "research", 4, 1, 15.0),
    DemoJobKind("sweep", "research", 4, 4, 30.0),
    DemoJobKind("llm-hotfix", "llm", 1, 8, 25.0, urgent=True),
    DemoJobKind("serve-embed", "serving", 1, 8, 30.0, urgent=True),
)


def demo_cluster() -> Scenario:
    """Return the nodes, the Queues and the gangs that are there from the start; it never ends."""
    gangs = tuple(_gang(kind, kind.name) for kind in _RESIDENTS)
    return Scenario(
        nodes=tuple(map(_node, range(NODES))),
        gangs=gangs,
        until=float("inf"),
        gpu_hour_price=GPU_HOUR_PRICE,
        sharing=ScenarioSharing(
            queues=tuple(_queues()),
            priority_classes=_CLASSES,
            namespaces=tuple(namespace_manifest(team, {"team": team}) for team in _QUOTAS),
        ),
    )


def _node(index: int) -> ScenarioNode:
    name, block, rack = f"gpu-{index}", index // _NODES_PER_BLOCK, index // _NODES_PER_RACK
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": _PRODUCT,
        _BLOCK: f"b{block}",
        _RACK: f"r{rack}",
    }
    return ScenarioNode(name, {"cpu": "192", "memory": "2Ti", "pods": "110", _GPU: str(GPUS)}, labels)


def _queues() -> Iterator[Json]:
    """Yield the Queues: three below one, which lend each other what they do not use, and one by itself."""
    no_namespace = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}]}
    yield queue_manifest("ml", {"namespaceSelector": no_namespace})
    for team, quota in _QUOTAS.items():
        yield queue_manifest(
            team,
            {
                **({} if quota.borrowing is None else {"parent": "ml"}),
                "namespaceSelector": {"matchLabels": {"team": team}},
                "default": True,
                "flavors": [{"name": "h100", "resources": [_resource(quota)]}],
                "preemption": {"minRuntime": f"{_LEAST_SECONDS}s", "grace": f"{_NOTICE_SECONDS}s"},
            },
        )


def _resource(quota: _Quota) -> Json:
    limit = {} if quota.borrowing is None else {"borrowingLimit": str(quota.borrowing)}
    return {"name": _GPU, "nominalQuota": str(quota.nominal), **limit}


def _gang(kind: DemoJobKind, name: str) -> ScenarioGang:
    requests = {"cpu": str(8 * kind.gpus), "memory": f"{64 * kind.gpus}Gi", _GPU: str(kind.gpus)}
    annotations = {keys.TOPOLOGY_REQUIRED: kind.level} if kind.level else {}
    if kind.seconds is None:
        annotations[keys.PREEMPTIBLE] = "false"
    else:
        annotations[keys.EXPECTED_DURATION] = write_duration(_RENDEZVOUS_SECONDS + kind.seconds)
    priority = "production" if kind.urgent else "batch"
    return ScenarioGang(
        name=name,
        namespace=kind.team,
        min_member=kind.pods,
        members=tuple(ScenarioMember(f"{name}-{index}", requests) for index in range(kind.pods)),
        priority=_CLASSES[priority],
        priority_class=priority,
        rendezvous=_RENDEZVOUS_SECONDS,
        duration=kind.seconds,
        checkpoint_interval=_CHECKPOINT_SECONDS,
        grace_period=_END_SECONDS,
        annotations=annotations,
    )
