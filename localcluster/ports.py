"""Find free loopback ports for servers that are about to start."""

import secrets
import socket

from localcluster.errors import LocalClusterError

LOOPBACK = "127.0.0.1"

#: Below Linux's ephemeral range (32768-60999), so that no outgoing connection takes a port between the search and the
#: server's bind, nor while a server that will be restarted on the same port is down.
PORT_RANGE = range(20_000, 32_000)

_ATTEMPTS = 200


def free_ports(count: int) -> tuple[int, ...]:
    """Return `count` different ports on which nothing listens on loopback.

    Raises LocalClusterError if almost every port of PORT_RANGE is taken.
    """
    held: list[socket.socket] = []
    try:
        for _ in range(_ATTEMPTS):
            if len(held) == count:
                break
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                candidate.bind((LOOPBACK, secrets.choice(PORT_RANGE)))
            except OSError:
                candidate.close()
            else:
                held.append(candidate)
        if len(held) < count:
            raise LocalClusterError(f"no {count} free ports in {PORT_RANGE.start}-{PORT_RANGE.stop - 1} on {LOOPBACK}")
        return tuple(bound.getsockname()[1] for bound in held)
    finally:
        for bound in held:
            bound.close()
