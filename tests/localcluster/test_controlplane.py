"""Looking whether a server of the control plane is ready."""

from pathlib import Path

from localcluster.controlplane import probe
from localcluster.credentials import Connection
from localcluster.ports import free_ports


def test_server_whose_certificate_is_not_written_yet_is_not_ready(tmp_path: Path) -> None:
    """A certificate file that is empty, as it is for a moment while the server writes it, means: ask again."""
    certificate = tmp_path / "server.crt"
    certificate.touch()
    (port,) = free_ports(1)
    assert not probe(f"https://127.0.0.1:{port}/readyz", Connection(f"https://127.0.0.1:{port}", certificate, "token"))
