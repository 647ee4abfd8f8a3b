"""Blobs: a version, a message of that version, and maybe fields that this catalog does not know.

Group members exchange blobs through brokers that don't read them. A reader meets versions newer than its own. In these
protocols a newer version only adds fields at the end, so the newest known layout reads its beginning. Source: Kafka's
`ConsumerProtocol`, Connect's `IncrementalCooperativeConnectProtocol` (KIP-415), `EndTransactionMarker` (KIP-98).
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct, error
from typing import Any

from proxy.wire.budget import Budget
from proxy.wire.catalog import Codec
from proxy.wire.embedded.schemas import codec, must, versions
from proxy.wire.errors import Truncated, WireError, naming
from proxy.wire.primitives import Buffer

Values = dict[str, Any]

_INT16 = Struct(">h")
_read_int16 = _INT16.unpack_from

# messages whose newer versions are read with the newest known layout
ONLY_GROW = frozenset(
    {"ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "ConnectWorkerState", "ConnectAssignment"}
    | {"ControlRecordTypeSchema", "EndTxnMarker"}
)
# Fields that may be missing at the end: the first missing field, and the bytes of the defaults from it on. Connect's
# readers "tolerate missing fields with defaults".
NULL, NO_DELAY = b"\xff\xff\xff\xff", b"\0\0\0\0"
MISSING = {
    "ConnectWorkerState": (("allocation", NULL),),
    "ConnectAssignment": (
        ("delay", NO_DELAY),
        ("revoked", NULL + NO_DELAY),
        ("assignment", NULL + NULL + NO_DELAY),
    ),
}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A decoded message from bytes of another message or a record.

    `version` is that in the bytes; if it is newer than all known, `values` are those of the newest known layout. `rest`
    are the bytes behind the message: empty, unless the version is newer or the writer added bytes.
    """

    name: str
    version: int
    values: Values
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Bytes whose type or version the catalog lacks: a value, not an error. An unknown part is None."""

    name: str | None
    number: int | None
    version: int | None


def read_int16(buf: Buffer, at: int = 0) -> int:
    """The int16 at `at`. Errors: Truncated."""
    try:
        value: int = _read_int16(buf, at)[0]
    except error:
        raise Truncated("the bytes end before a version or a type", offset=len(buf)) from None
    return value


def layout_version(name: str, version: int) -> int:
    """The version whose layout reads bytes of that version; usually that version itself."""
    known = versions(name)
    return known[-1] if name in ONLY_GROW and version > known[-1] else version


def decode_at(name: str, version: int, data: Buffer, at: int, budget: Budget | None = None) -> Embedded | Unknown:
    """The message of that version that begins at `at`. Errors: Truncated, Malformed, OverBudget."""
    found = codec(name, layout_version(name, version))
    if found is None:
        return Unknown(name, None, version)
    decode = _decode_short if name in MISSING else Codec.decode
    values, end = decode(found, bytes(data), at, budget=budget)
    return Embedded(name, version, values, bytes(data[end:]))


def _decode_short(found: Codec, data: bytes, at: int, *, budget: Budget | None) -> tuple[Values, int]:
    """Decodes a message that may lack whole fields at its end. Errors: Truncated if it ends inside a field."""
    try:
        return found.decode(data, at, budget=budget)
    except Truncated:
        for first, defaults in MISSING[found.message.name]:
            with suppress(WireError):
                spans = found.project((first,))(data + defaults, at)[first]
                if [start for _, start, _ in spans] == [len(data)]:
                    return found.decode(data + defaults, at, budget=budget)[0], len(data)
        raise


def decode_blob(name: str, data: Buffer, *, budget: Budget | None = None) -> Embedded | Unknown:
    """The message `name` in a blob (an int16 version, then its body).

    A newer version of the consumer protocol or of Connect's is read with the newest known layout. Any other unknown
    version gives `Unknown`. `budget`: as for `Codec.decode`.

    Errors: Truncated, Malformed, OverBudget; ValueError for a name that the catalog lacks.
    """
    if not versions(name):
        raise ValueError(f"no embedded message {name} in the catalog")
    with naming(name):
        version = read_int16(data)
    return decode_at(name, version, data, _INT16.size, budget)


def encode_blob(name: str, version: int, values: Mapping[str, Any]) -> bytes:
    """The blob that holds these values.

    Errors: Malformed for values that don't fit; ValueError for a name or a version that the catalog lacks.
    """
    return _INT16.pack(version) + must(name, version).encode(values)
