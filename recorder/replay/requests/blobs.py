"""Topic names in the blobs that members of a classic group give to each other, at any depth.

A blob is changed only if decoding and encoding it gives the same bytes: a blob that is not fully understood stays as it
is. Bytes behind the known fields, which newer versions have, stay too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proxy.wire.embedded import Embedded, codec, decode_field, message
from proxy.wire.embedded.blobs import layout_version
from proxy.wire.embedded.fields import HOLDERS
from proxy.wire.errors import WireError
from proxy.wire.keys import JOIN_GROUP, SYNC_GROUP
from proxy.wire.language import Field
from recorder.replay.plan import Values

Rename = Callable[[str], str]
# api key -> its message, the array whose elements have a blob each, and the blob's field
BLOBS = {
    JOIN_GROUP: ("JoinGroupRequest", "protocols", "metadata"),
    SYNC_GROUP: ("SyncGroupRequest", "assignments", "assignment"),
}
# messages behind a version that is not among their fields
_BEHIND_VERSION = frozenset({"ConsumerProtocolSubscription", "ConsumerProtocolAssignment"})


def rename_topics(api_key: int, values: Values, rename: Rename) -> None:
    """Renames the topics in the blobs of a request whose API is one of `BLOBS`."""
    message_name, array, field = BLOBS[api_key]
    for entry in values[array]:
        protocol = entry.get("name") or values.get("protocol_name")
        path = f"{array}.{field}"
        entry[field] = renamed(message_name, path, entry[field], rename, values.get("protocol_type"), protocol)


def renamed(
    holder: str, path: str, data: bytes, rename: Rename, protocol_type: str | None, protocol: str | None
) -> bytes:
    """A blob with its topics renamed; unchanged if it names none, or can't be read.

    Args:
        holder, path: the message and field that hold it, such as "JoinGroupRequest", "protocols.metadata".
        protocol_type, protocol: of the group; None if the message doesn't tell.
    """
    found = decode_field(holder, path, data, protocol_type=protocol_type, protocol=protocol)
    if found is None or _written(found) != data:
        return data
    schema = message(found.name)
    _rename(found.values, schema.fields if schema else (), rename)
    for inner in HOLDERS:
        blob = found.values.get(inner.path) if inner.message == found.name else None
        if isinstance(blob, bytes):
            found.values[inner.path] = renamed(found.name, inner.path, blob, rename, protocol_type, protocol)
    return _written(found) or data


def _written(found: Embedded) -> bytes | None:
    written = codec(found.name, layout_version(found.name, found.version))
    if written is None:
        return None
    version = found.version.to_bytes(2, "big", signed=True) if found.name in _BEHIND_VERSION else b""
    try:
        return version + written.encode(found.values) + found.rest
    except WireError:
        return None


def _rename(values: Values, fields: Sequence[Field], rename: Rename) -> None:
    for field in fields:
        found: Any = values.get(field.name)
        if "topic_name" in field.marks and found is not None:
            values[field.name] = [*map(rename, found)] if field.is_array else rename(found)
        elif field.fields and found is not None:
            for each in found if field.is_array else [found]:
                _rename(each, field.fields, rename)
