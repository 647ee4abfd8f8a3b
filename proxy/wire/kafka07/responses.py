"""Reads and writes the three responses. A response does not name its request; it is read by the request's type.

    FETCH       error_code int16, messages up to the frame's end
    MULTIFETCH  error_code int16 (always 0: s), and for each fetch of the request: length int32 (of the part),
                error_code int16, messages
    OFFSETS     error_code int16, count int32, count offsets of int64

Responses come in the order of those requests that await one (`RequestType.awaits_response`).

A 0.7 broker puts errors into FETCH responses and parts of MULTIFETCH responses, with no messages behind them. A missing
log gives an empty answer without an error. On any other failure, like a PRODUCE or OFFSETS for a missing partition, the
broker closes the connection. It answers a FETCH of -1 bytes with a length of 1 and an error code of 2 bytes, which is
no frame, and closes the connection. (s): see `proxy.wire.kafka07`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from proxy.wire.budget import Budget
from proxy.wire.errors import Malformed, OverBudget, Truncated, WireError, in_bytes, naming
from proxy.wire.kafka07.fields import INT16, INT32, INT64, at_end, put, put_block, take, take_block
from proxy.wire.kafka07.requests import Fetch, MultiFetch, Offsets, Request, RequestType, UnknownRequest
from proxy.wire.primitives import Buffer

# length, error code
_START = Struct(">ih")
# an error code alone
SHORTEST_RESPONSE = INT16.size
# the memory of a code in a list
CODE_COST = 36


class ErrorCode(IntEnum):
    """0.7's error codes; later versions kept the numbers and changed some names."""

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3
    INVALID_FETCH_SIZE = 4


def error_name(code: int) -> str:
    """The code's name; `ERROR_<code>` if 0.7 doesn't have it."""
    return ErrorCode(code).name if ErrorCode.UNKNOWN <= code <= ErrorCode.INVALID_FETCH_SIZE else f"ERROR_{code}"


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """`messages`: a stretch of the log, which may end inside a message (`messages.read`, `messages.tail`)."""

    error_code: int
    messages: bytes = b""


@dataclass(frozen=True, slots=True)
class MultiFetchResponse:
    """One part for each fetch of the request, in its order."""

    error_code: int
    parts: tuple[FetchResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetsResponse:
    """The response to OFFSETS. `offsets`: latest first; None if the response ends behind its error code."""

    error_code: int
    offsets: tuple[int, ...] | None = None


Response = FetchResponse | MultiFetchResponse | OffsetsResponse


class ResponseHead(NamedTuple):
    """`length`: bytes behind the length."""

    length: int
    error_code: int


def response_head(buf: Buffer, at: int = 0) -> ResponseHead | None:
    """The head of the response whose length is at `at`; None while its 6 bytes have not all arrived.

    The next response begins at `at + 4 + length`. Errors: Malformed for a length that can't hold an error code.
    """
    if at + _START.size > len(buf):
        return None
    head = ResponseHead(*_START.unpack_from(buf, at))
    if head.length < SHORTEST_RESPONSE:
        raise Malformed(f"a length of {in_bytes(head.length)}", api="0.7 response", offset=at)
    return head


def decode_response(frame: Buffer, request: Request | UnknownRequest) -> Response:
    """The response to that request (the frame without its 4-byte length).

    Errors: Truncated, Malformed; ValueError for a request that is never answered.
    """
    if isinstance(request, UnknownRequest) or not request.type.awaits_response:
        raise ValueError(f"a {type(request).__name__} has no response")
    return _decoded(frame, request.type, len(request.fetches) if isinstance(request, MultiFetch) else None)


def decode_response_to(frame: Buffer, request_type: RequestType) -> Response:
    """The response to a request of this type. Of a MULTIFETCH, all parts in the frame are read.

    Errors: as `decode_response`.
    """
    if not request_type.awaits_response:
        raise ValueError(f"a {request_type.name} has no response")
    return _decoded(frame, request_type, None)


def _decoded(frame: Buffer, request_type: RequestType, count: int | None) -> Response:
    """Reads a response. `count`: the number of the request's fetches; None if unknown."""
    with naming(f"0.7 {request_type.name} response"):
        (error_code,) = take(INT16, frame, 0)
        if request_type is RequestType.MULTIFETCH:
            return MultiFetchResponse(error_code, tuple(_parts(frame, count, error_code)))
        if request_type is RequestType.OFFSETS:
            return OffsetsResponse(error_code, _read_offsets(frame, error_code))
        return FetchResponse(error_code, bytes(frame[INT16.size :]))


def error_codes(frame: Buffer, request_type: RequestType, *, budget: Budget | None = None) -> list[int] | None:
    """The codes other than 0 in a response, in wire order, those of a MULTIFETCH's parts included.

    None if the response can't be read, or if requests of this type have no response. `budget`: pays for the codes.

    Errors: OverBudget.
    """
    spend = (budget or Budget()).values.take
    found = []
    try:
        for code in filter(None, _codes(frame, request_type)):
            spend(CODE_COST)
            found.append(code)
    except OverBudget:
        raise
    except (WireError, ValueError):
        return None
    return found


def _codes(frame: Buffer, request_type: RequestType) -> Iterator[int]:
    """The codes one by one; no part is kept."""
    if request_type is not RequestType.MULTIFETCH:
        yield decode_response_to(frame, request_type).error_code
        return
    (error_code,) = take(INT16, frame, 0)
    yield error_code
    for part in _parts(frame, None, error_code):
        yield part.error_code


def _ends_with_error(frame: Buffer, error_code: int) -> bool:
    """True for an error code without the body that follows a 0."""
    return error_code != ErrorCode.NONE and len(frame) == INT16.size


def _parts(frame: Buffer, count: int | None, error_code: int) -> Iterator[FetchResponse]:
    """The parts of a MULTIFETCH response. `count`: the number of the request's fetches; None: up to the frame's end."""
    if _ends_with_error(frame, error_code):
        return
    at, number = INT16.size, 0
    while at < len(frame) if count is None else number < count:
        start = at
        part, at = take_block(INT32, frame, start)
        if len(part) < INT16.size:
            raise Malformed(f"a part of {in_bytes(len(part))}", offset=start)
        yield FetchResponse(INT16.unpack_from(part)[0], part[INT16.size :])
        number += 1
    at_end(frame, at)


def _read_offsets(frame: Buffer, error_code: int) -> tuple[int, ...] | None:
    if _ends_with_error(frame, error_code):
        return None
    (count,) = take(INT32, frame, INT16.size)
    start = INT16.size + INT32.size
    if count < 0:
        raise Malformed(f"{count} offsets", offset=INT16.size)
    if start + count * INT64.size > len(frame):
        raise Truncated(f"{count} offsets go beyond the end", offset=len(frame))
    at_end(frame, start + count * INT64.size)
    return Struct(f">{count}q").unpack_from(frame, start)


def encode_response(response: Response) -> bytes:
    """The response's frame without its 4-byte length. Errors: Malformed for values that don't fit."""
    with naming(f"0.7 {_REQUEST_NAMES[type(response)]} response"):
        return put(INT16, response.error_code) + _body(response)


def _body(response: Response) -> bytes:
    match response:
        case FetchResponse():
            return response.messages
        case MultiFetchResponse(parts=parts):
            return b"".join(put_block(INT32, put(INT16, part.error_code) + part.messages) for part in parts)
        case OffsetsResponse(offsets=offsets):
            return b"" if offsets is None else put(INT32, len(offsets)) + put(Struct(f">{len(offsets)}q"), *offsets)


_REQUEST_NAMES = {
    FetchResponse: Fetch.type.name,
    MultiFetchResponse: MultiFetch.type.name,
    OffsetsResponse: Offsets.type.name,
}
