"""Tokens, keys and kubeconfig files."""

import csv
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from localcluster.credentials import (
    Connection,
    User,
    write_server_certificate,
    write_service_account_key,
    write_token_file,
)
from localcluster.errors import LocalClusterError


def mode(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_kubeconfig_says_how_to_connect(tmp_path: Path) -> None:
    """The current context leads to server, certificate authority and token; only the owner may read it."""
    path = Connection("https://127.0.0.1:6443", tmp_path / "ca.crt", "secret").write_kubeconfig(tmp_path / "config")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert config["current-context"] == config["contexts"][0]["name"]
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority": str(tmp_path / "ca.crt"),
    }
    assert config["users"][0]["user"] == {"token": "secret"}
    assert mode(path) == 0o600


def test_kubeconfig_is_replaced(tmp_path: Path) -> None:
    """Written again, the file holds the new token alone."""
    for token in ("first-and-longer", "second"):
        Connection("https://127.0.0.1:6443", tmp_path / "ca.crt", token).write_kubeconfig(tmp_path / "config")
    config = yaml.safe_load((tmp_path / "config").read_text(encoding="utf-8"))
    assert config["users"][0]["user"] == {"token": "second"}


def test_token_file_lists_users_with_their_groups(tmp_path: Path) -> None:
    """One line per user: token, name, uid, and all groups in one quoted field."""
    users = [User("admin", ("system:masters", "ops"), "t1"), User("system:kube-scheduler", (), "t2")]
    path = write_token_file(users, tmp_path / "tokens.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["t1", "admin", "admin", "system:masters,ops"],
        ["t2", "system:kube-scheduler", "system:kube-scheduler", ""],
    ]
    assert mode(path) == 0o600


def test_tokens_are_different_and_not_shown() -> None:
    """Every user gets a token of its own, which its representation keeps to itself."""
    first, second = User("a"), User("a")
    assert first.token != second.token
    assert first.token not in repr(first)


def test_service_account_key_is_in_the_form_that_kube_apiserver_reads(tmp_path: Path) -> None:
    """An EC private key in SEC 1 form, readable by its owner alone."""
    path = write_service_account_key(tmp_path / "sa.key")
    assert path.read_text(encoding="ascii").startswith("-----BEGIN EC PRIVATE KEY-----")
    assert mode(path) == 0o600


def test_server_certificate_is_known_to_clients_whose_clock_is_hours_behind(tmp_path: Path) -> None:
    """It is good for the address, from a day ago on."""
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    write_server_certificate(certificate, key, "127.0.0.1")
    assert mode(key) == 0o600
    command = ["openssl", "verify", "-CAfile", str(certificate), "-verify_ip", "127.0.0.1", "-purpose", "sslserver"]
    for hours, good in ((0, True), (-23, True), (-25, False)):
        at = ("-attime", str(int(certificate.stat().st_mtime) + hours * 3600))
        done = subprocess.run([*command, *at, str(certificate)], check=False, capture_output=True, text=True)
        assert (done.returncode == 0) is good, done.stderr


def test_missing_openssl_names_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without openssl the error says what to run."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalClusterError, match="apt-get install openssl"):
        write_service_account_key(tmp_path / "sa.key")
