"""How a gang stands, for status, metrics and people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.cluster.gangs import Census, Gang
from extender.control.ports import GroupStatus
from extender.domain.membership import GroupRef
from extender.domain.reason import Wait


class GangPhase(StrEnum):
    """The phase of a gang; the value is the PodGroup's `status.phase` and the metric label."""

    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class GangView:
    """How a gang stands.

    `reserved` counts members that have a reservation and are not bound yet; `wait` is None unless the gang waits.
    `managed` is false for gangs that another scheduler looks after. `lacks_role` says that enough members are bound or
    have succeeded, but too few of a role with a minimum of its own. `evicted` says for whom and why the gang was
    evicted, as long as that is why it does not run.
    """

    ref: GroupRef
    uid: str
    phase: GangPhase
    min_member: int
    census: Census
    reserved: int
    wait: Wait | None
    managed: bool
    lacks_role: bool = False
    evicted: str = ""

    @property
    def has_minimum(self) -> bool:
        """Tell whether minMember members, and those that must of each role, are bound or have succeeded."""
        return self.census.secured >= self.min_member and not self.lacks_role


def phase_of(census: Census, min_member: int, reserved: int) -> GangPhase:
    """Return the phase that the counts amount to, in the words of the coscheduling API."""
    open_members = census.placeable + census.gated + census.bound
    if census.succeeded >= min_member and not open_members:
        return GangPhase.FINISHED
    if census.running + census.succeeded >= min_member:
        return GangPhase.RUNNING
    if census.failed and census.exist < min_member and not census.placeable and not census.gated:
        return GangPhase.FAILED
    if census.bound or reserved:
        return GangPhase.SCHEDULING
    return GangPhase.PENDING


def view(gang: Gang, reserved: int, wait: Wait | None, *, managed: bool, evicted: str = "") -> GangView:
    """Put together how a gang stands."""
    census = gang.census()
    phase = phase_of(census, gang.min_member, reserved)
    lacks_role = census.secured >= gang.min_member and not gang.has_minimum
    if lacks_role and phase is GangPhase.RUNNING:
        phase = GangPhase.SCHEDULING
    return GangView(gang.ref, gang.uid, phase, gang.min_member, census, reserved, wait, managed, lacks_role, evicted)


def group_status(seen: GangView, generation: int) -> GroupStatus:
    """Return what the PodGroup's status shall say of a gang."""
    census, started = seen.census, seen.has_minimum
    return GroupStatus(
        phase=seen.phase,
        scheduled=census.bound,
        running=census.running,
        succeeded=census.succeeded,
        failed=census.failed,
        condition_status="True" if started else "False",
        reason="Started" if started else _reason(seen),
        message=f"{census.secured} members are bound or have succeeded, minMember is {seen.min_member}"
        if started
        else _message(seen),
        observed_generation=generation,
        preempted="" if started else seen.evicted,
    )


def _reason(seen: GangView) -> str:
    return str(seen.wait.reason) if seen.wait else "NothingToPlace"


def _message(seen: GangView) -> str:
    return seen.wait.message if seen.wait else "no member waits for a node"
