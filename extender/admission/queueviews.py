"""How all Queues stand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from extender.admission.queueview import QueueView, QuotaUse
from extender.admission.sharing import Sharing
from extender.domain.membership import GroupRef


def queue_views(sharing: Sharing, pending: Mapping[str, int]) -> list[QueueView]:
    """Return how each Queue stands, in order of their names.

    `pending` says how many gangs wait in which queue.
    """
    sharing.charges.refresh()
    return [_view(name, sharing, pending.get(name, 0)) for name in sorted(sharing.queues)]


def _view(name: str, sharing: Sharing, pending: int) -> QueueView:
    tree, queue = sharing.tree, sharing.queues[name]
    active = name in tree
    problems = tree.problems.get(name, ())
    admitted = sum(1 for holder in sharing.charges.holders(name) if isinstance(holder, GroupRef))
    past = {} if sharing.history is None else sharing.history.of(name)
    as_of = None if sharing.history is None else sharing.history.as_of(name)
    return QueueView(
        name=name,
        parent=queue.parent,
        active=active,
        message="; ".join(map(str, problems)),
        flavors=_uses(name, sharing) if active else (),
        share=tree.share(name, sharing.totals(), past).borrowed if active else 0.0,
        pending=pending,
        admitted=admitted,
        uid=queue.uid,
        generation=queue.generation,
        reason="" if active else "Invalid",
        history=tuple(sorted(past.items())),
        history_at="" if as_of is None or not past else _time(as_of),
    )


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _uses(name: str, sharing: Sharing) -> tuple[QuotaUse, ...]:
    tree = sharing.tree
    return tuple(
        QuotaUse(
            flavor,
            resource,
            tree.nominal(name, flavor, resource),
            tree.used(name, flavor, resource),
            tree.borrowed(name, flavor, resource),
            tree.lent(name, flavor, resource),
        )
        for flavor in tree.flavors(name)
        for resource in sorted(tree.limited(name, flavor))
    )
