"""A bad tenant does random harm beside a good one on the real control plane, and harms itself alone.

`--tenant-rounds N` and `--tenant-seed SEED` play other rounds. With `--tenant-gates` all pods have Muster's scheduling
gate, as an admission policy would give it to them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest

from bench.soak.sampling import Sampler
from localcluster.client import ApiClient
from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.conftest import LONGEST_TURN
from tests.controlplane.harms import CATALOGUE, write_round
from tests.controlplane.rounds import Round, Stage, quantile, staged
from tests.judge import report

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(7200)]

#: Bytes of memory.
MOST_MEMORY = 300_000_000
#: Share of the good gangs that may take longer than their round's bound.
LATE = 0.01
#: A traceback, or a line about an error that Muster did not expect.
_WRONG = re.compile(r"Traceback \(most recent call last\)|\"level\": ?\"(error|critical)\"|\[(error|critical) *\]")


@pytest.fixture
def tenant(local_cluster: LocalCluster) -> Iterator[ApiClient]:
    """Return a client of the bad tenant's own, so that its requests do not wait for those of others."""
    with ApiClient(local_cluster.control_plane.admin) as client:
        yield client


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    """Return the seeds of the rounds to play."""
    first = request.config.getoption("--tenant-seed")
    return range(first, first + request.config.getoption("--tenant-rounds"))


def memory(server: Server) -> int:
    """Return the most memory that a server ever had (bytes)."""
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def play(stage: Stage, seeds: Sequence[int], after: Callable[[Round], None]) -> list[Round]:
    """Play rounds, and say of each what came of it."""
    rounds = []
    for seed in seeds:
        played = stage.play(seed)
        rounds.append(played)
        after(played)
        sys.stdout.write(f"{played}\n")
        sys.stdout.flush()
    return rounds


def figures(rounds: Sequence[Round]) -> str:
    """Return how long good gangs took alone and beside the tenant, over all rounds."""
    text = []
    for name in ("alone", "beside"):
        starts = list(chain.from_iterable(getattr(each, name) for each in rounds))
        p50, p99 = quantile(starts, 0.5), quantile(starts, 0.99)
        text.append(f"{name} {len(starts)} gangs p50 {p50:.3f} p99 {p99:.3f} most {max(starts):.3f} s")
    return "; ".join(text)


@pytest.fixture
def stage(request: pytest.FixtureRequest, cluster: Sandbox, muster: Server, tenant: ApiClient) -> Iterator[Stage]:
    """Set the stage for both tenants."""
    muster.check()
    with staged(cluster, tenant, gated=request.config.getoption("--tenant-gates")) as stage:
        yield stage


@pytest.fixture
def sampler(local_cluster: LocalCluster, muster: Server) -> Iterator[Sampler]:
    """Return what reads Muster's metrics."""
    with Sampler(f"http://127.0.0.1:{local_cluster.muster_port}", muster.pid) as sampler:
        yield sampler


def test_a_bad_tenant_harms_itself_alone(
    stage: Stage, muster: Server, sampler: Sampler, seeds: range, record_property: Callable[[str, object], None]
) -> None:
    """Whatever one tenant does, the gangs of another that has quota and room start at once, and Muster stays well.

    Times depend on the machine, which others use too. A good gang is late if it takes longer than 5 s, a pause of
    kube-scheduler's (10 s), five times the median of good gangs of this run without the tenant, and two writes to the
    API server, as long as they took in that round, for each pod of the tenant; one gang in a hundred may be. A turn of
    the loop counts by what its thread computed, not by how long it waited for a processor.
    """
    turns: dict[int, float] = {}

    def look(played: Round) -> None:
        muster.check()
        turns[played.seed] = sampler.page().sum("muster_event_loop_longest_busy_seconds")

    rounds = play(stage, seeds, look)
    most = memory(muster)
    said = f"{figures(rounds)}; memory {most / 1e6:.0f} MB; longest turn {max(turns.values()):.3f} s"
    sys.stdout.write(
        f"TENANTS {len(rounds)} rounds: {said}; a write {1000 * max(each.write for each in rounds):.0f} ms at worst\n"
    )
    record_property("tenants", said)
    wrong = [f"{report(each.violations)}\n{each}" for each in rounds if each.violations]
    alone = quantile(chain.from_iterable(each.alone for each in rounds), 0.5)
    late = {each.seed: sum(took > each.bound(alone) for took in each.beside) for each in rounds}
    if sum(late.values()) > LATE * sum(len(each.beside) for each in rounds):
        wrong += [f"good gangs took more than {each.bound(alone):.1f} s\n{each}" for each in rounds if late[each.seed]]
    wrong += [
        f"a turn of the loop computed for {turns[each.seed]:.3f} s\n{each}"
        for each in rounds
        if turns[each.seed] > LONGEST_TURN
    ]
    log = muster.command.log_path.read_text(encoding="utf-8", errors="replace")
    wrong += [log[found.start() :][:3000] for found in _WRONG.finditer(log)][:3]
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)
    assert most < MOST_MEMORY


def test_equal_seeds_make_equal_rounds() -> None:
    """A round is made up from its seed alone, and each harm of the catalogue comes up in some round."""
    assert write_round(7) == write_round(7)
    assert write_round(7) != write_round(8)
    assert {harm.kind for seed in range(1, 101) for harm in write_round(seed)} == set(CATALOGUE)
