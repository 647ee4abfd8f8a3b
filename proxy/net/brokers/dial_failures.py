"""Why a broker could not be dialled, for the metrics."""

from __future__ import annotations

import errno
import socket

import trio

from proxy.metrics.nodes import DialFailure
from proxy.net.sockets.streams import VANISHED, LeadsBack, PeerLost, root_of
from proxy.net.sockets.tls import NoHandshake

_OF_ERRNO = {errno.ECONNREFUSED: DialFailure.REFUSED, errno.ETIMEDOUT: DialFailure.TIMEOUT}


def dial_failure(lost: PeerLost) -> DialFailure:
    """Returns the cause of a dial's failure."""
    if isinstance(lost, LeadsBack):
        return DialFailure.LEADS_BACK
    if isinstance(lost, NoHandshake):
        return DialFailure.TLS
    if isinstance(lost.__cause__, trio.TooSlowError):
        return DialFailure.TIMEOUT
    root = root_of(lost.__cause__ or lost)
    if isinstance(root, socket.gaierror):
        # its number is no errno
        return DialFailure.UNRESOLVED
    number = root.errno if isinstance(root, OSError) else None
    if number in _OF_ERRNO:
        return _OF_ERRNO[number]
    return DialFailure.UNREACHABLE if number in VANISHED else DialFailure.OTHER
