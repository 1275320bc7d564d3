"""The watches and writes of Muster on a real API server, under Muster's own ServiceAccount."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.clock import ManualClock, SystemClock
from extender.control.ports import ApiError, ClusterEvent, PodKey, WatchedKind
from extender.control.watched import REQUIRED_KINDS
from extender.explain.views import GroupStatus
from extender.kube.api import ApiServer, JsonObject, PatchForm, Query
from extender.kube.credentials import KubeConfig
from extender.kube.reflector import Feeds
from extender.kube.transport import Transport
from extender.kube.watch import WatchOptions
from extender.kube.writer import KubeClusterApi
from extender.objects.meta import ObjectRef
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING, COSCHEDULING_POD_GROUPS
from extender.objects.sources.native import NATIVE, NATIVE_POD_GROUPS
from localcluster.client import EVENTS, POD_GROUPS, PODS
from localcluster.cluster import LocalCluster
from localcluster.credentials import Connection
from localcluster.sandbox import Sandbox
from localcluster.story import Pod
from tests.kube.changes import Changes
from tests.kube.observer import Recorder

pytestmark = pytest.mark.controlplane

#: Pods of this scheduler stay where they are.
NOBODY = "nobody"


@contextlib.asynccontextmanager
async def connected(connection: Connection, folder: Path) -> AsyncIterator[Transport]:
    """Connect as somebody."""
    kubeconfig = connection.write_kubeconfig(folder / "kubeconfig")
    async with await Transport.connect(KubeConfig((kubeconfig,)), SystemClock()) as transport:
        yield transport


@pytest.fixture
async def transport(local_cluster: LocalCluster, cluster: Sandbox, tmp_path: Path) -> AsyncIterator[Transport]:
    """Connect to the emptied cluster as Muster."""
    assert cluster.empty
    async with connected(local_cluster.service_account("muster"), tmp_path) as transport:
        yield transport


@contextlib.asynccontextmanager
async def watching(api: ApiServer, options: WatchOptions | None = None) -> AsyncIterator[Recorder]:
    """Run the feeds until all kinds are synced, and on."""
    observer = Recorder()
    feeds = Feeds(api, observer, options or WatchOptions(), random=Random(1))
    task = asyncio.create_task(feeds.run())
    try:
        await observer.until(lambda: len(observer.synced_kinds) == len(REQUIRED_KINDS))
        yield observer
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class PassingOn:
    """A connection that goes through another one; implements `extender.kube.api.ApiServer`."""

    def __init__(self, api: ApiServer) -> None:
        """Pass everything on to `api`."""
        self._api = api

    async def get(self, path: str, query: Query) -> bytes:
        """Pass on."""
        return await self._api.get(path, query)

    async def post(self, path: str, body: JsonObject) -> bytes:
        """Pass on."""
        return await self._api.post(path, body)

    async def patch(self, path: str, body: JsonObject, form: PatchForm = PatchForm.MERGE) -> bytes:
        """Pass on."""
        return await self._api.patch(path, body, form)

    async def delete(self, path: str, body: JsonObject) -> bytes:
        """Pass on."""
        return await self._api.delete(path, body)

    def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Pass on."""
        return self._api.stream(path, query, idle_timeout_seconds=idle_timeout_seconds)


class Detour(PassingOn, Changes):
    """A connection on which the watches of one path resume from elsewhere, and not before `go` is set."""

    def __init__(self, api: ApiServer, path: str, resume_from: str) -> None:
        """Let everything pass that is not a resumed watch of `path`."""
        PassingOn.__init__(self, api)
        Changes.__init__(self)
        self._path = path
        self._resume_from = resume_from
        self.go = asyncio.Event()
        self.detours = 0

    def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Watch, or take the detour."""
        if path == self._path and "resourceVersion" in query:
            return self._detour(path, query, idle_timeout_seconds)
        return self._api.stream(path, query, idle_timeout_seconds=idle_timeout_seconds)

    @contextlib.asynccontextmanager
    async def _detour(
        self, path: str, query: Query, idle_timeout_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.detours += 1
        self.changed()
        await self.go.wait()
        elsewhere = {**query, "resourceVersion": self._resume_from}
        async with self._api.stream(path, elsewhere, idle_timeout_seconds=idle_timeout_seconds) as chunks:
            yield chunks


class OldServer(PassingOn):
    """A server without WatchList."""

    def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Refuse what such a server does not know."""
        if "sendInitialEvents" in query:
            raise ApiError(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
        return self._api.stream(path, query, idle_timeout_seconds=idle_timeout_seconds)


def pod_group(name: str) -> JsonObject:
    """Return a coscheduling PodGroup of two."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2}}


def key_of(pod: Pod) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod.namespace, pod.name, pod.uid)


class TestWatches:
    """Lists and watches."""

    async def test_watch_list_is_offered_and_ends_with_the_bookmark(
        self, transport: Transport, cluster: Sandbox
    ) -> None:
        """The server sends what exists and then the marked bookmark, and Muster is synced without listing pages."""
        cluster.nodes(3)
        with capture_logs() as logs:
            async with watching(transport) as observer:
                before = observer.told.index(("synced",))
                assert before >= 0
        assert sorted(words[1] for words in observer.told if words[0] == "node seen") == ["node-0", "node-1", "node-2"]
        assert not [entry for entry in logs if "in pages" in entry["event"]]
        assert not [entry for entry in logs if entry["log_level"] in {"warning", "error"}]

    async def test_native_pod_groups_need_not_be_served(self, transport: Transport) -> None:
        """A stock 1.37 does not serve native PodGroups: that kind is synced and empty."""
        with capture_logs() as logs:
            async with watching(transport) as observer:
                pass
        assert sorted(observer.synced_kinds) == sorted(REQUIRED_KINDS)
        missing = [entry["kind"] for entry in logs if entry["event"] == "API not installed"]
        assert NATIVE_POD_GROUPS in missing

    async def test_native_pod_groups_are_watched_where_they_are_served(
        self, native_local_cluster: LocalCluster, native_cluster: Sandbox, tmp_path: Path
    ) -> None:
        """With the feature gates on, native PodGroups are told of with their minCount, and their deletion."""
        async with (
            connected(native_local_cluster.service_account("muster"), tmp_path) as transport,
            watching(transport) as observer,
        ):
            gang = native_cluster.gang("job", members=2, scheduler=NOBODY)
            await observer.until(lambda: observer.groups)
            seen = observer.groups[0]
            assert (seen.ref, seen.min_member) == (GroupRef(NATIVE, "default", "job"), 2)
            gang.delete()
            await observer.until(lambda: ("group gone", "scheduling.k8s.io", "default/job", seen.uid) in observer.told)

    async def test_changes_arrive(self, transport: Transport, cluster: Sandbox) -> None:
        """Pods, nodes and PodGroups that come and go are told of."""
        async with watching(transport) as observer:
            cluster.nodes(1)
            cluster.api.create(pod_group("job"))
            pod = cluster.pod("one", scheduler=NOBODY)
            await observer.until(lambda: ("pod seen", "default/one", pod.uid) in observer.told)
            pod.recreate()
            await observer.until(lambda: ("pod seen", "default/one", pod.uid) in observer.told)
            cluster.reset()
            await observer.until(lambda: ("pod gone", pod.uid) in observer.told)
            await observer.until(lambda: ("node gone", "node-0") in observer.told)
            await observer.until(lambda: any(words[0] == "group gone" for words in observer.told))

    async def test_who_shares_the_cluster_arrives(self, transport: Transport, cluster: Sandbox) -> None:
        """Queues, namespaces with their labels, and PodDisruptionBudgets are told of, and so is their end."""
        async with watching(transport) as observer:
            assert ("namespace seen", "default", "kubernetes.io/metadata.name=default") in observer.told
            metadata = {"name": "research"}
            queue = cluster.api.create(
                {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": metadata, "spec": {}}
            )
            cluster.disruption_budget("b", min_available=1, labels={"team": "red"})
            await observer.until(lambda: ("queue seen", "research", queue["metadata"]["uid"]) in observer.told)
            await observer.until(lambda: ("budget seen", "default/b", "0") in observer.told)
            cluster.api.request("DELETE", "/apis/muster.dev/v1alpha1/queues/research")
            cluster.reset()
            await observer.until(lambda: ("queue gone", "research") in observer.told)
            await observer.until(lambda: ("budget gone", "default/b") in observer.told)

    async def test_server_without_watch_list_is_listed_in_pages(self, transport: Transport, cluster: Sandbox) -> None:
        """The server's own paged lists and continue tokens lead to the same state, and the watch goes on from there."""
        cluster.nodes(7)
        async with watching(OldServer(transport), WatchOptions(page_size=2)) as observer:
            seen = sorted(words[1] for words in observer.told if words[0] == "node seen")
            assert seen == [f"node-{number}" for number in range(7)]
            cluster.nodes(1)
            await observer.until(lambda: ("node seen", "node-7") in observer.told)

    @pytest.mark.parametrize(
        ("resume_from", "cause"),
        [
            pytest.param("1", "expired", id="forgotten"),  # 410
            pytest.param("from a backup", "stuck", id="unintelligible"),  # 500
        ],
    )
    async def test_lost_place_means_a_new_list_that_infers_deletions(
        self, transport: Transport, cluster: Sandbox, resume_from: str, cause: str
    ) -> None:
        """What was deleted, or deleted and made anew, while nobody watched is found by the next list."""
        uids = {name: cluster.api.create(pod_group(name))["metadata"]["uid"] for name in ("kept", "gone", "remade")}
        detour = Detour(transport, POD_GROUPS.path(), resume_from)
        impatient = WatchOptions(idle_timeout_seconds=0.3, first_backoff_seconds=0.01)
        async with watching(detour, impatient) as observer:
            await detour.until(lambda: detour.detours)
            cluster.api.delete(POD_GROUPS, "gone", "default")
            cluster.api.delete(POD_GROUPS, "remade", "default")
            remade = cluster.api.create(pod_group("remade"))["metadata"]["uid"]
            before = len(observer.told)
            detour.go.set()
            api = "scheduling.x-k8s.io"
            await observer.until(lambda: ("group gone", api, "default/gone", uids["gone"]) in observer.told)
        told = [words for words in observer.told[before:] if words[0].startswith("group")]
        assert cause in observer.restarts
        assert detour.detours == {"expired": 1, "stuck": 6}[cause]
        assert set(told[:3]) == {
            ("group seen", api, "default/kept", uids["kept"]),
            ("group gone", api, "default/remade", uids["remade"]),
            ("group seen", api, "default/remade", remade),
        }
        assert told.index(("group gone", api, "default/remade", uids["remade"])) < told.index(
            ("group seen", api, "default/remade", remade)
        )

    async def test_missing_right_is_named(self, local_cluster: LocalCluster, tmp_path: Path) -> None:
        """An identity that may not watch PodGroups finds verb and resource in the log, and stays unsynced."""
        identity = local_cluster.control_plane.kube_scheduler
        observer = Recorder()
        kind = COSCHEDULING_POD_GROUPS
        with capture_logs() as logs:
            async with connected(identity, tmp_path) as transport:
                task = asyncio.create_task(Feeds(transport, observer, random=Random(1)).run())
                await observer.until(lambda: _refused(logs, kind) and WatchedKind.NODE in observer.synced_kinds)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        entry = _refused(logs, kind)[0]
        assert entry["verb"] == "watch"
        assert 'cannot watch resource "podgroups" in API group "scheduling.x-k8s.io"' in entry["answer"]
        assert kind not in observer.synced_kinds


def _refused(logs: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the errors that were logged about a kind."""
    return [entry for entry in logs if entry["log_level"] == "error" and entry["kind"] == kind]


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that the test moves."""
    return ManualClock()


@pytest.fixture
def api(transport: Transport, clock: ManualClock) -> KubeClusterApi:
    """Write as Muster."""
    return KubeClusterApi(transport, clock, "muster-0")


class TestNominate:
    """`status.nominatedNodeName`."""

    async def test_nomination_is_set_and_cleared(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """The patch sets the field, an empty node takes it away, and nothing else of the status is touched."""
        pod = cluster.pod("one", scheduler=NOBODY)
        await api.nominate(key_of(pod), "node-0")
        status = cluster.api.get(PODS, "one", "default")["status"]
        assert (status["nominatedNodeName"], status["phase"]) == ("node-0", "Pending")
        await api.nominate(key_of(pod), "")
        assert "nominatedNodeName" not in cluster.api.get(PODS, "one", "default")["status"]

    async def test_namesake_is_not_nominated(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """With another UID the server refuses, which comes out as a 409, and changes nothing."""
        pod = cluster.pod("one", scheduler=NOBODY)
        old = key_of(pod)
        pod.recreate()
        with pytest.raises(ApiError) as refused:
            await api.nominate(old, "node-0")
        assert refused.value.status == 409
        assert "nominatedNodeName" not in cluster.api.get(PODS, "one", "default")["status"]

    async def test_bound_pod_is_not_nominated(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A nomination that arrives after the Binding is outdated, which comes out as a 409; clearing is harmless."""
        cluster.nodes(1)
        pod = cluster.pod("one", scheduler=NOBODY)
        await api.nominate(key_of(pod), "node-0")
        await api.bind(key_of(pod), "node-0")
        assert "nominatedNodeName" not in cluster.api.get(PODS, "one", "default")["status"]
        with pytest.raises(ApiError) as refused:
            await api.nominate(key_of(pod), "node-0")
        assert refused.value.status == 409
        await api.nominate(key_of(pod), "")

    async def test_pod_that_is_gone_is_not_found(self, api: KubeClusterApi) -> None:
        """A pod that does not exist is a 404."""
        with pytest.raises(ApiError) as refused:
            await api.nominate(PodKey("default", "nobody", "uid"), "node-0")
        assert refused.value.status == 404


class TestBind:
    """Bindings."""

    async def test_binding_twice_to_the_same_node_is_success(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """The second Binding conflicts, but the pod is where it should be."""
        cluster.nodes(2)
        pod = cluster.pod("one", scheduler=NOBODY)
        await api.bind(key_of(pod), "node-0")
        await api.bind(key_of(pod), "node-0")
        assert cluster.api.get(PODS, "one", "default")["spec"]["nodeName"] == "node-0"

    async def test_binding_annotates_the_pod(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """The API server copies a Binding's annotations to the pod, beside those that it has, in the same write."""
        cluster.nodes(1)
        pod = cluster.pod("one", scheduler=NOBODY, annotations={"own": "kept"})
        await api.bind(key_of(pod), "node-0", {"muster.dev/predicted-gpus": "0,1"})
        bound = cluster.api.get(PODS, "one", "default")
        assert bound["spec"]["nodeName"] == "node-0"
        assert bound["metadata"]["annotations"] == {"own": "kept", "muster.dev/predicted-gpus": "0,1"}

    async def test_binding_to_another_node_is_an_error(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A pod that is elsewhere stays there, and the error says where."""
        cluster.nodes(2)
        pod = cluster.pod("one", scheduler=NOBODY)
        await api.bind(key_of(pod), "node-0")
        with pytest.raises(
            ApiError, match=r'409 Conflict: .*pod one is already assigned to node \\?"node-0'
        ) as refused:
            await api.bind(key_of(pod), "node-1")
        assert not refused.value.transient
        assert cluster.api.get(PODS, "one", "default")["spec"]["nodeName"] == "node-0"

    async def test_namesake_is_not_bound(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """With another UID the server refuses with 409; that a namesake is on that node is no success."""
        cluster.nodes(1)
        pod = cluster.pod("one", scheduler=NOBODY)
        old = key_of(pod)
        pod.recreate()
        for _ in range(2):
            with pytest.raises(ApiError) as refused:
                await api.bind(old, "node-0")
            assert refused.value.status == 409
            await api.bind(key_of(pod), "node-0")

    async def test_gated_pod_is_not_bound(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A conflict for another reason is an error."""
        cluster.nodes(1)
        pod = cluster.pod("one", scheduler=NOBODY, gates=("wait.example.com/quota",))
        with pytest.raises(ApiError, match="schedulingGates"):
            await api.bind(key_of(pod), "node-0")

    async def test_pod_that_is_gone_is_not_found(self, api: KubeClusterApi) -> None:
        """A pod that does not exist is a 404."""
        with pytest.raises(ApiError) as refused:
            await api.bind(PodKey("default", "nobody", "uid"), "node-0")
        assert refused.value.status == 404


def about(pod: Pod, reason: str = "InsufficientCapacity", message: str = "2 of 4 members fit now") -> ClusterEvent:
    """Return an event about a pod."""
    reference = ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
    return ClusterEvent(reference, warning=True, reason=reason, message=message, action="Scheduling")


def events_about(cluster: Sandbox, uid: str, namespace: str = "default") -> list[JsonObject]:
    """Return the Events about an object, as the server has them."""
    return [event for event in cluster.api.list_items(EVENTS, namespace) if event["regarding"].get("uid") == uid]


class TestRecordEvent:
    """Events."""

    async def test_repetitions_are_counted_in_one_event(
        self, api: KubeClusterApi, cluster: Sandbox, clock: ManualClock
    ) -> None:
        """Three times the same is one Event with a series of three, and another reason is another Event."""
        pod = cluster.pod("one", scheduler=NOBODY)
        for _ in range(3):
            await api.record_event(about(pod))
            clock.advance(1.0)
        await api.record_event(about(pod, reason="BehindHead"))
        found = {event["reason"]: event for event in events_about(cluster, pod.uid)}
        assert set(found) == {"InsufficientCapacity", "BehindHead"}
        series = found["InsufficientCapacity"]["series"]
        assert (series["count"], series["lastObservedTime"]) == (3, "2026-01-01T00:00:02.000000Z")
        assert "series" not in found["BehindHead"]
        assert found["BehindHead"]["reportingController"] == "muster.dev/muster"

    async def test_event_that_is_gone_is_written_anew(
        self, api: KubeClusterApi, cluster: Sandbox, clock: ManualClock
    ) -> None:
        """After its hour, or its deletion, an Event begins again."""
        pod = cluster.pod("one", scheduler=NOBODY)
        await api.record_event(about(pod))
        (first,) = events_about(cluster, pod.uid)
        cluster.api.delete(EVENTS, first["metadata"]["name"], "default")
        clock.advance(1.0)
        await api.record_event(about(pod))
        (second,) = events_about(cluster, pod.uid)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]

    async def test_second_attempt_at_the_same_event_is_success(
        self, transport: Transport, cluster: Sandbox, clock: ManualClock
    ) -> None:
        """An Event whose answer was lost exists already when it is sent again, under the same name."""
        pod = cluster.pod("one", scheduler=NOBODY)
        for _ in range(2):
            await KubeClusterApi(transport, clock, "muster-0").record_event(about(pod))
        assert len(events_about(cluster, pod.uid)) == 1

    async def test_longest_texts_are_accepted(self, transport: Transport, cluster: Sandbox, clock: ManualClock) -> None:
        """What was cut to the API's limits is within them."""
        pod = cluster.pod(f"{'a' * 235}.{'b' * 17}", scheduler=NOBODY)
        await KubeClusterApi(transport, clock, "i" * 200).record_event(about(pod, message="ü" * 2000))
        (event,) = events_about(cluster, pod.uid)
        assert event["note"] == "ü" * 512

    async def test_event_about_a_node_is_accepted(self, api: KubeClusterApi) -> None:
        """An object without namespace has its Events in `default`."""
        event = ClusterEvent(ObjectRef("v1", "Node", "", "node-0", "uid-0"), warning=False, reason="R", message="m",
                             action="A")  # fmt: skip
        await api.record_event(event)


WAITING = GroupStatus(
    phase="Pending",
    scheduled=0,
    running=0,
    succeeded=0,
    failed=0,
    condition_status="False",
    reason="InsufficientCapacity",
    message="1 of 2 members fit now",
    observed_generation=1,
)
JOB = GroupRef(COSCHEDULING, "default", "job")


def status_of(cluster: Sandbox) -> JsonObject:
    """Return the status of the PodGroup `job`."""
    status: JsonObject = cluster.api.get(POD_GROUPS, "job", "default")["status"]
    return status


class TestUpdateGroupStatus:
    """The status of a coscheduling PodGroup."""

    async def test_status_is_stored(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """Phase, counters and condition are there afterwards, and the spec is as it was."""
        group = cluster.api.create(pod_group("job"))
        await api.update_group_status(JOB, group["metadata"]["uid"], WAITING)
        assert status_of(cluster) == {
            "phase": "Pending",
            "scheduled": 0,
            "running": 0,
            "succeeded": 0,
            "failed": 0,
            "conditions": [
                {
                    "type": "Scheduled",
                    "status": "False",
                    "reason": "InsufficientCapacity",
                    "message": "1 of 2 members fit now",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "observedGeneration": 1,
                }
            ],
        }
        assert cluster.api.get(POD_GROUPS, "job", "default")["spec"] == {"minMember": 2}

    async def test_transition_time_survives_a_restart_and_changes_with_the_status(
        self, api: KubeClusterApi, transport: Transport, cluster: Sandbox, clock: ManualClock
    ) -> None:
        """Another Muster reads when the condition changed; another status changes it."""
        uid = cluster.api.create(pod_group("job"))["metadata"]["uid"]
        await api.update_group_status(JOB, uid, WAITING)
        clock.advance(60.0)
        restarted = KubeClusterApi(transport, clock, "muster-1")
        await restarted.update_group_status(JOB, uid, dataclasses.replace(WAITING, reason="BehindHead"))
        (condition,) = status_of(cluster)["conditions"]
        assert (condition["reason"], condition["lastTransitionTime"]) == ("BehindHead", "2026-01-01T00:00:00Z")
        await restarted.update_group_status(JOB, uid, dataclasses.replace(WAITING, condition_status="True"))
        (condition,) = status_of(cluster)["conditions"]
        assert (condition["status"], condition["lastTransitionTime"]) == ("True", "2026-01-01T00:01:00Z")

    async def test_fields_of_others_survive(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """What another controller wrote into the status, conditions included, stays."""
        uid = cluster.api.create(pod_group("job"))["metadata"]["uid"]
        foreign = {
            "type": "Audited",
            "status": "True",
            "reason": "Fine",
            "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }
        theirs = {"status": {"occupiedBy": "default/job", "conditions": [foreign]}}
        cluster.api.patch(POD_GROUPS, "job", theirs, namespace="default", subresource="status")
        await api.update_group_status(JOB, uid, WAITING)
        await api.update_group_status(JOB, uid, dataclasses.replace(WAITING, scheduled=1))
        status = status_of(cluster)
        assert (status["occupiedBy"], status["scheduled"]) == ("default/job", 1)
        assert [condition["type"] for condition in status["conditions"]] == ["Audited", "Scheduled"]
        assert status["conditions"][0] == foreign

    async def test_namesake_is_not_written_to(self, api: KubeClusterApi, cluster: Sandbox) -> None:
        """A PodGroup that is deleted and made again between two writes keeps an empty status: a 409, both times."""
        uid = cluster.api.create(pod_group("job"))["metadata"]["uid"]
        await api.update_group_status(JOB, uid, WAITING)
        cluster.api.delete(POD_GROUPS, "job", "default")
        cluster.api.create(pod_group("job"))
        for _ in range(2):
            with pytest.raises(ApiError) as refused:
                await api.update_group_status(JOB, uid, dataclasses.replace(WAITING, scheduled=1))
            assert refused.value.status == 409
        assert "status" not in cluster.api.get(POD_GROUPS, "job", "default")

    async def test_change_of_the_spec_between_two_writes_does_no_harm(
        self, api: KubeClusterApi, cluster: Sandbox
    ) -> None:
        """Somebody who edits the PodGroup makes the next write read it again, and both changes stand."""
        uid = cluster.api.create(pod_group("job"))["metadata"]["uid"]
        await api.update_group_status(JOB, uid, WAITING)
        cluster.api.patch(POD_GROUPS, "job", {"spec": {"minMember": 3}}, namespace="default")
        await api.update_group_status(JOB, uid, dataclasses.replace(WAITING, scheduled=1))
        stored = cluster.api.get(POD_GROUPS, "job", "default")
        assert (stored["spec"]["minMember"], stored["status"]["scheduled"]) == (3, 1)

    async def test_group_that_is_gone_is_not_found(self, api: KubeClusterApi) -> None:
        """A PodGroup that does not exist is a 404."""
        with pytest.raises(ApiError) as refused:
            await api.update_group_status(JOB, "uid", WAITING)
        assert refused.value.status == 404
