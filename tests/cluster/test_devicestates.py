"""What the node table has free is what kube-scheduler would allocate next, in random states of a cluster."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from extender.admission.events import ClaimSeen, ClaimTemplateSeen, DeviceClassSeen, PodSeen, SliceSeen
from extender.objects.deviceclass import UNREADY, decode_device_class, read_device_class
from extender.objects.pod import CHARGED, Phase, Pod
from extender.objects.resourceclaim import decode_resource_claim_template, read_resource_claim_template
from tests.builders import Json, metadata_json, written
from tests.devices.model import claim_of, slice_of
from tests.devices.oracle import allocation_question, ask_oracle
from tests.devicevalues import product_is, uses
from tests.objects.dra import NVIDIA, claim_json, class_json, device_json, option_json, request_json, slice_json
from tests.worlds import GPU, Job, World

NODES = ("node-0", "node-1")
PRODUCTS = ("H100", "A100", "B200")
MEMBERS = 2
ROOT = "resource.kubernetes.io/pcieRoot"
UNHEALTHY: Json = {"key": "unhealthy", "effect": "NoSchedule"}
TOLERANT: Json = {"tolerations": [{"key": "unhealthy", "operator": "Exists"}]}
#: What pods ask for, by the name of the template: devices that are counted, and claims that are tried on each node.
COUNTED: dict[str, Json] = {
    "any": request_json(),
    "pair": request_json(count=2),
    "h100": request_json("gpu", NVIDIA, product_is("H100")),
    "not-h100": request_json("gpu", NVIDIA, f"!({product_is('H100')})", count=2),
    "b200": request_json("gpu", "b200"),
    "tolerant": request_json(**TOLERANT),
}
TRIED: dict[str, Json] = {
    "alike": request_json(count=2),
    "either": {
        "name": "gpu",
        "firstAvailable": [option_json("one", "b200"), option_json("two", NVIDIA, product_is("A100"), count=2)],
    },
    "all": request_json(allocationMode="All", count=0),
}
ASKED = COUNTED | TRIED


def asks(name: str, template: str) -> Json:
    """Return a claim of a template."""
    constraints = [{"matchAttribute": ROOT}] if template == "alike" else []
    return claim_json(name, ASKED[template], constraints=constraints)


@dataclass(frozen=True, slots=True)
class Asking:
    """A pod that has no claim yet: how many like it does a node have devices for?"""

    template: str
    node: str
    free: int


class State:
    """A cluster of two nodes whose devices claims of every sort hold, told to an engine and kept for the oracle."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._draw = random.Random(seed)
        self.world = World()
        resource = self._draw.choice([None, GPU])
        self.classes = [
            class_json(NVIDIA, f"device.driver == '{NVIDIA}'", resource=resource),
            class_json("b200", product_is("B200")),
        ]
        for each in self.classes:
            self.world.tell(DeviceClassSeen(read_device_class(decode_device_class(written(each)))))
        for template in ASKED:
            document = {
                "metadata": metadata_json(template, namespace="default"),
                "spec": {"spec": asks("x", template)["spec"]},
            }
            self.world.tell(
                ClaimTemplateSeen(read_resource_claim_template(decode_resource_claim_template(written(document))))
            )
        self.world.nodes(len(NODES), gpus=0)
        self.slices = [self._slice(node) for node in NODES]
        for each in self.slices:
            self.world.tell(SliceSeen(slice_of(each)))
        self.allocated: list[Json] = []
        self.claims = 0
        self.pods: dict[str, Pod] = {}

    def _slice(self, node: str) -> Json:
        products = self._draw.sample(PRODUCTS, self._draw.randint(1, 3))
        devices = [
            device_json(
                f"gpu-{index}",
                attributes={
                    "productName": {"string": self._draw.choice(products)},
                    ROOT: {"string": f"pci0000:{self._draw.randint(0, 2)}0"},
                },
                **({"taints": [UNHEALTHY]} if self._draw.random() < 0.1 else {}),
            )
            for index in range(self._draw.randint(1, 8))
        ]
        incomplete = self._draw.random() < 0.03
        return slice_json(f"slice-{node}", *devices, node=node, slices=1 + incomplete)

    def question(self, claims: list[Json], node: str) -> Json:
        """Return what the oracle is asked: what would claims get on a node now."""
        return allocation_question(
            node={"metadata": metadata_json(node)},
            slices=self.slices,
            classes=self.classes,
            allocated=self.allocated,
            claims=claims,
        )

    def occupy(self, template: str, node: str, allocation: Json) -> None:
        """Let a claim have devices: of a pod that runs, has ended, is gone, is of another scheduler, or of nobody."""
        self.claims += 1
        kind = self._draw.choice(["running", "foreign", "ended", "gone", "lone", "extended"])
        name = f"has-{self.claims}"
        document = asks(name, template) | {"status": {"allocation": allocation}}
        self.allocated.append(document)
        claim = claim_of(document)
        given = len(allocation["devices"]["results"])
        gpus = given if kind == "extended" and template in ("any", "pair") and self._has_resource else 0
        pod = self.world.pod(name, gpus, node_name=node, phase=Phase.RUNNING)
        if not gpus:
            pod = replace(pod, claims=uses(template=template, claim=name))
        if kind == "foreign":
            pod = replace(pod, scheduler_name="default-scheduler")
        if kind == "ended":
            pod = replace(pod, phase=Phase.SUCCEEDED)
        if kind != "lone":
            claim = replace(claim, controller=pod.uid, extended=bool(gpus))
        events = [ClaimSeen(claim)] + ([PodSeen(pod)] if kind not in ("gone", "lone") else [])
        self._draw.shuffle(events)
        for event in events:
            self.world.tell(event)

    def gang(self) -> tuple[Job, str]:
        """Let a gang come, and be planned; return it and what its members ask for."""
        template, _ = self.chosen()
        return self.world.gang("job", MEMBERS, gpus=0, claims=uses(template=template)), template

    def allocate(self, job: Job, index: int, template: str, allocation: Json) -> None:
        """Let the claim of a gang's member be made and have devices."""
        name = f"{job.pods[index].name}-claim"
        document = asks(name, template) | {"status": {"allocation": allocation}}
        self.allocated.append(document)
        pod = job.see(index, claims=uses(template=template, claim=name))
        self.world.tell(ClaimSeen(replace(claim_of(document), controller=pod.uid)))

    @property
    def _has_resource(self) -> bool:
        return "extendedResourceName" in self.classes[0]["spec"]

    def chosen(self) -> tuple[str, str]:
        """Return what the next claim asks for, and on which node."""
        return self._draw.choice(list(ASKED)), self._draw.choice(NODES)

    def asking(self) -> list[Asking]:
        """Return how many further pods each node has devices for, by the table."""
        found = []
        for template in ASKED:
            pod = self.world.pod(f"asks-{template}", claims=uses(template=template))
            self.world.tell(PodSeen(pod))
            self.pods[template] = pod
        for template, pod in self.pods.items():
            (known,) = (each for each in self.world.state.pods() if each.uid == pod.uid)
            assert known.problem is None
            asked = ((name, amount) for name, amount in known.shape.requests if name not in ("cpu", "pods"))
            columns = {name: amount for name, amount in asked if not name.endswith(CHARGED)}
            assert columns
            for node in NODES:
                free = self.world.state.free_on(node)
                if template == "either" and free.get(UNREADY):
                    continue  # while a driver is at work nothing is known of claims that cannot be counted
                found.append(Asking(template, node, min(free.get(name, 0) // each for name, each in columns.items())))
        return found


def occupied(seeds: range) -> list[State]:
    """Return states in which claims have what kube-scheduler gave them."""
    states = [State(seed) for seed in seeds]
    for step in range(6):
        due = [state for state in states if state.seed % 7 > step]
        chosen = [state.chosen() for state in due]
        questions = [
            state.question([asks("next", template)], node) for state, (template, node) in zip(due, chosen, strict=True)
        ]
        for state, (template, node), told in zip(due, chosen, ask_oracle(questions), strict=True):
            for allocation in told.get("allocations", ()):
                state.occupy(template, node, allocation)
    return states


def counted(states: list[State]) -> dict[tuple[int, str, str], tuple[int, int]]:
    """Return how many further pods of each kind each node has devices for: by the table, and by the oracle."""
    left = [(state, asking, list(state.allocated)) for state in states for asking in state.asking()]
    expected = {(state.seed, asking.template, asking.node): asking.free for state, asking, _ in left}
    placed = Counter[tuple[int, str, str]]()
    while left:
        questions = [
            state.question([asks("next", asking.template)], asking.node) | {"allocated": allocated}
            for state, asking, allocated in left
        ]
        tried, left = left, []
        for (state, asking, allocated), told in zip(tried, ask_oracle(questions), strict=True):
            assert "gaveUp" not in told
            for allocation in told.get("allocations", ()):
                placed[state.seed, asking.template, asking.node] += 1
                left.append((state, asking, [*allocated, claim_json("taken", status={"allocation": allocation})]))
    return {key: (free, placed[key]) for key, free in expected.items()}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_as_many_further_pods_fit_as_kube_scheduler_finds_devices_for(first: int) -> None:
    """Of each kind on each node, one after the other, whoever has the others: in 1,000 states."""
    found = counted(occupied(range(first, first + 250)))
    assert {key: both for key, both in found.items() if both[0] != both[1]} == {}
    assert sum(free for free, _ in found.values()) > 2000


@pytest.mark.slow
def test_what_a_gang_is_promised_kube_scheduler_finds() -> None:
    """Each member gets devices on its node, one after the other; once they are allocated nothing is free twice."""
    states = occupied(range(1000, 1200))
    jobs = [(state, job, template) for state in states for job, template in [state.gang()] if job.reserved]
    for index in range(MEMBERS):
        questions = [
            state.question([asks("mine", template)], job.reserved[job.pods[index].name])
            for state, job, template in jobs
        ]
        for (state, job, template), told in zip(jobs, ask_oracle(questions), strict=True):
            assert "allocations" in told, (state.seed, template, told)
            state.allocate(job, index, template, *told["allocations"])
    assert len(jobs) > 60
    found = counted([state for state, _, _ in jobs])
    assert {key: both for key, both in found.items() if both[0] != both[1]} == {}
