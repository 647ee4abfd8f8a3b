"""Tests of nested wrappers: read as by Kafka 0.8's own classes, and refused where later readers refuse them."""

import subprocess
from pathlib import Path
from zlib import crc32

import pytest

from proxy.wire import records
from proxy.wire.errors import Malformed
from proxy.wire.records import Compression, Record
from proxy.wire.records.kinds import CODECS
from tests.brokers import jars
from tests.java.kafka_records import KafkaError, kafka_records_of

pytestmark = pytest.mark.real

PROGRAM = Path(__file__).parents[3] / "java" / "NestedSets.java"
GZIP, SNAPPY = Compression.GZIP, Compression.SNAPPY
PLAIN = [Record(10, key=b"k", value=b"a"), Record(11, value=b"b")]


def packed(offset: int, inner: bytes, codec: Compression, magic: int = 0) -> bytes:
    """A wrapper at that offset: a compressed set of one message, with its value replaced."""
    value = records.compress(codec, inner, magic=magic)
    plain = bytearray(records.write_message_set([Record(offset, value=value)], magic=magic))
    plain[17] = CODECS.index(codec)
    plain[12:16] = crc32(bytes(plain[16:])).to_bytes(4, "big")
    return bytes(plain)


def message_set(*found: Record) -> bytes:
    return records.write_message_set(found, magic=0)


def nests() -> list[bytes]:
    once = packed(11, message_set(*PLAIN), GZIP)
    twice = packed(11, once, SNAPPY)
    thrice = packed(13, message_set(Record(5, value=b"first")) + twice + message_set(Record(13, value=b"last")), GZIP)
    deepest = packed(13, packed(13, packed(13, once, GZIP), SNAPPY), GZIP)
    return [once, twice, thrice, deepest, message_set(Record(1, value=b"x")) + thrice + once]


def test_nested_sets_of_magic_0_are_read_as_the_classes_of_0_8_read_them() -> None:
    command = [
        jars.java(),
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
    ]
    command += ["-cp", jars.class_path("0.8.2.2"), str(PROGRAM), *(data.hex() for data in nests())]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [" ".join(f"{one.offset}={(one.value or b'').hex()}" for one in records.read(data)) for data in nests()]
    assert ours == told


@pytest.mark.parametrize("release", ["4.3.1", "0.10.2.2"])
def test_no_reader_reads_nested_wrappers_of_magic_1(release: str) -> None:
    plain = records.write_message_set([Record(0, value=b"a"), Record(1, value=b"b")], magic=1)
    once = packed(1, plain, GZIP, magic=1)
    (batch,) = kafka_records_of(release).read(once)
    assert [one.value for one in batch.records] == [one.value for one in records.read(once)]
    twice = packed(1, once, GZIP, magic=1)
    with pytest.raises(KafkaError, match="must not be compressed"):
        kafka_records_of(release).read(twice)
    with pytest.raises(Malformed, match="plain messages alone"):
        list(records.read(twice))
