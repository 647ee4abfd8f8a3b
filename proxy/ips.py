"""IP addresses: one spelling for each, and those of this machine; names by which a server may be asked.

Knows the machine, never settings. Linux lists its addresses below /proc/net; elsewhere only loopback is known.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise
from pathlib import Path

Ip = IPv4Address | IPv6Address

# where one of these files says 1, a socket can be bound to another machine's address
BINDS_ANYTHING = (Path("/proc/sys/net/ipv4/ip_nonlocal_bind"), Path("/proc/sys/net/ipv6/ip_nonlocal_bind"))
# the header Host: an IPv6 address in brackets, or a name or an IPv4 address; a port
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]+)?")
_IPV4_ROUTES, _IPV6_ADDRESSES = Path("/proc/net/fib_trie"), Path("/proc/net/if_inet6")


def ip_of(host: str) -> Ip:
    """Returns a socket's IP address, without its zone. An IPv4-mapped IPv6 address becomes IPv4.

    Raises ValueError: it is a name.
    """
    address = ip_address(host.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def is_ip(host: str) -> bool:
    """False for a name."""
    try:
        ip_of(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """True if only this machine can reach an address with this host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.removesuffix(".").lower() == "localhost"


def is_own_name(host: str, names: Collection[str] = ()) -> bool:
    """True if a request's header Host has an IP address, `localhost`, or one of these names (in small letters).

    Where a name of somebody else's leads here (DNS rebinding), a browser sends that name: their pages are refused.
    """
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    bracketed, name = found.groups()
    return is_ip(bracketed or name) or name == "localhost" or name in names


def is_of_this_machine(address: Ip, local: Ip | None = None) -> bool:
    """True for an address of this machine. `local`: this end of a connection whose other end is `address`."""
    return address.is_loopback or address == local or (not _binds_anything() and _can_be_bound(address))


def of_this_machine() -> list[Ip]:
    """The addresses of all interfaces."""
    found: dict[Ip, None] = {IPv4Address("127.0.0.1"): None}
    with suppress(OSError):
        lines = [line.split() for line in _IPV4_ROUTES.read_text().splitlines()]
        for above, line in pairwise(lines):
            if line == ["/32", "host", "LOCAL"]:
                found[ip_of(above[-1])] = None
    with suppress(OSError):
        for address, *_ in map(str.split, _IPV6_ADDRESSES.read_text().splitlines()):
            found[IPv6Address(int(address, 16))] = None
    return [*found]


def _binds_anything() -> bool:
    """True if a socket can be bound to another machine's address."""
    return any(path.read_text().strip() != "0" for path in BINDS_ANYTHING if path.exists())


def _can_be_bound(address: Ip) -> bool:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((str(address), 0))
        except OSError:
            return False
    return True
