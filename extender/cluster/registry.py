"""All gangs, kept in step with pods and PodGroups."""

from __future__ import annotations

from collections.abc import Iterator

from extender.cluster.gangs import Gang
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup


class GangRegistry:
    """Keep gangs in step with pods and PodGroups, which arrive in any order.

    Attributes:
        changed: the gangs that anything has happened to since the reader took them out; some may be gone by now.
    """

    def __init__(self) -> None:
        """Start without gangs."""
        self._gangs: dict[GroupRef, Gang] = {}
        self._lives: dict[str, Gang] = {}
        self.changed: dict[GroupRef, Gang] = {}

    def __iter__(self) -> Iterator[Gang]:
        """Iterate over all gangs, PodGroups without pods included."""
        return iter(self._gangs.values())

    def __len__(self) -> int:
        """Count the gangs."""
        return len(self._gangs)

    def get(self, ref: GroupRef) -> Gang | None:
        """Return the gang called `ref`, or None."""
        return self._gangs.get(ref)

    def touch(self, gang_uid: str) -> None:
        """Take in that something of what is remembered elsewhere about the life `gang_uid` of a gang has changed."""
        gang = self._lives.get(gang_uid)
        if gang is not None:
            self.changed[gang.ref] = gang

    def touch_all(self) -> None:
        """Count every gang as changed, and those that are gone as they were."""
        self.changed |= self._gangs

    def promise(self, ref: GroupRef, pod_uid: str) -> None:
        """Take in that a member of the gang called `ref` has a node promised."""
        gang = self._gangs.get(ref)
        if gang is not None:
            gang.promise(pod_uid)
            self.changed[ref] = gang

    def withdraw(self, ref: GroupRef, pod_uid: str) -> None:
        """Take in that a member of the gang called `ref` has no node promised any more."""
        gang = self._gangs.get(ref)
        if gang is not None:
            gang.withdraw(pod_uid)
            self.changed[ref] = gang

    def put_pod(self, pod: Pod, now: float) -> Gang | None:
        """Take in a pod; return its gang, or None for a pod on its own."""
        if pod.group is None:
            return None
        gang = self._gangs.get(pod.group)
        if gang is None:
            # Without an object the first pod's UID names this life of the gang.
            gang = self._gangs[pod.group] = Gang(pod.group, uid=f"pod:{pod.uid}", first_seen=now)
            self._lives[gang.uid] = gang
        gang.join(pod)
        self.changed[pod.group] = gang
        if not gang.oldest_member or pod.created < gang.oldest_member:
            gang.oldest_member = pod.created
        return gang

    def drop_pod(self, pod: Pod) -> Gang | None:
        """Forget a pod; return its gang, which is itself forgotten when nothing of it is left."""
        gang = None if pod.group is None else self._gangs.get(pod.group)
        if gang is None:
            return None
        gang.leave(pod.uid)
        self.changed[gang.ref] = gang
        self._forget_empty(gang)
        return gang

    def put_group(self, group: PodGroup, now: float) -> tuple[Gang, str | None]:
        """Take in a PodGroup; return its gang and, if that starts a new life, the UID of the one that ended."""
        gang = self._gangs.get(group.ref)
        if gang is None:
            gang = self._gangs[group.ref] = Gang(group.ref, uid=group.uid, first_seen=now)
        ended = None
        if gang.uid != group.uid:
            ended, gang.uid, gang.first_seen = gang.uid, group.uid, now
            self._lives.pop(ended, None)
        self._lives[group.uid] = gang
        gang.group = group
        self.changed[group.ref] = gang
        return gang, ended

    def drop_group(self, ref: GroupRef, uid: str) -> Gang | None:
        """Forget a PodGroup if it is still the one with `uid`; return its gang."""
        gang = self._gangs.get(ref)
        if gang is None or gang.group is None or gang.group.uid != uid:
            return None
        gang.group = None
        self.changed[ref] = gang
        self._forget_empty(gang)
        return gang

    def _forget_empty(self, gang: Gang) -> None:
        if not gang.members and gang.group is None:
            self._gangs.pop(gang.ref, None)
            self._lives.pop(gang.uid, None)
