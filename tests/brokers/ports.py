"""Reserves ports from the kernel until a process listens on them.

Another process may take a port that was free a moment ago. So the socket that found it stays bound, without listening:
the kernel then gives the port to no other socket, and SO_REUSEADDR (which Java and Python servers set) lets the one
process that knows the number listen on it, again and again.
"""

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

# Below Linux's range for the ports of outgoing connections (32768 and up).
RANGES_START = range(18_000, 32_000)


class Reserved:
    """A free port of `host`, reserved until `release`."""

    def __init__(self, host: str, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.host = host
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def release(self) -> None:
        self._socket.close()


def same_port(hosts: Sequence[str]) -> list[Reserved]:
    """One port that is free on every one of the hosts."""
    for _ in range(200):
        held = [Reserved(hosts[0])]
        with suppress(OSError):
            held.extend(Reserved(host, held[0].port) for host in hosts[1:])
        if len(held) == len(hosts):
            return held
        for one in held:
            one.release()
    raise RuntimeError(f"no port that is free on {', '.join(hosts)}")


def different_ports(hosts: Sequence[str]) -> list[Reserved]:
    """A port of each host, all different: Kafka refuses two listeners with one number on different hosts."""
    held: list[Reserved] = []
    spare: list[Reserved] = []
    while len(held) < len(hosts):
        found = Reserved(hosts[len(held)])
        (spare if found.port in {one.port for one in held} else held).append(found)
    for one in spare:
        one.release()
    return held


@contextmanager
def reserved_range(hosts: tuple[str, ...], count: int) -> Iterator[int]:
    """The first of `count` consecutive ports, free and reserved on every one of the hosts."""
    for _ in range(200):
        first = random.choice(RANGES_START)
        held: list[Reserved] = []
        with suppress(OSError):
            held.extend(Reserved(host, first + n) for host in hosts for n in range(count))
        try:
            if len(held) == count * len(hosts):
                yield first
                return
        finally:
            for one in held:
                one.release()
    raise RuntimeError(f"no {count} consecutive free ports on {', '.join(hosts)}")
