"""Labels of metrics are bounded: what a tenant may invent makes no time series."""

from __future__ import annotations

from extender.control.metrics import Metrics

#: Labels whose values are Muster's own words, or names of what administrators make: Queues, levels, namespaces.
# fmt: off
BOUNDED = frozenset({
    "cause", "certificate", "change", "direction", "flavor", "gang_namespace", "kind", "outcome",
    "phase", "place", "python", "queue", "reason", "resource", "result", "state", "use", "verb",
    "version",
})
# fmt: on


def test_no_label_is_what_a_tenant_may_invent() -> None:
    """No series is named after a pod, a gang, a node, a user or a Job."""
    labels = {label for each in vars(Metrics()).values() for label in getattr(each, "_labelnames", ())}
    assert labels == BOUNDED
    assert BOUNDED.isdisjoint({"pod", "gang", "podgroup", "node", "user", "job", "uid", "claim", "message"})
