"""Tests of the oracle of Kafka's record batches, on which other tests rely."""

import pytest

from proxy.wire.records import Compression, ControlType, Record, TimestampType
from tests.java.kafka_records import KafkaError, kafka_records_of
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

# A message of magic 0: offset 3, its size, its checksum, magic, attributes, no key, the value "v".
MESSAGE = bytes.fromhex("0000000000000003 0000000f d20cbff5 00 00 ffffffff 00000001 76")
RELEASES = ["0.10.2.2", "3.9.2", "4.3.1"]


@pytest.mark.parametrize("release", mostly_long(RELEASES, usual=1))
def test_a_message_is_written_and_read(release: str) -> None:
    java = kafka_records_of(release)
    data = java.write([Record(3, value=b"v")], magic=0)
    assert data == MESSAGE
    (found,) = java.read(data)
    assert found.records == [Record(3, value=b"v", timestamp_type=TimestampType.NONE)]
    assert (found.header["magic"], found.header["codec"], found.header["size"]) == (0, Compression.NONE, len(MESSAGE))


@pytest.mark.parametrize("release", mostly_long(RELEASES, usual=1))
def test_a_wrong_checksum_is_an_error_and_the_next_question_is_answered(release: str) -> None:
    java = kafka_records_of(release)
    with pytest.raises(KafkaError, match=r"[Cc]orrupt|crc"):
        java.read(MESSAGE[:12] + bytes(4) + MESSAGE[16:])
    assert java.read(b"") == []


def test_a_control_records_type_is_in_its_key() -> None:
    java = kafka_records_of("4.3.1")
    settings = {"coordinator_epoch": 4, "producer_id": 1, "producer_epoch": 0, "transactional": True}
    data = java.write_control(ControlType.COMMIT, base_offset=9, **settings)
    (found,) = java.read(data)
    assert [(record.offset, record.key, record.control) for record in found.records] == [
        (9, b"\0\0\0\x01", ControlType.COMMIT)
    ]


def test_a_format_that_a_release_lacks_is_an_error() -> None:
    with pytest.raises(KafkaError, match="zstd"):
        kafka_records_of("0.10.2.2").write([Record(0)], magic=1, codec=Compression.ZSTD)
    with pytest.raises(KafkaError, match="magic"):
        kafka_records_of("0.10.2.2").write([Record(0)], magic=2)
