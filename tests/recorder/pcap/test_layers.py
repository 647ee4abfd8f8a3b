"""Tests of headers: what is passed over, and any bytes."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Direction
from recorder.pcap.layers import LINKS, Passed, Segment, segment
from tests.recorder.pcap.dumps import ACK, ETHERNET, RAW, Sent, linked

ONE = Sent(Direction.REQUEST, 0, 5, 6, ACK, b"hello")
SIX = Sent(Direction.REQUEST, 0, 5, 6, ACK, b"hello", ("fd00::7", 40_000), ("fd00::1", 9092))


def with_extension(kind: int, extension: bytes) -> bytes:
    """A packet of IPv6 with an extension header before TCP."""
    packet = SIX.ip()
    size = struct.pack(">H", len(packet) - 40 + len(extension))
    return packet[:4] + size + bytes([kind]) + packet[7:40] + extension + packet[40:]


def test_extension_headers_are_passed() -> None:
    for kind, extension in (
        (0, bytes([6, 0]) + bytes(6)),
        (60, bytes([6, 1]) + bytes(14)),
        (51, bytes([6, 4]) + bytes(22)),
    ):
        found = segment(RAW, with_extension(kind, extension))
        assert isinstance(found, Segment)
        assert found.data == b"hello"
        assert str(found.source) == "[fd00::7]:40000"


def test_what_says_nothing_is_told_apart() -> None:
    packet = ONE.ip()
    udp = packet[:9] + b"\x11" + packet[10:]
    fragment = packet[:6] + b"\x20\x00" + packet[8:]
    assert segment(RAW, udp) is Passed.OTHER
    assert segment(RAW, fragment) is Passed.FRAGMENT
    assert segment(RAW, with_extension(44, bytes([6, 0]) + bytes(6))) is Passed.FRAGMENT
    assert segment(ETHERNET, linked(packet, ETHERNET)[:30]) is Passed.CUT
    assert segment(147, packet) is Passed.LINK
    assert segment(ETHERNET, bytes(12) + b"\x08\x06" + bytes(28)) is Passed.OTHER


def test_padding_is_no_data_and_a_cut_end_is_missing() -> None:
    framed = linked(ONE.ip(), ETHERNET)
    padded, cut = segment(ETHERNET, framed + bytes(6)), segment(ETHERNET, framed[:-2])
    assert isinstance(padded, Segment)
    assert isinstance(cut, Segment)
    assert (padded.data, padded.missing) == (b"hello", 0)
    assert (cut.data, cut.missing) == (b"hel", 2)


@given(st.sampled_from([*LINKS]), st.binary(max_size=120))
def test_any_bytes_are_a_segment_or_passed(link: int, data: bytes) -> None:
    assert isinstance(segment(link, data), Segment | Passed)


@given(st.sampled_from([ONE, SIX]), st.data())
def test_a_damaged_header_claims_no_bytes_that_are_not_there(one: Sent, data: st.DataObject) -> None:
    packet = bytearray(one.ip())
    packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    found = segment(RAW, bytes(packet))
    if isinstance(found, Segment):
        assert len(found.data) <= len(packet)
        assert 0 <= found.missing < 1 << 16
