"""The table of watched kinds, and what several objects say of one gang."""

from __future__ import annotations

import orjson
import pytest
from structlog.testing import capture_logs

from extender.admission.events import GroupGone, GroupSeen
from extender.control.ports import WatchedKind
from extender.control.watched import LEASE, PROVISIONING, WATCHED, DescribedGangs, Known
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.kubeflow import KUBEFLOW

REF = GroupRef(KUBEFLOW, "x", "train")


def job(uid: str, year: int) -> PodGroup:
    """Return a job that was made in a year; jobs of different kinds may have one name."""
    return PodGroup(REF, uid, created=f"{year}-01-01T00:00:00Z")


def test_every_kind_has_one_row() -> None:
    """No two rows have one name or one path, and each kind that is asked for by name has a row."""
    rows = (*WATCHED, LEASE, PROVISIONING)
    paths = [path for row in rows for path in row.paths]
    assert len({row.name for row in rows}) == len(rows)
    assert len(set(paths)) == len(paths)
    assert set(WatchedKind) <= {row.name for row in rows}


def test_a_path_says_which_api_it_is_of() -> None:
    """The version of an object's API follows from the path of its collection, of the core too."""
    versions = {row.name: row.api_version for row in WATCHED}
    assert (versions["pods"], versions["queues.muster.dev"]) == ("v1", "muster.dev/v1alpha1")
    assert versions["topologies.kueue.x-k8s.io"] == "kueue.x-k8s.io/v1beta2"


def test_the_newest_object_counts() -> None:
    """Of several objects that describe one gang the newest counts, in whatever order the kinds are listed."""
    described = DescribedGangs()
    for one in (job("new", 2026), job("old", 2025), job("new", 2026)):
        told = list(described.seen(one.uid, (one,)))
        assert told == ([GroupSeen(one)] if one.uid == "new" else [])


def test_another_object_counts_when_the_newest_is_gone() -> None:
    """An object that stands beside a deleted one is told of; one that did not count goes without a word."""
    described, old, new = DescribedGangs(), job("old", 2025), job("new", 2026)
    for one in (old, new, job("middle", 2025)):
        list(described.seen(one.uid, (one,)))
    assert [list(described.seen(uid, ())) for uid in ("middle", "new", "old", "never seen")] == [
        [],
        [GroupGone(REF, "new"), GroupSeen(old)],
        [GroupGone(REF, "old")],
        [],
    ]


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        (WatchedKind.NODE, {"status": {"allocatable": {"cpu": "many"}}}, "status.allocatable.cpu"),
        (WatchedKind.NODE_TOPOLOGY, {"zones": [{"name": "zone", "type": "Node"}]}, "zones[0].name"),
        (
            WatchedKind.RESOURCE_SLICE,
            {"spec": {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": -1}}},
            "spec.pool.resourceSliceCount",
        ),
        (WatchedKind.DEVICE_CLASS, {"spec": {"selectors": [{}]}}, "spec.selectors[0].cel"),
        (
            WatchedKind.RESOURCE_CLAIM,
            {"status": {"allocation": {"devices": {"results": [{"driver": "d"}]}}}},
            "status.allocation.devices.results[0].pool",
        ),
    ],
)
def test_what_is_wrong_with_what_programs_write_is_logged(kind: str, body: dict[str, object], problem: str) -> None:
    """Programs write nodes, their zones and devices, not people: the log says what cannot be used."""
    row = next(row for row in WATCHED if row.name == kind)
    item = row.decode(orjson.dumps({"metadata": {"name": "a", "uid": "a"}, **body}))
    with capture_logs() as lines:
        list(row.seen(item, Known()))
    assert [(line["object"], line["problem"].partition(":")[0]) for line in lines] == [("/a", problem)]
