"""Tests of a client that leaves within a request: the bytes so far are passed on and recorded, and nothing waits."""

import socket
import struct
from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.checks import captured_connections
from tests.clients.harness import proxied
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

ANNOUNCED, SENT = 20_000_000, 5_000_000
# length, Produce 9, correlation id, no client id, tags; no transactional id, acks=all, timeout
BEGINNING = struct.pack(">ihhihB", ANNOUNCED, 0, 9, 1, -1, 0) + struct.pack(">Bhi", 0, -1, 1000)
# a close then sends a reset instead of an end of stream
RESET = struct.pack("ii", 1, 0)


@pytest.mark.parametrize("reset", mostly_long([False, True], usual=1))
def test_half_a_request_is_kept_as_far_as_it_came(kafka_one: KafkaCluster, tmp_path: Path, reset: bool) -> None:
    with proxied(kafka_one, tmp_path) as proxy, socket.create_connection((proxy.advertise, proxy.port)) as client:
        client.sendall(BEGINNING + bytes(SENT - len(BEGINNING)))
        wait_for(lambda: _size(proxy.folder / "brokers") == SENT, "the broker's side to have it all")
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    ((row,),) = captured_connections(proxy.capture).values()
    assert row["size"] == SENT - 4
    assert row["note"].startswith("cut")


def _size(tapped: Path) -> int:
    """Returns the largest number of bytes that a connection sent; the proxy's own query is small."""
    return max((file.stat().st_size for file in tapped.glob("*.requests")), default=0)
