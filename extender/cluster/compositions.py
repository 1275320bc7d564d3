"""Gangs that several objects describe: PodGroups that are parts of another group, and what these make together.

    CompositePodGroup serve, two of its groups      the gang: serve, with the pods of all four PodGroups
      CompositePodGroup r0, both                      part r0
        PodGroup r0-prefill, 4 pods                     members of role r0-prefill
        PodGroup r0-decode, 2 pods                      members of role r0-decode
      CompositePodGroup r1 ...                        part r1

Members of other groups tell by their labels which part they are of. Objects come in any order. Until a group is known
that others name, it is the one that their gang is called by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from extender.objects.branches import MOST_DEPTH, Branch
from extender.objects.pod import Pod
from extender.objects.podgroup import ANY_NAME, GroupRef, PodGroup


class Compositions:
    """Keep the groups that have a parent, or parts, and tell which gang each is of.

    `groups` are those, and `of_any_name` what stands for all gangs whose names begin alike: most clusters have neither.
    """

    def __init__(self) -> None:
        self.of_any_name: dict[GroupRef, PodGroup] = {}
        self.groups: dict[GroupRef, PodGroup] = {}
        self._parts: dict[GroupRef, dict[GroupRef, None]] = {}

    def put_any_name(self, ref: GroupRef, group: PodGroup | None) -> None:
        """Take in what stands for all gangs whose names begin as `ref` says, or that nothing does any more."""
        self.of_any_name.pop(ref, None)
        if group is not None:
            self.of_any_name[ref] = group

    def described(self, ref: GroupRef) -> PodGroup | None:
        """Return what is said of a gang by an object that does not know its name, None for nothing."""
        prefix, _, own = ref.name.rpartition("-")
        group = self.of_any_name.get(msgspec.structs.replace(ref, name=f"{prefix}-{ANY_NAME}"))
        return None if group is None else replace(group, ref=ref, uid=f"{group.uid}/{own}")

    def concern(self, group: PodGroup) -> bool:
        """Tell whether a group is part of others, or consists of them, or was."""
        return _is_composed(group) or group.ref in self.groups

    def put(self, group: PodGroup) -> None:
        """Take in a group that was added or changed."""
        self.drop(group.ref, "")
        if not _is_composed(group):
            return
        self.groups[group.ref] = group
        if group.parent is not None:
            self._parts.setdefault(group.parent, {})[group.ref] = None

    def drop(self, ref: GroupRef, uid: str) -> bool:
        """Forget a group if it is still the one with `uid`, "" for any; return whether it was."""
        group = self.groups.get(ref)
        if group is None or (uid and group.uid != uid):
            return False
        del self.groups[ref]
        if group.parent is not None:
            self._parts[group.parent].pop(ref)
            if not self._parts[group.parent]:
                del self._parts[group.parent]
        return True

    def root(self, ref: GroupRef) -> GroupRef:
        """Return the outermost group that is known around one, itself if there is none.

        Of groups that are each other's parents it is one of them.
        """
        for _ in range(MOST_DEPTH):
            group = self.groups.get(ref)
            if group is None or group.parent is None:
                break
            ref = group.parent
        return ref

    def placed(self, pod: Pod, leaf: GroupRef) -> Pod:
        """Return a pod that names the group `leaf` as the member that it is."""
        root = self.root(leaf)
        role = leaf.name if root != leaf else self.groups[leaf].role_of(pod.role, pod.labels)
        return pod if (pod.group, pod.role) == (root, role) else replace(pod, group=root, role=role)

    def gang(self, root: GroupRef) -> PodGroup | None:
        """Return what all groups inside the outermost one amount to; None if that is not known."""
        group = self.groups.get(root)
        if group is None or group.label_parts:
            return group
        problems = tuple(problem for part in self._inside(root, 0) for problem in part.options.problems)
        return replace(group, tree=self._branch(group, 0), options=group.options.with_problems(problems))

    def _inside(self, ref: GroupRef, depth: int) -> Iterator[PodGroup]:
        for part in self._parts.get(ref, ()) if depth < MOST_DEPTH else ():
            yield self.groups[part]
            yield from self._inside(part, depth + 1)

    def _branch(self, group: PodGroup, depth: int) -> Branch:
        """Return a group as a part, with an empty one for each of its own that is not there yet."""
        terms = group.options.topology.or_else(group.options.peers)
        levels = (terms.required, terms.preferred, terms.slices) if depth else ("", "", ())
        if not group.parts_needed:
            return Branch(group.ref.name, group.min_member, (), *levels)
        known = sorted(self._parts.get(group.ref, ()) if depth < MOST_DEPTH else ())
        parts = [self._branch(self.groups[part], depth + 1) for part in known]
        missing = range(len(parts), group.parts_needed)
        parts += (Branch(f"{group.ref.name} (part {number + 1})", 1) for number in missing)
        return Branch(group.ref.name, group.parts_needed, tuple(parts), *levels)


def _is_composed(group: PodGroup) -> bool:
    """Tell whether a group is part of another one, consists of others, or tells its parts by labels."""
    return group.parent is not None or group.parts_needed > 0 or bool(group.label_parts)
