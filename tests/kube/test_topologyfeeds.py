"""The kinds that describe network and hardware, from the API server's JSON to what the observer is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest

from extender.kube.reflector import Feeds
from extender.kube.transport import Transport
from tests.kube.apiscript import ApiScript, added, deleted, hold, listed, refuses, watch
from tests.kube.observer import Recorder
from tests.kube.watched import Naps

KUEUE = "/apis/kueue.x-k8s.io/{}/topologies"


@contextlib.asynccontextmanager
async def running(transport: Transport, observer: Recorder, calibration: str) -> AsyncIterator[None]:
    """Run the feeds."""
    feeds = Feeds(transport, observer, random=Random(1), sleep=Naps(), calibration=calibration)
    task = asyncio.create_task(feeds.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


LEVELS = {"levels": [{"nodeLabel": "x/block"}, {"nodeLabel": "x/rack"}]}
LAYERS = {"networkTopologySpec": [{"topologyLayer": "spine", "labelKey": ["x/spine"]}]}


@pytest.mark.parametrize(
    ("path", "content", "seen", "gone"),
    [
        (
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
            {"attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}]},
            ("node topology seen", "a", "restricted"),
            ("node topology gone", "a"),
        ),
        (
            "/apis/topology.volcano.sh/v1alpha1/hypernodes",
            {"spec": {"tier": 2}},
            ("hyper node seen", "a", "2"),
            ("hyper node gone", "a"),
        ),
        (
            KUEUE.format("v1beta2"),
            {"spec": LEVELS},
            ("levels seen", "kueue.x-k8s.io", "a", "x/block", "x/rack"),
            ("levels gone", "kueue.x-k8s.io", "a"),
        ),
        (
            "/apis/kai.scheduler/v1alpha1/topologies",
            {"spec": LEVELS},
            ("levels seen", "kai.scheduler", "a", "x/block", "x/rack"),
            ("levels gone", "kai.scheduler", "a"),
        ),
        (
            "/apis/grove.io/v1alpha1/clustertopologybindings",
            {"spec": {"levels": [{"domain": "block", "key": "x/block"}]}},
            ("levels seen", "grove.io", "a", "x/block"),
            ("levels gone", "grove.io", "a"),
        ),
        (
            "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies",
            {"spec": LAYERS},
            ("levels seen", "scheduling.koordinator.sh", "a", "x/spine"),
            ("levels gone", "scheduling.koordinator.sh", "a"),
        ),
        (
            "/apis/scheduling.koordinator.sh/v1alpha1/devices",
            {"spec": {"devices": []}},
            ("device seen", "a", ""),
            ("device gone", "a"),
        ),
        (
            "/api/v1/namespaces/muster-system/configmaps",
            {"namespace": "muster-system", "data": {"calibration.yaml": "measurements: []"}},
            ("calibration seen", "ConfigMap muster-system/a", "measurements: []"),
            ("calibration gone",),
        ),
    ],
    ids=lambda value: value.rpartition("/")[2] if isinstance(value, str) else "",
)
async def test_an_object_is_told_of_and_so_is_its_end(  # noqa: PLR0917 - a table
    script: ApiScript,
    transport: Transport,
    path: str,
    content: dict[str, object],
    seen: tuple[str, ...],
    gone: tuple[str, ...],
) -> None:
    """Each kind is read where it is, told as a value, and forgotten by its name."""
    script.plan(
        path,
        watch(added("a", **content), listed(7), deleted("a", namespace=str(content.get("namespace", ""))), then=hold),
    )
    observer = Recorder()
    async with running(transport, observer, "muster-system/a"):
        await observer.until(lambda: gone in observer.told)
    assert seen in observer.told


async def test_only_the_one_config_map_is_watched(script: ApiScript, transport: Transport) -> None:
    """Muster has the right to read this one and no other."""
    path = "/api/v1/namespaces/elsewhere/configmaps"
    observer = Recorder()
    async with running(transport, observer, "elsewhere/measured"):
        await script.until(lambda: bool(script.of(path)))
    assert script.of(path)[0].query["fieldSelector"] == "metadata.name=measured"


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_kueue_may_be_of_any_age(script: ApiScript, transport: Transport, version: str) -> None:
    """A Topology is read in the newest version that the server has."""
    served = KUEUE.format(version)
    for path in map(KUEUE.format, ("v1beta2", "v1beta1", "v1alpha1")):
        script.plan(path, watch(added("a", spec=LEVELS), listed(7), then=hold) if path == served else refuses(404, ""))
    observer = Recorder()
    async with running(transport, observer, "muster-system/a"):
        await observer.until(lambda: ("levels seen", "kueue.x-k8s.io", "a", "x/block", "x/rack") in observer.told)
