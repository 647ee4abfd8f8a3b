"""The master of a Spark cluster, looked at before Spark starts: Spark itself would try for a minute.

Only a standalone cluster's address says where its master listens; of others, Spark says what is wrong.
"""

from __future__ import annotations

import ipaddress
import re
import socket

# as Spark has it: several masters of one cluster, of which one is in charge
_STANDALONE = re.compile(r"spark://(?P<each>[^,/]+:\d{1,5}(?:,[^,/]+:\d{1,5})*)")
# A machine that is there answers sooner; one that is not would keep a person waiting for longer.
_ANSWERS_WITHIN_S = 5


class NoMaster(ValueError):
    """No master answers there. The text says why."""


def addresses(master: str) -> list[tuple[str, int]]:
    """Where the masters of a standalone cluster listen; none of any other master. Errors: NoMaster for no address."""
    if not master.startswith("spark://"):
        return []
    found = _STANDALONE.fullmatch(master)
    if found is None:
        raise NoMaster("an address has a host and a port")
    each = [one.rpartition(":") for one in found["each"].split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in each]


def is_loopback(master: str) -> bool:
    """True of a standalone cluster whose masters are reached by loopback alone."""
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
    """Connects to the master, and closes. Errors: NoMaster where nothing listens at any of its addresses."""
    reasons = []
    for host, port in addresses(master):
        try:
            socket.create_connection((host, port), _ANSWERS_WITHIN_S).close()
            return
        except (OSError, UnicodeError, OverflowError) as error:
            reasons.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
    if reasons:
        raise NoMaster("; ".join(reasons))
