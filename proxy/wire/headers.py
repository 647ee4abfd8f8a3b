"""The heads of requests and responses: api, version, correlation id, client id.

Which header version goes with which message version is a rule, not data in the frame:

    request   v0  ControlledShutdown v0 only (correlation id, no client id)
              v1  versions that are not flexible, and unknown apis
              v2  flexible versions: v1 and a tag buffer; the client id keeps its int16 length
    response  v0  versions that are not flexible, and ApiVersions in all versions (clients read it before they know any)
              v1  flexible versions: v0 and a tag buffer

Tags of a header are stepped over: Kafka defines none. Source: Kafka's protocol guide, KIP-482, KIP-511.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import NamedTuple

from proxy.wire.apis import api_name, first_flexible
from proxy.wire.errors import Malformed, Truncated, WireError, in_bytes, naming
from proxy.wire.keys import API_VERSIONS, CONTROLLED_SHUTDOWN
from proxy.wire.primitives import Buffer, read_tags


class RequestHead(NamedTuple):
    """`body` is the offset of the body in the frame (behind the 4-byte length)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


class ResponseHead(NamedTuple):
    """`body` is the offset of the body in the frame (behind the 4-byte length)."""

    correlation_id: int
    body: int


_FIXED = Struct(">hhi")
_WITH_SIZE = Struct(">hhih")
_CORRELATION = Struct(">i")
# offset of the client id's size in a request (behind the 4-byte length)
CLIENT_ID_SIZE_AT = _FIXED.size
_read_fixed, _read_with_size, _read_correlation = _FIXED.unpack_from, _WITH_SIZE.unpack_from, _CORRELATION.unpack_from

# A named tuple's own constructor is a Python function that takes a third of the time of reading a head.
_request_head: Callable[[type[RequestHead], tuple[object, ...]], RequestHead] = tuple.__new__
_response_head: Callable[[type[ResponseHead], tuple[object, ...]], ResponseHead] = tuple.__new__


def request_header_version(api_key: int, api_version: int) -> int:
    """The version of the request's header: 0, 1 or 2."""
    if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    return 2 if api_version >= first_flexible(api_key) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """The version of the response's header: 0 or 1."""
    return 1 if api_key != API_VERSIONS and api_version >= first_flexible(api_key) else 0


def request_head(frame: Buffer) -> RequestHead:
    """Reads a request's head. A client id that is not UTF-8 is read with replacement characters, as brokers do.

    Errors: Truncated, Malformed.
    """
    try:
        api_key, api_version, correlation_id, size = _read_with_size(frame)
    except error:
        return _short_head(frame)
    if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
        return _short_head(frame)
    end = len(frame)
    body = 10 + size if size > 0 else 10
    if body > end or size < -1:
        raise _no_client_id(api_key, api_version, size, end)
    client_id = None if size < 0 else _text(frame[10:body])
    if api_version >= first_flexible(api_key):
        # nearly always the tag buffer is the one byte 0
        body = body + 1 if body < end and not frame[body] else _behind_tags(frame, body, api_key, api_version)
    return _request_head(RequestHead, (api_key, api_version, correlation_id, client_id, body))


def _text(data: Buffer) -> str:
    return data.decode("utf-8", "replace") if type(data) is bytes else str(data, "utf-8", "replace")


def _short_head(frame: Buffer) -> RequestHead:
    """Reads the head of 8 bytes, which only ControlledShutdown v0 has. Errors: Truncated, also for all other heads."""
    if len(frame) < _FIXED.size:
        raise Truncated(f"no request's head: {in_bytes(len(frame))}", offset=len(frame))
    api_key, api_version, correlation_id = _read_fixed(frame)
    if request_header_version(api_key, api_version):
        reason = "the bytes end before the client id"
        raise Truncated(reason, api=_named(api_key), version=api_version, offset=len(frame))
    return RequestHead(api_key, api_version, correlation_id, None, _FIXED.size)


def _no_client_id(api_key: int, api_version: int, size: int, end: int) -> WireError:
    api = _named(api_key)
    if size < -1:
        return Malformed(f"a client id of {in_bytes(size)}", api=api, version=api_version, offset=CLIENT_ID_SIZE_AT)
    reason = f"the bytes end inside a client id of {in_bytes(size)}"
    return Truncated(reason, api=api, version=api_version, offset=end)


def _named(api_key: int) -> str:
    """The api's name in errors."""
    return api_name(api_key) or f"api {api_key}"


def _behind_tags(frame: Buffer, at: int, api_key: int, api_version: int) -> int:
    with naming(_named(api_key), api_version):
        return read_tags(frame, at)[1]


def response_head(frame: Buffer, api_key: int, api_version: int) -> ResponseHead:
    """Reads the head of the response to a request of that api and version.

    Errors: Truncated, Malformed.
    """
    end = len(frame)
    if end < 4:
        reason = f"no response's head: {in_bytes(end)}"
        raise Truncated(reason, api=_named(api_key), version=api_version, offset=end)
    (correlation_id,) = _read_correlation(frame)
    body = 4
    if api_version >= first_flexible(api_key) and api_key != API_VERSIONS:
        body = 5 if end > 4 and not frame[4] else _behind_tags(frame, 4, api_key, api_version)
    return _response_head(ResponseHead, (correlation_id, body))


def write_request_head(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request's head, without the frame's length.

    Errors: Malformed for numbers out of range, and for a client id that is no text, too long, or not valid Unicode.
    """
    version = request_header_version(api_key, api_version)
    try:
        if version == 0:
            return _FIXED.pack(api_key, api_version, correlation_id)
        name = b"" if client_id is None else client_id.encode()
        size = -1 if client_id is None else len(name)
        return _WITH_SIZE.pack(api_key, api_version, correlation_id, size) + name + b"\0" * (version == 2)
    except (error, UnicodeEncodeError, AttributeError) as fault:
        raise _unfit(fault, api_key, api_version) from fault


def write_response_head(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """A response's head, without the frame's length. Errors: Malformed for numbers out of range."""
    try:
        return _CORRELATION.pack(correlation_id) + b"\0" * response_header_version(api_key, api_version)
    except error as fault:
        raise _unfit(fault, api_key, api_version) from fault


def _unfit(fault: Exception, api_key: int, api_version: int) -> Malformed:
    return Malformed(f"a head that doesn't fit: {fault}", api=_named(api_key), version=api_version)
