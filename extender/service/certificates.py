"""The serving certificate and the authorities of its clients, read from files that may be replaced at any time.

cert-manager and the kubelet rotate certificates by swapping a symbolic link; the process is not notified. So the files
are read again now and then, and what they hold is used from the next handshake on.
"""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

import structlog

from extender.control.metrics import Metrics

log = structlog.get_logger("muster.tls")

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
#: DER tags. Source: X.690, section 8.
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


class CertificateError(ValueError):
    """Certificate files that cannot be used; the message names the file and why."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the PEM files are: the serving certificate with its chain, its key, and whom to believe about clients."""

    certificate: Path
    key: Path
    client_ca: Path | None

    def check(self) -> None:
        """Raise CertificateError if they cannot be used now."""
        _server_context(self)
        _expiries(_read(self))


class Reload(Enum):
    """What reading the files again has brought."""

    UNCHANGED = auto()
    FAILED = auto()
    CERTIFICATE = auto()
    TRUST = auto()  # clients are now vouched for by other authorities


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the files held; compared, so that a renewed file counts even with its old modification time."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


class ServingCertificates:
    """Keep an SSLContext up to date with its files.

    A file that is missing, broken or does not fit its key changes nothing: what was in use stays in use.
    """

    def __init__(self, files: TlsFiles, metrics: Metrics, check_seconds: float) -> None:
        """Read the files for the first time; raise CertificateError if they cannot be used.

        Args:
            files: where they are.
            metrics: where it is told when they end, and how often they were read again.
            check_seconds: how often to call `reload`.
        """
        self.check_seconds = check_seconds
        self._files = files
        self._metrics = metrics
        self._contents, self._current = self._load()
        # asyncio keeps the context that a listener was started with; this one hands over to the current one in time to
        # choose the certificate, the authorities, and what the client is told about them.
        self.context = _server_context(files)
        self.context.sni_callback = self._hand_over
        self._publish()

    def reload(self) -> Reload:
        """Read the files again, and use what they hold if it is new and sound."""
        try:
            if _read(self._files) == self._contents:
                return Reload.UNCHANGED
            contents, context = self._load()
        except CertificateError as error:
            self._metrics.certificate_reloads.labels("failed").inc()
            log.error("certificates cannot be used; keeping the ones before", error=str(error))  # noqa: TRY400 - it says why
            return Reload.FAILED
        trust_changed = contents.client_ca != self._contents.client_ca
        self._contents, self._current = contents, context
        self._metrics.certificate_reloads.labels("ok").inc()
        self._publish()
        log.info("certificates read again", certificate=str(self._files.certificate), trust_changed=trust_changed)
        return Reload.TRUST if trust_changed else Reload.CERTIFICATE

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _load(self) -> tuple[_Contents, ssl.SSLContext]:
        """Return what the files hold and a context made of it; a swap between two reads counts as what came last."""
        contents = _read(self._files)
        while True:
            try:
                context = _server_context(self._files)
                _expiries(contents)
            except CertificateError:
                if (now := _read(self._files)) == contents:
                    raise
            else:
                if (now := _read(self._files)) == contents:
                    return contents, context
            contents = now

    def _publish(self) -> None:
        for name, expiry in _expiries(self._contents).items():
            self._metrics.certificate_expiry.labels(name).set(expiry.timestamp())


def _read(files: TlsFiles) -> _Contents:
    try:
        client_ca = None if files.client_ca is None else files.client_ca.read_bytes()
        return _Contents(files.certificate.read_bytes(), files.key.read_bytes(), client_ca)
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from error


def _expiries(contents: _Contents) -> dict[str, dt.datetime]:
    """Return when the serving certificate ends, and the first of the clients' authorities."""
    ends = {"serving": expiries(contents.certificate)[0]}
    if contents.client_ca is not None:
        ends["client_ca"] = min(expiries(contents.client_ca))
    return ends


def _server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return TLS 1.3 for a server; with a client CA it requires a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Who calls is Go's HTTP client, which speaks 1.3 since 2019: no cipher suites to choose, no compression and no
    # renegotiation to forbid.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Who resumes a session is not asked for its certificate again: each connection must show one that holds now.
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, password=_refuse_passphrase)
    except (OSError, ValueError) as error:
        raise CertificateError(f"{files.certificate} and {files.key}: {_words(error)}") from error
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files.client_ca)
        except OSError as error:
            raise CertificateError(f"{files.client_ca}: {_words(error)}") from error
    return context


def _refuse_passphrase() -> str:
    """Keep OpenSSL from asking for a passphrase on the terminal, and waiting there."""
    raise ValueError("the key is encrypted; give one without passphrase, readable by this user alone")


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if isinstance(reason, str) else str(error)


def expiries(pem: bytes) -> list[dt.datetime]:
    """Return when each certificate in `pem` ends, in UTC.

    Raises CertificateError if there is none, or one that cannot be read. Only `notAfter` is read (RFC 5280, section
    4.1): the standard library decodes certificates of peers alone.
    """
    blocks = [block.partition(_END)[0] for block in pem.decode("ascii", "replace").split(_BEGIN)[1:]]
    try:
        ends = [_not_after(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{block}{_END}")) for block in blocks]
    except (ValueError, IndexError) as error:
        raise CertificateError(f"a certificate cannot be read: {error}") from error
    if not ends:
        raise CertificateError(f"no certificate: nothing begins with {_BEGIN}")
    return ends


def _not_after(der: bytes) -> dt.datetime:
    certificate, _ = _element(der, _SEQUENCE)
    rest, _ = _element(certificate, _SEQUENCE)
    if rest[0] == _VERSION:
        _, rest = _element(rest)
    for _field in ("serialNumber", "signature", "issuer"):
        _, rest = _element(rest)
    validity, _ = _element(rest, _SEQUENCE)
    _, until = _element(validity)
    text, _ = _element(until)
    # A UTCTime has two digits for the year: 50 to 99 are of the last century (RFC 5280, section 4.1.2.5.1).
    digits = text.decode("ascii")
    if until[0] == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    elif until[0] != _GENERALIZED_TIME:
        raise ValueError(f"notAfter is no time (tag {until[0]:#x})")
    return dt.datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)


def _element(der: bytes, tag: int | None = None) -> tuple[bytes, bytes]:
    """Split the first element off: return its contents, and what follows it."""
    if tag is not None and der[0] != tag:
        raise ValueError(f"tag {der[0]:#x} where {tag:#x} was expected")
    length, start = der[1], 2
    if length & 0x80:  # the long form: the low bits say how many bytes the length takes
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    end = start + length
    if end > len(der):
        raise ValueError(f"an element of {length} bytes ends after the certificate")
    return der[start:end], der[end:]
