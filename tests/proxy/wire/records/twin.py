"""A slow, obvious reader of magic 2 batches: one field after the other, as Kafka's page has them."""

import gzip
import struct
from io import BytesIO

from proxy.wire.records import Record, TimestampType


def read_int(file: BytesIO, size: int) -> int:
    data = file.read(size)
    assert len(data) == size
    return int.from_bytes(data, "big", signed=True)


def read_varint(file: BytesIO) -> int:
    value, place = 0, 1
    while True:
        byte = file.read(1)[0]
        value += (byte % 128) * place
        place *= 128
        if byte < 128:
            return value // 2 if value % 2 == 0 else -(value // 2) - 1


def read_field(file: BytesIO) -> bytes | None:
    size = read_varint(file)
    if size < 0:
        return None
    data = file.read(size)
    assert len(data) == size
    return data


def java_long(value: int) -> int:
    (wrapped,) = struct.unpack(">q", struct.pack(">Q", value % 2**64))
    return int(wrapped)


def read_batch(data: bytes) -> list[Record]:
    """Reads the records of one batch, plain or gzip."""
    file = BytesIO(data)
    base_offset, _, _, _, _ = (read_int(file, size) for size in (8, 4, 4, 1, 4))
    attributes, _, base_timestamp, max_timestamp = (read_int(file, size) for size in (2, 4, 8, 8))
    _, _, _, count = (read_int(file, size) for size in (8, 2, 4, 4))
    if attributes % 8 == 1 and count:
        file = BytesIO(gzip.decompress(file.read()))
    appended = attributes // 8 % 2 == 1
    found = []
    for _ in range(count):
        size = read_varint(file)
        start = file.tell()
        read_int(file, 1)
        timestamp = java_long(base_timestamp + read_varint(file))
        offset = base_offset + read_varint(file)
        key, value = read_field(file), read_field(file)
        headers = tuple(((read_field(file) or b"").decode(), read_field(file)) for _ in range(read_varint(file)))
        assert file.tell() - start == size
        kind = TimestampType.LOG_APPEND if appended else TimestampType.CREATE
        found.append(Record(offset, max_timestamp if appended else timestamp, key, value, headers, kind))
    assert not file.read()
    return found
