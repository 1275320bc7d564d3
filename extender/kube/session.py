"""HTTP connections to the API server, made and used with one set of credentials."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from kubernetes.aio.client import Configuration
from yarl import URL

import extender
from extender.kube.api import JsonObject, Query

JSON: Final = "application/json"

#: How much of an answer waits to be read before the connection is read no further (bytes): lists come in large pieces.
_READ_BUFFER_BYTES = 2**21
#: Under which name the `kubernetes` package keeps the value of the Authorization header.
_TOKEN = "BearerToken"  # noqa: S105 - the name of a key
_CONNECTION_PARTS = ("host", "ssl_ca_cert", "cert_file", "verify_ssl", "tls_server_name", "proxy")


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What is asked of the API server; `timeout` in seconds."""

    method: str
    path: str
    timeout: ClientTimeout
    content_type: str = ""
    body: JsonObject | None = None
    query: Query | None = None
    headers: Mapping[str, str] | None = None


class ServerSession:
    """The connections that one set of credentials makes, and what every request on them says."""

    def __init__(self, configuration: Configuration, pool_size: int) -> None:
        """Connect when the first request is sent, at most `pool_size` times."""
        self._configuration = configuration
        self._host = configuration.host.rstrip("/")
        self._server_name: str | None = configuration.tls_server_name
        self._proxy: str | None = configuration.proxy
        self.encrypted = self._host.startswith("https:")
        # With trust_env aiohttp asks for proxies and ~/.netrc in two threads before every request: 0.56 ms instead of
        # 0.12 ms on loopback, and a netrc entry for the host makes it refuse our Authorization header.
        self._http = ClientSession(
            connector=TCPConnector(limit=pool_size, ssl=_tls(configuration)),
            cookie_jar=DummyCookieJar(),
            read_bufsize=_READ_BUFFER_BYTES,
            trust_env=False,
        )
        # Compression costs the API server more than the bytes cost the network between two pods of a control plane;
        # kube-scheduler and kube-controller-manager do without it for the same reason.
        self._headers = {
            "Accept": JSON,
            "Accept-Encoding": "identity",
            "User-Agent": f"muster/{extender.__version__}",
        }
        self.authorize(configuration)

    def authorize(self, configuration: Configuration) -> None:
        """Send the token of `configuration` from now on."""
        self._headers.pop("Authorization", None)
        if token := configuration.api_key.get(_TOKEN):
            self._headers["Authorization"] = token

    @property
    def token(self) -> str:
        """Return the value of the Authorization header, "" where a certificate or nothing says who asks."""
        return self._headers.get("Authorization", "")

    def connects_alike(self, fresh: Configuration) -> bool:
        """Tell whether `fresh` differs in its token at most. A client certificate may differ behind its path."""
        if fresh.cert_file:
            return False
        return all(getattr(self._configuration, part) == getattr(fresh, part) for part in _CONNECTION_PARTS)

    async def send(self, request: ServerRequest) -> ClientResponse:
        """Send a request and return the answer unread.

        Raises aiohttp's ClientError, TimeoutError or OSError when no answer comes.
        """
        query = "?" + urlencode(request.query, safe="/", quote_via=quote) if request.query else ""
        headers, body = {**self._headers, **(request.headers or {})}, None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = msgspec.json.encode(request.body)
        return await self._http.request(
            request.method,
            URL(f"{self._host}{request.path}{query}", encoded=True),
            headers=headers,
            data=body,
            timeout=request.timeout,
            proxy=self._proxy,
            server_hostname=self._server_name,
            allow_redirects=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Trust the certificate authority of `configuration` alone, or the system's without one; show its certificate."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
