"""Who may talk to the API server: users with tokens, the key that signs ServiceAccount tokens, kubeconfig files."""

import csv
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from localcluster.errors import LocalClusterError


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
    openssl = shutil.which("openssl")
    if openssl is None:
        raise LocalClusterError(
            "`openssl` is needed for the local control plane. Install it with `apt-get install openssl`."
        )
    subprocess.run(  # noqa: S603 - the openssl found on PATH
        [openssl, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path)],
        check=True,
        capture_output=True,
    )
    path.chmod(0o600)
    return path
