"""Writes as the API server itself counts them: by verb, resource and part of it."""

from __future__ import annotations

from collections.abc import Mapping

from bench.soak.sampling import Page

#: The API server's counter of requests that it has answered.
REQUESTS = "apiserver_request_total"
_WRITING = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
#: What is written by the clock or by the API server for itself, whatever is scheduled: Leases, and the states of
#: aggregated APIs, of priority levels and of definitions. Reviews and tokens are written nowhere.
_HOUSEKEEPING = frozenset(
    {"coordination.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io", "apiextensions.k8s.io"}
    | {"authentication.k8s.io", "authorization.k8s.io", "discovery.k8s.io"}
)
_TOO_MANY_REQUESTS = "429"


def writes(page: Page) -> dict[str, float]:
    """Return how many writes were answered so far, without housekeeping, such as `POST pods/binding`."""
    found: dict[str, float] = {}
    for labels, count in _answered(page):
        part = f"/{labels['subresource']}" if labels["subresource"] else ""
        name = f"{labels['verb']} {labels['resource']}{part}"
        found[name] = found.get(name, 0.0) + count
    return found


def refused(page: Page) -> float:
    """Return how many writes were answered with 429, too many requests."""
    return sum(count for labels, count in _answered(page) if labels["code"] == _TOO_MANY_REQUESTS)


def _answered(page: Page) -> list[tuple[Mapping[str, str], float]]:
    rows = ((dict(labels), count) for (name, labels), count in page.values.items() if name == REQUESTS)
    return [row for row in rows if row[0]["verb"] in _WRITING and row[0]["group"] not in _HOUSEKEEPING]
