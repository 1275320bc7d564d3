"""Random mixes of gangs that want devices in every way, on the real control plane: judged from what the API server saw.

`--device-rounds N` and `--device-seed SEED` play other rounds. In each Muster and kube-scheduler are killed,
allocations are refused for a while, and a driver takes devices away and publishes them again.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

import pytest

from localcluster.client import JsonObject, Resource
from localcluster.devices import (
    PCIE_ROOT,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    claim,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    gpus_of,
    resource_slice,
)
from localcluster.errors import NotInTimeError
from localcluster.history import SCHEDULING, Recorder
from localcluster.nodes import GPU
from localcluster.processes import Server
from localcluster.sandbox import GangOptions, Sandbox
from localcluster.story import Gang
from tests.controlplane.holding import Holding, allocations, hands_changed
from tests.controlplane.judging import history_of
from tests.judge import Change, Tolerance, judge, report

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(14400)]

#: Nodes with a device plugin, and with devices of either product; eight GPUs each.
PLUGINS, PRODUCTS, EACH = 8, ("H100", "A100"), 8
NODES_OF_PRODUCT = 6
GANGS = 20
#: They come within so many seconds, and want about twice what there is.
ARRIVING = 2.0
#: Devices that templates ask for, of any product and of one.
COUNTS = (1, 2, 4, 6, 8)
#: How long nothing may get on before a round counts as stuck (seconds).
PATIENCE = 60.0
#: How old Muster's knowledge may be after a restart (seconds).
NEWS_SECONDS = 6.0
#: How long devices may be held for a gang that is not whole (seconds): a bind call is held for 20, and kube-scheduler
#: takes an allocation back when it next tries the pod, at most ten seconds later.
LONGEST_IN_VAIN = 45.0


#: What keeps kube-scheduler from writing any allocation while it is bound to the cluster.
POLICIES = Resource(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)
REFUSAL = "refuse-allocations"


@dataclass(slots=True)
class Mix:
    """One round: its gangs and when each comes, and from when to when what harm is done (seconds).

    Muster is away while it is `killed`, kube-scheduler while `unscheduled`; allocations are `refused`; of a node the
    last devices are `missing`, so many as the number says.
    """

    seed: int
    arrivals: list[tuple[float, str, GangOptions]] = field(default_factory=list)
    shared: list[tuple[str, int]] = field(default_factory=list)
    killed: tuple[float, float] = (0.0, 0.0)
    unscheduled: tuple[float, float] = (0.0, 0.0)
    refused: tuple[float, float] = (0.0, 0.0)
    missing: tuple[float, float, str, int] = (0.0, 0.0, "", 0)

    @classmethod
    def of(cls, seed: int) -> Mix:
        """Make up a round from its seed alone."""
        random = Random(seed)
        mix = cls(seed, killed=_spell(random, 1.5), unscheduled=_spell(random, 1.5), refused=_spell(random, 3.0))
        node = f"{random.choice(PRODUCTS).lower()}-{random.randrange(NODES_OF_PRODUCT)}"
        mix.missing = (*_spell(random, 3.0), node, random.randint(1, EACH))
        for number in range(GANGS):
            name = f"g{seed}-{number}"
            options: GangOptions = {"run_seconds": random.randint(2, 4), "members": random.randint(2, 6)}
            count = random.choice(COUNTS)
            match random.choice(("any", "any", "pair", "product", "extended", "extended", "shared", "plain")):
                case "any":
                    options["spec"] = claiming(template=f"any-{count}")
                case "pair":
                    options["spec"] = claiming(template="pair")
                case "product":
                    options["spec"] = claiming(template=f"{random.choice(PRODUCTS).lower()}-{count}")
                case "shared":
                    mix.shared.append((name, min(count, 4)))
                    options |= {"spec": claiming(shared=name), "members": random.randint(2, 4)}
                case "extended":
                    options["gpus"] = count
            mix.arrivals.append((random.uniform(0, ARRIVING), name, options))
        mix.arrivals.sort(key=lambda each: each[0])
        return mix


def _spell(random: Random, longest: float) -> tuple[float, float]:
    """Return a spell that begins while gangs start (seconds)."""
    begins = random.uniform(0.2, 5.0)
    return begins, begins + random.uniform(0.0, longest)


def test_equal_seeds_make_equal_mixes() -> None:
    """A round is made up from its seed alone."""
    assert Mix.of(7) == Mix.of(7)
    assert Mix.of(7) != Mix.of(8)


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    """Return the seeds of the rounds to play."""
    first = request.config.getoption("--device-seed")
    return range(first, first + request.config.getoption("--device-rounds"))


def set_up(cluster: Sandbox) -> None:
    """Create nodes of either kind, the class of all GPUs, and templates."""
    cluster.create(device_class(extended_resource=GPU))
    cluster.nodes(PLUGINS, prefix="plugin")
    for product in PRODUCTS:
        for name in cluster.nodes(NODES_OF_PRODUCT, prefix=product.lower(), gpus=0):
            cluster.create(resource_slice(name, gpus_of(EACH, product=product)))
    allocated = "has(object.status) && has(object.status.allocation)"
    allocated_before = allocated.replace("object", "oldObject")
    cluster.create(
        {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.kind,
            "metadata": {"name": REFUSAL},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["resource.k8s.io"],
                            "apiVersions": ["*"],
                            "operations": ["UPDATE"],
                            "resources": ["resourceclaims/status"],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": f"!({allocated}) || ({allocated_before})",
                        "message": "not now",
                    }
                ],
            },
        }
    )
    cluster.create(claim_template("pair", claim_spec(2, alike=PCIE_ROOT)))
    for count in COUNTS:
        cluster.create(claim_template(f"any-{count}", claim_spec(count)))
        for product in PRODUCTS:
            selector = f"device.attributes['gpu.nvidia.com'].productName == '{product}'"
            cluster.create(claim_template(f"{product.lower()}-{count}", claim_spec(count, selectors=[selector])))


def harms(
    mix: Mix, cluster: Sandbox, muster: Server, scheduler: Server, deaths: list[float]
) -> Iterator[tuple[float, Callable[[], object]]]:
    """Yield what is done to a cluster while gangs start, and when (seconds)."""

    def kill(server: Server) -> None:
        deaths.append(time.monotonic())
        server.kill()

    for server, (begins, ends) in ((muster, mix.killed), (scheduler, mix.unscheduled)):
        yield begins, partial(kill, server)
        yield ends, server.start
    refusing: JsonObject = {
        "apiVersion": POLICY_BINDINGS.api_version,
        "kind": POLICY_BINDINGS.kind,
        "metadata": {"name": REFUSAL},
        "spec": {"policyName": REFUSAL, "validationActions": ["Deny"]},
    }
    begins, ends = mix.refused
    yield begins, partial(cluster.api.create, refusing)
    yield ends, partial(cluster.api.delete, POLICY_BINDINGS, REFUSAL)
    begins, ends, node, missing = mix.missing
    product = node.partition("-")[0].upper()
    for at, generation, count in ((begins, 2, EACH - missing), (ends, 3, EACH)):
        published = resource_slice(node, gpus_of(count, product=product), generation=generation)
        name, spec = published["metadata"]["name"], {"spec": published["spec"]}
        yield at, partial(cluster.api.patch, RESOURCE_SLICES, name, spec)


def play(mix: Mix, cluster: Sandbox, muster: Server, scheduler: Server) -> tuple[list[Gang], list[float]]:
    """Let the gangs come, and do harm; return the gangs, and when Muster and kube-scheduler were killed."""
    gangs: list[Gang] = []
    deaths: list[float] = []
    for name, count in mix.shared:
        cluster.create(claim(name, claim_spec(count)))
    due = [(at, partial(cluster.gang, name, **options)) for at, name, options in mix.arrivals]
    begun = time.monotonic()
    everything: list[tuple[float, Callable[[], object]]] = [*due, *harms(mix, cluster, muster, scheduler, deaths)]
    for at, action in sorted(everything, key=lambda each: each[0]):
        time.sleep(max(begun + at - time.monotonic(), 0))
        made = action()
        if isinstance(made, Gang):
            gangs.append(made)
    return gangs, deaths


def unfinished(gangs: Sequence[Gang]) -> list[Gang]:
    """Return the gangs of which not every member has succeeded."""
    return [gang for gang in gangs if any(member.phase != "Succeeded" for member in gang.members)]


def with_devices(change: Change) -> Change:
    """Return what a node changed to with the GPUs that only slices tell of, as the judge reads nodes alone."""
    item = change.object
    if item["kind"] != "Node" or item["metadata"]["name"].startswith("plugin"):
        return change
    status = item["status"]
    there = {**status.get("allocatable", {}), GPU: str(EACH)}
    return replace(change, object={**item, "status": {**status, "allocatable": there}})


def held_in_vain(holdings: Sequence[Holding], gangs: Sequence[Gang]) -> Iterator[str]:
    """Yield where devices were held for long for a gang that was not whole."""
    whole_at = {gang.name: max(gang.bound_at().values(), default=float("inf")) for gang in gangs}
    gang_of: Mapping[str, str] = {member.name: gang.name for gang in gangs for member in gang.members}
    for held in holdings:
        name = gang_of.get(held.owner, held.claim)
        waited = min(held.seconds, whole_at.get(name, float("inf")) - held.at)
        if waited > LONGEST_IN_VAIN:
            yield f"{held.claim} held {len(held.devices)} devices for {waited:.1f} s before {name} was whole"


def finish(cluster: Sandbox, gangs: Sequence[Gang]) -> list[Gang]:
    """Wait until all gangs have ended; return those that have not when for a while none has."""
    ended = -1
    while (left := unfinished(gangs)) and len(left) != ended:
        ended = len(left)
        with contextlib.suppress(NotInTimeError):
            cluster.wait_until(lambda: len(unfinished(gangs)) < ended, "a gang ends", PATIENCE / 4)  # noqa: B023 - called before the next turn
    return left


def play_and_judge(mix: Mix, cluster: Sandbox, muster: Server, scheduler: Server) -> list[str]:
    """Play a round, and return what was wrong."""
    with Recorder(cluster.api, SCHEDULING) as recorder, Recorder(cluster.api, (RESOURCE_CLAIMS,)) as claims:
        set_up(cluster)
        begun = time.monotonic()
        gangs, deaths = play(mix, cluster, muster, scheduler)
        left = finish(cluster, gangs)
        lasted = time.monotonic() - begun
        recorder.catch_up()
        claims.catch_up()
        history = history_of(recorder, None, end=time.monotonic(), restarts=deaths)
        history = replace(history, changes=[with_devices(change) for change in history.changes])
        holdings = allocations(claims.changes())
    found = [f"never ended: {gang!r} {gang.condition()}" for gang in left]
    found += [f"{one} and {other} had a device at once" for one, other in hands_changed(holdings)]
    found += held_in_vain(holdings, gangs)
    if violations := judge(history, Tolerance(news=NEWS_SECONDS)):
        found.append(report(violations))
    said = f"{len(gangs)} gangs, {len(holdings)} allocations, {lasted:.1f} s, {len(found)} wrong"
    sys.stdout.write(f"MIX {mix.seed}: {said}\n")
    sys.stdout.flush()
    return [f"seed {mix.seed}: {each}" for each in found]


def test_mixes_keep_the_promises(
    device_cluster: Sandbox, device_muster: Server, device_muster_scheduler: Server, seeds: range
) -> None:
    """All gangs run, none in part, no device is promised or allocated twice, and none is held for long in vain."""
    wrong: list[str] = []
    for seed in seeds:
        device_cluster.reset()
        device_cluster.api.delete_all(POLICY_BINDINGS)
        wrong += play_and_judge(Mix.of(seed), device_cluster, device_muster, device_muster_scheduler)
    device_muster.check()
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)
