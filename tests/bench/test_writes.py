"""Writes as the API server counts them."""

from __future__ import annotations

from bench.controlplane.writes import refused, writes
from bench.soak.sampling import Page


def answered(verb: str, resource: str, count: int, *, part: str = "", group: str = "", code: int = 201) -> str:
    """Return a line of the API server's metrics."""
    return (
        f'apiserver_request_total{{code="{code}",component="apiserver",dry_run="",group="{group}",'
        f'resource="{resource}",scope="resource",subresource="{part}",verb="{verb}",version="v1"}} {count}\n'
    )


def test_writes_are_told_apart_by_verb_resource_and_part() -> None:
    """Groups and versions of one resource, and answers, are added up; what only reads is left out."""
    page = Page.parse(
        answered("POST", "pods", 5)
        + answered("POST", "pods", 3, part="binding")
        + answered("PATCH", "pods", 2, part="status", code=200)
        + answered("PATCH", "pods", 1, part="status", code=409)
        + answered("POST", "events", 4)
        + answered("POST", "events", 6, group="events.k8s.io")
        + answered("LIST", "pods", 7)
        + answered("WATCH", "pods", 8)
    )
    assert writes(page) == {"POST pods": 5, "POST pods/binding": 3, "PATCH pods/status": 3, "POST events": 10}


def test_what_is_written_by_the_clock_does_not_count() -> None:
    """Leases are renewed, and the API server keeps states of its own, whatever is scheduled."""
    page = Page.parse(
        answered("PUT", "leases", 9, group="coordination.k8s.io")
        + answered("PATCH", "flowschemas", 9, part="status", group="flowcontrol.apiserver.k8s.io")
        + answered("PUT", "apiservices", 9, part="status", group="apiregistration.k8s.io")
    )
    assert (writes(page), refused(page)) == ({}, 0)


def test_writes_that_were_too_many_are_counted_by_their_answer() -> None:
    """They are writes, too: somebody sent them, and sends them again."""
    page = Page.parse(
        answered("POST", "pods", 5) + answered("POST", "pods", 2, code=429) + answered("GET", "pods", 1, code=429)
    )
    assert (writes(page), refused(page)) == ({"POST pods": 7}, 2)
