"""Kafka's own record batches and message sets as an oracle: the Java classes of one release write and read them.

4.3.1 and 3.9.2 have the same classes, in two packages (`KafkaRecords.java`). Those of 0.10.2.2 know message sets only
(`OldKafkaRecords.java`). One JVM per release serves the whole session; such tests have the marker `real`.
"""

import atexit
import json
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from proxy.wire.records import Compression, ControlType, Record, TimestampType
from tests.java.jvm import Jvm, KafkaError

__all__ = ["JavaBatch", "KafkaError", "KafkaRecords", "kafka_records_of"]

NEW, OLD = Path(__file__).with_name("KafkaRecords.java"), Path(__file__).with_name("OldKafkaRecords.java")
TIMESTAMP_TYPES = {
    TimestampType.NONE: "NO_TIMESTAMP_TYPE",
    TimestampType.CREATE: "CREATE_TIME",
    TimestampType.LOG_APPEND: "LOG_APPEND_TIME",
}
DEFAULTS = {
    "log_append_time": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "leader_epoch": -1,
    "delete_horizon": -1,
    "transactional": False,
    "timestamp": -1,
}


class JavaBatch(NamedTuple):
    """A batch as Java read it: its header by the names of `proxy.wire.records.Batch`, and its records."""

    header: dict[str, Any]
    records: list[Record]


class KafkaRecords:
    """The running oracle of that release."""

    def __init__(self, release: str) -> None:
        source = OLD if release.startswith("0.") else NEW
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder, source.name)
            text = source.read_text()
            here.write_text(text if release >= "4.2" else text.replace("record.internal.", "record."))
            self._jvm = Jvm(release, here)
            self.read(b"")  # an answer means that the program has been compiled
        self.close = self._jvm.close

    def write(
        self,
        records: Sequence[Record],
        *,
        magic: int = 2,
        codec: Compression = Compression.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE,
        base_offset: int | None = None,
        **settings: Any,
    ) -> bytes:
        """Writes a batch, or a message set of magic 0 or 1. Settings have the names of those of `write_batch`.

        Raises KafkaError if Kafka can't.
        """
        found = {
            "magic": magic,
            "codec": codec.value,
            "timestamp_type": TIMESTAMP_TYPES[timestamp_type if magic else TimestampType.NONE],
            "base_offset": records[0].offset if base_offset is None else base_offset,
            "records": [_question(record) for record in records],
        }
        return self._written(DEFAULTS | found | settings)

    def write_control(self, kind: ControlType, *, base_offset: int, **settings: Any) -> bytes:
        """A batch with one control record, as brokers write it."""
        found = {"magic": 2, "codec": "none", "timestamp_type": "CREATE_TIME", "control": kind.name}
        return self._written(DEFAULTS | found | {"base_offset": base_offset, "coordinator_epoch": 0} | settings)

    def write_empty(self, *, base_offset: int, last_offset: int, **settings: Any) -> bytes:
        """A batch whose records have all been compacted away."""
        found = {"timestamp_type": "CREATE_TIME", "base_offset": base_offset, "last_offset": last_offset}
        return self._written(DEFAULTS | found | settings)

    def read(self, data: bytes) -> list[JavaBatch]:
        """The batches, or messages and wrappers, whose checksums Java has verified. KafkaError when Kafka can't."""
        return [_batch(found) for found in json.loads(self._ask({"bytes": b64encode(data).decode()}))]

    def _written(self, question: dict[str, Any]) -> bytes:
        return b64decode(json.loads(self._ask({_camel(name): value for name, value in question.items()}))["bytes"])

    def _ask(self, question: dict[str, Any]) -> bytes:
        return self._jvm.ask(json.dumps(question).encode())


@cache
def kafka_records_of(release: str) -> KafkaRecords:
    """One JVM a release; `tests/brokers/kafka-clients.sha256` has the releases."""
    oracle = KafkaRecords(release)
    atexit.register(oracle.close)
    return oracle


def _question(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[name, _base64(value)] for name, value in record.headers],
    }


def _batch(found: dict[str, Any]) -> JavaBatch:
    types = {name: kind for kind, name in TIMESTAMP_TYPES.items()}
    found |= {"timestamp_type": types[found["timestamp_type"]], "codec": Compression(found["codec"])}
    return JavaBatch(found, [_record(one, found["timestamp_type"]) for one in found.pop("records")])


def _record(one: dict[str, Any], timestamp_type: TimestampType) -> Record:
    headers = tuple((name, _bytes(value)) for name, value in one["headers"])
    control = ControlType[one["control"]] if "control" in one else None
    key, value = _bytes(one["key"]), _bytes(one["value"])
    return Record(one["offset"], one["timestamp"], key, value, headers, timestamp_type, control)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))
