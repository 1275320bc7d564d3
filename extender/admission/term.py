"""A term of deciding: all that is remembered for as long as it lasts, and the pass that decides."""

from __future__ import annotations

from dataclasses import dataclass

from extender.admission.admission_pass import AdmissionPass
from extender.admission.ageing import Ageing
from extender.admission.budgets import Budgets
from extender.admission.clearances import Clearances
from extender.admission.evictions import AllowedEvictions
from extender.admission.heads import Heads
from extender.admission.keep import Keep
from extender.admission.preemptions import Preemptions
from extender.admission.repairs import Repairs
from extender.admission.reservations import Reservations
from extender.admission.sharing import Sharing
from extender.admission.vetoes import Vetoes
from extender.clock import Clock
from extender.cluster.model import ClusterModel
from extender.settings import Settings

#: Gangs for which conservative backfill keeps room: each costs as many plans as there are before it in every pass that
#: changes anything, and what is kept beyond the first few lies hours ahead.
_MOST_STARTS = 8


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a term finds, and leaves to the next one."""

    model: ClusterModel
    sharing: Sharing
    budgets: Budgets
    evictions: AllowedEvictions
    settings: Settings
    clock: Clock


class Term:
    """Decide from when this process is the one that does until another one is.

    Attributes:
        reservations: the ledger and what changes it.
        vetoes: nodes that kube-scheduler refused.
        clearances: whose place is being cleared.
        preemptions: the search for those who have to leave.
        repairs: running gangs that lack members.
        heads: for whom room is kept.
        decider: the pass.
    """

    def __init__(self, around: Surroundings) -> None:
        """Begin with nothing decided."""
        model, settings, clock = around.model, around.settings, around.clock
        self._ageing = Ageing(settings.ageing_seconds, clock)
        self.reservations = Reservations(model, settings, clock)
        self.vetoes = Vetoes(settings.veto_seconds, clock.monotonic)
        self.clearances = Clearances(model, around.sharing, self.reservations, around.evictions, clock)
        self.preemptions = Preemptions(model, around.sharing, around.budgets, self.clearances, clock)
        grace = settings.below_minimum_grace_seconds
        self.repairs = Repairs(model, self.reservations, self.clearances, grace, clock)
        most = _MOST_STARTS if settings.backfill == "conservative" else 1
        self.heads = Heads(model, clock, foresight=settings.backfill != "none", most=most)
        self.decider = AdmissionPass(
            model,
            around.sharing,
            self.reservations,
            self.clearances,
            self.preemptions,
            self.vetoes,
            self.repairs,
            self.heads,
            self._ageing,
            clock,
        )

    @property
    def keeps(self) -> list[Keep]:
        """Return all that is kept for gangs that wait."""
        return [*self.heads.keeps, *self.decider.firm.values()]

    def end(self) -> None:
        """Give back in the model what was promised, and nothing in the cluster."""
        self.reservations.ledger.clear()
        self.clearances.stand_down()

    def pass_time(self) -> bool:
        """Do what time alone asks for; return whether a pass is due for it."""
        expired = self.reservations.expire()
        resumed = self.decider.changes.pass_time()
        due = self.preemptions.pass_time() | self.heads.pass_time()
        return expired or resumed or due or self.repairs.pass_time()

    def next_turn(self) -> float | None:
        """Return when time alone asks for something (seconds, monotonic), or None."""
        reservations = self.reservations
        times = (
            reservations.ledger.next_deadline(),
            reservations.nudges.next(),
            reservations.backoff.next_end(),
            self.vetoes.next_end(),
            self._ageing.next_end(),
            self.clearances.next_turn(),
            self.preemptions.next_turn(),
            self.repairs.next_end(),
            self.heads.next_turn(),
        )
        return min((time for time in times if time is not None), default=None)
