"""An OIDC provider on loopback that signs in whom it is told to, for tests with real readers of its tokens.

It has what OpenID Connect Core 1.0 asks of a provider for the authorization code flow: discovery, keys, the
authorization endpoint, which sends the browser back at once, and the token endpoint.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.kube.certificates import Certificate, make_certificate, server_context

#: How long its tokens are good for (seconds).
_LIFETIME = 600
_KEY_ID = "loopback"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Issuer:
    """A provider at `url`, with the certificate that its readers have to trust.

    Attributes:
        user: who signs in next, and `groups` those that the token says.
    """

    url: str
    certificate: Certificate
    audience: str
    key: Path
    user: str = ""
    groups: Sequence[str] = ()
    _nonces: dict[str, str] = field(default_factory=dict)

    def token(self, nonce: str = "") -> str:
        """Return an ID token of `user`, signed with RS256."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": self.audience,
            "sub": self.user,
            "email": self.user,
            "email_verified": True,
            "groups": list(self.groups),
            "nonce": nonce,
            "iat": now,
            "exp": now + _LIFETIME,
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{_encoded(_openssl('dgst', '-sha256', '-sign', str(self.key), given=signed.encode()))}"

    def answer(self, path: str, query: dict[str, str]) -> dict[str, object] | str | None:
        """Return the JSON of a path, where to send a browser, or None for what is not there."""
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        if path == "/keys":
            modulus = _openssl("rsa", "-in", str(self.key), "-modulus", "-noout").decode().strip().partition("=")[2]
            number = {"n": _encoded(bytes.fromhex(modulus)), "e": _encoded((65537).to_bytes(3, "big"))}
            return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID, **number}]}
        if path == "/authorize":
            code = f"code-{len(self._nonces)}"
            self._nonces[code] = query.get("nonce", "")
            return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        if path == "/token":
            token = self.token(self._nonces[query["code"]])
            return {"access_token": "unused", "token_type": "Bearer", "expires_in": _LIFETIME, "id_token": token}
        return None


@contextmanager
def oidc_issuer(folder: Path, audience: str) -> Iterator[Issuer]:
    """Run a provider whose tokens are for `audience`, over TLS on a free port."""
    certificate, key = make_certificate(folder, "issuer"), folder / "tokens.key"
    _openssl("genrsa", "-out", str(key), "2048")
    found: list[Issuer] = []

    class Handler(BaseHTTPRequestHandler):
        """Ask the issuer."""

        def do_GET(self) -> None:
            """Answer what browsers and readers of keys ask."""
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            """Answer for a code."""
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self, query: str) -> None:
            said = found[0].answer(urlsplit(self.path).path, {key: each[0] for key, each in parse_qs(query).items()})
            self.send_response(404 if said is None else 302 if isinstance(said, str) else 200)
            if isinstance(said, str):
                self.send_header("Location", said)
            body = json.dumps(said).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = server_context(certificate).wrap_socket(server.socket, server_side=True)
    found.append(Issuer(f"https://127.0.0.1:{server.server_port}", certificate, audience, key))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _openssl(*arguments: str, given: bytes = b"") -> bytes:
    openssl = shutil.which("openssl")
    assert openssl is not None, "`openssl` is needed for this test. Install it with `apt-get install openssl`."
    return subprocess.run([openssl, *arguments], check=True, capture_output=True, input=given).stdout
