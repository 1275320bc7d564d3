"""Find free loopback ports for servers that are about to start."""

import itertools
import random
import socket
import threading
from collections.abc import Iterator

from localcluster.errors import LocalClusterError

LOOPBACK = "127.0.0.1"

#: Below Linux's ephemeral range (32768-60999), so that no outgoing connection takes a port between the search and the
#: server's bind, nor while a server that will be restarted on the same port is down.
PORT_RANGE = range(20_000, 32_000)

#: How many ports a process takes at once. A control plane with its schedulers wants about a dozen.
BLOCK = 100


class PortBlocks:
    """Give ports of a range, each once: of blocks of `size` that no other process on this machine gives ports of.

    A port is given long before its server binds it, and control planes of other processes search at the same time: that
    a port is free now says too little. A process has a block while it holds the UDP port of the block's first number,
    which the kernel gives to one process, and takes back when that ends.
    """

    def __init__(self, ports: range, size: int = BLOCK) -> None:
        """Take no block yet."""
        self._range = ports
        self._size = size
        self._held: list[socket.socket] = []
        self._given = self._ports()
        self._lock = threading.Lock()

    def take(self, count: int) -> tuple[int, ...]:
        """Return `count` ports on which nothing listens on loopback, none of them given before.

        Raises LocalClusterError if other processes have all other blocks.
        """
        with self._lock:
            taken = tuple(itertools.islice(self._given, count))
        if len(taken) < count:
            raise LocalClusterError(
                f"no {count} free ports in {self._range.start}-{self._range.stop - 1} on {LOOPBACK}: "
                "other processes have them"
            )
        return taken

    def close(self) -> None:
        """Give all blocks back; nothing that listens is touched."""
        for mark in self._held:
            mark.close()
        self._held.clear()

    def _ports(self) -> Iterator[int]:
        blocks = list(range(self._range.start, self._range.stop, self._size))
        random.shuffle(blocks)
        for first in blocks:
            if self._hold(first):
                yield from filter(_is_free, range(first, min(first + self._size, self._range.stop)))

    def _hold(self, first: int) -> bool:
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mark.bind((LOOPBACK, first))
        except OSError:
            mark.close()
            return False
        self._held.append(mark)
        return True


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        try:
            candidate.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


_OF_THIS_PROCESS = PortBlocks(PORT_RANGE)


def free_ports(count: int) -> tuple[int, ...]:
    """Return `count` ports that no other process is given while this one runs (see `PortBlocks.take`)."""
    return _OF_THIS_PROCESS.take(count)
