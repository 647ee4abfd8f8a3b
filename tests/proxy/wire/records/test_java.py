"""Tests against Kafka's own Java classes: each side reads the other's batches and message sets.

4.3.1 and 3.9.2 write every magic and every codec, 0.10.2.2 the message sets of its time. Java verifies all checksums.
Uncompressed bytes are equal; compressed ones depend on the library.
"""

from itertools import product
from random import Random
from typing import Any, NamedTuple

import lz4.frame
import pytest
import zstandard
from crc32c import crc32c

from proxy.wire import embedded, records
from proxy.wire.errors import Malformed
from proxy.wire.records import Compression, ControlType, Record, TimestampType
from proxy.wire.records.lz4_frames import xxh32
from tests.java.kafka_records import JavaBatch, KafkaError, KafkaRecords, kafka_records_of

pytestmark = pytest.mark.real

MAGICS = {"4.3.1": (0, 1, 2), "3.9.2": (0, 1, 2), "0.10.2.2": (0, 1)}
CODECS = [codec for codec in Compression if codec is not Compression.UNKNOWN]
APPENDED = 1_700_000_000_999
SEEDS = range(3)


class Case(NamedTuple):
    release: str
    magic: int
    codec: Compression
    timestamp_type: TimestampType

    def __str__(self) -> str:
        return f"{self.release} magic {self.magic} {self.codec.value} {self.timestamp_type.value}"


def possible(case: Case) -> bool:
    """True for combinations that Kafka has: Zstandard came with magic 2, timestamps with magic 1."""
    stamped = case.timestamp_type is not TimestampType.NONE
    return (case.codec is not Compression.ZSTD or case.magic == 2) and stamped == (case.magic > 0)


CASES = [
    case
    for release, magics in MAGICS.items()
    for case in map(Case._make, product([release], magics, CODECS, TimestampType))
    if possible(case)
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_release_of_batches = pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])


def some_records(random: Random, magic: int) -> list[Record]:
    """Returns records: with holes in the offsets, times in any order, values from empty to larger than a block."""
    offset, found = random.choice([0, 1, 2**40]), []
    for _ in range(random.choice([1, 2, 60])):
        timestamp = 1_700_000_000_000 + random.randrange(-1000, 1000)
        key, value = some_bytes(random), some_bytes(random)
        names = random.sample(["a", "Grüße", "", "a"], random.randrange(4)) if magic == 2 else []
        headers = tuple((name, some_bytes(random)) for name in names)
        found.append(Record(offset, timestamp, key, value, headers))
        offset += random.choice([1, 1, 1, 5, 300])
    return [*found, Record(offset, 1_700_000_000_000, b"large", random.randbytes(70_000) + bytes(70_000))]


def some_bytes(random: Random) -> bytes | None:
    return random.choice([None, b"", b"some", random.randbytes(random.randrange(200)), b"many times " * 40])


def as_read(record: Record, case: Case) -> Record:
    """Returns the record as its format keeps it."""
    told = {TimestampType.NONE: -1, TimestampType.CREATE: record.timestamp, TimestampType.LOG_APPEND: APPENDED}
    return record._replace(timestamp=told[case.timestamp_type], timestamp_type=case.timestamp_type)


def javas(case: Case, written: list[Record]) -> bytes:
    append_time = APPENDED if case.timestamp_type is TimestampType.LOG_APPEND else -1
    return kafka_records_of(case.release).write(
        written, magic=case.magic, codec=case.codec, timestamp_type=case.timestamp_type, log_append_time=append_time
    )


def ours(case: Case, written: list[Record]) -> bytes:
    append_time = APPENDED if case.timestamp_type is TimestampType.LOG_APPEND else None
    if case.magic == 2:
        return records.write_batch(
            written, codec=case.codec, timestamp_type=case.timestamp_type, max_timestamp=append_time
        )
    return records.write_message_set(
        written,
        magic=case.magic,
        codec=case.codec,
        timestamp_type=case.timestamp_type,
        log_append_time=append_time,
    )


def check_read_alike(java: KafkaRecords, data: bytes) -> list[JavaBatch]:
    """Compares headers and records with those that Java read."""
    found = java.read(data)
    batches = list(records.batches(data))
    assert len(batches) == len(found)
    for batch, javas in zip(batches, found, strict=True):
        header = {name: getattr(batch, name) for name in javas.header if name != "size"}
        assert header | {"size": batch.end - batch.start} == javas.header
        assert list(records.read_batch(data, batch)) == javas.records
    return found


def all_records(found: list[JavaBatch]) -> list[Record]:
    return [record for batch in found for record in batch.records]


@every_case
def test_we_read_the_records_that_java_writes(case: Case) -> None:
    for seed in SEEDS:
        written = some_records(Random(f"{case} {seed}"), case.magic)
        data = javas(case, written)
        assert list(records.read(data)) == [as_read(record, case) for record in written]
        check_read_alike(kafka_records_of(case.release), data)


@every_case
def test_java_reads_the_records_that_we_write(case: Case) -> None:
    for seed in SEEDS:
        written = some_records(Random(f"{case} {seed}"), case.magic)
        data = ours(case, written)
        found = check_read_alike(kafka_records_of(case.release), data)
        assert all_records(found) == [as_read(record, case) for record in written]


@every_case
def test_bytes_are_javas_but_for_what_a_library_makes_of_them(case: Case) -> None:
    """What is not compressed, and what is before it is. But for wrappers with the time of the append: there Java's
    builder stamps the messages inside too, which brokers and this writer leave alone.
    """
    written = some_records(Random(str(case)), case.magic)
    mine, theirs = ours(case, written), javas(case, written)
    if case.codec is Compression.NONE:
        assert mine == theirs
    elif case.magic != 1 or case.timestamp_type is TimestampType.CREATE:
        assert unfolded(case, mine) == unfolded(case, theirs)


# The offset of the compressed bytes: after the header, and in a wrapper after the null key and its own size.
COMPRESSED_FROM = {0: 26, 1: 34, 2: 61}


def unfolded(case: Case, data: bytes) -> bytes:
    return records.decompress(case.codec, data[COMPRESSED_FROM[case.magic] :], magic=case.magic)


@every_release_of_batches
def test_the_fields_of_producers_and_leaders_are_javas(release: str) -> None:
    java, written = kafka_records_of(release), some_records(Random(release), 2)
    cases: list[dict[str, Any]] = [
        {"producer_id": 2**40, "producer_epoch": 7, "base_sequence": 2**31 - 1},
        {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True},
        {"leader_epoch": 12, "delete_horizon": 1_700_000_000_500},
    ]
    for settings in cases:
        data = java.write(written, **settings)
        assert records.write_batch(written, **settings) == data
        (found,) = check_read_alike(java, data)
        assert {name: found.header[name] for name in settings} == settings


@every_release_of_batches
def test_a_batch_is_changed_in_place_as_java_would_have_written_it(release: str) -> None:
    """The changes are a broker's offsets and a producer's sequence."""
    java, written = kafka_records_of(release), [Record(0, 5, b"k", b"v"), Record(1, 6)]
    placed = [record._replace(offset=record.offset + 100) for record in written]
    data = java.write(written)
    assert records.with_base_offset(data, 100, 3) == java.write(placed, leader_epoch=3)
    expected = java.write(written, producer_id=9, producer_epoch=1, base_sequence=4)
    assert records.with_producer(data, 9, 1, 4) == expected


@every_release_of_batches
@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_ends_of_transactions_are_javas(release: str, kind: ControlType) -> None:
    settings = {"producer_id": 5, "producer_epoch": 2, "coordinator_epoch": 11, "leader_epoch": 3, "timestamp": 1000}
    java = kafka_records_of(release)
    data = java.write_control(kind, base_offset=77, transactional=True, **settings)
    (found,) = check_read_alike(java, data)
    assert (found.records[0].control, found.header["control"], found.header["transactional"]) == (kind, True, True)
    assert _coordinator_epoch(found.records[0]) == 11
    mine = records.end_marker_batch(kind, offset=77, **settings)
    (reread,) = check_read_alike(java, mine)
    assert reread.records[0].control is kind
    assert _coordinator_epoch(reread.records[0]) == 11
    assert mine == data


def _coordinator_epoch(marker: Record) -> Any:
    value = embedded.decode_control(marker.key, marker.value).value
    assert isinstance(value, embedded.Embedded)
    return value.values["coordinator_epoch"]


RAFT = [kind for kind in ControlType if kind not in (ControlType.ABORT, ControlType.COMMIT, ControlType.UNKNOWN)]


@every_release_of_batches
@pytest.mark.parametrize("kind", RAFT)
def test_control_records_of_the_metadata_log_have_their_own_types(release: str, kind: ControlType) -> None:
    java = kafka_records_of(release)
    (found,) = check_read_alike(java, java.write_control(kind, base_offset=0, timestamp=5, leader_epoch=1))
    assert [record.control for record in found.records] == [kind]


@every_release_of_batches
def test_a_batch_that_was_compacted_to_nothing_keeps_its_offsets(release: str) -> None:
    settings: dict[str, Any] = {
        "base_offset": 10,
        "last_offset": 19,
        "producer_id": 4,
        "producer_epoch": 1,
        "base_sequence": 6,
    }
    data = kafka_records_of(release).write_empty(**settings)
    assert records.write_batch([], **settings) == data
    (found,) = check_read_alike(kafka_records_of(release), data)
    assert (found.header["base_offset"], found.header["last_offset"], found.header["count"]) == (10, 19, 0)
    assert list(records.read(data)) == []


@every_release_of_batches
def test_batches_of_every_magic_follow_each_other_and_the_last_may_be_cut_off(release: str) -> None:
    """A Fetch response may have this of a log that began with Kafka 0.8."""
    cases = [case for case in CASES if case.release == release]
    parts = [ours(case, some_records(Random(str(case)), case.magic)) for case in cases]
    data = b"".join(parts)
    found = check_read_alike(kafka_records_of(release), data)
    assert list(records.read(data)) == all_records(found)
    cut = len(parts[0]) + len(parts[1]) - 1
    assert list(records.read(data[:cut])) == all_records(kafka_records_of(release).read(data[:cut]))
    assert records.partial(data[:cut]) > 0


@every_case
def test_a_damaged_byte_is_found_by_both(case: Case) -> None:
    """The byte is covered by the checksum: in the last record or the wrapper's value."""
    data = bytearray(ours(case, [Record(1, 5, b"key", b"value" * 100)]))
    data[-10] ^= 1
    with pytest.raises(KafkaError):
        kafka_records_of(case.release).read(bytes(data))
    with pytest.raises(Malformed):
        list(records.read(data))


@every_release_of_batches
def test_a_wrapper_before_its_own_last_message_is_refused_by_both_unless_it_is_at_0(release: str) -> None:
    data = records.write_message_set([Record(place, 5) for place in range(4)], magic=1, codec=Compression.GZIP)[8:]
    for offset in (0, 3, 9):
        (found,) = check_read_alike(kafka_records_of(release), offset.to_bytes(8, "big") + data)
        assert len(found.records) == 4
    for offset in (1, 2):
        with pytest.raises(KafkaError, match="Found invalid wrapper offset"):
            kafka_records_of(release).read(offset.to_bytes(8, "big") + data)
        with pytest.raises(Malformed, match="a wrapper at offset"):
            list(records.read(offset.to_bytes(8, "big") + data))


def damaged(codec: Compression) -> dict[str, bytes]:
    """Payloads of one record, each with another wrong checksum or size."""
    plain = records.write_batch([Record(0, 5, None, b"value " * 50)])[COMPRESSED_FROM[2] :]
    summed = {"content_checksum": True, "block_linked": False}
    lz4s = lz4.frame.compress(plain, store_size=False, **summed)
    sized = bytearray(lz4.frame.compress(plain, store_size=True, **summed))
    sized[6] ^= 1
    sized[14] = xxh32(bytes(sized[4:14])) >> 8 & 0xFF
    blocks = bytearray(lz4.frame.compress(plain, store_size=False, block_checksum=True, **summed))
    blocks[-9] ^= 1
    zstd = zstandard.ZstdCompressor(write_checksum=True).compress(plain)
    gzip = records.compress(Compression.GZIP, plain)
    return {
        Compression.LZ4: {
            "right": lz4s,
            "content": lz4s[:-1] + bytes([lz4s[-1] ^ 1]),
            "no checksum": lz4s[:-4],
            "size": bytes(sized),
            "block": bytes(blocks),
        },
        Compression.ZSTD: {"content": zstd[:-1] + bytes([zstd[-1] ^ 1])},
        Compression.GZIP: {"checksum": gzip[:-8] + bytes([gzip[-8] ^ 1]) + gzip[-7:], "size": gzip[:-1] + b"\1"},
    }[codec]


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD, Compression.GZIP])
def test_checksums_of_codecs_are_checked_as_java_checks_them(codec: Compression) -> None:
    java = kafka_records_of("4.3.1")
    head = records.write_batch([Record(0, 5, None, b"v")], codec=codec)[: COMPRESSED_FROM[2]]
    for name, payload in damaged(codec).items():
        data = bytearray(head + payload)
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
        try:
            theirs = all_records(java.read(bytes(data)))
        except KafkaError:
            theirs = []
        try:
            mine = [*records.read(bytes(data))]
        except Malformed:
            mine = []
        assert mine == theirs, name
