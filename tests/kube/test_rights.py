"""What the API server no longer lets Muster do, found out by asking, and in which words it is told."""

from __future__ import annotations

import asyncio

import pytest

from extender.kube.rights import CREDENTIALS_REFUSED, LOOK_SECONDS, Access, check_rights, needed
from extender.kube.transport import Transport
from tests.kube.apiscript import Answer, ApiScript, JsonObject, refuses, says
from tests.kube.watched import Naps

RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

ACCESSES = (
    Access("list", "", "pods"),
    Access("watch", "", "pods"),
    Access("watch", "scheduling.x-k8s.io", "podgroups"),
    Access("create", "", "pods/binding"),
    Access("watch", "coordination.k8s.io", "leases", "muster-system", "muster"),
)


def rule(verbs: str, group: str, resource: str, *names: str) -> JsonObject:
    """Return what a rule grants."""
    granted = {"verbs": verbs.split(), "apiGroups": [group], "resources": [resource]}
    return granted | ({"resourceNames": list(names)} if names else {})


def granted(*rules: JsonObject) -> Answer:
    """Answer with the rules that there are."""
    return says({"status": {"resourceRules": list(rules), "nonResourceRules": [], "incomplete": False}})


def missing(what: str) -> str:
    """Return the sentence about rights."""
    return f"rights are missing (403): {what}; Muster's ClusterRole must grant them"


EVERYTHING = granted(
    rule("get list watch", "", "pods"),
    rule("watch", "scheduling.x-k8s.io", "*"),
    rule("*", "*", "pods/binding"),
    rule("watch", "coordination.k8s.io", "leases", "muster"),
)
YES, NO = says({"status": {"allowed": True}}), says({"status": {"allowed": False}})


async def told(transport: Transport, looks: int) -> list[str]:
    """Look so many times; return what was told."""
    naps, found = Naps(), list[str]()
    task = asyncio.create_task(check_rights(transport, ACCESSES, found.append, sleep=naps))
    await naps.until(lambda: len(naps.seconds) == looks)
    task.cancel()
    await asyncio.wait([task])
    assert set(naps.seconds) == {LOOK_SECONDS}
    return found


async def test_rights_that_are_there_cost_one_request(script: ApiScript, transport: Transport) -> None:
    """Rules of roles say it all, those with names and with stars too; they are asked for where the Lease is."""
    script.plan(RULES, EVERYTHING)
    assert await told(transport, 1) == [""]
    assert [seen.body for seen in script.requests] == [{"spec": {"namespace": "muster-system"}}]


async def test_what_is_missing_is_named_until_it_is_back(script: ApiScript, transport: Transport) -> None:
    """Verb and resource, as a ClusterRole has them; what rules do not say is asked about singly."""
    script.plan(RULES, granted(rule("list", "", "pods")), granted(), EVERYTHING)
    script.plan(ACCESS, NO, NO, NO, YES, *[NO] * 5)
    assert await told(transport, 3) == [
        missing("watch pods, podgroups.scheduling.x-k8s.io; create pods/binding"),
        missing(
            "list and watch pods; watch podgroups.scheduling.x-k8s.io, leases.coordination.k8s.io; create pods/binding"
        ),
        "",
    ]
    asked = [seen.body["spec"]["resourceAttributes"] for seen in script.of(ACCESS)[2:4] if seen.body]
    assert asked == [
        {"verb": "create", "resource": "pods", "subresource": "binding"},
        {
            "verb": "watch",
            "group": "coordination.k8s.io",
            "resource": "leases",
            "namespace": "muster-system",
            "name": "muster",
        },
    ]


async def test_an_authorizer_without_rules_is_asked_about_each(script: ApiScript, transport: Transport) -> None:
    """A webhook does not list what it grants."""
    script.plan(RULES, granted())
    script.plan(ACCESS, *[YES] * len(ACCESSES))
    assert await told(transport, 1) == [""]


async def test_refused_credentials_are_told_as_such(script: ApiScript, transport: Transport) -> None:
    """No ClusterRole would help."""
    script.plan(RULES, *[refuses(401, "Unauthorized")] * 2, EVERYTHING)
    assert await told(transport, 2) == [CREDENTIALS_REFUSED, ""]


@pytest.mark.parametrize("answer", [refuses(403, "Forbidden"), refuses(500, "InternalError"), says("no JSON")])
async def test_what_cannot_be_found_out_is_no_refusal(script: ApiScript, transport: Transport, answer: Answer) -> None:
    """Nothing is told, and what was told before stands."""
    script.plan(RULES, granted(), answer, EVERYTHING)
    script.plan(ACCESS, *[NO] * len(ACCESSES))
    first, last = await told(transport, 3)
    assert first
    assert not last


def test_needed_are_what_is_vital_and_what_starts_a_gang() -> None:
    """Another replica's Lease is named; all other kinds may be missing."""
    accesses = needed("muster-system/muster")
    assert Access("list", "", "nodes") in accesses
    assert Access("watch", "coordination.k8s.io", "leases", "muster-system", "muster") in accesses
    assert Access("create", "", "pods/binding") in accesses
    assert Access("patch", "", "pods/status") in accesses
    assert not {each.resource for each in accesses} & {"queues", "configmaps", "pods/eviction"}
    assert not any(each.namespace for each in needed())
