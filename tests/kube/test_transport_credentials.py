"""Credentials: read from where they are, and read again when they run out or are refused."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from extender.clock import ManualClock
from extender.control.ports import ApiError
from extender.kube.credentials import CredentialsError, InCluster, KubeConfig
from extender.kube.transport import Transport
from tests.kube.apiscript import Answer, ApiScript, JsonObject, refuses, says
from tests.kube.certificates import make_certificate, server_context
from tests.kube.conftest import write_kubeconfig

OK = says({"kind": "Thing"})
UNAUTHORIZED: Answer = refuses(401, "Unauthorized", "Unauthorized")


def authorizations(script: ApiScript) -> list[str | None]:
    """Return the Authorization header of every request."""
    return [request.headers.get("Authorization") for request in script.requests]


class Plugin:
    """An exec credential plugin: a shell script that counts its runs."""

    def __init__(self, folder: Path) -> None:
        """Write nothing yet."""
        self._path = folder / "plugin"
        self._runs = folder / "runs"

    def gives_tokens(self, expiry: str = "") -> JsonObject:
        """Have the plugin give the token `token-N` in its run N from now on, and return the kubeconfig's user."""
        expires = f',"expirationTimestamp":"{expiry}"' if expiry else ""
        head = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
        self._write(f"""echo '{head}{{"token":"token-'$(wc -l < {self._runs})'"{expires}}}}}'""")
        return self._user()

    def fails(self) -> JsonObject:
        """Have the plugin fail from now on, and return the kubeconfig's user."""
        self._write("exit 3")
        return self._user()

    def _user(self) -> JsonObject:
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(self._path)}}

    def _write(self, does: str) -> None:
        self._path.write_text(f"#!/bin/sh\necho run >> {self._runs}\n{does}\n", encoding="utf-8")
        self._path.chmod(0o755)

    @property
    def runs(self) -> int:
        """Count how often it ran."""
        return len(self._runs.read_text(encoding="utf-8").splitlines()) if self._runs.exists() else 0


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """Give a folder for a plugin."""
    return Plugin(tmp_path)


class TestInCluster:
    """A pod's ServiceAccount."""

    @pytest.fixture
    async def script(self, tmp_path: Path) -> AsyncIterator[ApiScript]:
        """Run an API server with TLS, and write the files of a ServiceAccount."""
        certificate = make_certificate(tmp_path, "server")
        (tmp_path / "ca.crt").write_bytes(certificate.certificate.read_bytes())
        (tmp_path / "token").write_text("first\n", encoding="utf-8")
        running = ApiScript(server_context(certificate))
        await running.start()
        yield running
        await running.stop()

    @pytest.fixture
    def source(self, script: ApiScript, tmp_path: Path) -> InCluster:
        """Name the ServiceAccount's files."""
        host, _, port = script.url.removeprefix("https://").partition(":")
        return InCluster(host, port, tmp_path)

    async def test_token_arrives(self, script: ApiScript, source: InCluster, clock: ManualClock) -> None:
        """The ServiceAccount's token arrives over verified TLS, without the newline that its file ends in."""
        script.plan("/x", OK)
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
        (sent,) = authorizations(script)
        assert sent is not None
        assert sent.lower() == "bearer first"

    async def test_server_with_another_certificate_is_not_trusted(
        self, script: ApiScript, source: InCluster, clock: ManualClock, tmp_path: Path
    ) -> None:
        """A server whose certificate the CA did not sign never sees the token."""
        (tmp_path / "ca.crt").write_bytes(make_certificate(tmp_path, "other").certificate.read_bytes())
        async with await Transport.connect(source, clock) as transport:
            with pytest.raises(ApiError, match="certificate verify failed"):
                await transport.get("/x", {})
        assert script.requests == []

    async def test_rotated_token_is_used_within_a_minute(
        self, script: ApiScript, source: InCluster, clock: ManualClock, tmp_path: Path
    ) -> None:
        """The token's file is read again once a minute, so that a rotated token is used before the old one ends."""
        script.plan("/x", OK, OK, OK)
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
            (tmp_path / "token").write_text("second", encoding="utf-8")
            clock.advance(59.0)
            await transport.get("/x", {})
            clock.advance(1.0)
            await transport.get("/x", {})
        assert [sent and sent.split()[-1] for sent in authorizations(script)] == ["first", "first", "second"]

    async def test_missing_token_is_an_error(self, clock: ManualClock, tmp_path: Path) -> None:
        """Without the token's file the error names the ServiceAccount."""
        with pytest.raises(CredentialsError, match=r"the pod's ServiceAccount .* token file does not exist"):
            await Transport.connect(InCluster("127.0.0.1", "1", tmp_path / "nothing"), clock)


class TestRefusedToken:
    """What a 401 does."""

    @pytest.fixture
    def source(self, script: ApiScript, tmp_path: Path) -> KubeConfig:
        """Write a kubeconfig whose token is in a file of its own."""
        (tmp_path / "token").write_text("first\n", encoding="utf-8")
        return write_kubeconfig(tmp_path / "kubeconfig", script.url, {"tokenFile": "token"})

    async def test_request_is_repeated_with_a_fresh_token(
        self, script: ApiScript, source: KubeConfig, clock: ManualClock, tmp_path: Path
    ) -> None:
        """A write that is refused as unauthorized is sent again, once, with what the token's file says by now."""
        script.plan("/x", UNAUTHORIZED, OK)
        async with await Transport.connect(source, clock) as transport:
            (tmp_path / "token").write_text("second\n", encoding="utf-8")
            await transport.post("/x", {"a": 1})
        assert authorizations(script) == ["Bearer first", "Bearer second"]
        assert [request.body for request in script.requests] == [{"a": 1}, {"a": 1}]

    async def test_second_refusal_is_final(self, script: ApiScript, source: KubeConfig, clock: ManualClock) -> None:
        """A fresh token that is refused as well ends the request."""
        script.plan("/x", UNAUTHORIZED, UNAUTHORIZED)
        async with await Transport.connect(source, clock) as transport:
            with pytest.raises(ApiError, match="401 Unauthorized"):
                await transport.get("/x", {})
        assert len(script.requests) == 2

    async def test_credentials_are_not_read_for_every_refusal(
        self, script: ApiScript, source: KubeConfig, clock: ManualClock, tmp_path: Path
    ) -> None:
        """Within ten seconds of reading credentials another refusal does not read them again."""
        script.plan("/x", UNAUTHORIZED, UNAUTHORIZED, UNAUTHORIZED, UNAUTHORIZED, OK)
        async with await Transport.connect(source, clock) as transport:
            for seconds in (0.0, 9.0):
                clock.advance(seconds)
                with pytest.raises(ApiError):
                    await transport.get("/x", {})
            (tmp_path / "token").write_text("second", encoding="utf-8")
            clock.advance(1.0)
            await transport.get("/x", {})
        assert authorizations(script) == [*["Bearer first"] * 4, "Bearer second"]

    async def test_token_file_is_read_once_a_minute(
        self, script: ApiScript, source: KubeConfig, clock: ManualClock, tmp_path: Path
    ) -> None:
        """A kubeconfig's tokenFile is read again before anything is refused."""
        script.plan("/x", OK, OK)
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
            (tmp_path / "token").write_text("second", encoding="utf-8")
            clock.advance(60.0)
            await transport.get("/x", {})
        assert authorizations(script) == ["Bearer first", "Bearer second"]

    async def test_kubeconfig_that_becomes_unreadable_keeps_the_old_token(
        self, script: ApiScript, source: KubeConfig, clock: ManualClock
    ) -> None:
        """While a file is being replaced Muster goes on with the token that it has, and says so."""
        script.plan("/x", OK)
        async with await Transport.connect(source, clock) as transport:
            source.files[0].write_text("apiVersion: [", encoding="utf-8")
            clock.advance(60.0)
            with capture_logs() as logs:
                await transport.get("/x", {})
        assert authorizations(script) == ["Bearer first"]
        assert [entry["event"] for entry in logs] == ["credentials could not be renewed, keeping the old ones"]

    async def test_static_token_is_never_read_again_unasked(
        self, script: ApiScript, clock: ManualClock, tmp_path: Path
    ) -> None:
        """A token written in the kubeconfig itself stays until the server refuses it."""
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, {"token": "first"})
        script.plan("/x", OK, UNAUTHORIZED, OK)
        async with await Transport.connect(source, clock) as transport:
            write_kubeconfig(tmp_path / "kubeconfig", script.url, {"token": "second"})
            clock.advance(3600.0)
            await transport.get("/x", {})
            await transport.get("/x", {})
        assert authorizations(script) == ["Bearer first", "Bearer first", "Bearer second"]


class TestExecPlugin:
    """Credentials that a program gives."""

    async def test_plugin_is_run_again_before_its_credential_ends(
        self, script: ApiScript, clock: ManualClock, plugin: Plugin, tmp_path: Path
    ) -> None:
        """The plugin runs once at the start and once more a minute before the expiry that it named."""
        expiry = (clock.now() + dt.timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")
        user = plugin.gives_tokens(expiry)
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, user)
        script.plan("/x", OK, OK, OK)
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
            clock.advance(14 * 60 - 1)
            await transport.get("/x", {})
            clock.advance(1.0)
            await transport.get("/x", {})
        assert authorizations(script) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]

    async def test_credential_that_has_ended_is_not_asked_for_all_the_time(
        self, script: ApiScript, clock: ManualClock, plugin: Plugin, tmp_path: Path
    ) -> None:
        """A plugin that gives credentials of the past runs every ten seconds, not for every request."""
        user = plugin.gives_tokens("2020-01-01T00:00:00Z")
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, user)
        script.plan("/x", OK, OK, OK)
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
            await transport.get("/x", {})
            assert plugin.runs == 1
            clock.advance(10.0)
            await transport.get("/x", {})
        assert plugin.runs == 2

    async def test_plugin_without_expiry_is_run_again_on_a_refusal(
        self, script: ApiScript, clock: ManualClock, plugin: Plugin, tmp_path: Path
    ) -> None:
        """A credential without end is kept until the server refuses it; many refusals at once run the plugin once."""
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, plugin.gives_tokens())
        script.plan("/x", OK, *[UNAUTHORIZED] * 5, *[OK] * 5)
        async with await Transport.connect(source, clock) as transport:
            clock.advance(24 * 3600.0)
            await transport.get("/x", {})
            assert plugin.runs == 1
            await asyncio.gather(*(transport.get("/x", {}) for _ in range(5)))
        assert plugin.runs == 2
        assert authorizations(script) == [*["Bearer token-1"] * 6, *["Bearer token-2"] * 5]

    async def test_plugin_that_fails_at_the_start_is_an_error(
        self, script: ApiScript, clock: ManualClock, plugin: Plugin, tmp_path: Path
    ) -> None:
        """Without a credential Muster does not go on as nobody: the error names the plugin and what to do."""
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, plugin.fails())
        with pytest.raises(CredentialsError, match=r"exec plugin .*/plugin gave no credential; run it by hand"):
            await Transport.connect(source, clock)

    async def test_plugin_that_fails_later_leaves_the_old_credential(
        self, script: ApiScript, clock: ManualClock, plugin: Plugin, tmp_path: Path
    ) -> None:
        """A plugin that fails once costs nothing as long as the old credential is accepted."""
        expiry = (clock.now() + dt.timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")
        user = plugin.gives_tokens(expiry)
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, user)
        script.plan("/x", OK, OK)
        async with await Transport.connect(source, clock) as transport:
            clock.advance(14 * 60.0)
            plugin.fails()
            await transport.get("/x", {})
            plugin.gives_tokens(expiry)
            clock.advance(10.0)
            await transport.get("/x", {})
        assert authorizations(script) == ["Bearer token-1", "Bearer token-3"]


class TestKubeConfig:
    """Files that people write."""

    async def test_user_is_not_needed(self, script: ApiScript, clock: ManualClock, tmp_path: Path) -> None:
        """A kubeconfig without a user asks as nobody, as for a local proxy that adds credentials."""
        script.plan("/x", OK)
        async with await Transport.connect(
            write_kubeconfig(tmp_path / "kubeconfig", script.url, None), clock
        ) as transport:
            await transport.get("/x", {})
        assert authorizations(script) == [None]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("apiVersion: [", "while parsing a flow"),
            ("just a text", "'str' object"),
            ("{}", "Expected key"),
        ],
    )
    async def test_unusable_file_is_an_error(
        self, clock: ManualClock, tmp_path: Path, text: str, complaint: str
    ) -> None:
        """A file that is no kubeconfig is an error that names the file."""
        path = tmp_path / "kubeconfig"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CredentialsError, match=f"kubeconfig {path} cannot be used: .*{complaint}"):
            await Transport.connect(KubeConfig((path,)), clock)

    async def test_unknown_context_is_an_error(self, script: ApiScript, clock: ManualClock, tmp_path: Path) -> None:
        """A context that is not in the file is an error that names both."""
        write_kubeconfig(tmp_path / "kubeconfig", script.url, {"token": "secret"})
        with pytest.raises(
            CredentialsError, match=r"context there of kubeconfig .* cannot be used: no such context; there are \w+$"
        ):
            await Transport.connect(KubeConfig((tmp_path / "kubeconfig",), "there"), clock)

    async def test_proxy_of_the_environment_is_used(
        self, script: ApiScript, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """HTTP_PROXY is honoured, as kubectl honours it; NO_PROXY exempts."""
        script.plan("/x", OK)
        monkeypatch.setenv("http_proxy", script.url)
        monkeypatch.delenv("no_proxy", raising=False)
        source = write_kubeconfig(tmp_path / "kubeconfig", "http://cluster.invalid", {"token": "secret"})
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
        assert script.requests[0].headers["Host"] == "cluster.invalid"
        monkeypatch.setenv("no_proxy", "cluster.invalid")
        async with await Transport.connect(source, clock) as transport:
            with pytest.raises(ApiError, match="no answer"):
                await transport.get("/x", {})


class TestClientCertificates:
    """Identities that are not tokens."""

    async def test_replaced_certificate_is_used_after_a_refusal(self, clock: ManualClock, tmp_path: Path) -> None:
        """When the server refuses a client certificate, its files are read again and used on new connections."""
        server, first, second = (make_certificate(tmp_path, name) for name in ("server", "first", "second"))
        script = ApiScript(server_context(server, first, second))
        await script.start()
        user = {"client-certificate": "mine.crt", "client-key": "mine.key"}
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, user, server.certificate)
        first.certificate.rename(tmp_path / "mine.crt")
        first.key.rename(tmp_path / "mine.key")
        script.plan("/x", OK, UNAUTHORIZED, OK)
        async with await Transport.connect(source, clock) as transport:
            await transport.get("/x", {})
            second.certificate.rename(tmp_path / "mine.crt")
            second.key.rename(tmp_path / "mine.key")
            await transport.get("/x", {})
        await script.stop()
        assert [request.client for request in script.requests] == ["first", "first", "second"]
