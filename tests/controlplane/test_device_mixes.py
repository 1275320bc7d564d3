"""Random mixes of gangs that want devices in every way, on the real control plane: judged from what the API server saw.

`--device-rounds N` and `--device-seed SEED` play other rounds. Muster is killed in each.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from localcluster.devices import (
    PCIE_ROOT,
    RESOURCE_CLAIMS,
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


@dataclass(slots=True)
class Mix:
    """One round: its gangs and when each comes, when Muster is killed, and for how long it is away (seconds)."""

    seed: int
    arrivals: list[tuple[float, str, GangOptions]] = field(default_factory=list)
    shared: list[tuple[str, int]] = field(default_factory=list)
    killed: float = 0.0
    away: float = 0.0

    @classmethod
    def of(cls, seed: int) -> Mix:
        """Make up a round from its seed alone."""
        random = Random(seed)
        mix = cls(seed, killed=random.uniform(0.2, 5.0), away=random.uniform(0.0, 1.5))
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
    cluster.create(claim_template("pair", claim_spec(2, alike=PCIE_ROOT)))
    for count in COUNTS:
        cluster.create(claim_template(f"any-{count}", claim_spec(count)))
        for product in PRODUCTS:
            selector = f"device.attributes['gpu.nvidia.com'].productName == '{product}'"
            cluster.create(claim_template(f"{product.lower()}-{count}", claim_spec(count, selectors=[selector])))


def play(mix: Mix, cluster: Sandbox, muster: Server) -> tuple[list[Gang], float]:
    """Let the gangs come, and kill Muster once; return the gangs, and when it was killed."""
    gangs: list[Gang] = []
    begun, killed = time.monotonic(), 0.0
    for name, count in mix.shared:
        cluster.create(claim(name, claim_spec(count)))
    nobody: tuple[float, str, GangOptions] = (6.0, "", {})
    for at, name, options in [*mix.arrivals, nobody]:
        if not killed and at > mix.killed:
            time.sleep(max(begun + mix.killed - time.monotonic(), 0))
            killed = time.monotonic()
            muster.kill()
            time.sleep(mix.away)
            muster.start()
        time.sleep(max(begun + at - time.monotonic(), 0))
        if name:
            gangs.append(cluster.gang(name, **options))
    return gangs, killed


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


def play_and_judge(mix: Mix, cluster: Sandbox, muster: Server) -> list[str]:
    """Play a round, and return what was wrong."""
    with Recorder(cluster.api, SCHEDULING) as recorder, Recorder(cluster.api, (RESOURCE_CLAIMS,)) as claims:
        set_up(cluster)
        begun = time.monotonic()
        gangs, killed = play(mix, cluster, muster)
        left = finish(cluster, gangs)
        lasted = time.monotonic() - begun
        recorder.catch_up()
        claims.catch_up()
        history = history_of(recorder, None, end=time.monotonic(), restarts=(killed,))
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


def test_mixes_keep_the_promises(device_cluster: Sandbox, device_muster: Server, seeds: range) -> None:
    """All gangs run, none in part, no device is promised or allocated twice, and none is held for long in vain."""
    wrong: list[str] = []
    for seed in seeds:
        device_cluster.reset()
        wrong += play_and_judge(Mix.of(seed), device_cluster, device_muster)
    device_muster.check()
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)
