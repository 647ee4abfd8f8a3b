"""Records out of uncompressed batches: our reader against kafka-python's (pure Python) and aiokafka's (Cython).

`python -m bench.records` reads a million small records a round. The contenders take turns in every round, so that what
disturbs one disturbs all; each ratio is of one round, told as the median with its range. Processor time, not the
clock's: nothing here waits. All read the same bytes, which kafka-python wrote, and look at offset, timestamp, key and
value of each record; none verifies checksums (`ours, verified` does, as `records.read` does by default).
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from time import process_time
from typing import Any, NamedTuple

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from proxy.wire import records

COUNT = 1_000_000
ROUNDS = 5
# what a producer's default of 16 KiB holds of the smallest
IN_BATCH = 500
TARGET = 1.5
OURS, VERIFIED, HEADERS = "ours", "ours, verified", "ours, headers alone"
KAFKA_PYTHON, AIOKAFKA = "kafka-python", "aiokafka"


class Load(NamedTuple):
    """Records of one shape. `value`: bytes; `key`: whether they have one, of 6 bytes."""

    name: str
    value: int
    key: bool


LOADS = (
    Load("10-byte values", 10, False),
    Load("100-byte values, keys", 100, True),
)


class Row(NamedTuple):
    """One contender on one load: nanoseconds a record, and how many times as fast as the two others it is."""

    load: str
    contender: str
    nanoseconds: float
    to_kafka_python: tuple[float, float, float]  # median, least, most
    to_aiokafka: tuple[float, float, float]


def rows(count: int = COUNT, rounds: int = ROUNDS) -> list[Row]:
    """All contenders on all loads, measured now. `count`: records a round."""
    return [row for load in LOADS for row in _rows(load, count, rounds)]


def _rows(load: Load, count: int, rounds: int) -> list[Row]:
    data = produced(load, count)
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, run in CONTENDERS.items():
            times[name].append(_seconds(run, data, count))
    return [
        Row(
            load.name,
            name,
            median(times[name]) / count * 1e9,
            _ratio(times, name, KAFKA_PYTHON),
            _ratio(times, name, AIOKAFKA),
        )
        for name in CONTENDERS
    ]


def _seconds(run: Callable[[bytes], int], data: bytes, count: int) -> float:
    began = process_time()
    found = run(data)
    took = process_time() - began
    assert found == count, (run, found, count)
    return took


def _ratio(times: Mapping[str, list[float]], name: str, to: str) -> tuple[float, float, float]:
    found = [other / mine for mine, other in zip(times[name], times[to], strict=True)]
    return median(found), min(found), max(found)


def produced(load: Load, count: int) -> bytes:
    """Batches of `IN_BATCH` records each, milliseconds apart, as kafka-python writes them."""
    out = []
    for first in range(0, count, IN_BATCH):
        builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 24)
        for place in range(first, min(first + IN_BATCH, count)):
            key = b"k%05d" % (place % 100_000) if load.key else None
            builder.append(1_700_000_000_000 + place // 8, key, b"v" * load.value)
        builder.close()
        out.append(records.with_base_offset(builder.buffer(), first))
    return b"".join(out)


def _looked_at(found: Iterable[Any]) -> int:
    """How many they are. Some readers make a field only when it is looked at."""
    count = 0
    for record in found:
        _ = record.offset, record.timestamp, record.key, record.value
        count += 1
    return count


def _ours(data: bytes) -> int:
    return _looked_at(records.read(data, check_crc=False))


def _verified(data: bytes) -> int:
    return _looked_at(records.read(data))


def _headers(data: bytes) -> int:
    return sum(batch.count or 0 for batch in records.batches(data))


def _kafka_python(data: bytes) -> int:
    return sum(_looked_at(batch) for batch in MemoryRecords(data))


def _aiokafka(data: bytes) -> int:
    count, reader = 0, AiokafkaRecords(data)
    while reader.has_next():
        count += _looked_at(reader.next_batch())
    return count


CONTENDERS: Mapping[str, Callable[[bytes], int]] = {
    OURS: _ours,
    VERIFIED: _verified,
    HEADERS: _headers,
    KAFKA_PYTHON: _kafka_python,
    AIOKAFKA: _aiokafka,
}


def table(found: list[Row]) -> str:
    """The rows in lines that a person reads."""
    lines = []
    for load in dict.fromkeys(row.load for row in found):
        lines.append(f"records, {load}")
        lines += [_line(row) for row in found if row.load == load]
    return "\n".join(lines)


def _line(row: Row) -> str:
    line = f"  {row.contender:<20} {row.nanoseconds:>8,.1f} ns a record"
    if row.contender != KAFKA_PYTHON:
        line += f"   {_told(row.to_kafka_python)} times kafka-python"
    if row.contender not in (KAFKA_PYTHON, AIOKAFKA):
        line += f"   {_told(row.to_aiokafka)} of aiokafka"
    if row.contender == OURS:
        line += f"   target {TARGET}: {'reached' if row.to_kafka_python[0] >= TARGET else 'MISSED'}"
    return line


def _told(ratio: tuple[float, float, float]) -> str:
    middle, least, most = ratio
    return f"{middle:6.2f} ({least:.2f}-{most:.2f})"


if __name__ == "__main__":
    print(table(rows(*map(int, sys.argv[1:3]))))
