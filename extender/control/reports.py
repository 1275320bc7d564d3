"""Telling people how gangs stand: PodGroup status and Events, each change once."""

from __future__ import annotations

from functools import partial

from extender.admission.effects import Note
from extender.cluster.gangs import Gang, member_order
from extender.control.outbox import Outbox, Urgency
from extender.control.ports import ApiError, ClusterApi, ClusterEvent, GroupStatus
from extender.control.views import GangView, group_status
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.reason import Reason

_API_VERSIONS = {
    GroupApi.COSCHEDULING: "scheduling.x-k8s.io/v1alpha1",
    GroupApi.NATIVE: "scheduling.k8s.io/v1beta1",
    GroupApi.VOLCANO: "scheduling.volcano.sh/v1beta1",
}


class Reports:
    """Write what changed about a gang, and nothing that reads as it did before."""

    def __init__(self, api: ClusterApi, outbox: Outbox) -> None:
        """Write to `api` through `outbox`."""
        self._api = api
        self._outbox = outbox
        self._statuses: dict[GroupRef, tuple[str, GroupStatus]] = {}
        self._said: dict[GroupRef, tuple[str, Reason | None, str]] = {}

    def report(self, gang: Gang, seen: GangView) -> None:
        """Write the PodGroup's status, and an Event when the gang began to wait, changed its reason, or started."""
        if gang.group is not None and gang.ref.api is GroupApi.COSCHEDULING:
            status = group_status(seen, gang.group.generation)
            if self._statuses.get(gang.ref) != (gang.group.uid, status):
                self._statuses[gang.ref] = (gang.group.uid, status)
                call = partial(self._write_status, gang.ref, gang.group.uid, status)
                self._outbox.put(Urgency.STATUS, f"status/{gang.ref.api}/{gang.ref}", str(gang.ref), call)
        started = seen.has_minimum
        reason = None if seen.wait is None else seen.wait.reason
        message = "" if seen.wait is None else seen.wait.message
        if not started and seen.wait is None:
            return
        said = (seen.uid, reason, message)
        before = self._said.get(gang.ref)
        if before == said or (before is None and started and not seen.reserved and not seen.census.placeable):
            self._said[gang.ref] = said
            return
        self._said[gang.ref] = said
        if seen.wait is not None:
            self.tell(gang, warning=reason is not Reason.AWAITING_MEMBERS, reason=str(reason), message=message)
        elif before is not None and before[1] is not None:
            text = f"{seen.census.secured} members bound, minMember is {seen.min_member}"
            self.tell(gang, warning=False, reason="Started", message=text)

    def tell(self, gang: Gang, *, warning: bool, reason: str, message: str) -> None:
        """Write an Event about a gang: on its PodGroup, or on its first pod where it has no object."""
        about = _about_gang(gang)
        if about is not None:
            self._event(about, warning=warning, reason=reason, message=message)

    def note(self, note: Note, gang: Gang | None) -> None:
        """Write an Event that the admission asked for; `gang` is the one that the note is about, if it still exists."""
        if isinstance(note.about, Pod):
            self._event(_about_pod(note.about), warning=note.warning, reason=note.reason, message=note.message)
        elif isinstance(note.about, ObjectRef):
            self._event(note.about, warning=note.warning, reason=note.reason, message=note.message)
        elif gang is not None:
            self.tell(gang, warning=note.warning, reason=note.reason, message=note.message)

    def forget(self, ref: GroupRef) -> None:
        """Forget what was said of a gang that is gone."""
        self._statuses.pop(ref, None)
        self._said.pop(ref, None)

    def forget_all(self) -> None:
        """Forget what was said of everybody: somebody else may say other things meanwhile."""
        self._statuses.clear()
        self._said.clear()

    async def _write_status(self, ref: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a status; one that could not be written is not remembered as said."""
        try:
            await self._api.update_group_status(ref, uid, status)
        except ApiError:
            if self._statuses.get(ref) == (uid, status):
                del self._statuses[ref]
            raise

    def _event(self, about: ObjectRef, *, warning: bool, reason: str, message: str) -> None:
        event = ClusterEvent(about, warning=warning, reason=reason, message=message, action="Scheduling")
        key = f"event/{about.uid}/{reason}/{message}"
        self._outbox.put(Urgency.EVENT, key, str(about), partial(self._api.record_event, event))


def _about_gang(gang: Gang) -> ObjectRef | None:
    if gang.group is not None and gang.group.about is not None:
        return gang.group.about
    if gang.group is not None:
        version = _API_VERSIONS[gang.ref.api]
        return ObjectRef(version, "PodGroup", gang.ref.namespace, gang.ref.name, gang.group.uid)
    first = min((pod for pod in gang.members.values() if not pod.done), key=member_order, default=None)
    return None if first is None else _about_pod(first)


def _about_pod(pod: Pod) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
