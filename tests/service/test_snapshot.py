"""The recording over HTTP: a file that plays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from extender.journal.archive import unpack
from extender.service.app import Application
from extender.service.snapshot import snapshot_routes
from extender.settings import Settings
from muster_lab.replay.verdict import judge
from tests.control.conftest import Muster

PATH = "/api/v1/snapshot"


@pytest.fixture
async def client(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application that has nothing else."""
    app = Application(snapshot_routes(muster.controller))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


async def test_it_is_a_file_that_plays(muster: Muster, client: httpx.AsyncClient) -> None:
    """All that was seen and decided, before anything is synced too."""
    muster.nodes(2)
    muster.gang("enigma", 2, gpus=4)
    answer = await client.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/gzip")
    assert answer.headers["content-disposition"] == 'attachment; filename="muster-snapshot.tar.gz"'
    snapshot = unpack(answer.content)
    assert judge(snapshot).same
    assert snapshot.state["counts"] == {"nodes": 2, "pods": 2, "gangs": 1}


async def test_it_can_be_had_without_names(muster: Muster, client: httpx.AsyncClient) -> None:
    """Pseudonyms in place of them."""
    muster.sync()
    muster.nodes(2)
    muster.gang("enigma", 2, gpus=4)
    snapshot = unpack((await client.get(PATH, params={"anonymise": "true"})).content)
    assert snapshot.header.anonymised
    assert judge(snapshot).same
    assert [gang["name"] for gang in snapshot.state["gangs"]] == ["gang-000000"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"anonymise": "perhaps"}, "anonymise cannot be 'perhaps'; known: false, true"),
        ({"anonymize": "true"}, "no parameter is called 'anonymize'; known: anonymise"),
    ],
)
async def test_a_query_that_nobody_knows_is_refused(
    client: httpx.AsyncClient, query: dict[str, str], says: str
) -> None:
    """Whoever mistypes would get all the names."""
    answer = await client.get(PATH, params=query)
    assert (answer.status_code, answer.json()) == (400, {"detail": says})


class TestWithoutRecording:
    """A Muster that is told to record nothing."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Return settings without a recording."""
        return Settings(recording_megabytes=0)

    async def test_it_says_why_there_is_none(self, client: httpx.AsyncClient) -> None:
        """And names the setting."""
        answer = await client.get(PATH)
        assert (answer.status_code, answer.json()) == (
            503,
            {"detail": "nothing is recorded: recording_megabytes is 0"},
        )
