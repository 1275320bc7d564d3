"""The proxy in front of the API server."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Mapping

from aiohttp import web

from localcluster.credentials import Connection
from localcluster.faults.proxy import Proxy
from localcluster.faults.request import Request, api_request


class ApiProxy(Proxy):
    """Between Muster and the API server: plain HTTP in front, TLS and the caller's own token behind.

    A caller without a token gets `upstream`'s: client-go sends none over plain HTTP.
    """

    def __init__(self, upstream: Connection) -> None:
        """Prepare to forward to the API server of `upstream`."""
        super().__init__(upstream.url)
        self._upstream = upstream

    def connection(self, caller: Connection) -> Connection:
        """Return how `caller` reaches the API server through this proxy."""
        return dataclasses.replace(caller, url=self.url)

    def read_request(self, method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
        """Say what a request is."""
        return api_request(method, path, query, raw)

    def _trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._upstream.certificate_authority)

    def headers(self, incoming: web.Request) -> dict[str, str]:
        """Return the headers to send on."""
        own = {} if "Authorization" in incoming.headers else {"Authorization": f"Bearer {self._upstream.token}"}
        return super().headers(incoming) | own
