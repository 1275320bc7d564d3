"""Admission webhooks on the real API server that deny, fail or hang for the writes to one tenant's namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.waiting import wait_until
from tests.controlplane.admission import DENIAL, Scope, Webhook, WebhookMood, webhook
from tests.controlplane.conftest import PROMPT_SECONDS, explained
from tests.judge import Tolerance

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

#: How long a mood lasts at least (seconds): longer than Muster insists on what is denied, and than what it calls a
#: backlog.
_MOOD = 12.0
_MEMBERS = 4
#: Longer than the longest pause after attempts in vain for so long, and than a status that could not be written waits.
_RECOVERY = 75.0


def plain(cluster: Sandbox, namespace: str) -> Gang:
    """Create a gang."""
    return cluster.gang("gang", namespace=namespace, members=_MEMBERS, gpus=8)


def to_nominate(cluster: Sandbox, namespace: str) -> Gang:
    """Create a gang whose members but the last have been turned away: they need nominations to wake."""
    gang = cluster.gang("gang", namespace=namespace, members=_MEMBERS, gpus=8, create=_MEMBERS - 1)
    for member in gang.created:
        member.wait_message(f"{_MEMBERS - 1} of {_MEMBERS} members exist")
    gang.create_next()
    return gang


def gated(cluster: Sandbox, namespace: str) -> Gang:
    """Create a gang whose members Muster has to let out of their gate."""
    return cluster.gang("gang", namespace=namespace, members=_MEMBERS, gpus=8, gates=("muster.dev/admission",))


def queued(cluster: Sandbox, namespace: str) -> Gang:
    """Create a gang in a Queue of its namespace's own."""
    for name in ("tenant", "other"):
        cluster.create({"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": {}})
    return cluster.gang("gang", namespace=namespace, members=_MEMBERS, gpus=8, labels={"muster.dev/queue": "tenant"})


@dataclass(frozen=True, slots=True)
class Write:
    """A kind of write: which the webhook is asked about, and what makes Muster make it.

    `starts` says that a gang does not start without.
    """

    resource: str
    operation: str
    make: Callable[[Sandbox, str], Gang]
    starts: bool = False
    group: str = ""
    where: str = ""
    namespaced: bool = True

    def scope(self, namespace: str) -> Scope:
        """Return what the webhook is asked about."""
        return Scope(
            self.resource, self.operation, namespace if self.namespaced else None, group=self.group, where=self.where
        )


WRITES: Mapping[str, Write] = {
    "Binding": Write("pods/binding", "CREATE", plain, starts=True),
    "nomination": Write("pods/status", "UPDATE", to_nominate),
    "gate": Write("pods", "UPDATE", gated, starts=True),
    "group status": Write("podgroups/status", "UPDATE", plain, group="scheduling.x-k8s.io"),
    "Queue status": Write(
        "queues/status", "UPDATE", queued, group="muster.dev", where='request.name == "tenant"', namespaced=False
    ),
    "Event": Write("events", "CREATE", to_nominate, group="events.k8s.io"),
}
MOODS = [mood for mood in WebhookMood if mood is not WebhookMood.ADMIT]
#: Those that decide; the others are part of the night.
_DECIDING = {("Binding", WebhookMood.DENY), ("nomination", WebhookMood.HANG)}

CASES = [
    pytest.param(
        name, mood, id=f"{name}, {mood.value}", marks=() if (name, mood) in _DECIDING else (pytest.mark.nightly,)
    )
    for name in WRITES
    for mood in MOODS
]


@pytest.fixture
def tolerance() -> Tolerance:
    """Return how late writes may be: by what Muster insists on, and by the pauses between attempts."""
    return Tolerance(news=5, write=40)


def cause(mood: WebhookMood) -> str:
    """Return what has to be said of a mood."""
    return "failed calling webhook" if mood in {WebhookMood.FAIL, WebhookMood.HANG} else DENIAL


def others_start(cluster: Sandbox, namespace: str, hook: Webhook) -> float:
    """Have gangs start in another namespace while the mood lasts; return the most seconds that one took."""
    wait_until(lambda: bool(hook.asked), timeout_seconds=20, description="the webhook is asked")
    began, took = time.monotonic(), [0.0]
    for number in range(2):
        took.append(cluster.gang(f"other-{number}", namespace=namespace, members=2, gpus=8).wait_bound(2))
        cluster.stays_true(lambda: True, _MOOD / 2)
    cluster.stays_true(lambda: True, max(0.0, began + _MOOD - time.monotonic()))
    return max(took)


def assert_bound_once(cluster: Sandbox) -> None:
    """Check that no pod was bound twice, and no node overcommitted."""
    bound = [binding.uid for binding in cluster.bindings()]
    assert len(bound) == len(set(bound))
    assert max(cluster.peak_gpus().values()) <= 8


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("name", "mood"), CASES)
def test_one_tenants_webhook_stops_nobody_else(  # noqa: PLR0917 - what a story needs
    cluster: Sandbox,
    muster: Server,
    local_cluster: LocalCluster,
    tenant: str,
    other: str,
    tmp_path: Path,
    name: str,
    mood: WebhookMood,
    record_property: Callable[[str, object], None],
) -> None:
    """Others start promptly meanwhile, the tenant's gang says why it waits, and starts whole when the mood is over."""
    cluster.nodes(8, gpus=8)
    write = WRITES[name]
    with webhook(cluster.api, tmp_path, [write.scope(tenant)]) as hook:
        hook.mood = mood
        gang = write.make(cluster, tenant)
        longest = others_start(cluster, other, hook)
        record_property("seconds until another tenant's gang was whole, at most", round(longest, 2))
        assert longest < PROMPT_SECONDS
        if write.starts:
            assert not gang.bound
            wait_until(
                lambda: any(cause(mood) in text for text in (explained(local_cluster, gang), *gang.messages)),
                timeout_seconds=20,
                description="the cause is told",
            )
        if name == "Binding":
            text = explained(local_cluster, gang)
            assert text.startswith("BindingRefused: ")
            assert cause(mood) in text
        hook.mood = WebhookMood.ADMIT
        record_property("seconds until it was whole, after the mood", round(gang.wait_bound(timeout=_RECOVERY), 2))
        gang.wait_condition("True", "Started", timeout=_RECOVERY)
    assert_bound_once(cluster)
    muster.check()


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mood", MOODS)
def test_evictions_that_a_webhook_stops_are_told_and_made_when_it_is_over(  # noqa: PLR0917 - what a story needs
    cluster: Sandbox,
    muster: Server,
    local_cluster: LocalCluster,
    tenant: str,
    other: str,
    tmp_path: Path,
    mood: WebhookMood,
) -> None:
    """The gang that needs the place waits with the cause, smaller ones start meanwhile, and no gang is left in part."""
    cluster.nodes(5, gpus=8)
    victim = cluster.gang("victim", namespace=tenant, members=_MEMBERS, gpus=8)
    victim.wait_running()
    urgent = cluster.priority_class("urgent", 1000)
    with webhook(cluster.api, tmp_path, [Scope("pods/eviction", "CREATE", tenant)]) as hook:
        hook.mood = mood
        high = cluster.gang("high", namespace=other, members=_MEMBERS, gpus=8, priority_class=urgent)
        wait_until(lambda: bool(hook.asked), timeout_seconds=20, description="the webhook is asked")
        wait_until(
            lambda: any(cause(mood) in text for text in (explained(local_cluster, high), *high.messages)),
            timeout_seconds=60,
            description="the cause is told",
        )
        assert len(victim.running) == _MEMBERS
        hook.mood = WebhookMood.ADMIT
        high.wait_bound(timeout=_RECOVERY)
    assert_bound_once(cluster)
    muster.check()
