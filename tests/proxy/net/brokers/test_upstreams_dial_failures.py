import errno
import socket

import pytest
import trio

from proxy.metrics.nodes import DialFailure
from proxy.net.brokers.upstreams import dial_failure
from proxy.net.sockets.streams import LeadsBack, PeerLost, dial
from proxy.net.sockets.tls import NoHandshake
from proxy.schema.addresses import Address
from tests.tables import each_row

ADDRESS = Address("127.0.0.1", 9092)


async def failure(monkeypatch, error: Exception) -> DialFailure:
    """Dials while connecting fails as trio says it."""

    async def fail(host: str, port: int) -> None:
        raise error

    monkeypatch.setattr(trio, "open_tcp_stream", fail)
    with pytest.raises(PeerLost) as caught:
        await dial(ADDRESS, 1)
    return dial_failure(caught.value)


def of_all_addresses(number: int) -> OSError:
    """Returns what trio raises if a host's addresses all fail."""
    error = OSError("all attempts to connect failed")
    error.__cause__ = ExceptionGroup("attempts", [OSError(errno.ENETUNREACH, "no"), OSError(number, "no")])
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (of_all_addresses(errno.ECONNREFUSED), DialFailure.REFUSED),
        (of_all_addresses(errno.EHOSTUNREACH), DialFailure.UNREACHABLE),
        (OSError(errno.ETIMEDOUT, "no"), DialFailure.TIMEOUT),
        (trio.TooSlowError(), DialFailure.TIMEOUT),
        (socket.gaierror(socket.EAI_NONAME, "no such name"), DialFailure.UNRESOLVED),
        (OSError(errno.EMFILE, "too many files"), DialFailure.OTHER),
        (ValueError("no port"), DialFailure.OTHER),
    ],
    ids=str,
)
async def test_a_dials_failure_has_a_cause(monkeypatch, error, cause):
    assert await failure(monkeypatch, error) is cause


async def test_a_port_on_which_nothing_listens_refuses():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with pytest.raises(PeerLost) as caught:
            await dial(Address("127.0.0.1", sock.getsockname()[1]), 5)
    assert dial_failure(caught.value) is DialFailure.REFUSED


@each_row(
    ("lost", "cause"),
    [(LeadsBack(ADDRESS), DialFailure.LEADS_BACK), (NoHandshake("no TLS"), DialFailure.TLS)],
)
def test_loops_and_handshakes_are_causes_too(lost, cause):
    assert dial_failure(lost) is cause
