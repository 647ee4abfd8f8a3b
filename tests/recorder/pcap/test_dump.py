"""Tests of the reader of dumps: both formats, all byte orders and resolutions; and any bytes."""

from __future__ import annotations

import random
import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.pcap.dump import Packet, UnreadableDump, packets
from tests.recorder.capture.traffic import cut, talk
from tests.recorder.pcap.dumps import ETHERNET, RAW, SECOND, as_packets, linked, pcap, pcapng, sent, write
from tests.sweeps import examples

SEGMENTS = sent(cut(random.Random(1), talk(random.Random(1), 0, 12), 3000, start_ns=1_795_980_000_123_456_789))
PACKETS = as_packets(SEGMENTS)
WHOLE = [Packet(at_ns, ETHERNET, data) for at_ns, data, _ in PACKETS]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("unit_ns", [1, 1000])
def test_pcap_has_exact_times_in_each_byte_order(tmp_path: Path, order: str, unit_ns: int) -> None:
    file = write(tmp_path / "a.pcap", pcap(PACKETS, order=order, unit_ns=unit_ns))
    assert [*packets(file)] == [one._replace(at_ns=one.at_ns // unit_ns * unit_ns) for one in WHOLE]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("resolution", "unit"), [(9, 10**9), (6, 10**6), (3, 10**3), (0x80 | 20, 2**20)])
def test_pcapng_has_exact_times_of_each_resolution(tmp_path: Path, order: str, resolution: int, unit: int) -> None:
    file = write(tmp_path / "a.pcapng", pcapng(PACKETS, [(ETHERNET, resolution)], order))
    units = [one.at_ns * unit // SECOND for one in WHOLE]
    assert [*packets(file)] == [
        one._replace(at_ns=count * SECOND // unit) for one, count in zip(WHOLE, units, strict=True)
    ]


def test_pcapng_may_have_interfaces_of_several_kinds(tmp_path: Path) -> None:
    links = [(ETHERNET, 9), (RAW, 6)]
    mixed = [
        (one.at_ns // 1000 * 1000, linked(one.ip(), links[number % 2][0]), 0) for number, one in enumerate(SEGMENTS)
    ]
    read = [*packets(write(tmp_path / "a.pcapng", pcapng(mixed, links)))]
    assert read == [Packet(at, links[number % 2][0], data) for number, (at, data, _) in enumerate(mixed)]


def test_sections_may_follow_each_other(tmp_path: Path) -> None:
    both = pcapng(PACKETS[:3], order="<") + pcapng(PACKETS[3:], order=">")
    assert [*packets(write(tmp_path / "a.pcapng", both))] == WHOLE


@pytest.mark.real
@pytest.mark.parametrize("content", [pcap(PACKETS), pcapng(PACKETS)], ids=["pcap", "pcapng"])
def test_tshark_reads_what_these_tests_write(tmp_path: Path, content: bytes) -> None:
    file = write(tmp_path / "a", content)
    command = ["tshark", "-n", "-r", str(file), "-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.payload"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = [f"{one.at_ns // SECOND}.{one.at_ns % SECOND:09}\t{one.data.hex()}" for one in SEGMENTS]
    assert told == wanted


def read_all(file: Path) -> str | None:
    """Reads a file to its end. Returns what is wrong with it."""
    try:
        for _ in packets(file):
            pass
    except UnreadableDump as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is no packet dump"),
        (b"\x7fELF", "is no packet dump"),
        (pcap(PACKETS)[:10], "is cut within its head"),
        (pcap(PACKETS)[:-1], "is cut within its last packet"),
        (pcap(PACKETS)[: 24 + 7], "is cut within its last packet"),
        (pcapng(PACKETS)[:-3], "is cut within its last block"),
        (pcapng(PACKETS)[:9], "is cut within its last block"),
        (pcap([])[:24] + struct.pack("<IIII", 1, 1, 0xFFFFFFFF, 1), "is damaged: a packet claims 4294967295 bytes"),
        (pcapng([]) + struct.pack("<II", 6, 0xFFFFFFF0), "is damaged: a block claims"),
        (pcapng([]) + struct.pack("<III", 6, 0, 0), "is damaged: a block claims"),
        (pcapng([]) + struct.pack("<III", 6, 12, 12), "is "),
        (pcapng([(1 << 63, b"", 0)], [(ETHERNET, 3)]), "is damaged: a packet has a time"),
    ],
    ids=range(12),
)
def test_what_is_wrong_with_a_file_is_a_sentence(tmp_path: Path, content: bytes, told: str) -> None:
    assert told in (read_all(write(tmp_path / "a", content)) or "")


@pytest.mark.real
@pytest.mark.sweep
@given(data=st.data(), is_new=st.booleans())
@examples(1200, deadline=None)
def test_any_damage_is_read_past_or_said_within_bounded_memory(
    data: st.DataObject, is_new: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(pcapng(PACKETS) if is_new else pcap(PACKETS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.binary(min_size=0, max_size=8))
        content[at : at + data.draw(st.integers(0, 8))] = piece
    file = write(tmp_path_factory.mktemp("dump") / "a", bytes(content))
    tracemalloc.start()
    try:
        read_all(file)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()
