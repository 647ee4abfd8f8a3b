"""Tests of dumps of TLS, which tshark decrypts by a log of keys."""

from __future__ import annotations

import random
import ssl
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from proxy.cli import main
from proxy.conversation import Direction
from recorder.capture import frames as c
from tests.recorder.capture.looks import assert_holds, event_rows, frame_rows
from tests.recorder.capture.traffic import KINDS, Chunk, Talk, cut, expected, talk
from tests.recorder.pcap.dumps import SECOND, as_packets, pcap, sent, write
from tests.recorder.pcap.imports import without_times

pytestmark = pytest.mark.real


class Wire:
    """A client and a broker that speak TLS, and the records that pass between them."""

    def __init__(self, keys: Path, most: ssl.TLSVersion) -> None:
        authority = trustme.CA()
        of_broker, of_client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.issue_cert("broker").configure_cert(of_broker)
        authority.configure_trust(of_client)
        of_client.keylog_filename, of_client.maximum_version = str(keys), most
        self.chunks: list[Chunk] = []
        self._bios = [ssl.MemoryBIO() for _ in range(4)]
        self._client = of_client.wrap_bio(self._bios[0], self._bios[1], server_hostname="broker")
        self._broker = of_broker.wrap_bio(self._bios[2], self._bios[3], server_side=True)
        self._shake_hands()

    def _shake_hands(self) -> None:
        waiting = [self._client, self._broker]
        while waiting:
            for side in [*waiting]:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                else:
                    waiting.remove(side)
                self._pass()

    def send(self, direction: Direction, data: bytes) -> None:
        sender, receiver = (self._broker, self._client) if direction else (self._client, self._broker)
        sender.write(data)
        self._pass()
        assert receiver.read(1 << 20)

    def _pass(self) -> None:
        for direction, come, go in ((Direction.REQUEST, 1, 2), (Direction.RESPONSE, 3, 0)):
            if data := self._bios[come].read():
                self.chunks.append(Chunk(direction, data, SECOND + 1000 * len(self.chunks)))
                self._bios[go].write(data)


def encrypted(keys: Path, plain: Talk, most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Talk:
    wire = Wire(keys, most)
    for chunk in plain.chunks:
        wire.send(chunk.direction, chunk.data)
    return Talk(0, plain.calls, chunks=wire.chunks)


def a_talk() -> Talk:
    return cut(random.Random(1), talk(random.Random(1), 0, 20, KINDS), 4000)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["import", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_log_of_keys_opens_tls(tmp_path: Path, most: ssl.TLSVersion) -> None:
    plain, keys = a_talk(), tmp_path / "keys"
    file = write(tmp_path / "a.pcap", pcap(as_packets(sent(encrypted(keys, plain, most)))))
    code, told = run(str(file), str(tmp_path / "capture"), "--port", "9092", "--tls-keys", str(keys))
    assert code == 0, told
    assert_holds(without_times(frame_rows(tmp_path / "capture")), without_times(expected(plain)))
    (opened,) = event_rows(tmp_path / "capture", c.EVENT_OPENED)
    assert '"tls": true' in opened[c.DETAIL]
    (closed,) = event_rows(tmp_path / "capture", c.EVENT_CLOSED)
    assert closed[c.CAUSE] == "client_closed"


def test_without_keys_it_says_that_it_is_tls(tmp_path: Path) -> None:
    file = write(tmp_path / "a.pcap", pcap(as_packets(sent(encrypted(tmp_path / "keys", a_talk())))))
    code, told = run(str(file), str(tmp_path / "capture"))
    assert code == 2
    assert "has TLS alone (1 connection); right would be --tls-keys FILE --port PORT as well" in told


def test_lost_records_are_gaps(tmp_path: Path) -> None:
    plain, keys = a_talk(), tmp_path / "keys"
    segments = sent(encrypted(keys, plain))
    del segments[len(segments) // 2]
    file = write(tmp_path / "a.pcap", pcap(as_packets(segments)))
    code, told = run(str(file), str(tmp_path / "capture"), "--port", "9092", "--tls-keys", str(keys))
    assert code == 0, told
    frames = [row["frame"] for row in expected(plain)]
    assert {row["kind"] for row in frame_rows(tmp_path / "capture")} <= {"request", "response"}
    assert 0 < len(frame_rows(tmp_path / "capture")) < len(frames)
    assert event_rows(tmp_path / "capture", c.EVENT_GAP)
    # from there on, tshark decrypts nothing more of this direction
    assert "tshark could not decrypt" in told
