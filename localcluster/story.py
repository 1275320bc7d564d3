"""Handles to what a story creates: pods and gangs that can be asked how they are and told what happens to them."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localcluster.client import NATIVE_POD_GROUPS, POD_GROUPS, PODS, ApiClient, JsonObject, Resource
from localcluster.errors import LocalClusterError
from localcluster.watching import LiveView, Signal
from localcluster.workloads import GangSpec

#: How long a wait may take unless the story says otherwise, in seconds.
DEFAULT_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a story plays: the API server and live views of what is in it."""

    api: ApiClient
    signal: Signal
    pods: LiveView
    pod_groups: LiveView
    events: LiveView

    def wait_until(
        self, condition: Callable[[], bool], description: Callable[[], str], timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> float:
        """Return the seconds until `condition()` is true, or raise NotInTimeError with what was true instead."""
        return self.signal.wait_until(condition, timeout_seconds=timeout, description=description)

    def events_about(self, uid: str) -> list[JsonObject]:
        """Return the events about the object with this UID."""
        return [event for event in self.events.all() if event.get("regarding", {}).get("uid") == uid]


class Pod:
    """One pod of the story, under its name; a pod created again is the same handle with another UID."""

    def __init__(self, scene: Scene, manifest: JsonObject) -> None:
        """Know the pod; nothing is created yet."""
        self._scene = scene
        self.manifest = manifest
        self.name: str = manifest["metadata"]["name"]
        self.namespace: str = manifest["metadata"]["namespace"]
        self.uid = ""

    def __repr__(self) -> str:
        """Show name, phase and node."""
        return f"<Pod {self.name} {self.phase or 'absent'} on {self.node or 'no node'}>"

    @property
    def object(self) -> JsonObject | None:
        """Return the pod as the API server last said, or None if it does not exist (any more)."""
        current = self._scene.pods.get(self.name, self.namespace)
        return current if current is not None and current["metadata"]["uid"] == self.uid else None

    @property
    def exists(self) -> bool:
        """Return whether the pod exists."""
        return self.object is not None

    @property
    def node(self) -> str | None:
        """Return the node that the pod is bound to, or None."""
        current = self.object
        return None if current is None else current["spec"].get("nodeName")

    @property
    def bound(self) -> bool:
        """Return whether the pod is bound to a node."""
        return self.node is not None

    @property
    def nominated_node(self) -> str | None:
        """Return `status.nominatedNodeName`, or None."""
        current = self.object
        return None if current is None else current["status"].get("nominatedNodeName")

    @property
    def phase(self) -> str | None:
        """Return `status.phase`, or None if the pod does not exist."""
        current = self.object
        return None if current is None else current["status"].get("phase")

    @property
    def messages(self) -> list[str]:
        """Return `Reason: note` of every event about the pod."""
        return _messages(self._scene.events_about(self.uid))

    def create(self) -> None:
        """Create the pod."""
        self.uid = self._scene.api.create(self.manifest)["metadata"]["uid"]

    def beside(self, manifest: JsonObject) -> "Pod":
        """Return the handle of another pod of the same story."""
        return Pod(self._scene, manifest)

    def delete(self) -> None:
        """Delete the pod; it is gone when this returns."""
        self._scene.api.delete(PODS, self.name, self.namespace, grace_seconds=0)

    def recreate(self) -> None:
        """Delete the pod and create it anew under the same name.

        A bound pod is left to kwok to end, as to a kubelet: taken from under it, kwok may yet delete by name, and so
        the new one.
        """
        if self.bound:
            self._scene.api.delete(PODS, self.name, self.namespace)
            self._wait(lambda: not self.exists, "gone", DEFAULT_TIMEOUT_SECONDS)
        else:
            self.delete()
        self.create()

    def complete(self) -> None:
        """Let the pod's work end well: phase Succeeded."""
        self._end("Succeeded")

    def fail(self) -> None:
        """Let the pod's work end badly: phase Failed."""
        self._end("Failed")

    def wait_bound(self, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> float:
        """Return the seconds until the pod is bound."""
        return self._wait(lambda: self.bound, "bound", timeout)

    def wait_phase(self, phase: str, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> float:
        """Return the seconds until the pod is in `phase`."""
        return self._wait(lambda: self.phase == phase, phase, timeout)

    def wait_message(self, text: str, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> str:
        """Return the first event about the pod, as `Reason: note`, that contains `text`."""
        self._wait(lambda: any(text in message for message in self.messages), f"an event with {text!r}", timeout)
        return next(message for message in self.messages if text in message)

    def _end(self, phase: str) -> None:
        self._scene.api.patch(
            PODS, self.name, {"status": {"phase": phase}}, namespace=self.namespace, subresource="status"
        )

    def _wait(self, condition: Callable[[], bool], what: str, timeout: float) -> float:
        return self._scene.wait_until(condition, lambda: f"{self!r} {what}; events: {self.messages}", timeout)


class Gang:
    """One PodGroup of the story and its members."""

    def __init__(self, scene: Scene, spec: GangSpec) -> None:
        """Know the gang; nothing is created yet."""
        self._scene = scene
        self._group_uid = ""
        self.spec = spec
        self.name = spec.name
        self.namespace = spec.namespace
        self.min_member = spec.min_member
        self.members: Sequence[Pod] = [Pod(scene, manifest) for manifest in spec.pods()]

    def __repr__(self) -> str:
        """Show how far the gang is."""
        return f"<Gang {self.name} {len(self.bound)} bound of {self.min_member}>"

    @property
    def created(self) -> list[Pod]:
        """Return the members that have been created, in order."""
        return [member for member in self.members if member.uid]

    @property
    def bound(self) -> list[Pod]:
        """Return the members that are bound to a node and exist, ended ones included."""
        return [member for member in self.members if member.bound]

    @property
    def running(self) -> list[Pod]:
        """Return the members that run."""
        return [member for member in self.members if member.phase == "Running"]

    @property
    def nodes(self) -> list[str]:
        """Return the nodes of the bound members, in the members' order."""
        return [member.node for member in self.members if member.node is not None]

    @property
    def whole(self) -> bool:
        """Return whether minMember members are bound."""
        return len(self.bound) >= self.min_member

    @property
    def partial(self) -> bool:
        """Return whether some members are bound, but fewer than minMember."""
        return 0 < len(self.bound) < self.min_member

    @property
    def pod_group(self) -> JsonObject | None:
        """Return the PodGroup as the API server last said, or None if it does not exist."""
        return self._scene.pod_groups.get(self.name, self.namespace)

    @property
    def messages(self) -> list[str]:
        """Return `Reason: note` of every event about the PodGroup or a member."""
        uids = [self._group_uid, *(member.uid for member in self.created)]
        return _messages([event for uid in uids for event in self._scene.events_about(uid)])

    def bound_at(self) -> dict[str, float]:
        """Return when each member's binding was first seen: member to `time.monotonic` seconds."""
        seen: dict[str, float] = {}
        uids = {member.uid: member.name for member in self.created}
        for change in self._scene.pods.history():
            name = uids.get(change.object["metadata"]["uid"])
            if name is not None and change.object["spec"].get("nodeName"):
                seen.setdefault(name, change.at)
        return seen

    def condition(self, kind: str = "Scheduled") -> JsonObject | None:
        """Return the PodGroup's condition of this type, or None."""
        group = self.pod_group or {}
        conditions: list[JsonObject] = group.get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), None)

    def create(self) -> None:
        """Create the PodGroup, unless it exists already, and every member that was not created yet."""
        self.create_next(len(self.members))

    def create_next(self, count: int = 1) -> None:
        """Create the next `count` members, several at a time, and the PodGroup before the first."""
        self.create_group()
        following = [member for member in self.members if not member.uid][:count]
        created = self._scene.api.create_all(member.manifest for member in following)
        for member, stored in zip(following, created, strict=True):
            member.uid = stored["metadata"]["uid"]

    def create_group(self) -> None:
        """Create the PodGroup, unless this handle has created it already."""
        if not self._group_uid:
            self._group_uid = self._scene.api.create(self.spec.pod_group())["metadata"]["uid"]

    def edit(self, *, min_member: int) -> None:
        """Change what the next PodGroup of this name says; one that exists stays as it is."""
        self.spec = dataclasses.replace(self.spec, min_member=min_member)
        self.min_member = min_member

    def edit_group(self, min_member: int) -> None:
        """Change the PodGroup's minMember."""
        resource = NATIVE_POD_GROUPS if self.spec.native else POD_GROUPS
        gang = {"schedulingPolicy": {"gang": {"minCount": min_member}}}
        change = {"spec": gang if self.spec.native else {"minMember": min_member}}
        self._scene.api.patch(resource, self.name, change, namespace=self.namespace)
        self.edit(min_member=min_member)

    def delete_group(self) -> None:
        """Delete the PodGroup and leave the members."""
        resource = NATIVE_POD_GROUPS if self.spec.native else POD_GROUPS
        delete_pod_group(self._scene.api, resource, self.name, self.namespace)
        self._group_uid = ""

    def complete(self) -> None:
        """Let the work of every bound member end well."""
        for member in self._require_bound():
            member.complete()

    def fail(self) -> None:
        """Let the work of every bound member end badly."""
        for member in self._require_bound():
            member.fail()

    def delete(self) -> None:
        """Delete the members and the PodGroup."""
        for member in self.created:
            if member.exists:
                member.delete()
        if self._group_uid:
            resource = NATIVE_POD_GROUPS if self.spec.native else POD_GROUPS
            delete_pod_group(self._scene.api, resource, self.name, self.namespace)

    def wait_bound(self, count: int | None = None, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> float:
        """Return the seconds until `count` members are bound; all members unless given."""
        wanted = len(self.members) if count is None else count
        return self._wait(lambda: len(self.bound) >= wanted, f"{wanted} bound", timeout)

    def wait_running(self, count: int | None = None, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> float:
        """Return the seconds until `count` members run; all members unless given."""
        wanted = len(self.members) if count is None else count
        return self._wait(lambda: len(self.running) >= wanted, f"{wanted} running", timeout)

    def wait_phase(self, phase: str, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> float:
        """Return the seconds until all members are in `phase`."""
        return self._wait(lambda: all(member.phase == phase for member in self.members), phase, timeout)

    def wait_message(self, text: str, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> str:
        """Return the first event about the PodGroup or a member, as `Reason: note`, that contains `text`."""
        self._wait(lambda: any(text in message for message in self.messages), f"an event with {text!r}", timeout)
        return next(message for message in self.messages if text in message)

    def wait_condition(
        self,
        status: str,
        reason: str | None = None,
        *,
        kind: str = "Scheduled",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> JsonObject:
        """Return the PodGroup's condition as soon as it has this status and, if given, this reason."""

        def reached() -> bool:
            condition = self.condition(kind)
            return condition is not None and condition["status"] == status and reason in {None, condition["reason"]}

        self._wait(reached, f"condition {kind}={status} {reason or ''}", timeout)
        return self.condition(kind) or {}

    def wait_observed(self, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Wait until the PodGroup's condition is about its newest spec."""

        def observed() -> bool:
            group, condition = self.pod_group, self.condition()
            if group is None or condition is None:
                return False
            return bool(condition.get("observedGeneration") == group["metadata"]["generation"])

        self._wait(observed, "condition about the newest spec", timeout)

    def _require_bound(self) -> list[Pod]:
        if not self.bound:
            raise LocalClusterError(f"{self!r} has no bound member whose work could end")
        return self.bound

    def _wait(self, condition: Callable[[], bool], what: str, timeout: float) -> float:
        def description() -> str:
            group = self.pod_group or {}
            state = {"members": list(self.members), "group": group.get("status"), "events": self.messages}
            return f"{self!r} {what}; {state}"

        return self._scene.wait_until(condition, description, timeout)


def delete_pod_group(api: ApiClient, resource: Resource, name: str, namespace: str) -> None:
    """Delete a PodGroup at once.

    Native PodGroups carry a finalizer that kube-controller-manager takes away after the last pod; none runs here.
    """
    if resource == NATIVE_POD_GROUPS:
        api.patch(resource, name, {"metadata": {"finalizers": None}}, namespace=namespace)
    api.delete(resource, name, namespace)


def _messages(events: Sequence[JsonObject]) -> list[str]:
    return [f"{event.get('reason', '')}: {event.get('note', '')}" for event in events]
