"""Checks the master of a standalone cluster before Spark starts; Spark itself would keep trying for a minute.

Only a standalone cluster's URL names the master's host and port. For other masters, Spark itself reports errors.
"""

from __future__ import annotations

import ipaddress
import re
import socket

# As in Spark: a cluster may have several masters, of which one is active.
_STANDALONE = re.compile(r"spark://(?P<each>[^,/]+:\d{1,5}(?:,[^,/]+:\d{1,5})*)")
# A running master answers sooner; an unreachable one would keep a person waiting for longer.
_ANSWERS_WITHIN_S = 5


class NoMaster(ValueError):
    """The address is invalid, or nothing listens there. The text says why."""


def addresses(master: str) -> list[tuple[str, int]]:
    """Returns the addresses of a standalone cluster's masters; none for any other master. Errors: NoMaster."""
    if not master.startswith("spark://"):
        return []
    found = _STANDALONE.fullmatch(master)
    if found is None:
        raise NoMaster("an address has a host and a port")
    each = [one.rpartition(":") for one in found["each"].split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in each]


def is_loopback(master: str) -> bool:
    """True for a standalone cluster whose masters all have loopback addresses."""
    try:
        found = [host for host, _ in addresses(master)]
    except NoMaster:
        return False
    return bool(found) and all(_is_loopback(host) for host in found)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check(master: str) -> None:
    """Connects to a master and closes the connection. Errors: NoMaster if none of the addresses accepts one."""
    reasons = []
    for host, port in addresses(master):
        try:
            socket.create_connection((host, port), _ANSWERS_WITHIN_S).close()
            return
        except (OSError, UnicodeError, OverflowError) as error:
            reasons.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
    if reasons:
        raise NoMaster("; ".join(reasons))
