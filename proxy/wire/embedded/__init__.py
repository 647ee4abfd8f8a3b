"""Messages inside messages: in bytes fields, internal topics and control batches.

Imported only when needed. The `.kafka` files beside this one hold the layouts, in the language of `messages/README.md`,
grouped by container. An embedded message's bytes begin with a version, which belongs to the container. Words of this
room:

    blob        bytes that hold one message behind an int16 version, as group members send them
    Embedded    a decoded blob or record: the message's name, the version in the bytes, the values, the bytes behind
    Unknown     bytes of a type or version that the catalog lacks: a value and no error
    holder      a field that holds blobs (`fields.HOLDERS`)
    log         an internal topic whose records are messages (`logs`)

    >>> from proxy.wire import embedded
    >>> blob = embedded.encode_blob("ConsumerProtocolSubscription", 0, {"topics": ["logs"]})
    >>> embedded.decode_blob("ConsumerProtocolSubscription", blob).values
    {'topics': ['logs'], 'user_data': None}
    >>> embedded.decode_record("__consumer_offsets", bytes.fromhex("0002 0001 67"), None)
    LogRecord(key=Embedded(name='GroupMetadataKey', version=0, values={'group': 'g'}, rest=b''), value=None)
    >>> embedded.codec("PartitionRecord", 2)
    <Codec PartitionRecord v2>

Bytes that can't be read raise `WireError`, as elsewhere in `wire`.
"""

from proxy.wire.embedded.blobs import Embedded, Unknown, decode_blob, encode_blob
from proxy.wire.embedded.fields import decode_field, expand, expand_data
from proxy.wire.embedded.logs import LogRecord, decode_control, decode_record
from proxy.wire.embedded.schemas import codec, message, names, versions

__all__ = [
    "Embedded",
    "LogRecord",
    "Unknown",
    "codec",
    "decode_blob",
    "decode_control",
    "decode_field",
    "decode_record",
    "encode_blob",
    "expand",
    "expand_data",
    "message",
    "names",
    "versions",
]
