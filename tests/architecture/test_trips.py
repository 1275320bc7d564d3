"""How many own files one event crosses, in the real application: fewer are fewer to read before one may change it."""

from __future__ import annotations

import pytest

from tests.architecture.limits import TRIPS
from tests.architecture.trips import traced


@pytest.fixture(scope="module")
def trips() -> dict[str, set[str]]:
    """Return the files of each trip."""
    return traced()


@pytest.mark.parametrize("trip", TRIPS)
def test_a_trip_crosses_few_files(trips: dict[str, set[str]], trip: str) -> None:
    """No trip crosses more files than what was reached before; `python -m tests.architecture.trips` lists them."""
    assert trips.keys() == TRIPS.keys()
    assert len(trips[trip]) <= TRIPS[trip].now, sorted(trips[trip])


def test_a_trip_is_what_it_is_called(trips: dict[str, set[str]]) -> None:
    """A filter call goes through the verbs and no watch; an event through the watches and no verb; both come far."""
    folders = {trip: {file.split("/")[0] for file in files} for trip, files in trips.items()}
    assert "service" in folders["filter"]
    assert "kube" not in folders["filter"]
    assert {"kube", "admission"} <= folders["budget"] & folders["pod"]
    assert "placement" in folders["pass"]
    assert {"service", "explain"} <= folders["explain"]
    assert all("placement" not in folders[trip] for trip in ("filter", "budget", "pod"))
