"""Requests to the API server: the only module that knows the `kubernetes` package.

Of that package it uses how to read credentials and how to send one request. Its models, its `Watch` and its informers
stay unused: they decode a hundred times slower than `extender.wire` and lose events (docs/decisions/0002).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import structlog
import yaml
from aiohttp import ClientResponse, ClientTimeout
from kubernetes.aio import config as untyped_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import incluster_config

import extender
from extender.clock import Clock
from extender.kube.answers import NO_ANSWER, chunks, hang_up, no_answer, refusal, whole_body
from extender.kube.api import JsonObject, PatchForm, Query
from extender.kube.credentials import SERVICE_HOST, SERVICE_PORT, CredentialsError, CredentialSource, InCluster

#: The package's functions that read configuration have no types.
_config: Any = untyped_config

#: How often a token in a file is read again. The kubelet replaces it at 80 % of its life, an hour at the least.
_TOKEN_FILE_SECONDS = 60.0
#: How long before its end an exec plugin's credential is replaced.
_EXPIRY_MARGIN_SECONDS = 60.0
#: Credentials are read at most this often, however many requests are refused.
_RENEWAL_PAUSE_SECONDS = 10.0
#: How long an exec plugin may take.
_PLUGIN_SECONDS = 60.0

_CONNECT_SECONDS = 5.0
#: How long the other end gets to answer the end of TLS when everything is closed; a live one takes a millisecond.
_FAREWELL_SECONDS = 0.05
_JSON = "application/json"
_UNAUTHORIZED = 401
_FIRST_ERROR_STATUS = 300

log = structlog.get_logger("muster.transport")


@dataclass(frozen=True, slots=True)
class _Credentials:
    """What was read from a source, and how many seconds it is good for: None until the server refuses it."""

    configuration: Configuration
    good_for: float | None


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    timeout: ClientTimeout
    content_type: str = ""
    body: JsonObject | None = None
    query: Query | None = None


class Transport:
    """A pool of connections to the API server, with credentials that stay fresh.

    Implements `extender.kube.api.ApiServer`. Use as an async context manager, or call `close`.
    """

    def __init__(
        self, source: CredentialSource, credentials: _Credentials, clock: Clock, pool_size: int, timeout_seconds: float
    ) -> None:
        """Use `connect` instead, which reads the credentials first."""
        self._source = source
        self._clock = clock
        self._pool_size = pool_size
        self._timeout = ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        self._renewing = asyncio.Lock()
        self._renewals = 0
        self._next_attempt = 0.0
        self._renew_at = self._due(credentials)
        self._client: Any = self._new_client(credentials.configuration)  # typed in parts only

    @classmethod
    async def connect(
        cls, source: CredentialSource, clock: Clock, *, pool_size: int = 100, timeout_seconds: float = 15.0
    ) -> Self:
        """Read credentials; nothing is sent yet.

        Args:
            source: where the credentials are, read again when they run out or are refused.
            clock: tells when.
            pool_size: connections at most; each watch keeps one for itself, each write holds one while it lasts.
            timeout_seconds: how long a request other than a watch may take, waiting for a connection included.

        Raises CredentialsError.
        """
        return cls(source, await _read(source, clock), clock, pool_size, timeout_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
        # aiohttp does not wait for connections that were cancelled in the middle of a request.
        await asyncio.sleep(_FAREWELL_SECONDS if self._client.configuration.host.startswith("https:") else 0.0)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def get(self, path: str, query: Query) -> bytes:
        """Read an object or a list."""
        return await whole_body(await self._open(_Request("GET", path, self._timeout, query=query)))

    async def post(self, path: str, body: JsonObject) -> bytes:
        """Create an object."""
        return await whole_body(await self._open(_Request("POST", path, self._timeout, _JSON, body)))

    async def patch(self, path: str, body: JsonObject, form: PatchForm = PatchForm.MERGE) -> bytes:
        """Change an object and return it as stored."""
        return await whole_body(await self._open(_Request("PATCH", path, self._timeout, form.value, body)))

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its bytes as they arrive, cut anywhere."""
        timeout = ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_timeout_seconds)
        response = await self._open(_Request("GET", path, timeout, query=query))
        try:
            yield chunks(response)
        finally:
            hang_up(response)

    async def _open(self, request: _Request) -> ClientResponse:
        """Send a request and return the answer unread; raise ApiError unless it is a success.

        A request that is refused as unauthorized is sent once more if the credentials can be renewed: it had no effect.
        """
        await self._renew_if_due()
        renewals = self._renewals
        response = await self._send(request)
        if response.status == _UNAUTHORIZED and await self._renew(since=renewals):
            hang_up(response)
            response = await self._send(request)
        if response.status >= _FIRST_ERROR_STATUS:
            raise await refusal(response)
        return response

    async def _send(self, request: _Request) -> ClientResponse:
        # Compression costs the API server more than the bytes cost the network between two pods of a control plane;
        # kube-scheduler and kube-controller-manager do without it for the same reason.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if request.content_type:
            headers["Content-Type"] = request.content_type
        try:
            parts = await self._client.param_serialize(
                request.method,
                request.path,
                query_params=list((request.query or {}).items()),
                header_params=headers,
                body=request.body,
                auth_settings=["BearerToken"],
            )
            answer = await self._client.call_api(*parts, _request_timeout=request.timeout)
        except NO_ANSWER as error:
            raise no_answer(error) from error
        response: ClientResponse = answer.response
        return response

    async def _renew_if_due(self) -> None:
        if self._renew_at is not None and self._clock.monotonic() >= self._renew_at:
            await self._renew(since=self._renewals)

    async def _renew(self, *, since: int) -> bool:
        """Read the credentials again, unless that happened `since`; return whether there are newer ones than then."""
        async with self._renewing:
            if self._renewals != since:
                return True
            now = self._clock.monotonic()
            if now < self._next_attempt:
                return False
            self._next_attempt = now + _RENEWAL_PAUSE_SECONDS
            try:
                fresh = await _read(self._source, self._clock)
            except CredentialsError as error:
                log.error("credentials could not be renewed, keeping the old ones", error=str(error))  # noqa: TRY400 - the message says it all
                return False
            await self._adopt(fresh.configuration)
            self._renewals += 1
            self._renew_at = self._due(fresh)
            return True

    async def _adopt(self, fresh: Configuration) -> None:
        """Use fresh credentials: a new token on the old connections, anything else on new ones."""
        if _connects_alike(self._client.configuration, fresh):
            self._client.configuration.api_key = fresh.api_key
            return
        old, self._client = self._client, self._new_client(fresh)
        await old.close()  # what is under way on them fails as any broken connection does

    def _due(self, credentials: _Credentials) -> float | None:
        if credentials.good_for is None:
            return None
        return self._clock.monotonic() + max(credentials.good_for, _RENEWAL_PAUSE_SECONDS)

    def _new_client(self, configuration: Configuration) -> ApiClient:
        configuration.connection_pool_maxsize = self._pool_size
        # With trust_env aiohttp asks for proxies and ~/.netrc in two threads before every request: 0.56 ms instead of
        # 0.12 ms on loopback, and a netrc entry for the host makes it refuse our Authorization header.
        configuration.client_session_kwargs = {"trust_env": False}
        client = ApiClient(configuration)
        client.user_agent = f"muster/{extender.__version__}"
        return client


def _connects_alike(old: Configuration, new: Configuration) -> bool:
    """Tell whether `new` differs from `old` in its token at most. A client certificate may differ behind its path."""
    if new.cert_file:
        return False
    return all(getattr(old, part) == getattr(new, part) for part in _CONNECTION_PARTS)


_CONNECTION_PARTS = ("host", "ssl_ca_cert", "cert_file", "verify_ssl", "tls_server_name", "proxy")


async def _read(source: CredentialSource, clock: Clock) -> _Credentials:
    """Read credentials; raise CredentialsError naming the source."""
    configuration = Configuration()
    try:
        if isinstance(source, InCluster):
            loader = _in_cluster_loader(source)
            loader.load_and_set(configuration)
            good_for: float | None = _TOKEN_FILE_SECONDS
        else:
            async with asyncio.timeout(_PLUGIN_SECONDS):
                loader = await _config.load_kube_config(
                    config_file=os.pathsep.join(map(str, source.files)),
                    context=source.context,
                    client_configuration=configuration,
                    persist_config=False,
                )
            good_for = _good_for(loader, configuration, clock)
            configuration.proxy = configuration.proxy or _environment_proxy(configuration.host)
    # The package lets whatever its parsing meets through, TypeErrors for a missing section included.
    except (_config.ConfigException, OSError, TypeError, LookupError, ValueError, yaml.YAMLError) as error:
        raise CredentialsError(f"{source} cannot be used: {error or type(error).__name__}") from error
    # Files often end in a newline, which the package would send as part of the header.
    configuration.api_key = {name: value.strip() for name, value in configuration.api_key.items()}
    return _Credentials(configuration, good_for)


def _in_cluster_loader(source: InCluster) -> Any:  # noqa: ANN401 - the package's class has no types
    untyped: Any = incluster_config
    return untyped.InClusterConfigLoader(
        token_filename=str(source.folder / "token"),
        cert_filename=str(source.folder / "ca.crt"),
        try_refresh_token=False,  # its hook would not read the file on a 401, and restores the newline
        environ={SERVICE_HOST: source.host, SERVICE_PORT: source.port},
    )


def _good_for(loader: Any, configuration: Configuration, clock: Clock) -> float | None:  # noqa: ANN401 - no types
    """Return for how many seconds what a kubeconfig gave can be used; raise ValueError if its plugin gave nothing."""
    user = loader._user  # noqa: SLF001 - the package offers no other way to tell where the token came from
    if user is None or not ("exec" in user or "tokenFile" in user):
        return None
    if "exec" not in user:
        return _TOKEN_FILE_SECONDS
    if not configuration.api_key and not configuration.cert_file:
        raise ValueError(f"exec plugin {user['exec']['command']} gave no credential; run it by hand to see why")
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if expiry is None:
        return None
    return float((expiry - clock.now()).total_seconds()) - _EXPIRY_MARGIN_SECONDS


def _environment_proxy(url: str) -> str | None:
    """Return the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY ask for, as client-go does."""
    address = urlsplit(url)
    if proxy_bypass(address.hostname or ""):
        return None
    return getproxies().get(address.scheme)
