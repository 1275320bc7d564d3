"""Serving certificates: who is let in, and what happens when the files change."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.control.metrics import Metrics
from extender.service.certificates import CertificateError, Reload, ServingCertificates, TlsFiles, expiries
from extender.settings import Settings
from tests.kube.certificates import Certificate, make_certificate
from tests.patience import HANGS
from tests.service.serving import POST, Service, served

REQUEST = POST + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello"
SETTINGS = Settings()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Certificate]:
    """Return certificates by name, each made once."""
    folder = tmp_path_factory.mktemp("made")
    done: dict[str, Certificate] = {}

    def get(name: str) -> Certificate:
        if name not in done:
            done[name] = make_certificate(folder, name)
        return done[name]

    return get


class Mounted:
    """A Secret as the kubelet mounts it: names that lead through `..data`, which is swapped in one step."""

    def __init__(self, folder: Path) -> None:
        """Mount nothing yet."""
        self._folder = folder
        self._serial = 0
        self.files = TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        for path in (self.files.certificate, self.files.key, folder / "ca.crt"):
            path.symlink_to(f"..data/{path.name}")

    def mount(self, serving: Certificate, client_ca: bytes) -> None:
        """Put a certificate, its key and the clients' authorities in place."""
        self._serial += 1
        data = self._folder / f"..{self._serial}"
        data.mkdir()
        shutil.copy(serving.certificate, data / "tls.crt")
        shutil.copy(serving.key, data / "tls.key")
        (data / "ca.crt").write_bytes(client_ca)
        link = self._folder / "..data_tmp"
        link.symlink_to(data.name)
        os.replace(link, self._folder / "..data")  # noqa: PTH105 - what the kubelet calls


@pytest.fixture
def mounted(tmp_path: Path, made: Callable[[str], Certificate]) -> Mounted:
    """Mount a certificate, and trust one client."""
    secret = Mounted(tmp_path)
    secret.mount(made("server"), made("client").certificate.read_bytes())
    return secret


def client(server: Certificate, own: Certificate | None) -> ssl.SSLContext:
    """Return TLS for a client that trusts `server`, and shows `own`."""
    context = ssl.create_default_context(cafile=server.certificate)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


async def ask(service: Service, tls: ssl.SSLContext) -> bytes:
    """Return the answer, or nothing if the handshake fails: with TLS 1.3 a client may hear of that when it reads."""
    try:
        return await service.send(REQUEST, tls=tls)
    except (ssl.SSLError, ConnectionError):
        return b""


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    """Read a metric."""
    return metrics.registry.get_sample_value(name, labels) or 0.0


class TestHandshake:
    """Who is let in."""

    async def test_only_a_client_with_a_trusted_certificate_is_answered(
        self, mounted: Mounted, made: Callable[[str], Certificate]
    ) -> None:
        """Without a certificate, with one that nobody vouches for, or without TLS there is no answer."""
        certificates = ServingCertificates(mounted.files, Metrics(), 10)
        async with served(SETTINGS, tls=certificates.context) as service:
            assert (await ask(service, client(made("server"), made("client")))).endswith(b"5 bytes")
            assert await ask(service, client(made("server"), None)) == b""
            assert await ask(service, client(made("server"), made("stranger"))) == b""
            assert b"200" not in await service.send(REQUEST)

    async def test_versions_before_1_3_are_refused(self, mounted: Mounted, made: Callable[[str], Certificate]) -> None:
        """Nothing is negotiated down."""
        certificates = ServingCertificates(mounted.files, Metrics(), 10)
        old = client(made("server"), made("client"))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        async with served(SETTINGS, tls=certificates.context) as service:
            assert await ask(service, old) == b""

    async def test_a_session_is_not_resumed(self, mounted: Mounted, made: Callable[[str], Certificate]) -> None:
        """Each connection has to show a certificate that holds now."""
        certificates = ServingCertificates(mounted.files, Metrics(), 10)
        async with served(SETTINGS, tls=certificates.context) as service:
            reader, writer = await service.connect(client(made("server"), made("client")))
            writer.write(REQUEST)
            assert (await reader.read()).endswith(b"5 bytes")
            session = writer.get_extra_info("ssl_object").session
            assert session is None or not session.has_ticket

    async def test_a_handshake_may_not_take_for_ever(self, mounted: Mounted) -> None:
        """Who connects and does not begin TLS is sent away."""
        certificates = ServingCertificates(mounted.files, Metrics(), 10)
        async with (
            served(Settings(head_timeout_seconds=0.3), tls=certificates.context) as service,
            asyncio.timeout(HANGS),
        ):
            assert await service.send() == b""

    async def test_only_allowed_names_are_answered(self, mounted: Mounted, made: Callable[[str], Certificate]) -> None:
        """A trusted certificate of another client is told 403, and why."""
        mounted.mount(made("server"), made("client").certificate.read_bytes() + made("other").certificate.read_bytes())
        certificates = ServingCertificates(mounted.files, Metrics(), 10)
        async with served(SETTINGS, tls=certificates.context, client_names=("client",)) as service:
            assert (await ask(service, client(made("server"), made("client")))).endswith(b"5 bytes")
            refused = await ask(service, client(made("server"), made("other")))
            assert refused.startswith(b"HTTP/1.1 403 ")
            assert b"client certificate of 127.0.0.1, other is not among the allowed client names" in refused
            assert service.refused("client_name") == 1


class TestReload:
    """Files that change under a running listener."""

    async def test_a_renewed_certificate_is_used_from_the_next_handshake_on(
        self, mounted: Mounted, made: Callable[[str], Certificate]
    ) -> None:
        """A connection that is open stays open, a new one sees the new certificate."""
        metrics = Metrics()
        certificates = ServingCertificates(mounted.files, metrics, 10)
        async with served(SETTINGS, tls=certificates.context) as service:
            reader, writer = await service.connect(client(made("server"), made("client")))
            assert certificates.reload() is Reload.UNCHANGED
            mounted.mount(made("renewed"), made("client").certificate.read_bytes())
            assert certificates.reload() is Reload.CERTIFICATE
            assert (await ask(service, client(made("renewed"), made("client")))).endswith(b"5 bytes")
            assert await ask(service, client(made("server"), made("client"))) == b""
            writer.write(REQUEST)
            assert (await reader.read()).endswith(b"5 bytes")
        assert sample(metrics, "muster_certificate_reloads_total", result="ok") == 1

    async def test_other_authorities_take_the_place_of_the_former(
        self, mounted: Mounted, made: Callable[[str], Certificate]
    ) -> None:
        """A client whose authority was taken away is refused; nothing is merely added."""
        certificates = ServingCertificates(mounted.files, Metrics(), 10)
        async with served(SETTINGS, tls=certificates.context) as service:
            mounted.mount(made("server"), made("other").certificate.read_bytes())
            assert certificates.reload() is Reload.TRUST
            assert (await ask(service, client(made("server"), made("other")))).endswith(b"5 bytes")
            assert await ask(service, client(made("server"), made("client"))) == b""

    @pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt", "missing"])
    async def test_broken_files_change_nothing(
        self, mounted: Mounted, made: Callable[[str], Certificate], broken: str
    ) -> None:
        """What was in use stays in use, and it is counted; when the files are sound again, they are used."""
        metrics = Metrics()
        certificates = ServingCertificates(mounted.files, metrics, 10)
        async with served(SETTINGS, tls=certificates.context) as service:
            mounted.mount(made("renewed"), made("client").certificate.read_bytes())
            path = mounted.files.certificate.parent / broken
            if broken == "missing":
                mounted.files.key.unlink()
            else:
                path.resolve().write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
            assert certificates.reload() is Reload.FAILED
            assert (await ask(service, client(made("server"), made("client")))).endswith(b"5 bytes")
            assert sample(metrics, "muster_certificate_reloads_total", result="failed") == 1
            if broken == "missing":
                mounted.files.key.symlink_to("..data/tls.key")
            mounted.mount(made("renewed"), made("client").certificate.read_bytes())
            assert certificates.reload() is Reload.CERTIFICATE
            assert (await ask(service, client(made("renewed"), made("client")))).endswith(b"5 bytes")

    def test_files_that_cannot_be_used_at_the_start_are_named(
        self, mounted: Mounted, made: Callable[[str], Certificate], tmp_path: Path
    ) -> None:
        """A missing file, a key of another certificate, an encrypted key and an empty CA file are refused."""
        files = mounted.files
        absent = tmp_path / "absent"
        encrypted = tmp_path / "encrypted.key"
        openssl = ["openssl", "pkey", "-in", str(files.key), "-aes256", "-passout", "pass:secret"]
        subprocess.run([*openssl, "-out", str(encrypted)], check=True, capture_output=True)
        empty = tmp_path / "empty"
        empty.touch()
        assert files.client_ca is not None
        cases = [
            (TlsFiles(absent, files.key, None), "absent: No such file"),
            (TlsFiles(files.certificate, made("client").key, None), "key values mismatch"),
            (TlsFiles(files.certificate, encrypted, None), "the key is encrypted"),
            (TlsFiles(files.certificate, files.key, empty), "empty"),
        ]
        for broken, words in cases:
            with pytest.raises(CertificateError, match=words):
                ServingCertificates(broken, Metrics(), 10)


class TestExpiry:
    """When certificates end."""

    def test_it_is_what_openssl_says(self, made: Callable[[str], Certificate]) -> None:
        """The same second, for every certificate in the file."""
        pem = made("server").certificate.read_bytes()
        command = ["openssl", "x509", "-noout", "-enddate", "-dateopt", "iso_8601"]
        told = subprocess.run(command, input=pem, check=True, capture_output=True).stdout.decode()
        expected = dt.datetime.fromisoformat(told.strip().partition("=")[2])
        assert expiries(pem) == [expected]
        assert expiries(b"# a chain\n" + pem + pem) == [expected, expected]

    def test_a_year_beyond_2049_is_written_differently(self, tmp_path: Path) -> None:
        """From 2050 on notAfter is a GeneralizedTime."""
        path = tmp_path / "far.crt"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", "20000", "-subj", "/CN=far", "-keyout", str(tmp_path / "far.key"), "-out", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        (end,) = expiries(path.read_bytes())
        assert end.year > 2070

    def test_metrics_tell_both(self, mounted: Mounted, made: Callable[[str], Certificate]) -> None:
        """The serving certificate, and the authority that ends first."""
        metrics = Metrics()
        ServingCertificates(mounted.files, metrics, 10)
        for label, name in (("serving", "server"), ("client_ca", "client")):
            (end,) = expiries(made(name).certificate.read_bytes())
            assert sample(metrics, "muster_certificate_expiry_seconds", certificate=label) == end.timestamp()

    @pytest.mark.parametrize("cut", [3, 40, 200])
    def test_a_damaged_certificate_is_an_error(self, made: Callable[[str], Certificate], cut: int) -> None:
        """Whatever is missing, nothing but CertificateError comes of it."""
        der = ssl.PEM_cert_to_DER_cert(made("server").certificate.read_text())
        with pytest.raises(CertificateError):
            expiries(ssl.DER_cert_to_PEM_cert(der[:cut]).encode())

    def test_no_certificate_at_all_is_an_error(self) -> None:
        """An empty file, or a key in the certificate's place."""
        with pytest.raises(CertificateError, match="no certificate"):
            expiries(b"-----BEGIN PRIVATE KEY-----")
