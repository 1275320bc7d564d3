"""A pod network that is not there: the API server's way to pods and kubelets, led to servers on loopback.

The API server refuses to proxy to loopback addresses. So pods and nodes get addresses of a documentation network
(RFC 5737), and an egress selector has the API server ask here for every connection to them, by HTTP CONNECT.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcluster.ports import LOOPBACK

_CHUNK_BYTES = 65_536
#: How long a CONNECT request may take to arrive (seconds).
_HEAD_SECONDS = 10.0


@dataclass
class PodNetwork:
    """Listen on the Unix socket `path`, and join connections to `ports`: address and port -> a port on loopback."""

    path: Path
    ports: Mapping[str, int]
    asked: list[str] = field(default_factory=list)

    @property
    def selection(self) -> dict[str, Any]:
        """Return the API server's EgressSelectorConfiguration."""
        transport = {"uds": {"udsName": str(self.path)}}
        connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
        return {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Accept connections while the context lasts."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.path))
            listener.listen()
            accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            accepting.start()
            yield
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is shut down
            while True:
                caller, _ = listener.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError):
            caller.settimeout(_HEAD_SECONDS)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += caller.recv(1) or b"\r\n\r\n"
            address = head.split()[1].decode()
            self.asked.append(address)
            try:
                pod = socket.create_connection((LOOPBACK, self.ports.get(address, 0)))
            except OSError:
                caller.sendall(b"HTTP/1.1 503 Connection refused\r\n\r\n")
                return
            caller.settimeout(None)
            with pod:
                caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_pour, args=(pod, caller), daemon=True)
                back.start()
                _pour(caller, pod)
                back.join()


def _pour(source: socket.socket, sink: socket.socket) -> None:
    """Copy bytes until one side ends, then end the other."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
