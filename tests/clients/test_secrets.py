"""Tests of secrets planted in all requests that may carry one, and quoted by a real broker: none is recorded."""

import socket
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import (
    ALTER_CONFIGS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_DELEGATION_TOKEN,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    RENEW_DELEGATION_TOKEN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import Proxied, compact

pytestmark = pytest.mark.real

BROKER, LOGGER, CLIENT_METRICS, GROUP = 4, 8, 16, 32
# no four bytes of it occur by chance
SECRET = "Zq~7^vKx9!Wj4Yq=8&Hb|Pm5"
PIECE = 4
# the client id of the test's last request
LAST = b"the-last-of-all"


class Client:
    """A connection that sends frames written here, and reads the responses."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.stream = self.sock.makefile("rb")
        self.heard = b""

    def close(self) -> None:
        self.stream.close()
        self.sock.close()

    def ask(self, key: int, version: int, client_id: str = "asks", **values: Any) -> dict[str, Any]:
        self.sock.sendall(framed(catalog.encode_request(key, version, 7, client_id, values)))
        frame = self.read()
        decoded = catalog.decode_response(frame, key, version)
        assert isinstance(decoded, tuple)
        return decoded[1]

    def read(self) -> bytes:
        (size,) = struct.unpack(">i", self.stream.read(4))
        frame = self.stream.read(size)
        self.heard += frame
        return frame

    def log_in(self, password: str) -> dict[str, Any]:
        self.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        return self.ask(SASL_AUTHENTICATE, 2, auth_bytes=b"\0" + USER.encode() + b"\0" + password.encode())

    def change(self, key: int, version: int, resource: int, called: str, name: str) -> dict[str, Any]:
        configs = [{"name": name, "value": SECRET}]
        asked = {"resource_type": resource, "resource_name": called, "configs": configs}
        (told,) = self.ask(key, version, resources=[asked])["responses"]
        found: dict[str, Any] = told
        return found


def settings_are_refused(client: Client) -> None:
    """A broker refuses settings and quotes the wrong value."""
    quoting = [
        client.change(INCREMENTAL_ALTER_CONFIGS, 1, CLIENT_METRICS, "metrics", "interval.ms"),
        client.change(INCREMENTAL_ALTER_CONFIGS, 0, GROUP, "group", "consumer.session.timeout.ms"),
        client.change(ALTER_CONFIGS, 2, GROUP, "group", "consumer.heartbeat.interval.ms"),
        client.change(ALTER_CONFIGS, 1, BROKER, "1", "listener.name.direct.max.connections"),
    ]
    assert [SECRET in (told["error_message"] or "") for told in quoting] == [True] * len(quoting), quoting
    client.change(INCREMENTAL_ALTER_CONFIGS, 1, BROKER, "1", "listener.name.direct.ssl.truststore.certificates")
    client.change(INCREMENTAL_ALTER_CONFIGS, 1, LOGGER, "1", "org.apache.kafka")
    configs = [{"name": name, "value": SECRET} for name in ("a.vendors.password", "min.insync.replicas.of.a.vendor")]
    topic = {"name": "planted", "num_partitions": 1, "replication_factor": 1, "configs": configs}
    for version in (2, 4, 5, 7):
        client.ask(CREATE_TOPICS, version, topics=[topic], timeout_ms=1000)
    client.ask(DESCRIBE_CONFIGS, 4, resources=[{"resource_type": BROKER, "resource_name": "1"}], include_synonyms=True)


def users_and_tokens_are_made(client: Client) -> list[bytes]:
    """The broker's responses hold the secrets."""
    salted = {"name": "bob", "mechanism": 1, "salt": SECRET.encode(), "salted_password": SECRET.encode()}
    for iterations in (4096, 1):
        client.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, upsertions=[salted | {"iterations": iterations}])
    client.ask(RENEW_DELEGATION_TOKEN, 2, hmac=SECRET.encode(), renew_period_ms=1000)
    token = client.ask(CREATE_DELEGATION_TOKEN, 3, max_lifetime_ms=-1)
    assert token["hmac"], token
    client.ask(DESCRIBE_DELEGATION_TOKEN, 3, owners=None)
    client.ask(RENEW_DELEGATION_TOKEN, 2, hmac=token["hmac"], renew_period_ms=1000)
    client.ask(EXPIRE_DELEGATION_TOKEN, 2, hmac=token["hmac"], expiry_time_period_ms=-1)
    return [token["hmac"], token["token_id"].encode()]


def frames_lie_and_break_off(bootstrap: str) -> None:
    """Nobody can tell what follows, so the broker or the client ends the connection."""
    whole = framed(catalog.encode_request(SASL_AUTHENTICATE, 2, 1, "c", {"auth_bytes": b"\0alice\0" + SECRET.encode()}))
    nul = whole.index(b"\0" + SECRET.encode()) - 4
    lies = [size.to_bytes(4, "big") + whole[4:] for size in (nul, nul + 1, nul + 8, 1 << 20)]
    bare = (
        framed(catalog.encode_request(SASL_HANDSHAKE, 0, 1, "c", {"mechanism": "PLAIN"})),
        b"\0alice\0" + SECRET.encode(),
    )
    for sent in (*lies, whole[:-9], SECRET.encode(), b"GET /" + SECRET.encode(), bare[0] + framed(bare[1])[:-5]):
        client = Client(bootstrap)
        client.sock.sendall(sent)
        client.sock.shutdown(socket.SHUT_WR)
        while client.sock.recv(1 << 16):
            pass
        client.close()


def spooled(capture: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(capture.glob("_spool/*/*")) if path.is_file())


def columns(capture: Path) -> bytes:
    """Returns every value of the Parquet files, decompressed; and the files as they are."""
    found = []
    for path in sorted(capture.rglob("*.parquet")):
        values = [value for row in pq.ParquetFile(path).read().to_pylist() for value in row.values()]
        found += [path.read_bytes(), *(one if isinstance(one, bytes) else str(one).encode() for one in values)]
    return b"\n".join(found)


def test_no_four_bytes_of_a_planted_or_quoted_secret_are_recorded(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    with Proxied(kafka_one, tmp_path, login=True) as proxy:
        stranger, client = Client(proxy.bootstrap), Client(proxy.bootstrap)
        assert stranger.log_in(SECRET)["error_code"]
        stranger.close()
        assert client.log_in(PASSWORD)["error_code"] == 0
        settings_are_refused(client)
        made = users_and_tokens_are_made(client)
        frames_lie_and_break_off(proxy.bootstrap)
        client.ask(HEARTBEAT, 4, client_id=LAST.decode(), group_id="g", generation_id=1, member_id="m")
        wait_for(lambda: LAST in spooled(proxy.capture), "the last request to be in the log")
        log = spooled(proxy.capture)
        client.close()
        assert proxy.stop() == 0
        compact(proxy.capture)
    assert SECRET.encode() in client.heard
    kept = columns(proxy.capture)
    assert LAST in kept
    pieces = {SECRET.encode()[at : at + PIECE] for at in range(len(SECRET) - PIECE + 1)}
    for what in (*pieces, PASSWORD.encode(), *made):
        assert what not in log, what
        assert what not in kept, what
