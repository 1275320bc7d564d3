"""Whether a party fits: within the quota of its queue, and onto nodes of one of its flavors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.admission.diagnosis import examine, explain, unknown_level, unmet_min_resources
from extender.admission.ground import PassGround
from extender.admission.keep import Keep
from extender.admission.reservations import Reservations
from extender.admission.sharing import NAMELESS, Option, Sharing
from extender.admission.site import Capacity, Misfit, Party, Site
from extender.admission.vetoes import Vetoes, leave_out
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.nodekinds import whole_gpus
from extender.domain.quantity import format_amount
from extender.domain.reason import Reason, Wait
from extender.placement.ground import Eligible
from extender.placement.plan import Plan, Shortfall, plan
from extender.quota.tree import Lack

_ANYWHERE = Option()


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a party does not fit: the reason told, and the options in which only nodes are short, or only quota.

    `nodes` are those whose quota suffices, `quota` those in which it might if others left.
    """

    wait: Wait
    nodes: tuple[Option, ...] = ()
    quota: tuple[Option, ...] = ()


class Fitting:
    """Try parties, in each option that they have, on what a pass has before it."""

    def __init__(
        self, model: ClusterModel, sharing: Sharing, reservations: Reservations, vetoes: Vetoes, clock: Clock
    ) -> None:
        """Read `model` and `sharing`, and leave out what `vetoes` says; plans are timed for the metrics."""
        self._model = model
        self._sharing = sharing
        self._reservations = reservations
        self._vetoes = vetoes
        self._clock = clock

    def fit(self, party: Party, queue: str, ground: PassGround) -> Plan | Unfit:
        """Plan the party in the first option that holds it, or say why none does."""
        gang, keeps = party.gang, ground.kept_from(party.gang)
        if queue == NAMELESS:
            result = self._fit(party, ground.site(_ANYWHERE, keeps), keeps)
            return result if isinstance(result, Plan) else Unfit(result, (_ANYWHERE,))
        sharing = self._sharing
        sharing.charges.refresh()
        barred = sharing.barred(queue, gang.ref)
        if barred is not None:
            return Unfit(barred)
        with sharing.charges.apart_from(gang.uid):
            return self._fit_options(party, queue, ground, keeps)

    def _fit_options(self, party: Party, queue: str, ground: PassGround, keeps: list[Keep]) -> Plan | Unfit:
        """Plan the party in the first option of its queue that holds it, or say why none does."""
        sharing, gang = self._sharing, party.gang
        amounts = party.amounts
        patient = ground.frugal.get(sharing.root(queue))
        full: list[tuple[Option, Wait]] = []
        short: list[tuple[Option, Lack]] = []
        options = sharing.options(queue, amounts, self._held(gang, queue))
        for option in options:
            lack = sharing.lack(queue, option, amounts)
            if lack is None and patient and sharing.tree.borrows(queue, option.flavor, amounts):
                full.append((option, Wait(Reason.BEHIND_HEAD, names={"head": patient})))
                continue
            if lack is not None:
                short.append((option, lack))
                continue
            result = self._fit(party, ground.site(option, keeps), keeps)
            if isinstance(result, Plan):
                return result
            full.append((option, result))
        quota = tuple(option for option, lack in short if not lack.ever)
        nodes = tuple(option for option, _ in full)
        if full:
            return Unfit(full[0][1], nodes, quota)
        if short:
            lack = next((lack for _, lack in short if not lack.ever), short[0][1])
            return Unfit(lacking(lack), nodes, quota)
        return Unfit(Wait(Reason.INVALID_QUEUE, names={"queue": queue, "detail": _no_flavor(amounts)}))

    def borrows(self, party: Party, queue: str) -> bool:
        """Tell whether a party would take its queue beyond its quota in every option that it has."""
        sharing = self._sharing
        sharing.charges.refresh()
        amounts = party.amounts
        with sharing.charges.apart_from(party.gang.uid):
            options = sharing.options(queue, amounts, self._held(party.gang, queue))
            return all(sharing.borrows(queue, option, amounts) for option in options)

    def quota(self, party: Party, queue: str) -> Wait | None:
        """Say what keeps a party out of its queue, whatever nodes are free; None if nothing does."""
        sharing = self._sharing
        sharing.charges.refresh()
        barred = sharing.barred(queue, party.gang.ref)
        if barred is not None:
            return barred
        amounts = party.amounts
        options = sharing.options(queue, amounts, self._held(party.gang, queue))
        lacks = [sharing.lack(queue, option, amounts) for option in options]
        if not lacks:
            return Wait(Reason.INVALID_QUEUE, names={"queue": queue, "detail": _no_flavor(amounts)})
        worst = [lack for lack in lacks if lack is not None]
        return lacking(min(worst, key=lambda lack: lack.ever)) if len(worst) == len(lacks) else None

    def _held(self, gang: Gang, queue: str) -> Iterable[str]:
        """Return the UIDs of the pods with which a gang holds anything in its queue."""
        return self._sharing.charges.holders(queue).get(gang.ref, ())

    def settled(self, gang: Gang) -> Mapping[int, int]:
        """Return how many GPUs members of the gang that have a node, or one promised, have on which row."""
        if gang.unplaced_count == len(gang.members):
            return {}
        table, settled = self._model.table, Counter[int]()
        for uid in gang.members:
            claim = table.claim_of(uid)
            row = None if claim is None else table.row(claim.node)
            if claim is not None and row is not None:
                settled[row] += whole_gpus(claim.shape)
        return settled

    def eligible(self, gang: Gang, site: Site) -> Eligible:
        """Return which nodes admit a shape and were not refused to the gang by kube-scheduler."""
        return leave_out(site.admitted, self._vetoes.of_gang(gang.uid, self._model.table))

    def _fit(self, party: Party, site: Site, keeps: list[Keep]) -> Plan | Wait:
        """Plan the party, or say why it does not fit. Of equal demands that fail only one is examined."""
        if (unmet := unmet_min_resources(party.gang, site)) is not None:
            return unmet
        eligible = self.eligible(party.gang, site)
        shared = eligible is site.admitted and not party.settled
        misfit = site.misfits.get(party.demand) if shared else None
        if misfit is None:
            result = self._plan(party, site, eligible)
            if isinstance(result, Plan):
                return result
            misfit = result if isinstance(result, Misfit) else examine(party, result, site, eligible)
            if shared:
                site.misfits[party.demand] = misfit
        return explain(party, misfit, site, str(keeps[0].gang.ref) if keeps else "")

    def _plan(self, party: Party, site: Site, eligible: Eligible) -> Plan | Shortfall | Misfit:
        """Plan the party, or say how far it falls short."""
        if unknown := unknown_level(party.demand.topology, site.tree.levels):
            return Misfit(Shortfall(party.demand.pods, 0), unknown=unknown)
        if (short := site.count(Capacity.FREE, party, eligible)) is not None:
            return short
        began = self._clock.monotonic()
        result = plan(party.pods, site.snapshot(Capacity.FREE), site.ground(party, eligible), party.demand.terms)
        self._reservations.effects.plan_seconds.append(self._clock.monotonic() - began)
        return result


def lacking(lack: Lack) -> Wait:
    """Say which quota is short."""
    names = {
        "queue": lack.queue,
        "flavor": lack.flavor,
        "resource": lack.resource,
        "wanted": format_amount(lack.resource, lack.asked),
    }
    numbers = {"asked": lack.asked, "available": lack.available}
    left = format_amount(lack.resource, max(lack.available, 0))
    if lack.ever:
        return Wait(Reason.EXCEEDS_QUOTA, numbers, names | {"most": left})
    return Wait(Reason.QUOTA_EXCEEDED, numbers, names | {"left": left})


def _no_flavor(amounts: Mapping[str, int]) -> str:
    asked = ", ".join(sorted(resource for resource, amount in amounts.items() if amount))
    return f"no flavor has quota for all that is asked for: {asked}"
