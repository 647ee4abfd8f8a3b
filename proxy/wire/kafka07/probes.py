"""Finds the error codes of 0.7's responses as they arrive, in bounded time. `compile.prober` serves later versions.

A response begins with its code; a MULTIFETCH response has one more in front of each part's messages.
"""

from collections.abc import Generator

from proxy.wire.compile.runtime import split_int
from proxy.wire.errors import Malformed, in_bytes
from proxy.wire.kafka07.fields import INT16, INT32
from proxy.wire.kafka07.requests import RequestType
from proxy.wire.primitives import Buffer


def code_pieces(request_type: RequestType, max_parts: int) -> Generator[tuple[list[int], bool] | None, Buffer, None]:
    """A generator that is sent a response's pieces, from its length on.

    It yields None for the next piece, and finally the codes other than 0, with True if these are all codes: it reads at
    most `max_parts` parts of a MULTIFETCH response. Errors: Malformed.
    """
    buf = yield None
    at, size = 0, len(buf)
    left, buf, at, size = yield from split_int(INT32.size, buf, at, size)
    code, buf, at, size = yield from split_int(INT16.size, buf, at, size)
    codes, left = [code], left - INT16.size
    if request_type is not RequestType.MULTIFETCH:
        left = 0
    while left > 0 and max_parts:
        max_parts -= 1
        part, buf, at, size = yield from split_int(INT32.size, buf, at, size)
        code, buf, at, size = yield from split_int(INT16.size, buf, at, size)
        if not INT16.size <= part <= left - INT32.size:
            raise Malformed(f"a part of {in_bytes(part)}")
        codes.append(code)
        at, left = at + part - INT16.size, left - INT32.size - part
    while at > size:
        at, buf = at - size, (yield None)
        size = len(buf)
    yield [code for code in codes if code], left == 0
