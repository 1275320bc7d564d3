"""An API server that replays a large cluster, as a process of its own: `replay.py PORT CERTIFICATE KEY SIZE...`.

It lists and watches what Muster reads, pushes events at a rate that can be changed, and takes Muster's writes so that
the cluster settles: nominations, Bindings and Evictions come back as events. It keeps no history: a client that resumes
a watch is told to list again. It checks nothing, since how Muster decides is judged on a real API server.

Its own controls are under /control: `events` (POST, ?rate=N a second), `relist` (POST), `state` (GET).
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from random import Random

import uvloop
from aiohttp import web

from bench.service.documents import JsonObject
from bench.service.population import Population, Size
from bench.service.replayed import EXPIRED, ReplayedCluster, WatchedKind
from localcluster.ports import LOOPBACK

#: Seconds between two looks at which events are due. Real ones come one by one; this is as fine as timers are.
_TICK_SECONDS = 0.001

_POD = "/api/v1/namespaces/{namespace}/pods/{name}"
_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
_EVENTS = "/api/v1/namespaces/{namespace}/events"


class ReplayServer:
    """The cluster over HTTP."""

    def __init__(self, cluster: ReplayedCluster, clock: Callable[[], float]) -> None:
        """Serve `cluster`; `clock` counts seconds."""
        self._cluster = cluster
        self._clock = clock
        self._rate = 0.0
        self._wanted = asyncio.Event()

    def app(self) -> web.Application:
        """Return the application."""
        cluster = self._cluster
        app = web.Application()
        for name, kind in cluster.devices.items():
            app.add_routes([web.get(f"/apis/resource.k8s.io/v1/{name}", self._watch(kind))])
        app.add_routes(
            [
                web.get("/version", _version),
                web.get("/api/v1/nodes", self._watch(cluster.nodes)),
                web.get("/api/v1/pods", self._watch(cluster.pods)),
                web.get("/apis/scheduling.k8s.io/v1/priorityclasses", self._watch(cluster.priority_classes)),
                web.get("/api/v1/namespaces/muster-system/configmaps", self._watch(cluster.config_maps)),
                web.get("/api/v1/namespaces", self._watch(cluster.namespaces)),
                web.get("/apis/muster.dev/v1alpha1/queues", self._watch(cluster.queues)),
                web.patch("/apis/muster.dev/v1alpha1/queues/{name}/status", self._patch_queue),
                web.get("/apis/policy/v1/poddisruptionbudgets", self._watch(cluster.budgets)),
                web.get("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", self._watch(cluster.groups)),
                web.get(_GROUPS, self._find_group),
                web.patch(_GROUPS + "/{name}/status", self._patch_group),
                web.get(_POD, self._get_pod),
                web.patch(_POD + "/status", self._patch_pod),
                web.post(_POD + "/binding", self._post_binding),
                web.post(_POD + "/eviction", self._post_eviction),
                web.post(_EVENTS, self._take_event),
                web.patch(_EVENTS + "/{name}", self._take_event),
                web.get("/control/state", self._state),
                web.post("/control/events", self._set_rate),
                web.post("/control/relist", self._relist),
            ]
        )
        return app

    async def let_happen(self) -> None:
        """Let events happen at the rate that was asked for, until cancelled; without one, sleep."""
        while True:
            await self._wanted.wait()
            last, due = self._clock(), 0.0
            while self._rate:
                await asyncio.sleep(_TICK_SECONDS)
                now = self._clock()
                due += self._rate * (now - last)
                last = now
                self._cluster.happen(int(due))
                due -= int(due)
            self._wanted.clear()

    # What Muster asks.

    def _watch(self, kind: WatchedKind) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if "watch" not in request.query:
                return web.json_response(self._cluster.page())
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            if "sendInitialEvents" in request.query:
                await kind.follow(response.write)
            else:
                await response.write(EXPIRED)
            await response.write_eof()
            return response

        return handle

    async def _find_group(self, request: web.Request) -> web.Response:
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        found = self._cluster.population.groups.get(name)
        items = [] if found is None else [found.document()]
        return web.json_response({"kind": "PodGroupList", "metadata": {"resourceVersion": "1"}, "items": items})

    async def _patch_group(self, request: web.Request) -> web.Response:
        patch = await request.json()
        group = self._cluster.update_status(request.match_info["name"], patch["status"])
        return web.json_response(group.document())

    async def _patch_queue(self, request: web.Request) -> web.Response:
        name, queues = request.match_info["name"], self._cluster.population.queues
        (found,) = (queue for queue in queues if queue["metadata"]["name"] == name)
        return web.json_response(found | await request.json())

    async def _get_pod(self, request: web.Request) -> web.Response:
        pod = self._cluster.population.pods.get(request.match_info["name"])
        if pod is None:
            raise web.HTTPNotFound
        return web.Response(body=pod.encode(), content_type="application/json")

    async def _patch_pod(self, request: web.Request) -> web.Response:
        patch = await request.json()
        pod = self._cluster.nominate(request.match_info["name"], patch["status"]["nominatedNodeName"] or "")
        return web.Response(body=pod.encode(), content_type="application/json")

    async def _post_binding(self, request: web.Request) -> web.Response:
        binding = await request.json()
        self._cluster.bind(request.match_info["name"], binding["target"]["name"])
        return web.json_response({"kind": "Status", "status": "Success"}, status=HTTPStatus.CREATED)

    async def _post_eviction(self, request: web.Request) -> web.Response:
        self._cluster.evict(request.match_info["name"])
        return web.json_response({"kind": "Status", "status": "Success"}, status=HTTPStatus.CREATED)

    async def _take_event(self, request: web.Request) -> web.Response:
        self._cluster.writes["event"] += 1
        event: JsonObject = {"metadata": {"name": "event", "resourceVersion": "1"}} | await request.json()
        return web.json_response(event, status=HTTPStatus.CREATED)

    # What the measurement asks.

    async def _state(self, _request: web.Request) -> web.Response:
        cluster = self._cluster
        return web.json_response(
            {
                "nominated": {name: pod.nominated for name, pod in cluster.population.pods.items() if pod.nominated},
                "writes": cluster.writes,
                "events": cluster.events,
                "lists": sum(kind.lists for kind in cluster.kinds),
                "kinds": len(cluster.kinds),
                "backlog": sum(kind.backlog for kind in cluster.kinds),
            }
        )

    async def _set_rate(self, request: web.Request) -> web.Response:
        self._rate = float(request.query["rate"])
        if self._rate:
            self._wanted.set()
        return web.json_response({})

    async def _relist(self, _request: web.Request) -> web.Response:
        for kind in self._cluster.kinds:
            kind.expire()
        return web.json_response({})


async def _version(_request: web.Request) -> web.Response:
    return web.json_response({"gitVersion": "v1.37.0"})


async def serve(port: int, tls: ssl.SSLContext, size: Size) -> None:
    """Serve a cluster of that size on a loopback port until cancelled."""
    server = ReplayServer(ReplayedCluster(Population.of(size), Random(port)), time.monotonic)
    runner = web.AppRunner(server.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port, ssl_context=tls).start()
    await server.let_happen()


def main(words: list[str]) -> None:
    """Serve what the command line says."""
    port, certificate, key, *size = words
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    uvloop.run(serve(int(port), tls, Size.parse(size)))


if __name__ == "__main__":
    main(sys.argv[1:])
