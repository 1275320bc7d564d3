"""Who may talk to the API server: users with tokens, the key that signs ServiceAccount tokens, kubeconfig files."""

import csv
import datetime as dt
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from localcluster.errors import LocalClusterError

#: For how long a server's certificate is good before it is made, and after. A cluster is older than its machines: one
#: whose clock is hours behind knows its API server. kube-apiserver's own self-signed one begins an hour before.
_VALIDITY = dt.timedelta(days=1), dt.timedelta(days=30)
#: `openssl req` cannot say when a certificate begins before OpenSSL 3.4; `openssl ca` can, and asks for a list of those
#: that it has made.
_AUTHORITY = """\
[ca]
default_ca = here
[here]
database = {index}
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
basicConstraints = critical, CA:TRUE
extendedKeyUsage = serverAuth
subjectAltName = IP:{address}
subjectKeyIdentifier = hash
"""


@dataclass(frozen=True, slots=True)
class User:
    """A user of the API server, known by a static bearer token."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """How one identity reaches the API server: what a kubeconfig says, as a value."""

    url: str
    certificate_authority: Path
    token: str = field(repr=False)

    def write_kubeconfig(self, path: Path) -> Path:
        """Write this connection as a kubeconfig file that only its owner may read, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "local",
                    "cluster": {"server": self.url, "certificate-authority": str(self.certificate_authority)},
                }
            ],
            "users": [{"name": "user", "user": {"token": self.token}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "user"}}],
            "current-context": "local",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return path


def write_token_file(users: Sequence[User], path: Path) -> Path:
    """Write the file for kube-apiserver's `--token-auth-file`: token, name, uid, quoted groups."""
    path.touch(mode=0o600)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        for user in users:
            writer.writerow([user.token, user.name, user.name, ",".join(user.groups)])
    return path


def write_service_account_key(path: Path) -> Path:
    """Make the private key with which the API server signs and checks ServiceAccount tokens.

    ECDSA P-256 in SEC 1 form: kube-apiserver takes the public half from the same file, which it cannot from PKCS 8.
    """
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))
    path.chmod(0o600)
    return path


def write_server_certificate(certificate: Path, key: Path, address: str) -> None:
    """Make a self-signed certificate, and its key, for a server on an IP address."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, index, request = folder / "config", folder / "index", folder / "request"
        index.touch()
        config.write_text(_AUTHORITY.format(index=index, address=address), encoding="utf-8")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _openssl("req", "-new", *curve, "-subj", f"/CN={address}", "-keyout", str(key), "-out", str(request))
        now = dt.datetime.now(dt.UTC)
        before, after = _VALIDITY
        begins, ends = (f"{moment:%Y%m%d%H%M%SZ}" for moment in (now - before, now + after))
        _openssl(
            *("ca", "-selfsign", "-batch", "-notext", "-config", str(config), "-in", str(request)),
            *("-keyfile", str(key), "-out", str(certificate), "-outdir", name, "-startdate", begins, "-enddate", ends),
        )
    key.chmod(0o600)


def _openssl(*arguments: str) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise LocalClusterError(
            "`openssl` is needed for the local control plane. Install it with `apt-get install openssl`."
        )
    subprocess.run([openssl, *arguments], check=True, capture_output=True)  # noqa: S603 - the openssl found on PATH
