"""The `records` of Produce requests and Fetch responses: bytes <-> records, of every format since 0.8.

Words of this room:

    record       offset, timestamp, key, value, headers
    batch        records with one header before them (magic 2), maybe compressed as one block
    message      a record of magic 0 or 1; a run of them is a message set
    wrapper      a message whose value is a compressed message set, which with magic 0 may hold wrappers again
    codec        the compression of records, a `Compression`: none, gzip, snappy, lz4, zstd
    control      records that brokers write: ends of transactions, changes of leader (`embedded.decode_control`)
    tombstone    a record whose value is None
    blank        a batch whose records a capture has left out: zeros stand in their place
    partial      an incomplete batch at the end of a Fetch response: no error. (A FetchSnapshot's pieces begin anywhere,
                 too: join them by their positions first.)

    >>> from proxy.wire import records
    >>> data = records.write_batch([records.Record(7, key=b"k", value=b"v")], codec=records.Compression.GZIP)
    >>> [batch.last_offset for batch in records.batches(data)]
    [7]
    >>> [record.value for record in records.read(data)]
    [b'v']

`batches` reads only headers; `read` all records; `read_batch` those of one batch. Bytes that can't be read raise
`Malformed` with its offset, `api` "records" and the magic as `version`, and no other error. A batch that would unfold
to more than `limit` bytes, or all batches to more than a `Budget` allows, raise `OverBudget`. A batch of magic 2 is
unfolded piece by piece while its records are iterated, and takes the memory of one such piece, a few hundred records,
and at most 2**20 headers of a record. A wrapper takes the memory of all its messages: up to ten times the bytes that it
unfolds to. `proxy.wire` does not import this room; a codec's library is imported on its first use.
"""

from proxy.wire.records.batch import Batch, batches, partial
from proxy.wire.records.blank import is_blank, with_blanks
from proxy.wire.records.compression import DEFAULT_LIMIT, compress, decompress
from proxy.wire.records.kinds import Compression, ControlType, TimestampType
from proxy.wire.records.reading import has_checksum, is_intact, read, read_batch, remark, verify
from proxy.wire.records.record import Record, control_key
from proxy.wire.records.write import (
    end_marker_batch,
    with_base_offset,
    with_producer,
    with_records,
    write_batch,
    write_message_set,
)

__all__ = [
    "DEFAULT_LIMIT",
    "Batch",
    "Compression",
    "ControlType",
    "Record",
    "TimestampType",
    "batches",
    "compress",
    "control_key",
    "decompress",
    "end_marker_batch",
    "has_checksum",
    "is_blank",
    "is_intact",
    "partial",
    "read",
    "read_batch",
    "remark",
    "verify",
    "with_base_offset",
    "with_blanks",
    "with_producer",
    "with_records",
    "write_batch",
    "write_message_set",
]
