"""The rows of gangs, and the status of their PodGroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from extender.explain.documents import GangPhase, MemberState
from extender.explain.views import GroupStatus
from extender.objects.pod import Phase
from extender.objects.podgroup import PodGroup
from extender.objects.reason import Reason
from extender.service.board.documents import (
    GangRow,
)
from tests.properties.truth.parts import Standing
from tests.properties.truth.story import UNKNOWN
from tests.properties.truth.world import Recomputed, state_of, taken


class TrueGangs(Recomputed):
    """How every gang stands, by its members."""

    def gang(self, row: GangRow) -> None:
        """Compare a row of the gangs."""
        ref = next(ref for ref in self.objects.groups if ref.name == row.name)
        members, group = self.objects.members(ref), self.objects.groups[ref]
        standing = Standing(self.objects, ref)
        states = Counter(state_of(pod, self.objects.promised) for pod in members)
        waiting, gated, bound = states[MemberState.WAITING], states[MemberState.GATED], states[MemberState.BOUND]
        reserved, succeeded = states[MemberState.RESERVED], states[MemberState.SUCCEEDED]
        true = {
            "exist": waiting + gated + bound + reserved + succeeded,
            "gated": gated,
            "waiting": waiting,
            "reserved": reserved,
            "bound": bound,
            "running": sum(pod.bound and not pod.deleting and pod.phase is Phase.RUNNING for pod in members),
            "succeeded": succeeded,
            "failed": states[MemberState.FAILED],
        }
        for name, number in true.items():
            self.same(f"gangs[].members.{name}", getattr(row.members, name), number)
        alive = [pod for pod in members if not pod.done]
        held = [pod for pod in alive if pod.node_name or pod.name in self.objects.promised]
        self.same("gangs[].minMember", row.min_member, standing.least)
        self.same("gangs[].gpus", row.gpus, taken(alive))
        self.same("gangs[].gpusHeld", row.gpus_held, taken(held))
        self.same("gangs[].priority", row.priority, max((pod.priority for pod in members), default=0))
        self.same("gangs[].phase", row.phase, self.phase(standing, true))
        there = {pod.node_name or self.objects.promised[pod.name] for pod in held}
        self.same("gangs[].nodes", row.nodes, len(there))
        self.reason(row, true, group, standing)

    def phase(self, standing: Standing, counts: Mapping[str, int]) -> GangPhase:
        """Return the phase that docs/gangs.md gives a gang with these members."""
        least, done = standing.least, counts["succeeded"]
        if done >= least and done == counts["exist"]:
            return GangPhase.FINISHED
        if counts["running"] + done >= least:
            return GangPhase.RUNNING if standing.has_minimum else GangPhase.SCHEDULING
        if counts["failed"] and counts["exist"] < least and counts["exist"] == counts["bound"] + done:
            return GangPhase.FAILED
        return GangPhase.SCHEDULING if counts["bound"] or counts["reserved"] else GangPhase.PENDING

    def reason(self, row: GangRow, counts: Mapping[str, int], group: PodGroup, standing: Standing) -> None:
        """Compare the numbers of reasons that count members, and that a gang waits for no other reason then."""
        exist, least = counts["exist"], standing.least
        if row.reason is None or exist == counts["bound"] + counts["succeeded"]:
            return
        needs = sorted(standing.needs.items())
        missing = [{"exist": standing.of(role).exist, "minMember": n} for role, n in needs]
        missing = [each for each in missing if each["exist"] < each["minMember"]]
        counted = [(standing.of(role), n) for role, n in needs]
        gated = [
            {"exist": have.exist, "gated": have.exist - have.free, "minMember": n}
            for have, n in counted
            if have.free < n
        ]
        if missing:
            assert row.reason.code == Reason.ROLE_MEMBERS_MISSING
            assert row.reason.numbers == missing[0]
        elif exist < least:
            assert row.reason.code == Reason.MEMBERS_MISSING
            assert row.reason.numbers == {"exist": exist, "minMember": least}
        elif gated:
            assert row.reason.code == Reason.ROLE_MEMBERS_GATED
            assert row.reason.numbers == gated[0]
        elif exist - counts["gated"] < least:
            assert row.reason.code == Reason.MEMBERS_GATED
            assert row.reason.numbers == {"exist": exist, "gated": counts["gated"], "minMember": least}
        elif group.options.queue == UNKNOWN:
            assert row.reason.code == Reason.UNKNOWN_QUEUE
        for number in row.reason.numbers.values():
            assert str(number) in row.reason.message

    def group_status(self, row: GangRow, status: GroupStatus) -> None:
        """Compare the status that was last written to a PodGroup with what the gang's row says."""
        counts = row.members
        assert (status.scheduled, status.running) == (counts.bound, counts.running)
        assert (status.succeeded, status.failed, status.phase) == (counts.succeeded, counts.failed, row.phase)
        ref = next(ref for ref in self.objects.groups if ref.name == row.name)
        started = Standing(self.objects, ref).has_minimum
        assert status.condition_status == str(started)
        if not started:
            code = "NothingToPlace" if row.reason is None else row.reason.code
            assert (status.reason, row.reason is None or status.message == row.reason.message) == (code, True)
